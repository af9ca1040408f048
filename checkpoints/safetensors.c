#include "checkpoints/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/status.h"

enum { LENGTH_BYTES = 8, BLOCK_BYTES = 1 << 20 };

struct ember_safetensors {
    char *path;
    int fd;                    /* -1: from memory */
    const unsigned char *data; /* NULL: from the file */
    uint64_t file_bytes;
    json_t *header;                   /* owns the names */
    ember_safetensors_entry *entries; /* in the order of their data */
    const ember_safetensors_entry **by_name;
    int64_t n;
};

static ember_status read_bytes(const ember_safetensors *file, void *out, size_t n, uint64_t offset) {
    if (offset > file->file_bytes || n > file->file_bytes - offset) {
        return ember_fail(EMBER_E_CORRUPT, "%s: bytes %llu to %llu are beyond its end (%llu)", file->path, (unsigned long long)offset,
                          (unsigned long long)(offset + n), (unsigned long long)file->file_bytes);
    }
    if (file->data) {
        if (n > 0) memcpy(out, file->data + offset, n);
        return EMBER_OK;
    }
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(file->fd, (char *)out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ember_fail(EMBER_E_IO, "%s: cannot read: %s", file->path, strerror(errno));
        if (got == 0) return ember_fail(EMBER_E_CORRUPT, "%s: became shorter while it was read", file->path);
        done += (size_t)got;
    }
    return EMBER_OK;
}

/* ---- the header */

typedef struct dtype_row {
    const char *name;
    ember_dtype dtype;
} dtype_row;

static const dtype_row dtype_rows[] = {{"F32", EMBER_F32}, {"F16", EMBER_F16}, {"BF16", EMBER_BF16}, {"F64", EMBER_F64}, {"U8", EMBER_U8},
                                       {"BOOL", EMBER_U8}, {"U16", EMBER_U16}, {"U32", EMBER_U32},   {"U64", EMBER_U64}, {"I8", EMBER_I8},
                                       {"I16", EMBER_I16}, {"I32", EMBER_I32}, {"I64", EMBER_I64}};

static ember_status malformed(const ember_safetensors *file, const char *name, const char *what) {
    return ember_fail(EMBER_E_FORMAT, "%s: tensor \"%s\": %s", file->path, name, what);
}

static ember_status read_dtype(const ember_safetensors *file, ember_safetensors_entry *entry, const json_t *value) {
    const char *text = json_string_value(value);
    if (!text) return malformed(file, entry->name, "its dtype is missing or no text");
    for (size_t i = 0; i < sizeof dtype_rows / sizeof dtype_rows[0]; i++) {
        if (strcmp(dtype_rows[i].name, text) != 0) continue;
        entry->dtype = dtype_rows[i].dtype;
        return EMBER_OK;
    }
    return ember_fail(EMBER_E_UNSUPPORTED, "%s: tensor \"%s\" has dtype %s; F32, F16 and BF16 are imported", file->path, entry->name, text);
}

static ember_status read_shape(const ember_safetensors *file, ember_safetensors_entry *entry, const json_t *value) {
    if (!json_is_array(value)) return malformed(file, entry->name, "its shape is missing or no list");
    const size_t n = json_array_size(value);
    if (n > EMBER_MAX_DIMS) {
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: tensor \"%s\" has %zu dimensions; the limit is %d", file->path, entry->name, n,
                          (int)EMBER_MAX_DIMS);
    }
    entry->n_dims = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(value, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return malformed(file, entry->name, "its shape holds something that is no size");
        entry->dims[i] = json_integer_value(dim);
    }
    return EMBER_OK;
}

/* data_offsets count from the end of the header; `data_bytes` follow it. */
static ember_status read_place(const ember_safetensors *file, ember_safetensors_entry *entry, const json_t *value, uint64_t data_at) {
    const json_t *begin = json_array_get(value, 0);
    const json_t *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end)) {
        return malformed(file, entry->name, "its data_offsets are missing or not two integers");
    }
    const json_int_t first = json_integer_value(begin);
    const json_int_t last = json_integer_value(end);
    if (first < 0 || last < first || (uint64_t)last > file->file_bytes - data_at) {
        return ember_fail(EMBER_E_CORRUPT, "%s: tensor \"%s\": data_offsets [%lld, %lld] are not within the %llu bytes of data", file->path,
                          entry->name, (long long)first, (long long)last, (unsigned long long)(file->file_bytes - data_at));
    }
    const int64_t count = ember_count(entry->n_dims, entry->dims);
    int64_t bytes = 0;
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)ember_dtype_bytes(entry->dtype), &bytes)) {
        return malformed(file, entry->name, "the product of its shape overflows");
    }
    if (bytes != last - first) {
        return ember_fail(EMBER_E_FORMAT, "%s: tensor \"%s\": shape and dtype need %lld bytes, data_offsets give %lld", file->path,
                          entry->name, (long long)bytes, (long long)(last - first));
    }
    entry->offset = data_at + (uint64_t)first;
    entry->bytes = (uint64_t)bytes;
    return EMBER_OK;
}

