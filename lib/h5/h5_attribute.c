#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "lib/base/parse.h"
#include "lib/h5/h5_internal.h"

enum { MAX_ATTRIBUTE_BYTES = 1 << 20, MAX_ATTRIBUTE_NAME = 1024 };

typedef enum value_kind { VALUE_I64, VALUE_F64, VALUE_TEXT } value_kind;

/* One attribute, read into its plainest form. */
typedef struct value {
    value_kind kind;
    bool is_scalar;
    size_t n;      /* numbers */
    void *numbers; /* int64_t or double */
    ember_bytes text;
} value;

static void value_free(value *v) {
    ember_release(v->numbers);
    ember_bytes_free(&v->text);
    *v = (value){0};
}

static ember_status read_text(value *out, hid_t attribute, hid_t type, const char *where) {
    out->kind = VALUE_TEXT;
    const hid_t memory = H5Tcopy(H5T_C_S1);
    ember_status status = EMBER_OK;
    if (memory < 0) return h5_fail(EMBER_E_MEMORY, "%s: no memory for a string type", where);
    if (H5Tis_variable_str(type) > 0) {
        char *text = NULL;
        if (H5Tset_size(memory, H5T_VARIABLE) < 0 || H5Tset_cset(memory, H5Tget_cset(type)) < 0 || H5Aread(attribute, memory, &text) < 0) {
            status = h5_fail(EMBER_E_CORRUPT, "%s: cannot be read", where);
        } else if (text) {
            status = ember_bytes_append(&out->text, text, strlen(text));
            (void)H5free_memory(text);
        }
    } else {
        const size_t bytes = H5Tget_size(type);
        if (bytes == 0 || bytes > MAX_ATTRIBUTE_BYTES) {
            status = ember_fail(EMBER_E_CORRUPT, "%s: a string of %zu bytes; the limit is %d", where, bytes, (int)MAX_ATTRIBUTE_BYTES);
        } else {
            status = ember_bytes_reserve(&out->text, bytes);
        }
        if (status == EMBER_OK && H5Aread(attribute, type, out->text.data) < 0)
            status = h5_fail(EMBER_E_CORRUPT, "%s: cannot be read", where);
        if (status == EMBER_OK) {
            out->text.n = strnlen(out->text.data, bytes);
            out->text.data[out->text.n] = '\0';
        }
    }
    if (status == EMBER_OK) status = ember_bytes_append(&out->text, "", 0);
    (void)H5Tclose(memory);
    return status;
}

static ember_status read_numbers(value *out, hid_t attribute, hid_t type, hid_t space, const char *where) {
    const H5T_class_t class_of = H5Tget_class(type);
    const hssize_t n = H5Sget_simple_extent_npoints(space);
    if (n < 0 || n > MAX_ATTRIBUTE_BYTES / 8)
        return ember_fail(EMBER_E_CORRUPT, "%s: %lld values; the limit is %d", where, (long long)n, (int)MAX_ATTRIBUTE_BYTES / 8);
    if (class_of != H5T_INTEGER && class_of != H5T_FLOAT) {
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: neither a number nor a text", where);
    }
    out->kind = class_of == H5T_INTEGER ? VALUE_I64 : VALUE_F64;
    out->n = (size_t)n;
    EMBER_TRY(ember_allocate(&out->numbers, out->n, 8, where));
    if (out->n > 0 && H5Aread(attribute, out->kind == VALUE_I64 ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE, out->numbers) < 0) {
        return h5_fail(EMBER_E_CORRUPT, "%s: cannot be read", where);
    }
    return EMBER_OK;
}

static ember_status value_read(value *out, hid_t object, const char *name, const char *where) {
    *out = (value){0};
    ember_status status = EMBER_OK;
    hid_t type = -1;
    hid_t space = -1;
    const hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    if (attribute < 0) return h5_fail(EMBER_E_CORRUPT, "%s: cannot be opened", where);
    type = H5Aget_type(attribute);
    space = H5Aget_space(attribute);
    if (type < 0 || space < 0) {
        status = h5_fail(EMBER_E_CORRUPT, "%s: type or shape cannot be read", where);
        goto done;
    }
    out->is_scalar = H5Sget_simple_extent_type(space) == H5S_SCALAR;
    if (H5Tget_class(type) == H5T_STRING) {
        if (H5Sget_simple_extent_npoints(space) != 1) {
            status = ember_fail(EMBER_E_UNSUPPORTED, "%s: a list of texts", where);
        } else {
            status = read_text(out, attribute, type, where);
        }
    } else {
        status = read_numbers(out, attribute, type, space, where);
    }
done:
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    (void)H5Aclose(attribute);
    if (status != EMBER_OK) value_free(out);
    return status;
}

