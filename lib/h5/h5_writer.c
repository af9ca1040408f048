/* The writer. libhdf5 1.10.8 reports a full disk late or not at all and crashes when such a file is
 * closed again. So disk space is reserved before libhdf5 is asked to use it (a full disk is then an
 * ordinary error of ours and the file can still be closed), and if a call fails all the same the
 * handle is given up: emptied, removed, and never touched again. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include "lib/base/atomic_file.h"
#include "lib/h5/h5_internal.h"

enum { SLACK_BYTES = 256 << 10, RESERVE_STEP_BYTES = 4 << 20 };

/* ---- the list of objects */

static size_t lower_bound(const ember_h5_writer *file, const char *path) {
    size_t low = 0;
    size_t high = file->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(file->items[middle].path, path) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static h5_written *find(ember_h5_writer *file, const char *path) {
    const size_t at = lower_bound(file, path);
    return at < file->n && strcmp(file->items[at].path, path) == 0 ? &file->items[at] : NULL;
}

static ember_status remember(ember_h5_writer *file, const char *path, h5_written **out) {
    if (file->n >= H5_MAX_OBJECTS) return ember_fail(EMBER_E_ARGUMENT, "%s: more than %d objects", file->path, (int)H5_MAX_OBJECTS);
    if (file->n == file->capacity) {
        const size_t grown = file->capacity ? file->capacity * 2 : 64;
        h5_written *items = realloc(file->items, grown * sizeof *items);
        if (!items) return ember_fail(EMBER_E_MEMORY, "%s: no memory for its list of objects", file->path);
        file->items = items;
        file->capacity = grown;
    }
    char *copy = strdup(path);
    if (!copy) return ember_fail(EMBER_E_MEMORY, "%s: no memory for its list of objects", file->path);
    const size_t at = lower_bound(file, path);
    memmove(&file->items[at + 1], &file->items[at], (file->n - at) * sizeof *file->items);
    file->n++;
    file->items[at] = (h5_written){.path = copy, .id = -1};
    *out = &file->items[at];
    return EMBER_OK;
}

ember_status h5_writer_break(ember_h5_writer *file, const char *object) {
    file->broken = true;
    return h5_fail(EMBER_E_IO, "%s: cannot write %s", file->path, object);
}

/* ---- disk space */

static int allocate_disk(const ember_h5_writer *file, uint64_t bytes) {
    int why = 0;
    do {
        why = posix_fallocate(file->fd, (off_t)file->reserved, (off_t)(bytes - file->reserved));
    } while (why == EINTR);
    return why;
}

/* Space is taken ahead in steps, or to the byte where the disk has no more. */
ember_status h5_writer_space(ember_h5_writer *file, uint64_t bytes) {
    hsize_t size = 0;
    struct rlimit limit;
    EMBER_TRY(h5_library());
    if (file->broken) return ember_fail(EMBER_E_STATE, "%s: an earlier write failed; nothing more can be written", file->path);
    if (H5Fget_filesize(file->id, &size) < 0) return h5_writer_break(file, "the file");
    uint64_t needed = 0;
    if (__builtin_add_overflow((uint64_t)size + SLACK_BYTES, bytes, &needed) || needed > INT64_MAX - RESERVE_STEP_BYTES) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: %llu bytes more overflow the size of a file", file->path, (unsigned long long)bytes);
    }
    if (needed <= file->reserved) return EMBER_OK;
    /* Past this limit the system would send a signal. */
    const bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (limited && needed > limit.rlim_cur) {
        return ember_fail(EMBER_E_IO, "%s: needs %llu bytes; the limit on file sizes is %llu (ulimit -f)", file->path,
                          (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
    }
    uint64_t target = needed + (bytes < RESERVE_STEP_BYTES ? bytes : RESERVE_STEP_BYTES);
    if (limited && target > limit.rlim_cur) target = limit.rlim_cur;
    int why = allocate_disk(file, target);
    if (why != 0 && target > needed) {
        target = needed;
        why = allocate_disk(file, target);
    }
    if (why != 0) {
        return ember_fail(EMBER_E_IO, "%s: cannot reserve %llu bytes on disk: %s", file->path, (unsigned long long)needed, strerror(why));
    }
    file->reserved = target;
    return EMBER_OK;
}

/* ---- create, abort */

static void free_writer(ember_h5_writer *file) {
    for (size_t i = 0; i < file->n; i++) {
        free(file->items[i].path);
        (void)XXH3_freeState(file->items[i].state);
    }
    free(file->items);
    ember_bytes_free(&file->temporary);
    free(file->format);
    free(file->path);
    free(file);
}

/* Closes every dataset and the file; only while nothing has failed. */
bool h5_writer_close(ember_h5_writer *file) {
    bool good = true;
    for (size_t i = 0; i < file->n; i++) {
        if (file->items[i].id >= 0 && H5Dclose(file->items[i].id) < 0) good = false;
        file->items[i].id = -1;
    }
    if (good && file->id >= 0 && H5Fclose(file->id) < 0) good = false;
    file->id = -1;
    if (!good) file->broken = true;
    return good;
}

void ember_h5_abort(ember_h5_writer *file) {
    if (!file) return;
    if (!file->broken && file->id >= 0) (void)h5_writer_close(file);
    /* libhdf5 keeps a given-up file in its list of open files by inode. Its space is given back, and our
     * descriptor stays open too, so that no new file can get that inode and be taken for this one. */
    if (file->broken && file->fd >= 0 && ftruncate(file->fd, 0) != 0) errno = 0;
    if (!file->broken && file->fd >= 0) (void)close(file->fd);
    if (file->created) (void)unlink(file->temporary.data);
    free_writer(file);
}

static ember_status create_file(ember_h5_writer *file) {
    hid_t access = -1;
    hid_t creation = -1;
    EMBER_TRY(ember_create_temporary(&file->fd, &file->temporary, file->path));
    file->created = true;
    EMBER_TRY(h5_access(&access));
    creation = h5_creation(H5P_FILE_CREATE);
    if (creation >= 0) file->id = H5Fcreate(file->temporary.data, H5F_ACC_TRUNC, creation, access);
    const ember_status status = file->id < 0 ? h5_writer_break(file, "the file") : EMBER_OK;
    if (creation >= 0) (void)H5Pclose(creation);
    (void)H5Pclose(access);
    EMBER_TRY(status);
    EMBER_TRY(h5_writer_space(file, 0));
    h5_written *root = NULL;
    EMBER_TRY(remember(file, "/", &root));
    root->is_group = true;
    EMBER_TRY(ember_h5_put_attribute_text(file, "/", "format", file->format));
    return ember_h5_put_attribute_i64(file, "/", "version", file->version);
}

ember_status ember_h5_create(ember_h5_writer **out, const char *path, const char *format, int64_t version) {
    *out = NULL;
    EMBER_TRY(h5_library());
    ember_h5_writer *file = calloc(1, sizeof *file);
    if (!file) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a writer", path);
    file->fd = -1;
    file->id = -1;
    file->version = version;
    file->path = strdup(path);
    file->format = strdup(format);
    ember_status status = EMBER_OK;
    if (!file->path || !file->format) {
        status = ember_fail(EMBER_E_MEMORY, "%s: no memory for a writer", path);
    } else {
        status = create_file(file);
    }
    if (status != EMBER_OK) {
        ember_h5_abort(file);
        return status;
    }
    *out = file;
    return EMBER_OK;
}

/* ---- groups and names */

static ember_status check_path(const ember_h5_writer *file, const char *object) {
    const size_t n = strlen(object);
    if (n < 2 || object[0] != '/' || object[n - 1] == '/' || strstr(object, "//") || n >= H5_MAX_PATH || strcmp(object, H5_MANIFEST) == 0) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: \"%s\" is no path of an object", file->path, object);
    }
    return EMBER_OK;
}

