#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/h5/h5_internal.h"

/* Depth first in name order: a slash sorts before every other byte. */
static int path_compare(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    const int left = *a == '/' ? 1 : *a == '\0' ? 0 : (unsigned char)*a + 1;
    const int right = *b == '/' ? 1 : *b == '\0' ? 0 : (unsigned char)*b + 1;
    return left - right;
}

static int entry_compare(const void *a, const void *b) { return path_compare(((const h5_entry *)a)->path, ((const h5_entry *)b)->path); }

h5_entry *h5_index_find(const h5_index *index, const char *path) {
    char clean[H5_MAX_PATH];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof clean || path[0] != '/') return NULL;
    while (n > 1 && path[n - 1] == '/')
        n--;
    memcpy(clean, path, n);
    clean[n] = '\0';
    const h5_entry key = {.path = clean};
    return index->n ? bsearch(&key, index->items, index->n, sizeof *index->items, entry_compare) : NULL;
}

void h5_index_free(h5_index *index) {
    for (size_t i = 0; i < index->n; i++)
        free(index->items[i].path);
    free(index->items);
    *index = (h5_index){0};
}

static ember_status add(ember_h5_reader *file, const char *path, h5_entry **out) {
    h5_index *index = &file->index;
    if (index->n >= H5_MAX_OBJECTS) return ember_fail(EMBER_E_CORRUPT, "%s: more than %d objects", file->path, (int)H5_MAX_OBJECTS);
    if (index->n == index->capacity) {
        const size_t grown = index->capacity ? index->capacity * 2 : 64;
        h5_entry *items = realloc(index->items, grown * sizeof *items);
        if (!items) return ember_fail(EMBER_E_MEMORY, "%s: no memory for its list of objects", file->path);
        index->items = items;
        index->capacity = grown;
    }
    char *copy = strdup(path);
    if (!copy) return ember_fail(EMBER_E_MEMORY, "%s: no memory for its list of objects", file->path);
    *out = &index->items[index->n++];
    **out = (h5_entry){.path = copy, .info = {.file_offset = UINT64_MAX}};
    return EMBER_OK;
}

/* The shape; `why_not` is set when this interface cannot express it. */
static ember_status read_shape(h5_entry *entry, hid_t space, const char *file) {
    hsize_t dims[H5S_MAX_RANK];
    const H5S_class_t kind = H5Sget_simple_extent_type(space);
    if (kind == H5S_SCALAR) return EMBER_OK;
    const int n = kind == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, dims, NULL) : -1;
    if (n < 0 || n > EMBER_MAX_DIMS) {
        entry->why_not = kind == H5S_NULL ? "it has no shape" : "it has more than 4 dimensions";
        (void)H5Eclear2(H5E_DEFAULT);
        return EMBER_OK;
    }
    entry->info.n_dims = n;
    for (int i = 0; i < n; i++) {
        if (dims[i] > INT64_MAX)
            return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s: dimension %d is larger than 2^63", file, entry->path, i);
        entry->info.dims[i] = (int64_t)dims[i];
    }
    return EMBER_OK;
}

/* Where the raw bytes lie, believed only when the file is long enough. */
static ember_status read_place(const ember_h5_reader *file, h5_entry *entry, hid_t dataset, uint64_t stored_bytes, bool exact) {
    const hid_t creation = H5Dget_create_plist(dataset);
    if (creation < 0) return h5_fail(EMBER_E_CORRUPT, "%s: dataset %s: its layout cannot be read", file->path, entry->path);
    const bool contiguous =
        H5Pget_layout(creation) == H5D_CONTIGUOUS && H5Pget_nfilters(creation) == 0 && H5Pget_external_count(creation) == 0;
    (void)H5Pclose(creation);
    if (!contiguous) {
        if (file->foreign) return EMBER_OK;
        return ember_fail(EMBER_E_FORMAT, "%s: dataset %s is chunked, compact, external or compressed; Ember files hold contiguous data",
                          file->path, entry->path);
    }
    const haddr_t offset = H5Dget_offset(dataset);
    (void)H5Eclear2(H5E_DEFAULT);
    if (offset == HADDR_UNDEF) {
        if (stored_bytes == 0 || file->foreign) return EMBER_OK;
        return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s has no data", file->path, entry->path);
    }
    if (offset > file->file_bytes || stored_bytes > file->file_bytes - offset) {
        return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s needs bytes %llu to %llu, the file has %llu: truncated", file->path, entry->path,
                          (unsigned long long)offset, (unsigned long long)(offset + stored_bytes), (unsigned long long)file->file_bytes);
    }
    if (exact) entry->info.file_offset = offset;
    return EMBER_OK;
}

