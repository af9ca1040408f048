#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "lib/h5/h5_internal.h"

/* The dataset /manifest: one row an object, a compound of five NUL-padded strings. */
enum { N_FIELDS = 5, NAME = 0, DTYPE = 1, SHAPE = 2, HASH = 3, ATTRIBUTES = 4, MAX_FIELD = H5_MAX_PATH };
static const char *const field_names[N_FIELDS] = {"name", "dtype", "shape", "xxh3_64", "attributes_xxh3_64"};

typedef struct layout {
    size_t bytes[N_FIELDS];
    size_t offset[N_FIELDS];
    size_t record;
} layout;

static void shape_text(char *out, size_t n, int n_dims, const int64_t *dims) {
    size_t used = (size_t)snprintf(out, n, "[");
    for (int i = 0; i < n_dims && used < n; i++) {
        used += (size_t)snprintf(out + used, n - used, "%s%lld", i ? "," : "", (long long)dims[i]);
    }
    if (used < n) (void)snprintf(out + used, n - used, "]");
}

static void row_fields(char fields[N_FIELDS][MAX_FIELD], const h5_row *row) {
    (void)snprintf(fields[NAME], MAX_FIELD, "%s", row->path);
    (void)snprintf(fields[DTYPE], MAX_FIELD, "%s", row->dtype);
    fields[SHAPE][0] = '\0';
    fields[HASH][0] = '\0';
    if (!row->is_group) {
        shape_text(fields[SHAPE], MAX_FIELD, row->n_dims, row->dims);
        h5_hash_text(fields[HASH], row->data_hash);
    }
    h5_hash_text(fields[ATTRIBUTES], row->attributes_hash);
}

static layout layout_of(const h5_row *rows, size_t n, char fields[N_FIELDS][MAX_FIELD]) {
    layout l = {.bytes = {1, 1, 1, H5_HASH_BYTES, H5_HASH_BYTES}};
    for (size_t i = 0; i < n; i++) {
        row_fields(fields, &rows[i]);
        for (int f = 0; f < N_FIELDS; f++) {
            const size_t bytes = strlen(fields[f]);
            if (bytes > l.bytes[f]) l.bytes[f] = bytes;
        }
    }
    for (int f = 0; f < N_FIELDS; f++) {
        l.offset[f] = l.record;
        l.record += l.bytes[f];
    }
    return l;
}

static hid_t record_type(const layout *l) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, l->record);
    bool failed = type < 0;
    for (int f = 0; f < N_FIELDS && !failed; f++) {
        const hid_t text = H5Tcopy(H5T_C_S1);
        failed = text < 0 || H5Tset_size(text, l->bytes[f]) < 0 || H5Tset_strpad(text, H5T_STR_NULLPAD) < 0 ||
                 H5Tset_cset(text, H5T_CSET_UTF8) < 0 || H5Tinsert(type, field_names[f], l->offset[f], text) < 0;
        if (text >= 0) (void)H5Tclose(text);
    }
    if (failed && type >= 0) (void)H5Tclose(type);
    return failed ? -1 : type;
}

static ember_status write_records(hid_t id, const char *file, const layout *l, const char *records, size_t n) {
    ember_status status = EMBER_OK;
    const hsize_t dims = n;
    hid_t dataset = -1;
    const hid_t type = record_type(l);
    const hid_t space = H5Screate_simple(1, &dims, NULL);
    const hid_t creation = h5_creation(H5P_DATASET_CREATE);
    if (type >= 0 && space >= 0) dataset = H5Dcreate2(id, H5_MANIFEST, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (creation >= 0) (void)H5Pclose(creation);
    if (dataset < 0 || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, records) < 0) {
        status = h5_fail(EMBER_E_IO, "%s: cannot write its manifest", file);
    }
    if (dataset >= 0 && H5Dclose(dataset) < 0 && status == EMBER_OK) status = h5_fail(EMBER_E_IO, "%s: cannot write its manifest", file);
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    return status;
}

