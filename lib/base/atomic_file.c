#include "lib/base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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
    const bool there = stat(path, &info) == 0;
    if (!there && errno == ENAMETOOLONG) return ember_fail(EMBER_E_IO, "%s: %s", path, strerror(ENAMETOOLONG));
    if (there && !S_ISREG(info.st_mode)) {
        return ember_fail(EMBER_E_IO, "%s: is %s; only a file is written or replaced", path,
                          S_ISDIR(info.st_mode) ? "a folder" : "a device, a pipe or a socket");
    }
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number) number = 0;
    if (keep > NAME_MAX - 48) keep = NAME_MAX - 48;
    EMBER_TRY(ember_bytes_append(out, path, folder));
    return ember_bytes_printf(out, ".%.*s.%ld-%08lx.tmp", (int)keep, name, (long)getpid(), (unsigned long)number);
}

/* ".NAME." PID "-" 8 hexadecimal digits ".tmp" */
static bool is_leftover(const char *found, const char *prefix, size_t n_prefix) {
    if (strncmp(found, prefix, n_prefix) != 0) return false;
    const char *at = found + n_prefix;
    const size_t digits = strspn(at, "0123456789");
    if (digits == 0 || at[digits] != '-') return false;
    at += digits + 1;
    return strspn(at, "0123456789abcdef") == 8 && strcmp(at + 8, ".tmp") == 0;
}

/* Removes the temporary files of `name`'s path that no living writer has locked. Failing to is no error. */
static void remove_leftovers(const char *name) {
    const size_t folder = folder_length(name);
    const char *dash = strrchr(name, '-');
    size_t n_prefix = dash ? (size_t)(dash - name) - folder : 0;
    while (n_prefix > 0 && name[folder + n_prefix - 1] != '.')
        n_prefix--;
    ember_bytes path = {0};
    if (n_prefix == 0 || ember_bytes_append(&path, folder ? name : ".", folder ? folder : 1) != EMBER_OK) return;
    DIR *listing = opendir(path.data);
    for (const struct dirent *entry = listing ? readdir(listing) : NULL; entry; entry = readdir(listing)) {
        if (!is_leftover(entry->d_name, name + folder, n_prefix)) continue;
        path.n = 0;
        if (ember_bytes_append(&path, name, folder) != EMBER_OK) break;
        if (ember_bytes_append(&path, entry->d_name, strlen(entry->d_name)) != EMBER_OK) break;
        const int fd = open(path.data, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) (void)unlink(path.data);
        (void)close(fd);
    }
    if (listing) (void)closedir(listing);
    ember_bytes_free(&path);
}

ember_status ember_create_temporary(int *fd, ember_bytes *name, const char *path) {
    struct stat info;
    *fd = -1;
    EMBER_TRY(ember_temporary_name(name, path));
    remove_leftovers(name->data);
    for (int attempt = 0; attempt < 8; attempt++) {
        *fd = open(name->data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd < 0) break;
        (void)flock(*fd, LOCK_EX); /* a file system without locks: nothing is then taken for a leftover either */
        /* Another writer may have found it in the moment before it was locked. */
        if (fstat(*fd, &info) == 0 && info.st_nlink > 0) return EMBER_OK;
        (void)close(*fd);
        *fd = -1;
        errno = EBUSY;
    }
    const ember_status status = ember_fail(EMBER_E_IO, "%s: cannot create: %s", path, strerror(errno));
    ember_bytes_free(name);
    return status;
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
    int fd = -1;
    EMBER_TRY(ember_create_temporary(&fd, &temporary, path));
    ember_status status = EMBER_OK;
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