static ember_status read_entry(const ember_safetensors *file, ember_safetensors_entry *entry, const json_t *value, uint64_t data_at) {
    if (!json_is_object(value)) return malformed(file, entry->name, "its description is no object");
    EMBER_TRY(read_dtype(file, entry, json_object_get(value, "dtype")));
    EMBER_TRY(read_shape(file, entry, json_object_get(value, "shape")));
    EMBER_TRY(read_place(file, entry, json_object_get(value, "data_offsets"), data_at));
    if (json_object_size(value) != 3) return malformed(file, entry->name, "it has keys besides dtype, shape and data_offsets");
    return EMBER_OK;
}

static int by_offset(const void *a, const void *b) {
    const ember_safetensors_entry *x = a;
    const ember_safetensors_entry *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const ember_safetensors_entry *const *)a)->name, (*(const ember_safetensors_entry *const *)b)->name);
}

/* The tensors fill the data without a hole and without sharing a byte. */
static ember_status check_cover(const ember_safetensors *file, uint64_t data_at) {
    uint64_t at = data_at;
    for (int64_t i = 0; i < file->n; i++) {
        const ember_safetensors_entry *entry = &file->entries[i];
        if (entry->offset < at) {
            return ember_fail(EMBER_E_CORRUPT, "%s: tensors \"%s\" and \"%s\" overlap", file->path, i ? entry[-1].name : "", entry->name);
        }
        if (entry->offset > at) {
            return ember_fail(EMBER_E_CORRUPT, "%s: %llu bytes before tensor \"%s\" belong to no tensor", file->path,
                              (unsigned long long)(entry->offset - at), entry->name);
        }
        at += entry->bytes;
    }
    if (at != file->file_bytes) {
        return ember_fail(EMBER_E_CORRUPT, "%s: %llu bytes at its end belong to no tensor", file->path,
                          (unsigned long long)(file->file_bytes - at));
    }
    return EMBER_OK;
}

static ember_status read_entries(ember_safetensors *file, uint64_t data_at) {
    const char *name = NULL;
    json_t *value = NULL;
    void *entries = NULL;
    void *names = NULL;
    const size_t n = json_object_size(file->header);
    EMBER_TRY(ember_allocate(&entries, n, sizeof *file->entries, "tensor list"));
    file->entries = entries;
    EMBER_TRY(ember_allocate(&names, n, sizeof *file->by_name, "tensor list"));
    file->by_name = names;
    json_object_foreach(file->header, name, value) {
        if (strcmp(name, "__metadata__") == 0) {
            if (!json_is_object(value)) return malformed(file, name, "is no object");
            continue;
        }
        file->entries[file->n].name = name;
        EMBER_TRY(read_entry(file, &file->entries[file->n], value, data_at));
        file->n++;
    }
    if (file->n > 0) qsort(file->entries, (size_t)file->n, sizeof *file->entries, by_offset);
    for (int64_t i = 0; i < file->n; i++)
        file->by_name[i] = &file->entries[i];
    if (file->n > 0) qsort(file->by_name, (size_t)file->n, sizeof *file->by_name, by_name);
    return check_cover(file, data_at);
}

static ember_status read_header(ember_safetensors *file) {
    unsigned char length[LENGTH_BYTES];
    uint64_t n = 0;
    void *text = NULL;
    json_error_t error;
    if (file->file_bytes < LENGTH_BYTES) {
        return ember_fail(EMBER_E_FORMAT, "%s: has %llu bytes, too short for a safetensors file", file->path,
                          (unsigned long long)file->file_bytes);
    }
    EMBER_TRY(read_bytes(file, length, sizeof length, 0));
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        n = n << 8 | length[i];
    if (n > EMBER_SAFETENSORS_MAX_HEADER_BYTES) {
        return ember_fail(EMBER_E_FORMAT,
                          "%s: the header says it has %llu bytes; the limit is %d: not a safetensors file, or one with too many tensors",
                          file->path, (unsigned long long)n, (int)EMBER_SAFETENSORS_MAX_HEADER_BYTES);
    }
    if (n > file->file_bytes - LENGTH_BYTES) {
        return ember_fail(EMBER_E_CORRUPT, "%s: the header has %llu bytes, %llu follow its length: truncated", file->path,
                          (unsigned long long)n, (unsigned long long)(file->file_bytes - LENGTH_BYTES));
    }
    EMBER_TRY(ember_allocate(&text, (size_t)n, 1, "safetensors header"));
    ember_status status = read_bytes(file, text, (size_t)n, LENGTH_BYTES);
    if (status == EMBER_OK && (n == 0 || *(const char *)text != '{')) {
        status = ember_fail(EMBER_E_FORMAT, "%s: its header does not begin with {: not a safetensors file", file->path);
    }
    if (status == EMBER_OK) {
        file->header = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
        if (!file->header)
            status = ember_fail(EMBER_E_FORMAT, "%s: its header is no valid JSON: %s (byte %d)", file->path, error.text, error.position);
    }
    ember_release(text);
    return status == EMBER_OK ? read_entries(file, LENGTH_BYTES + n) : status;
}

