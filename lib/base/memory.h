/* memory.h - checked allocation, growable byte buffer, monotonic clock. */
#ifndef EMBER_BASE_MEMORY_H
#define EMBER_BASE_MEMORY_H

#include <stdint.h>

#include "lib/ember.h"

enum { EMBER_ALIGNMENT = 64 }; /* of every block from ember_allocate */

/* n * size bytes, 64-byte aligned, zeroed. `what` names the block in the error. n = 0 gives a
 * valid pointer. Errors: EMBER_E_MEMORY (also on overflow of n * size). Free with ember_release. */
EMBER_CHECKED ember_status ember_allocate(void **out, size_t n, size_t size, const char *what);
void ember_release(void *block);

/* A growable byte string; zero-initialise. `data` is always NUL-terminated once it is not NULL. */
typedef struct ember_bytes {
    char *data;
    size_t n;
    size_t capacity;
} ember_bytes;

EMBER_CHECKED ember_status ember_bytes_reserve(ember_bytes *bytes, size_t capacity);
EMBER_CHECKED ember_status ember_bytes_append(ember_bytes *bytes, const void *data, size_t n);
EMBER_CHECKED ember_status ember_bytes_printf(ember_bytes *bytes, const char *format, ...) EMBER_PRINTF(2, 3);
void ember_bytes_free(ember_bytes *bytes);

/* Opens a regular file to read and tells its size. A pipe, device or folder in its place is refused at once:
 * a plain open of a pipe that nobody writes would wait for ever. Errors: EMBER_E_NOT_FOUND, EMBER_E_IO. */
EMBER_CHECKED ember_status ember_open_regular(int *fd, uint64_t *bytes, const char *path);

/* Whole file as bytes; `limit` in bytes (0: none). Errors: EMBER_E_IO, EMBER_E_NOT_FOUND,
 * EMBER_E_FORMAT over the limit; messages name the path. */
EMBER_CHECKED ember_status ember_read_file(ember_bytes *out, const char *path, size_t limit);

/* Seconds of the monotonic clock. */
double ember_seconds(void);

#endif