/* The group `object` itself, when `whole`, and every group above it. */
static ember_status make_groups(ember_h5_writer *file, const char *object, bool whole) {
    char prefix[H5_MAX_PATH];
    int depth = 0;
    const size_t n = strlen(object);
    for (size_t i = 1; i <= n; i++) {
        if (object[i] != '/' && !(object[i] == '\0' && whole)) continue;
        memcpy(prefix, object, i);
        prefix[i] = '\0';
        if (++depth > H5_MAX_DEPTH)
            return ember_fail(EMBER_E_ARGUMENT, "%s: %s: more than %d groups deep", file->path, object, (int)H5_MAX_DEPTH);
        h5_written *known = find(file, prefix);
        if (known && !known->is_group) return ember_fail(EMBER_E_STATE, "%s: %s is a dataset, not a group", file->path, prefix);
        if (known) continue;
        EMBER_TRY(h5_writer_space(file, 0));
        EMBER_TRY(remember(file, prefix, &known));
        known->is_group = true;
        const hid_t creation = h5_creation(H5P_GROUP_CREATE);
        const hid_t group = creation < 0 ? -1 : H5Gcreate2(file->id, prefix, H5P_DEFAULT, creation, H5P_DEFAULT);
        if (creation >= 0) (void)H5Pclose(creation);
        if (group < 0 || H5Gclose(group) < 0) return h5_writer_break(file, prefix);
    }
    return EMBER_OK;
}

