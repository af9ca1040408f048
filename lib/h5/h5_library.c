#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/h5/h5_internal.h"

/* H5dont_atexit: after a failed write libhdf5 crashes when it closes that file at exit, so its exit
 * handler is never installed; every file is closed by hand or given up on purpose. */
ember_status h5_library(void) {
    static bool ready;
    if (!ready) {
        (void)H5dont_atexit();
        if (H5open() < 0) return ember_fail(EMBER_E_IO, "libhdf5 cannot start");
        ready = true;
    }
    /* Each thread has an error stack of its own, which prints until it is told not to. */
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    (void)H5Eclear2(H5E_DEFAULT);
    return EMBER_OK;
}

static herr_t keep_first(unsigned n, const H5E_error2_t *error, void *user) {
    char *text = user;
    if (n == 0 && error->desc) (void)snprintf(text, 512, "%s", error->desc);
    return 0;
}

ember_status h5_fail(ember_status status, const char *format, ...) {
    char ours[4096];
    char detail[512] = "";
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(ours, sizeof ours, format, arguments);
    va_end(arguments);
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, detail);
    (void)H5Eclear2(H5E_DEFAULT);
    if (detail[0] == '\0') return ember_fail(status, "%s", ours);
    return ember_fail(status, "%s (HDF5: %s)", ours, detail);
}

ember_status h5_access(hid_t *out) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access < 0) return h5_fail(EMBER_E_MEMORY, "libhdf5 cannot make a property list");
    if (H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0 || H5Pset_alignment(access, 4096, 4096) < 0 ||
        H5Pset_file_locking(access, 0, 1) < 0 || H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0) {
        (void)H5Pclose(access);
        return h5_fail(EMBER_E_UNSUPPORTED, "libhdf5 is too old for the file format v110; 1.10.7 or newer works");
    }
    *out = access;
    return EMBER_OK;
}

hid_t h5_creation(hid_t class_of) {
    enum { COMPACT = 65535 };
    const hid_t list = H5Pcreate(class_of);
    if (list < 0) return list;
    const bool links = class_of == H5P_GROUP_CREATE || class_of == H5P_FILE_CREATE;
    /* No times of creation: two runs that make the same content make the same file. */
    if (H5Pset_obj_track_times(list, false) < 0 || H5Pset_attr_phase_change(list, COMPACT, 0) < 0 ||
        (links && H5Pset_link_phase_change(list, COMPACT, 0) < 0)) {
        (void)H5Pclose(list);
        return -1;
    }
    return list;
}

typedef struct type_row {
    ember_dtype dtype;
    H5T_class_t kind;
    size_t bytes;
    H5T_sign_t sign;
} type_row;

static const type_row type_rows[] = {
    {EMBER_U8, H5T_INTEGER, 1, H5T_SGN_NONE},  {EMBER_U16, H5T_INTEGER, 2, H5T_SGN_NONE}, {EMBER_U32, H5T_INTEGER, 4, H5T_SGN_NONE},
    {EMBER_U64, H5T_INTEGER, 8, H5T_SGN_NONE}, {EMBER_I8, H5T_INTEGER, 1, H5T_SGN_2},     {EMBER_I16, H5T_INTEGER, 2, H5T_SGN_2},
    {EMBER_I32, H5T_INTEGER, 4, H5T_SGN_2},    {EMBER_I64, H5T_INTEGER, 8, H5T_SGN_2},
};
enum { N_TYPE_ROWS = sizeof type_rows / sizeof type_rows[0] };

/* The order of the calls matters: with the size set first, set_fields fails; without set_ebias the
 * numbers read back scaled by 2^-112. */
static hid_t small_float(size_t sign, size_t exponent_at, size_t exponent, size_t mantissa, size_t bias) {
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    if (type < 0) return type;
    if (H5Tset_fields(type, sign, exponent_at, exponent, 0, mantissa) < 0 || H5Tset_size(type, 2) < 0 || H5Tset_ebias(type, bias) < 0) {
        (void)H5Tclose(type);
        return -1;
    }
    return type;
}

