#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/atomic_file.h"
#include "lib/h5/h5_internal.h"

static ember_status check_full(const ember_h5_writer *file) {
    for (size_t i = 0; i < file->n; i++) {
        const h5_written *item = &file->items[i];
        if (item->is_group || item->is_text || item->rows_done == h5_written_rows(item)) continue;
        return ember_fail(EMBER_E_STATE, "%s: %s: %lld of %lld rows were written", file->path, item->path, (long long)item->rows_done,
                          (long long)h5_written_rows(item));
    }
    return EMBER_OK;
}

static ember_status attributes_of(uint64_t *out, ember_h5_writer *file, const h5_written *item) {
    const hid_t id = H5Oopen(file->id, item->path, H5P_DEFAULT);
    if (id < 0) return h5_writer_break(file, item->path);
    const ember_status status = h5_attributes_hash(out, id, file->path, item->path, strcmp(item->path, "/") == 0);
    (void)H5Oclose(id);
    return status;
}

static ember_status write_manifest(ember_h5_writer *file) {
    void *block = NULL;
    uint64_t bytes = 0;
    EMBER_TRY(ember_allocate(&block, file->n, sizeof(h5_row), "manifest"));
    h5_row *rows = block;
    ember_status status = EMBER_OK;
    for (size_t i = 0; i < file->n; i++) {
        const h5_written *item = &file->items[i];
        rows[i] = (h5_row){.path = item->path,
                           .dtype = item->is_group  ? "group"
                                    : item->is_text ? "text"
                                                    : ember_dtype_name(item->dtype),
                           .n_dims = item->n_dims,
                           .dims = item->dims,
                           .data_hash = item->hash,
                           .is_group = item->is_group};
        EMBER_TRY_GOTO(attributes_of(&rows[i].attributes_hash, file, item), done);
        if (strlen(item->path) > bytes) bytes = strlen(item->path);
    }
    EMBER_TRY_GOTO(h5_writer_space(file, (bytes + 256) * file->n), done);
    status = h5_manifest_write(file->id, file->path, rows, file->n);
    if (status == EMBER_E_IO) file->broken = true;
done:
    ember_release(block);
    return status;
}

/* The space that was reserved and not used goes back: the file ends where its header says. */
static ember_status trim(ember_h5_writer *file) {
    unsigned char head[48];
    uint64_t bytes = 0;
    struct stat info;
    if (pread(file->fd, head, sizeof head, 0) != (ssize_t)sizeof head || fstat(file->fd, &info) != 0) {
        return ember_fail(EMBER_E_IO, "%s: cannot be read back: %s", file->path, strerror(errno));
    }
    for (int i = 7; i >= 0; i--)
        bytes = bytes << 8 | head[28 + i];
    if (head[8] != 3 || bytes > (uint64_t)info.st_size)
        return ember_fail(EMBER_E_IO, "%s: the file that was written is too short", file->path);
    if (ftruncate(file->fd, (off_t)bytes) != 0) return ember_fail(EMBER_E_IO, "%s: cannot set its size: %s", file->path, strerror(errno));
    return EMBER_OK;
}

static ember_status commit(ember_h5_writer *file) {
    ember_h5_reader *check = NULL;
    EMBER_TRY(h5_writer_space(file, 0));
    EMBER_TRY(check_full(file));
    EMBER_TRY(write_manifest(file));
    if (H5Fflush(file->id, H5F_SCOPE_GLOBAL) < 0) return h5_writer_break(file, "the file");
    EMBER_TRY(ember_h5_put_attribute_i64(file, "/", H5_COMPLETE, 1));
    if (H5Fflush(file->id, H5F_SCOPE_GLOBAL) < 0) return h5_writer_break(file, "the file");
    if (!h5_writer_close(file)) return h5_writer_break(file, "the file");
    EMBER_TRY(trim(file));
    ember_status status = ember_h5_open(&check, file->temporary.data, file->format, file->version, true);
    ember_h5_close(check);
    if (status != EMBER_OK) return ember_fail_context(EMBER_E_IO, "%s: what was written does not read back", file->path);
    status = ember_commit_file(file->temporary.data, file->path);
    file->created = false;
    return status;
}

ember_status ember_h5_commit(ember_h5_writer *file) {
    const ember_status status = commit(file);
    ember_h5_abort(file);
    return status;
}
