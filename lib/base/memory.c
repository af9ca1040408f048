#include "lib/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/status.h"

ember_status ember_allocate(void **out, size_t n, size_t size, const char *what) {
    *out = NULL;
    size_t bytes = 0;
    size_t padded = 0;
    if (__builtin_mul_overflow(n, size, &bytes) || __builtin_add_overflow(bytes, (size_t)(EMBER_ALIGNMENT - 1), &padded)) {
        return ember_fail(EMBER_E_MEMORY, "%s: %zu elements of %zu bytes overflow the address space", what, n, size);
    }
    padded &= ~(size_t)(EMBER_ALIGNMENT - 1);
    if (padded == 0) padded = EMBER_ALIGNMENT;
    void *block = aligned_alloc(EMBER_ALIGNMENT, padded);
    if (!block) {
        return ember_fail(EMBER_E_MEMORY, "%s: the system refused %zu bytes (%.1f MiB)", what, padded, (double)padded / 1048576.0);
    }
    memset(block, 0, padded);
    *out = block;
    return EMBER_OK;
}

void ember_release(void *block) { free(block); }

ember_status ember_bytes_reserve(ember_bytes *bytes, size_t capacity) {
    if (bytes->data && capacity <= bytes->capacity) return EMBER_OK;
    size_t grown = bytes->capacity + bytes->capacity / 2;
    if (grown < capacity) grown = capacity;
    if (grown < 64) grown = 64;
    char *data = grown == SIZE_MAX ? NULL : realloc(bytes->data, grown + 1);
    if (!data) return ember_fail(EMBER_E_MEMORY, "text buffer: the system refused %zu bytes", grown);
    data[bytes->n] = '\0';
    bytes->data = data;
    bytes->capacity = grown;
    return EMBER_OK;
}

ember_status ember_bytes_append(ember_bytes *bytes, const void *data, size_t n) {
    if (n > SIZE_MAX - 1 - bytes->n) return ember_fail(EMBER_E_MEMORY, "text buffer: %zu more bytes overflow it", n);
    EMBER_TRY(ember_bytes_reserve(bytes, bytes->n + n));
    if (n > 0) memcpy(bytes->data + bytes->n, data, n);
    bytes->n += n;
    bytes->data[bytes->n] = '\0';
    return EMBER_OK;
}

ember_status ember_bytes_printf(ember_bytes *bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    const int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    ember_status status = EMBER_OK;
    if (n < 0) {
        status = ember_fail(EMBER_E_ARGUMENT, "text buffer: format \"%s\" cannot be printed", format);
    } else {
        status = ember_bytes_reserve(bytes, bytes->n + (size_t)n);
        if (status == EMBER_OK) {
            (void)vsnprintf(bytes->data + bytes->n, (size_t)n + 1, format, again);
            bytes->n += (size_t)n;
        }
    }
    va_end(again);
    return status;
}

void ember_bytes_free(ember_bytes *bytes) {
    if (!bytes) return;
    free(bytes->data);
    *bytes = (ember_bytes){0};
}

ember_status ember_open_regular(int *fd, uint64_t *bytes, const char *path) {
    struct stat info;
    ember_status status = EMBER_OK;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0) {
        const int why = errno;
        return ember_fail(why == ENOENT ? EMBER_E_NOT_FOUND : EMBER_E_IO, "%s: cannot open: %s", path, strerror(why));
    }
    if (fstat(*fd, &info) != 0) {
        status = ember_fail(EMBER_E_IO, "%s: cannot stat: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = ember_fail(
            EMBER_E_IO, S_ISDIR(info.st_mode) ? "%s: is not a regular file but a folder; name a file in it" : "%s: is not a regular file",
            path);
    }
    if (status == EMBER_OK) {
        *bytes = (uint64_t)info.st_size;
    } else {
        (void)close(*fd);
        *fd = -1;
    }
    return status;
}

ember_status ember_read_file(ember_bytes *out, const char *path, size_t limit) {
    *out = (ember_bytes){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        const int why = errno;
        return ember_fail(why == ENOENT ? EMBER_E_NOT_FOUND : EMBER_E_IO, "%s: cannot open: %s", path, strerror(why));
    }
    ember_status status = EMBER_OK;
    for (;;) {
        status = ember_bytes_reserve(out, out->n + 65536);
        if (status != EMBER_OK) break;
        const ssize_t got = read(fd, out->data + out->n, out->capacity - out->n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            status = ember_fail(EMBER_E_IO, "%s: cannot read: %s", path, strerror(errno));
            break;
        }
        if (got == 0) break;
        out->n += (size_t)got;
        if (limit && out->n > limit) {
            status = ember_fail(EMBER_E_FORMAT, "%s: larger than the limit of %zu bytes for this kind of file", path, limit);
            break;
        }
    }
    (void)close(fd);
    if (status != EMBER_OK) {
        ember_bytes_free(out);
        return status;
    }
    out->data[out->n] = '\0';
    return EMBER_OK;
}

double ember_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
