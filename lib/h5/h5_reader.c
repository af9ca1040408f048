#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/h5/h5_internal.h"

static const char signature[8] = {(char)0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

static uint64_t word(const unsigned char *from) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | from[i];
    return value;
}

/* The fixed first 48 bytes of a v110 file, checked here because libhdf5 takes a damaged version
 * number for an older format without checksums. */
static ember_status check_superblock(const ember_h5_reader *file) {
    unsigned char head[48];
    char header[4];
    if (file->file_bytes == 0) return ember_fail(EMBER_E_CORRUPT, "%s: is empty", file->path);
    const size_t n = file->file_bytes < sizeof signature ? (size_t)file->file_bytes : sizeof signature;
    EMBER_TRY(h5_pread(file, head, n, 0, "the file header"));
    if (memcmp(head, signature, n) != 0)
        return ember_fail(EMBER_E_FORMAT, "%s: is not an HDF5 file, as shards and checkpoints are", file->path);
    if (file->file_bytes < sizeof head)
        return ember_fail(EMBER_E_CORRUPT, "%s: has %llu bytes: truncated", file->path, (unsigned long long)file->file_bytes);
    if (file->foreign) return EMBER_OK;
    EMBER_TRY(h5_pread(file, head, sizeof head, 0, "the file header"));
    if (head[8] != 3 || head[9] != 8 || head[10] != 8 || word(head + 12) != 0) {
        return ember_fail(EMBER_E_FORMAT, "%s: is an HDF5 file, but not one of Ember (superblock version %d, expected 3)", file->path,
                          (int)head[8]);
    }
    if (head[11] != 0) return ember_fail(EMBER_E_CORRUPT, "%s: was not closed by its writer: incomplete", file->path);
    if (word(head + 28) > file->file_bytes) {
        return ember_fail(EMBER_E_CORRUPT, "%s: has %llu bytes, its header says %llu: truncated", file->path,
                          (unsigned long long)file->file_bytes, (unsigned long long)word(head + 28));
    }
    EMBER_TRY(h5_pread(file, header, sizeof header, word(head + 36), "the root group"));
    if (memcmp(header, "OHDR", 4) != 0) return ember_fail(EMBER_E_CORRUPT, "%s: the header of its root group is damaged", file->path);
    return EMBER_OK;
}

static ember_status open_file(ember_h5_reader *file) {
    hid_t access = -1;
    EMBER_TRY(h5_library());
    EMBER_TRY(ember_open_regular(&file->fd, &file->file_bytes, file->path));
    EMBER_TRY(check_superblock(file));
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, H5_BLOCK_BYTES, 1, "read buffer"));
    file->block = block;
    EMBER_TRY(h5_access(&access));
    file->id = H5Fopen(file->path, H5F_ACC_RDONLY, access);
    const ember_status status = file->id < 0 ? h5_fail(EMBER_E_CORRUPT, "%s: cannot be opened as HDF5", file->path) : EMBER_OK;
    (void)H5Pclose(access);
    return status;
}

/* The root's attributes by themselves: the index is not there yet. */
static ember_status root_only(ember_h5_reader *file) {
    char *path = strdup("/");
    h5_entry *items = calloc(1, sizeof *items);
    if (!path || !items) {
        free(path);
        free(items);
        return ember_fail(EMBER_E_MEMORY, "%s: no memory for its list of objects", file->path);
    }
    items[0] = (h5_entry){.path = path, .is_group = true};
    file->index = (h5_index){.items = items, .n = 1, .capacity = 1};
    return EMBER_OK;
}

static ember_status check_identity(ember_h5_reader *file, const char *format, int64_t max_version) {
    ember_bytes found = {0};
    int64_t complete = 0;
    if (ember_h5_get_attribute_text(file, "/", "format", &found) != EMBER_OK) {
        return ember_fail(EMBER_E_FORMAT, "%s: is an HDF5 file without the attribute format: not one of Ember", file->path);
    }
    file->format = found.data;
    if (format ? strcmp(file->format, format) != 0 : strncmp(file->format, "ember-", 6) != 0) {
        return ember_fail(EMBER_E_FORMAT, "%s: its format is \"%s\", expected is \"%s\"", file->path, file->format,
                          format ? format : "ember-...");
    }
    EMBER_TRY(ember_h5_get_attribute_i64(file, "/", "version", &file->version));
    if (file->version > max_version || file->version < 1) {
        return ember_fail(EMBER_E_VERSION,
                          "%s: has version %lld of the format %s; this program reads versions 1 to %lld: use a newer ember", file->path,
                          (long long)file->version, file->format, (long long)max_version);
    }
    if (ember_h5_get_attribute_i64(file, "/", H5_COMPLETE, &complete) != EMBER_OK || complete != 1) {
        return ember_fail(EMBER_E_CORRUPT, "%s: is incomplete: its writer was stopped (no attribute complete = 1)", file->path);
    }
    return EMBER_OK;
}

static ember_status new_reader(ember_h5_reader **out, const char *path, bool foreign) {
    *out = NULL;
    ember_h5_reader *file = calloc(1, sizeof *file);
    if (!file) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a reader", path);
    file->fd = -1;
    file->id = -1;
    file->foreign = foreign;
    file->path = strdup(path);
    if (!file->path) {
        free(file);
        return ember_fail(EMBER_E_MEMORY, "%s: no memory for a reader", path);
    }
    *out = file;
    return EMBER_OK;
}

ember_status ember_h5_open(ember_h5_reader **out, const char *path, const char *format, int64_t max_version, bool verify_data) {
    ember_h5_reader *file = NULL;
    *out = NULL;
    EMBER_TRY(new_reader(&file, path, false));
    ember_status status = open_file(file);
    if (status != EMBER_OK) goto fail;
    EMBER_TRY_GOTO(root_only(file), fail);
    EMBER_TRY_GOTO(check_identity(file, format, max_version), fail);
    h5_index_free(&file->index);
    EMBER_TRY_GOTO(h5_index_build(file), fail);
    EMBER_TRY_GOTO(h5_manifest_check(file), fail);
    if (verify_data) EMBER_TRY_GOTO(ember_h5_verify(file), fail);
    *out = file;
    return EMBER_OK;
fail:
    ember_h5_close(file);
    return status;
}

ember_status ember_h5_open_foreign(ember_h5_reader **out, const char *path) {
    ember_h5_reader *file = NULL;
    *out = NULL;
    EMBER_TRY(new_reader(&file, path, true));
    ember_status status = open_file(file);
    if (status == EMBER_OK) status = h5_index_build(file);
    if (status != EMBER_OK) {
        ember_h5_close(file);
        return status;
    }
    *out = file;
    return EMBER_OK;
}

void ember_h5_close(ember_h5_reader *file) {
    if (!file) return;
    if (file->id >= 0) (void)H5Fclose(file->id);
    if (file->fd >= 0) (void)close(file->fd);
    h5_index_free(&file->index);
    ember_release(file->block);
    free(file->format);
    free(file->path);
    free(file);
}

const char *ember_h5_path(const ember_h5_reader *file) { return file->path; }
int64_t ember_h5_version(const ember_h5_reader *file) { return file->version; }
const char *ember_h5_format(const ember_h5_reader *file) { return file->format ? file->format : ""; }