/* ---- all attributes of one object, in name order */

typedef struct each {
    ember_status (*use)(void *user, const char *name, const value *v);
    void *user;
    const char *file;
    const char *path;
    ember_status status;
} each;

static herr_t on_attribute(hid_t object, const char *name, const H5A_info_t *info, void *user) {
    each *e = user;
    (void)info;
    char where[H5_MAX_PATH];
    value v;
    (void)snprintf(where, sizeof where, "%s: attribute %s of %s", e->file, name, e->path);
    e->status = value_read(&v, object, name, where);
    if (e->status == EMBER_OK) {
        e->status = e->use(e->user, name, &v);
        value_free(&v);
    }
    return e->status == EMBER_OK ? 0 : -1;
}

static ember_status each_attribute(each *e, hid_t object) {
    hsize_t at = 0;
    e->status = EMBER_OK;
    const herr_t result = H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, on_attribute, e);
    if (e->status != EMBER_OK) {
        (void)H5Eclear2(H5E_DEFAULT);
        return e->status;
    }
    if (result < 0) return h5_fail(EMBER_E_CORRUPT, "%s: the attributes of %s cannot be read", e->file, e->path);
    return EMBER_OK;
}

typedef struct hash_user {
    XXH3_state_t *state;
    bool is_root;
} hash_user;

/* Name and NUL, one byte of kind (i, f, s; capital: a list), count as u64, then the values. */
static ember_status hash_one(void *user, const char *name, const value *v) {
    const hash_user *h = user;
    if (h->is_root && (strcmp(name, H5_COMPLETE) == 0 || strcmp(name, H5_MANIFEST_HASH) == 0)) return EMBER_OK;
    const char kinds[] = "ifsIFS";
    const char kind = kinds[(int)v->kind + (v->is_scalar ? 0 : 3)];
    const uint64_t n = v->kind == VALUE_TEXT ? v->text.n : v->n;
    (void)XXH3_64bits_update(h->state, name, strlen(name) + 1);
    (void)XXH3_64bits_update(h->state, &kind, 1);
    (void)XXH3_64bits_update(h->state, &n, sizeof n);
    if (v->kind == VALUE_TEXT) {
        (void)XXH3_64bits_update(h->state, v->text.data, v->text.n);
    } else {
        (void)XXH3_64bits_update(h->state, v->numbers, v->n * 8);
    }
    return EMBER_OK;
}

ember_status h5_attributes_hash(uint64_t *out, hid_t object, const char *file, const char *path, bool is_root) {
    hash_user user = {.state = XXH3_createState(), .is_root = is_root};
    if (!user.state) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a hash", file);
    (void)XXH3_64bits_reset(user.state);
    each e = {.use = hash_one, .user = &user, .file = file, .path = path};
    const ember_status status = each_attribute(&e, object);
    *out = XXH3_64bits_digest(user.state);
    (void)XXH3_freeState(user.state);
    return status;
}

typedef struct print_user {
    ember_h5_attribute_visit visit;
} print_user;

static ember_status print_one(void *user, const char *name, const value *v) {
    const print_user *p = user;
    ember_bytes text = {0};
    ember_status status = EMBER_OK;
    if (v->kind == VALUE_TEXT) return p->visit.attribute(p->visit.user, name, v->text.data);
    if (!v->is_scalar) EMBER_TRY_GOTO(ember_bytes_append(&text, "[", 1), done);
    for (size_t i = 0; i < v->n; i++) {
        char number[32];
        if (v->kind == VALUE_I64) {
            (void)snprintf(number, sizeof number, "%" PRId64, ((const int64_t *)v->numbers)[i]);
        } else {
            ember_format_f64(number, ((const double *)v->numbers)[i]);
        }
        EMBER_TRY_GOTO(ember_bytes_printf(&text, "%s%s", i ? ", " : "", number), done);
    }
    if (!v->is_scalar) EMBER_TRY_GOTO(ember_bytes_append(&text, "]", 1), done);
    status = p->visit.attribute(p->visit.user, name, text.data ? text.data : "");
done:
    ember_bytes_free(&text);
    return status;
}

/* ---- reading by name */

