#include "lib/base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/status.h"

/* Bytes of `path` up to and with its last slash; 0 when there is none. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

ember_status ember_temporary_name(ember_bytes *out, const char *path) {
    const size_t folder = folder_length(path);
    const char *name = path + folder;
    size_t keep = strlen(name);
    struct stat info;
    uint32_t number = 0;
    *out = (ember_bytes){0};
    if (keep == 0) return ember_fail(EMBER_E_ARGUMENT, "%s: names a folder, not a file", path);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return ember_fail(EMBER_E_IO, "%s: is %s; only a file is written or replaced", path,
                          S_ISDIR(info.st_mode) ? "a folder" : "a device, a pipe or a socket");
    }
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number) number = 0;
    if (keep > NAME_MAX - 48) keep = NAME_MAX - 48;
    EMBER_TRY(ember_bytes_append(out, path, folder));
    return ember_bytes_printf(out, ".%.*s.%ld-%08lx.tmp", (int)keep, name, (long)getpid(), (unsigned long)number);
}

static ember_status sync_path(const char *path, int flags) {
    const int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0) return ember_fail(EMBER_E_IO, "%s: cannot open to flush: %s", path, strerror(errno));
    const int failed = fsync(fd);
    const int why = errno;
    (void)close(fd);
    /* Some file systems cannot sync a folder; that is not a failed write. */
    if (failed && !(why == EINVAL && (flags & O_DIRECTORY))) {
        return ember_fail(EMBER_E_IO, "%s: cannot flush to disk: %s", path, strerror(why));
    }
    return EMBER_OK;
}

ember_status ember_commit_file(const char *temporary, const char *path) {
    ember_bytes folder = {0};
    ember_status status = sync_path(temporary, O_RDONLY);
    if (status == EMBER_OK && rename(temporary, path) != 0) {
        status = ember_fail(EMBER_E_IO, "%s: cannot rename to %s: %s", temporary, path, strerror(errno));
    }
    if (status != EMBER_OK) {
        (void)unlink(temporary);
        return status;
    }
    const size_t n = folder_length(path);
    status = n ? ember_bytes_append(&folder, path, n) : ember_bytes_append(&folder, ".", 1);
    if (status == EMBER_OK) status = sync_path(folder.data, O_RDONLY | O_DIRECTORY);
    ember_bytes_free(&folder);
    return status;
}

ember_status ember_write_file(const char *path, const void *data, size_t n) {
    ember_bytes temporary = {0};
    EMBER_TRY(ember_temporary_name(&temporary, path));
    ember_status status = EMBER_OK;
    const int fd = open(temporary.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        status = ember_fail(EMBER_E_IO, "%s: cannot create: %s", temporary.data, strerror(errno));
        ember_bytes_free(&temporary);
        return status;
    }
    size_t done = 0;
    while (done < n) {
        const ssize_t wrote = write(fd, (const char *)data + done, n - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            status = ember_fail(EMBER_E_IO, "%s: cannot write: %s", path, strerror(errno));
            break;
        }
        done += (size_t)wrote;
    }
    if (close(fd) != 0 && status == EMBER_OK) status = ember_fail(EMBER_E_IO, "%s: cannot close: %s", path, strerror(errno));
    if (status == EMBER_OK) {
        status = ember_commit_file(temporary.data, path);
    } else {
        (void)unlink(temporary.data);
    }
    ember_bytes_free(&temporary);
    return status;
}

ember_status ember_make_folders(const char *path) {
    char *copy = strdup(path);
    if (!copy) return ember_fail(EMBER_E_MEMORY, "%s: no memory for the path", path);
    ember_status status = EMBER_OK;
    const size_t n = strlen(copy);
    for (size_t i = 1; i <= n && status == EMBER_OK; i++) {
        if (copy[i] != '/' && copy[i] != '\0') continue;
        const char kept = copy[i];
        copy[i] = '\0';
        struct stat info;
        if (mkdir(copy, 0777) != 0) {
            const int why = errno;
            if (stat(copy, &info) != 0) {
                status = ember_fail(EMBER_E_IO, "%s: cannot create the folder: %s", copy, strerror(why));
            } else if (!S_ISDIR(info.st_mode)) {
                status = ember_fail(EMBER_E_IO, "%s: exists and is not a folder", copy);
            }
        }
        copy[i] = kept;
    }
    free(copy);
    return status;
}
