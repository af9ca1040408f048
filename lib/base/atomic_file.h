/* atomic_file.h - a file appears under its name whole or not at all. */
#ifndef EMBER_BASE_ATOMIC_FILE_H
#define EMBER_BASE_ATOMIC_FILE_H

#include "lib/base/memory.h"

/* The temporary name beside `path`: same folder, ".NAME.PID-RANDOM.tmp" (shortened to fit NAME_MAX). Random, because
 * two containers that share a folder may share process ids. Errors: EMBER_E_ARGUMENT when `path` names a folder,
 * EMBER_E_IO when something that is no regular file is there: the rename would replace a device or a pipe. */
EMBER_CHECKED ember_status ember_temporary_name(ember_bytes *out, const char *path);
/* Creates and locks a temporary file beside `path`, readable and writable; *fd holds the lock until it is closed.
 * What killed writers of the same path left behind (nobody holds its lock) is removed. Errors: as above. */
EMBER_CHECKED ember_status ember_create_temporary(int *fd, ember_bytes *name, const char *path);
/* fsync of the file `temporary`, rename onto `path`, fsync of the folder. On failure the
 * temporary is removed and `path` is as it was. Errors: EMBER_E_IO. */
EMBER_CHECKED ember_status ember_commit_file(const char *temporary, const char *path);
/* Writes `n` bytes under `path` atomically. Errors: EMBER_E_IO; nothing is left behind. */
EMBER_CHECKED ember_status ember_write_file(const char *path, const void *data, size_t n);
/* mkdir -p. Errors: EMBER_E_IO. */
EMBER_CHECKED ember_status ember_make_folders(const char *path);

#endif