static ember_status open_object(hid_t *out, const ember_h5_reader *file, const char *object) {
    EMBER_TRY(h5_library());
    const h5_entry *entry = h5_index_find(&file->index, object);
    if (!entry) return ember_fail(EMBER_E_NOT_FOUND, "%s: there is no object %s", file->path, object);
    *out = H5Oopen(file->id, entry->path, H5P_DEFAULT);
    if (*out < 0) return h5_fail(EMBER_E_CORRUPT, "%s: %s cannot be opened", file->path, object);
    return EMBER_OK;
}

static ember_status get_value(value *out, const ember_h5_reader *file, const char *object, const char *name) {
    char where[H5_MAX_PATH];
    hid_t id = -1;
    *out = (value){0};
    EMBER_TRY(open_object(&id, file, object));
    (void)snprintf(where, sizeof where, "%s: attribute %s of %s", file->path, name, object);
    ember_status status = EMBER_OK;
    if (H5Aexists(id, name) <= 0) {
        (void)H5Eclear2(H5E_DEFAULT);
        status = ember_fail(EMBER_E_NOT_FOUND, "%s: there is none", where);
    } else {
        status = value_read(out, id, name, where);
    }
    (void)H5Oclose(id);
    return status;
}

static ember_status wrong_kind(const char *file, const char *object, const char *name, const char *wanted) {
    return ember_fail(EMBER_E_FORMAT, "%s: attribute %s of %s is not %s", file, name, object, wanted);
}

ember_status ember_h5_get_attribute_i64s(const ember_h5_reader *file, const char *object, const char *name, int64_t *out, size_t capacity,
                                         size_t *n) {
    value v;
    *n = 0;
    EMBER_TRY(get_value(&v, file, object, name));
    ember_status status = EMBER_OK;
    if (v.kind != VALUE_I64) {
        status = wrong_kind(file->path, object, name, "an integer or a list of integers");
    } else if (v.n > capacity) {
        status =
            ember_fail(EMBER_E_FORMAT, "%s: attribute %s of %s has %zu values; the limit is %zu", file->path, name, object, v.n, capacity);
    } else {
        if (v.n > 0) memcpy(out, v.numbers, v.n * sizeof *out);
        *n = v.n;
    }
    value_free(&v);
    return status;
}

ember_status ember_h5_get_attribute_i64(const ember_h5_reader *file, const char *object, const char *name, int64_t *out) {
    size_t n = 0;
    EMBER_TRY(ember_h5_get_attribute_i64s(file, object, name, out, 1, &n));
    return n == 1 ? EMBER_OK : wrong_kind(file->path, object, name, "one integer");
}

ember_status ember_h5_get_attribute_f64(const ember_h5_reader *file, const char *object, const char *name, double *out) {
    value v;
    EMBER_TRY(get_value(&v, file, object, name));
    ember_status status = EMBER_OK;
    if (v.kind == VALUE_TEXT || v.n != 1) {
        status = wrong_kind(file->path, object, name, "one number");
    } else {
        *out = v.kind == VALUE_F64 ? *(const double *)v.numbers : (double)*(const int64_t *)v.numbers;
    }
    value_free(&v);
    return status;
}

ember_status ember_h5_get_attribute_text(const ember_h5_reader *file, const char *object, const char *name, ember_bytes *out) {
    value v;
    *out = (ember_bytes){0};
    EMBER_TRY(get_value(&v, file, object, name));
    if (v.kind != VALUE_TEXT) {
        value_free(&v);
        return wrong_kind(file->path, object, name, "a text");
    }
    *out = v.text;
    v.text = (ember_bytes){0};
    value_free(&v);
    return EMBER_OK;
}

bool ember_h5_has_attribute(const ember_h5_reader *file, const char *object, const char *name) {
    hid_t id = -1;
    if (open_object(&id, file, object) != EMBER_OK) return false;
    const bool found = H5Aexists(id, name) > 0;
    (void)H5Eclear2(H5E_DEFAULT);
    (void)H5Oclose(id);
    return found;
}

ember_status ember_h5_walk_attributes(const ember_h5_reader *file, const char *object, ember_h5_attribute_visit visit) {
    hid_t id = -1;
    EMBER_TRY(open_object(&id, file, object));
    print_user user = {.visit = visit};
    each e = {.use = print_one, .user = &user, .file = file->path, .path = object};
    const ember_status status = each_attribute(&e, id);
    (void)H5Oclose(id);
    return status;
}