/* ---- open and close */

static ember_status new_reader(ember_safetensors **out, const char *path) {
    *out = NULL;
    ember_safetensors *file = calloc(1, sizeof *file);
    if (!file || !(file->path = strdup(path))) {
        free(file);
        return ember_fail(EMBER_E_MEMORY, "%s: no memory for a reader", path);
    }
    file->fd = -1;
    *out = file;
    return EMBER_OK;
}

static ember_status open_path(ember_safetensors *file) {
    EMBER_TRY(ember_open_regular(&file->fd, &file->file_bytes, file->path));
    return read_header(file);
}

ember_status ember_safetensors_open(ember_safetensors **out, const char *path) {
    ember_safetensors *file = NULL;
    *out = NULL;
    EMBER_TRY(new_reader(&file, path));
    const ember_status status = open_path(file);
    if (status != EMBER_OK) {
        ember_safetensors_close(file);
        return status;
    }
    *out = file;
    return EMBER_OK;
}

ember_status ember_safetensors_from_memory(ember_safetensors **out, const void *data, size_t n, const char *name) {
    ember_safetensors *file = NULL;
    *out = NULL;
    EMBER_TRY(new_reader(&file, name));
    file->data = data;
    file->file_bytes = n;
    const ember_status status = read_header(file);
    if (status != EMBER_OK) {
        ember_safetensors_close(file);
        return status;
    }
    *out = file;
    return EMBER_OK;
}

void ember_safetensors_close(ember_safetensors *file) {
    if (!file) return;
    if (file->fd >= 0) (void)close(file->fd);
    ember_release(file->entries);
    ember_release((void *)file->by_name);
    json_decref(file->header);
    free(file->path);
    free(file);
}

/* ---- reading */

int64_t ember_safetensors_n(const ember_safetensors *file) { return file->n; }

const ember_safetensors_entry *ember_safetensors_at(const ember_safetensors *file, int64_t index) {
    return index >= 0 && index < file->n ? &file->entries[index] : NULL;
}

const ember_safetensors_entry *ember_safetensors_find(const ember_safetensors *file, const char *name) {
    const ember_safetensors_entry key = {.name = name};
    const ember_safetensors_entry *pointer = &key;
    if (file->n == 0) return NULL;
    const ember_safetensors_entry *const *found = bsearch(&pointer, file->by_name, (size_t)file->n, sizeof *file->by_name, by_name);
    return found ? *found : NULL;
}

static void to_f32(float *out, ember_dtype dtype, const void *from, size_t n) {
    if (dtype == EMBER_F32) memcpy(out, from, n * sizeof *out);
    const uint16_t *half = from;
    for (size_t i = 0; i < n && dtype == EMBER_BF16; i++)
        out[i] = ember_f32_from_bf16(half[i]);
    for (size_t i = 0; i < n && dtype == EMBER_F16; i++)
        out[i] = ember_f32_from_f16(half[i]);
}

ember_status ember_safetensors_read_f32(const ember_safetensors *file, const ember_safetensors_entry *entry, int64_t row0, int64_t n_rows,
                                        float *out) {
    const int64_t rows = entry->n_dims ? entry->dims[0] : 1;
    if (row0 < 0 || n_rows < 0 || row0 > rows || n_rows > rows - row0) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: tensor \"%s\": rows %lld to %lld of %lld", file->path, entry->name, (long long)row0,
                          (long long)(row0 + n_rows), (long long)rows);
    }
    if (entry->dtype != EMBER_F32 && entry->dtype != EMBER_F16 && entry->dtype != EMBER_BF16) {
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: tensor \"%s\" is %s; f32, f16 and bf16 are read", file->path, entry->name,
                          ember_dtype_name(entry->dtype));
    }
    const int64_t row = entry->n_dims ? ember_count(entry->n_dims - 1, entry->dims + 1) : 1;
    const size_t element = ember_dtype_bytes(entry->dtype);
    const size_t count = (size_t)(n_rows * row);
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, BLOCK_BYTES, 1, "read buffer"));
    ember_status status = EMBER_OK;
    for (size_t done = 0; done < count && status == EMBER_OK;) {
        const size_t room = BLOCK_BYTES / element;
        const size_t n = count - done < room ? count - done : room;
        status = read_bytes(file, block, n * element, entry->offset + ((uint64_t)(row0 * row) + done) * element);
        if (status == EMBER_OK) to_f32(out + done, entry->dtype, block, n);
        done += n;
    }
    ember_release(block);
    return status;
}