ember_status h5_type_of(hid_t *out, ember_dtype dtype) {
    hid_t type = -1;
    switch (dtype) {
    case EMBER_F32: type = H5Tcopy(H5T_IEEE_F32LE); break;
    case EMBER_F64: type = H5Tcopy(H5T_IEEE_F64LE); break;
    case EMBER_BF16: type = small_float(15, 7, 8, 7, 127); break;
    case EMBER_F16: type = small_float(15, 10, 5, 10, 15); break;
    case EMBER_U8: type = H5Tcopy(H5T_STD_U8LE); break;
    case EMBER_U16: type = H5Tcopy(H5T_STD_U16LE); break;
    case EMBER_U32: type = H5Tcopy(H5T_STD_U32LE); break;
    case EMBER_U64: type = H5Tcopy(H5T_STD_U64LE); break;
    case EMBER_I8: type = H5Tcopy(H5T_STD_I8LE); break;
    case EMBER_I16: type = H5Tcopy(H5T_STD_I16LE); break;
    case EMBER_I32: type = H5Tcopy(H5T_STD_I32LE); break;
    case EMBER_I64: type = H5Tcopy(H5T_STD_I64LE); break;
    }
    if (type < 0) return h5_fail(EMBER_E_ARGUMENT, "dtype %d has no stored type", (int)dtype);
    *out = type;
    return EMBER_OK;
}

static ember_dtype float_dtype(hid_t type) {
    size_t sign = 0;
    size_t exponent_at = 0;
    size_t exponent = 0;
    size_t mantissa_at = 0;
    size_t mantissa = 0;
    if (H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0) return (ember_dtype)0;
    const size_t bytes = H5Tget_size(type);
    const size_t bias = H5Tget_ebias(type);
    if (mantissa_at != 0 || exponent_at != mantissa || sign != mantissa + exponent || H5Tget_norm(type) != H5T_NORM_IMPLIED) {
        return (ember_dtype)0;
    }
    if (bytes == 4 && exponent == 8 && mantissa == 23 && bias == 127) return EMBER_F32;
    if (bytes == 8 && exponent == 11 && mantissa == 52 && bias == 1023) return EMBER_F64;
    if (bytes == 2 && exponent == 8 && mantissa == 7 && bias == 127) return EMBER_BF16;
    if (bytes == 2 && exponent == 5 && mantissa == 10 && bias == 15) return EMBER_F16;
    return (ember_dtype)0;
}

ember_dtype h5_dtype_of(hid_t type, bool *exact) {
    *exact = false;
    const H5T_class_t kind = H5Tget_class(type);
    if (kind != H5T_INTEGER && kind != H5T_FLOAT) return (ember_dtype)0;
    const size_t bytes = H5Tget_size(type);
    const H5T_order_t order = H5Tget_order(type);
    if (bytes == 0 || H5Tget_precision(type) != 8 * bytes || H5Tget_offset(type) != 0) return (ember_dtype)0;
    if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) return (ember_dtype)0;
    *exact = order == H5T_ORDER_LE || bytes == 1;
    if (kind == H5T_FLOAT) return float_dtype(type);
    const H5T_sign_t sign = H5Tget_sign(type);
    for (int i = 0; i < N_TYPE_ROWS; i++) {
        if (type_rows[i].bytes == bytes && type_rows[i].sign == sign) return type_rows[i].dtype;
    }
    return (ember_dtype)0;
}

void h5_hash_text(char out[H5_HASH_BYTES + 1], uint64_t hash) {
    (void)snprintf(out, H5_HASH_BYTES + 1, "%016llx", (unsigned long long)hash);
}

void ember_h5_library_version(char out[32]) {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    if (h5_library() != EMBER_OK || H5get_libversion(&major, &minor, &release) < 0) {
        (void)snprintf(out, 32, "unknown");
        return;
    }
    (void)snprintf(out, 32, "%u.%u.%u", major, minor, release);
}