static ember_status read_dataset(const ember_h5_reader *file, h5_entry *entry, hid_t dataset) {
    ember_status status = EMBER_OK;
    bool exact = false;
    const hid_t type = H5Dget_type(dataset);
    const hid_t space = H5Dget_space(dataset);
    if (type < 0 || space < 0) {
        status = h5_fail(EMBER_E_CORRUPT, "%s: dataset %s: type or shape cannot be read", file->path, entry->path);
        goto done;
    }
    EMBER_TRY_GOTO(read_shape(entry, space, file->path), done);
    const size_t element = H5Tget_size(type);
    entry->dtype = h5_dtype_of(type, &exact);
    if (H5Tget_class(type) == H5T_STRING && entry->info.n_dims == 0 && !entry->why_not) {
        entry->info.is_text = true;
        entry->dtype = EMBER_U8;
        exact = true;
    }
    if (!entry->dtype && !entry->why_not) entry->why_not = "its type is none that Ember reads";
    entry->info.dtype = entry->dtype;
    const int64_t count = ember_count(entry->info.n_dims, entry->info.dims);
    if (count < 0 || element == 0 || (uint64_t)count > UINT64_MAX / element) {
        status = ember_fail(EMBER_E_CORRUPT, "%s: dataset %s: its size overflows", file->path, entry->path);
        goto done;
    }
    entry->info.bytes = (uint64_t)count * element;
    EMBER_TRY_GOTO(read_place(file, entry, dataset, entry->info.bytes, exact), done);
    if (entry->info.is_text && H5Tis_variable_str(type) > 0) {
        entry->info.bytes = 0;
        uint32_t length = 0; /* the first word of a stored variable-length string */
        if (entry->info.file_offset != UINT64_MAX) {
            EMBER_TRY_GOTO(h5_pread(file, &length, sizeof length, entry->info.file_offset, entry->path), done);
        }
        entry->info.bytes = length;
    }
    if (!file->foreign && (entry->why_not || !exact)) {
        status = ember_fail(EMBER_E_FORMAT, "%s: dataset %s cannot be read: %s", file->path, entry->path,
                            entry->why_not ? entry->why_not : "it is big-endian, and Ember files are little-endian");
    }
done:
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    return status;
}

/* libhdf5 takes whatever has not this signature for an old object header, which has no checksum. */
static ember_status check_header(const ember_h5_reader *file, hid_t parent, const char *name, const char *path) {
    H5L_info_t info;
    char signature[4];
    if (H5Lget_info(parent, name, &info, H5P_DEFAULT) < 0) return h5_fail(EMBER_E_CORRUPT, "%s: %s cannot be found", file->path, path);
    EMBER_TRY(h5_pread(file, signature, sizeof signature, info.u.address, path));
    if (memcmp(signature, "OHDR", 4) != 0) return ember_fail(EMBER_E_CORRUPT, "%s: %s: its object header is damaged", file->path, path);
    return EMBER_OK;
}

typedef struct walk {
    ember_h5_reader *file;
    const char *path; /* of the group, "" for the root */
    int depth;
    ember_status status;
} walk;