ember_status ember_h5_put_group(ember_h5_writer *file, const char *object) {
    EMBER_TRY(check_path(file, object));
    return make_groups(file, object, true);
}

static ember_status start_dataset(ember_h5_writer *file, const char *object, uint64_t bytes, h5_written **out) {
    EMBER_TRY(check_path(file, object));
    if (find(file, object)) return ember_fail(EMBER_E_STATE, "%s: %s is written twice", file->path, object);
    EMBER_TRY(make_groups(file, object, false));
    EMBER_TRY(h5_writer_space(file, bytes));
    return remember(file, object, out);
}

/* ---- attributes */

static ember_status put_attribute(ember_h5_writer *file, const char *object, const char *name, hid_t stored, hid_t memory, hid_t space,
                                  const void *values) {
    EMBER_TRY(h5_writer_space(file, 0));
    if (!find(file, object)) return ember_fail(EMBER_E_STATE, "%s: attribute %s: there is no object %s yet", file->path, name, object);
    const hid_t id = H5Oopen(file->id, object, H5P_DEFAULT);
    if (id < 0) return h5_writer_break(file, object);
    hid_t attribute = -1;
    ember_status status = EMBER_OK;
    if (H5Aexists(id, name) > 0) {
        status = ember_fail(EMBER_E_STATE, "%s: attribute %s of %s is written twice", file->path, name, object);
    } else {
        attribute = H5Acreate2(id, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
        if (attribute < 0 || (values && H5Awrite(attribute, memory, values) < 0) || H5Aclose(attribute) < 0)
            status = h5_writer_break(file, object);
    }
    if (H5Oclose(id) < 0 && status == EMBER_OK) status = h5_writer_break(file, object);
    return status;
}

static ember_status put_scalar(ember_h5_writer *file, const char *object, const char *name, hid_t stored, hid_t memory, const void *value) {
    const hid_t space = H5Screate(H5S_SCALAR);
    if (space < 0) return h5_fail(EMBER_E_MEMORY, "%s: no memory for a shape", file->path);
    const ember_status status = put_attribute(file, object, name, stored, memory, space, value);
    (void)H5Sclose(space);
    return status;
}

ember_status ember_h5_put_attribute_i64(ember_h5_writer *file, const char *object, const char *name, int64_t value) {
    return put_scalar(file, object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

ember_status ember_h5_put_attribute_f64(ember_h5_writer *file, const char *object, const char *name, double value) {
    return put_scalar(file, object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

ember_status ember_h5_put_attribute_i64s(ember_h5_writer *file, const char *object, const char *name, const int64_t *values, size_t n) {
    const hsize_t dims = n;
    const hid_t space = H5Screate_simple(1, &dims, NULL);
    if (space < 0) return h5_fail(EMBER_E_MEMORY, "%s: no memory for a shape", file->path);
    const ember_status status = put_attribute(file, object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, space, n ? values : NULL);
    (void)H5Sclose(space);
    return status;
}

/* Fixed-length: the checksummed object header then holds the text itself. */
ember_status ember_h5_put_attribute_text(ember_h5_writer *file, const char *object, const char *name, const char *value) {
    const size_t n = strlen(value) + 1;
    if (n > 60000) return ember_fail(EMBER_E_ARGUMENT, "%s: attribute %s has %zu bytes; the limit is 60000", file->path, name, n);
    const hid_t type = H5Tcopy(H5T_C_S1);
    if (type < 0 || H5Tset_size(type, n) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0) {
        return h5_fail(EMBER_E_MEMORY, "%s: no memory for a type", file->path);
    }
    const ember_status status = put_scalar(file, object, name, type, type, value);
    (void)H5Tclose(type);
    return status;
}

/* ---- datasets */

ember_status ember_h5_put_text(ember_h5_writer *file, const char *object, const char *text, size_t n) {
    h5_written *item = NULL;
    ember_bytes copy = {0};
    if (n > 0 && memchr(text, '\0', n)) return ember_fail(EMBER_E_ARGUMENT, "%s: %s: a text must not hold NUL bytes", file->path, object);
    if (n > INT32_MAX) return ember_fail(EMBER_E_ARGUMENT, "%s: %s: a text of %zu bytes; the limit is 2 GiB", file->path, object, n);
    EMBER_TRY(start_dataset(file, object, n + 65536, &item));
    item->is_text = true;
    item->dtype = EMBER_U8;
    item->hash = XXH3_64bits(n ? text : "", n);
    EMBER_TRY(ember_bytes_append(&copy, n ? text : "", n));
    const char *pointer = copy.data;
    hid_t dataset = -1;
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t type = H5Tcopy(H5T_C_S1);
    if (space >= 0 && type >= 0 && H5Tset_size(type, H5T_VARIABLE) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0) {
        const hid_t creation = h5_creation(H5P_DATASET_CREATE);
        dataset = H5Dcreate2(file->id, object, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        if (creation >= 0) (void)H5Pclose(creation);
    }
    const bool failed = dataset < 0 || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &pointer) < 0 || H5Dclose(dataset) < 0;
    const ember_status status = failed ? h5_writer_break(file, object) : EMBER_OK;
    if (type >= 0) (void)H5Tclose(type);
    if (space >= 0) (void)H5Sclose(space);
    ember_bytes_free(&copy);
    return status;
}

static hid_t create_dataset(ember_h5_writer *file, const char *object, ember_dtype dtype, int n_dims, const int64_t *dims) {
    hsize_t extent[EMBER_MAX_DIMS];
    hid_t type = -1;
    hid_t dataset = -1;
    for (int i = 0; i < n_dims; i++)
        extent[i] = (hsize_t)dims[i];
    const hid_t space = n_dims ? H5Screate_simple(n_dims, extent, NULL) : H5Screate(H5S_SCALAR);
    const hid_t creation = h5_creation(H5P_DATASET_CREATE);
    const bool ready = h5_type_of(&type, dtype) == EMBER_OK && space >= 0 && creation >= 0 &&
                       H5Pset_layout(creation, H5D_CONTIGUOUS) >= 0 && H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY) >= 0 &&
                       H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) >= 0;
    if (ready) dataset = H5Dcreate2(file->id, object, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (creation >= 0) (void)H5Pclose(creation);
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    return dataset;
}

ember_status ember_h5_reserve(ember_h5_writer *file, const char *object, ember_dtype dtype, int n_dims, const int64_t *dims) {
    h5_written *item = NULL;
    uint64_t bytes = 0;
    const size_t element = ember_dtype_bytes(dtype);
    const int64_t count = n_dims >= 0 && n_dims <= EMBER_MAX_DIMS ? ember_count(n_dims, dims) : -1;
    if (element == 0 || count < 0 || __builtin_mul_overflow((uint64_t)count, (uint64_t)element, &bytes)) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: %s: its shape or dtype cannot be stored", file->path, object);
    }
    EMBER_TRY(start_dataset(file, object, bytes + 8192, &item));
    item->dtype = dtype;
    item->n_dims = n_dims;
    for (int i = 0; i < n_dims; i++)
        item->dims[i] = dims[i];
    item->state = XXH3_createState();
    if (!item->state) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a hash", file->path);
    (void)XXH3_64bits_reset(item->state);
    item->hash = XXH3_64bits_digest(item->state);
    item->id = create_dataset(file, object, dtype, n_dims, dims);
    return item->id < 0 ? h5_writer_break(file, object) : EMBER_OK;
}

/* Rows [rows_done, rows_done + n_rows); a scalar is one row. */
static bool write_rows(const h5_written *item, const void *rows, int64_t n_rows, hid_t type) {
    if (item->n_dims == 0) return H5Dwrite(item->id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows) >= 0;
    hsize_t start[EMBER_MAX_DIMS] = {0};
    hsize_t count[EMBER_MAX_DIMS] = {0};
    for (int i = 0; i < item->n_dims; i++)
        count[i] = (hsize_t)item->dims[i];
    start[0] = (hsize_t)item->rows_done;
    count[0] = (hsize_t)n_rows;
    const hid_t space = H5Dget_space(item->id);
    const hid_t memory = H5Screate_simple(item->n_dims, count, NULL);
    const bool good = space >= 0 && memory >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                      H5Dwrite(item->id, type, memory, space, H5P_DEFAULT, rows) >= 0;
    if (memory >= 0) (void)H5Sclose(memory);
    if (space >= 0) (void)H5Sclose(space);
    return good;
}

int64_t h5_written_rows(const h5_written *item) { return item->n_dims == 0 ? 1 : item->dims[0]; }

ember_status ember_h5_append_rows(ember_h5_writer *file, const char *object, const void *rows, int64_t n_rows) {
    hid_t type = -1;
    EMBER_TRY(h5_writer_space(file, 0));
    h5_written *item = find(file, object);
    if (!item || !item->state) return ember_fail(EMBER_E_STATE, "%s: %s was not reserved, or is full", file->path, object);
    if (n_rows < 0 || n_rows > h5_written_rows(item) - item->rows_done) {
        return ember_fail(EMBER_E_SHAPE, "%s: %s: %lld rows more than its %lld", file->path, object,
                          (long long)(item->rows_done + n_rows - h5_written_rows(item)), (long long)h5_written_rows(item));
    }
    const int64_t row = item->n_dims == 0 ? 1 : ember_count(item->n_dims - 1, item->dims + 1);
    const size_t bytes = (size_t)n_rows * (size_t)row * ember_dtype_bytes(item->dtype);
    if (bytes > 0) {
        EMBER_TRY(h5_type_of(&type, item->dtype));
        const bool good = write_rows(item, rows, n_rows, type);
        (void)H5Tclose(type);
        if (!good) return h5_writer_break(file, object);
        (void)XXH3_64bits_update(item->state, rows, bytes);
    }
    item->rows_done += n_rows;
    if (item->rows_done < h5_written_rows(item)) return EMBER_OK;
    item->hash = XXH3_64bits_digest(item->state);
    (void)XXH3_freeState(item->state);
    item->state = NULL;
    const hid_t id = item->id;
    item->id = -1;
    return H5Dclose(id) < 0 ? h5_writer_break(file, object) : EMBER_OK;
}

ember_status ember_h5_put(ember_h5_writer *file, const char *object, ember_tensor tensor) {
    EMBER_TRY(ember_h5_reserve(file, object, tensor.dtype, tensor.n_dims, tensor.dims));
    return ember_h5_append_rows(file, object, tensor.data, tensor.n_dims == 0 ? 1 : tensor.dims[0]);
}