static ember_status write_hash(hid_t id, const char *file, uint64_t hash) {
    char text[H5_HASH_BYTES + 1];
    h5_hash_text(text, hash);
    hid_t attribute = -1;
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t type = H5Tcopy(H5T_C_S1);
    if (space >= 0 && type >= 0 && H5Tset_size(type, sizeof text) >= 0) {
        attribute = H5Acreate2(id, H5_MANIFEST_HASH, type, space, H5P_DEFAULT, H5P_DEFAULT);
    }
    const bool failed = attribute < 0 || H5Awrite(attribute, type, text) < 0 || H5Aclose(attribute) < 0;
    if (type >= 0) (void)H5Tclose(type);
    if (space >= 0) (void)H5Sclose(space);
    return failed ? h5_fail(EMBER_E_IO, "%s: cannot write the hash of its manifest", file) : EMBER_OK;
}

ember_status h5_manifest_write(hid_t id, const char *file, const h5_row *rows, size_t n) {
    void *fields = NULL;
    void *records = NULL;
    ember_status status = ember_allocate(&fields, N_FIELDS, MAX_FIELD, "manifest fields");
    if (status != EMBER_OK) return status;
    char(*text)[MAX_FIELD] = fields;
    const layout l = layout_of(rows, n, text);
    EMBER_TRY_GOTO(ember_allocate(&records, n, l.record, "manifest"), done);
    for (size_t i = 0; i < n; i++) {
        row_fields(text, &rows[i]);
        for (int f = 0; f < N_FIELDS; f++)
            memcpy((char *)records + i * l.record + l.offset[f], text[f], strlen(text[f]));
    }
    EMBER_TRY_GOTO(write_records(id, file, &l, records, n), done);
    EMBER_TRY_GOTO(write_hash(id, file, XXH3_64bits(records, n * l.record)), done);
done:
    ember_release(records);
    ember_release(fields);
    return status;
}

/* ---- reading */

/* The stored type must be exactly the one described in FORMAT.md. */
static bool read_layout(layout *l, hid_t type) {
    if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != N_FIELDS) return false;
    *l = (layout){.record = H5Tget_size(type)};
    size_t expected = 0;
    for (unsigned f = 0; f < N_FIELDS; f++) {
        char *name = H5Tget_member_name(type, f);
        const hid_t member = H5Tget_member_type(type, f);
        const bool good = name && member >= 0 && strcmp(name, field_names[f]) == 0 && H5Tget_class(member) == H5T_STRING &&
                          H5Tis_variable_str(member) == 0;
        l->offset[f] = H5Tget_member_offset(type, f);
        l->bytes[f] = member >= 0 ? H5Tget_size(member) : 0;
        if (name) (void)H5free_memory(name);
        if (member >= 0) (void)H5Tclose(member);
        if (!good || l->bytes[f] == 0 || l->bytes[f] > MAX_FIELD || l->offset[f] != expected) return false;
        expected += l->bytes[f];
    }
    return expected == l->record;
}

/* Raw records; *n rows. */
static ember_status read_records(const ember_h5_reader *file, layout *l, char **out, size_t *n) {
    ember_status status = EMBER_OK;
    hid_t type = -1;
    hid_t space = -1;
    hid_t creation = -1;
    hsize_t dims = 0;
    const hid_t dataset = H5Dopen2(file->id, H5_MANIFEST, H5P_DEFAULT);
    if (dataset < 0) return h5_fail(EMBER_E_CORRUPT, "%s: it has no readable manifest", file->path);
    type = H5Dget_type(dataset);
    space = H5Dget_space(dataset);
    creation = H5Dget_create_plist(dataset);
    const haddr_t offset = H5Dget_offset(dataset);
    if (type < 0 || space < 0 || creation < 0 || offset == HADDR_UNDEF || H5Pget_layout(creation) != H5D_CONTIGUOUS ||
        H5Pget_nfilters(creation) != 0 || !read_layout(l, type) || H5Sget_simple_extent_ndims(space) != 1 ||
        H5Sget_simple_extent_dims(space, &dims, NULL) != 1) {
        status = h5_fail(EMBER_E_CORRUPT, "%s: its manifest has not the described form", file->path);
        goto done;
    }
    if (dims > H5_MAX_OBJECTS || dims * l->record > file->file_bytes) {
        status = ember_fail(EMBER_E_CORRUPT, "%s: its manifest has %llu rows, more than the file can hold", file->path,
                            (unsigned long long)dims);
        goto done;
    }
    void *records = NULL;
    *n = (size_t)dims;
    EMBER_TRY_GOTO(ember_allocate(&records, *n, l->record, "manifest"), done);
    *out = records;
    status = h5_pread(file, records, *n * l->record, offset, H5_MANIFEST);
done:
    (void)H5Eclear2(H5E_DEFAULT);
    if (creation >= 0) (void)H5Pclose(creation);
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    (void)H5Dclose(dataset);
    return status;
}