static ember_status visit_group(ember_h5_reader *file, hid_t group, const char *path, int depth);

static ember_status visit_object(walk *w, hid_t parent, const char *name, const char *path) {
    ember_h5_reader *file = w->file;
    h5_entry *entry = NULL;
    if (!file->foreign) EMBER_TRY(check_header(file, parent, name, path));
    if (!file->foreign && strcmp(path, H5_MANIFEST) == 0) return EMBER_OK;
    const hid_t object = H5Oopen(parent, name, H5P_DEFAULT);
    if (object < 0) return h5_fail(EMBER_E_CORRUPT, "%s: %s cannot be opened", file->path, path);
    ember_status status = EMBER_OK;
    const H5I_type_t kind = H5Iget_type(object);
    if (kind == H5I_GROUP || kind == H5I_DATASET) {
        EMBER_TRY_GOTO(add(file, path, &entry), done);
        entry->is_group = kind == H5I_GROUP;
        if (!file->foreign) {
            EMBER_TRY_GOTO(h5_attributes_hash(&entry->attributes_hash, object, file->path, path, false), done);
        }
        status = entry->is_group ? visit_group(file, object, path, w->depth + 1) : read_dataset(file, entry, object);
    } else if (!file->foreign) {
        status = ember_fail(EMBER_E_FORMAT, "%s: %s is neither a group nor a dataset", file->path, path);
    }
done:
    (void)H5Oclose(object);
    return status;
}

static herr_t on_link(hid_t group, const char *name, const H5L_info_t *info, void *user) {
    walk *w = user;
    char path[H5_MAX_PATH];
    const int n = snprintf(path, sizeof path, "%s/%s", w->path, name);
    if (n < 0 || (size_t)n >= sizeof path) {
        w->status = ember_fail(EMBER_E_CORRUPT, "%s: an object's path is longer than %d bytes", w->file->path, (int)H5_MAX_PATH);
    } else if (info->type != H5L_TYPE_HARD) {
        /* Links may lead out of the file. Foreign files keep theirs; they are not followed. */
        w->status =
            w->file->foreign ? EMBER_OK : ember_fail(EMBER_E_FORMAT, "%s: %s is a link; Ember files have none", w->file->path, path);
    } else {
        w->status = visit_object(w, group, name, path);
    }
    return w->status == EMBER_OK ? 0 : -1;
}

static ember_status visit_group(ember_h5_reader *file, hid_t group, const char *path, int depth) {
    if (depth > H5_MAX_DEPTH)
        return ember_fail(EMBER_E_CORRUPT, "%s: %s: more than %d groups inside each other", file->path, path, (int)H5_MAX_DEPTH);
    walk w = {.file = file, .path = path, .depth = depth};
    hsize_t at = 0;
    const herr_t result = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, on_link, &w);
    if (w.status != EMBER_OK) {
        (void)H5Eclear2(H5E_DEFAULT);
        return w.status;
    }
    if (result < 0) return h5_fail(EMBER_E_CORRUPT, "%s: the group %s/ cannot be read", file->path, path);
    return EMBER_OK;
}

ember_status h5_index_build(ember_h5_reader *file) {
    h5_entry *root = NULL;
    EMBER_TRY(add(file, "/", &root));
    root->is_group = true;
    const hid_t group = H5Gopen2(file->id, "/", H5P_DEFAULT);
    if (group < 0) return h5_fail(EMBER_E_CORRUPT, "%s: the root group cannot be opened", file->path);
    ember_status status = EMBER_OK;
    if (!file->foreign) EMBER_TRY_GOTO(h5_attributes_hash(&root->attributes_hash, group, file->path, "/", true), done);
    EMBER_TRY_GOTO(visit_group(file, group, "", 0), done);
    qsort(file->index.items, file->index.n, sizeof *file->index.items, entry_compare);
done:
    (void)H5Gclose(group);
    return status;
}