static void take_field(char *out, const layout *l, const char *record, int field) {
    const size_t n = strnlen(record + l->offset[field], l->bytes[field]);
    memcpy(out, record + l->offset[field], n);
    out[n] = '\0';
}

static bool parse_hash(const char *text, uint64_t *out) {
    char *end = NULL;
    if (strlen(text) != H5_HASH_BYTES || strspn(text, "0123456789abcdef") != H5_HASH_BYTES) return false;
    *out = strtoull(text, &end, 16);
    return true;
}

/* One row against the object it names. */
static ember_status check_row(ember_h5_reader *file, const layout *l, const char *record) {
    char name[MAX_FIELD + 1];
    char found[MAX_FIELD + 1];
    char wanted[128];
    take_field(name, l, record, NAME);
    h5_entry *entry = h5_index_find(&file->index, name);
    if (!entry) return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s is in the manifest and not in the file", file->path, name);
    if (entry->has_hash) return ember_fail(EMBER_E_CORRUPT, "%s: %s is twice in the manifest", file->path, name);
    take_field(found, l, record, DTYPE);
    const char *dtype = entry->is_group ? "group" : entry->info.is_text ? "text" : ember_dtype_name(entry->dtype);
    if (strcmp(found, dtype) != 0) {
        return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s has dtype %s; the manifest says %s", file->path, name, dtype, found);
    }
    take_field(found, l, record, SHAPE);
    wanted[0] = '\0';
    if (!entry->is_group) shape_text(wanted, sizeof wanted, entry->info.n_dims, entry->info.dims);
    if (strcmp(found, wanted) != 0) {
        return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s has shape %s; the manifest says %s", file->path, name, wanted, found);
    }
    uint64_t attributes = 0;
    take_field(found, l, record, ATTRIBUTES);
    if (!parse_hash(found, &attributes)) return ember_fail(EMBER_E_CORRUPT, "%s: the manifest's row of %s is damaged", file->path, name);
    if (attributes != entry->attributes_hash) {
        return ember_fail(EMBER_E_CORRUPT, "%s: the attributes of %s differ from their hash in the manifest", file->path, name);
    }
    take_field(found, l, record, HASH);
    if (!entry->is_group && !parse_hash(found, &entry->data_hash)) {
        return ember_fail(EMBER_E_CORRUPT, "%s: the manifest's row of %s is damaged", file->path, name);
    }
    entry->has_hash = true;
    return EMBER_OK;
}

ember_status h5_manifest_check(ember_h5_reader *file) {
    layout l;
    char *records = NULL;
    size_t n = 0;
    char text[H5_HASH_BYTES + 1];
    ember_bytes stored = {0};
    ember_status status = read_records(file, &l, &records, &n);
    if (status != EMBER_OK) goto done;
    EMBER_TRY_GOTO(ember_h5_get_attribute_text(file, "/", H5_MANIFEST_HASH, &stored), done);
    h5_hash_text(text, XXH3_64bits(records, n * l.record));
    if (strcmp(text, stored.data) != 0) {
        status = ember_fail(EMBER_E_CORRUPT, "%s: the dataset %s differs from its hash", file->path, H5_MANIFEST);
        goto done;
    }
    for (size_t i = 0; i < n && status == EMBER_OK; i++)
        status = check_row(file, &l, records + i * l.record);
    for (size_t i = 0; i < file->index.n && status == EMBER_OK; i++) {
        const h5_entry *entry = &file->index.items[i];
        if (!entry->has_hash)
            status = ember_fail(EMBER_E_CORRUPT, "%s: %s is in the file and not in the manifest", file->path, entry->path);
    }
done:
    ember_bytes_free(&stored);
    ember_release(records);
    return status;
}
