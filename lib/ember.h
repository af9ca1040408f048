/* ember.h - the public interface of libember: sparse-FFN transformer language models.
 *
 * Every fallible function returns an ember_status alone; results go through pointers. When a
 * status is not EMBER_OK, ember_last_error() holds the message of the calling thread: the
 * offending values, the limit and what to change. The library never prints, exits or aborts on
 * user input. Objects are opaque, owned by the caller and freed by their _free function; freeing
 * NULL is fine. */
#ifndef EMBER_H
#define EMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMBER_VERSION_MAJOR 0
#define EMBER_VERSION_MINOR 1
#define EMBER_VERSION_PATCH 0
#define EMBER_VERSION_TEXT "0.1.0"

#if defined(__GNUC__)
#define EMBER_CHECKED __attribute__((warn_unused_result))
#define EMBER_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define EMBER_CHECKED
#define EMBER_PRINTF(fmt, first)
#endif

/* Result of every fallible function, in bands of one hundred. The numbers are part of the ABI. */
typedef enum ember_status {
    EMBER_OK = 0,
    /* 100: the caller */
    EMBER_E_ARGUMENT = 100,    /* a value that this function does not accept */
    EMBER_E_SHAPE = 101,       /* shapes or dtypes that do not fit together */
    EMBER_E_STATE = 102,       /* a call that is not allowed now */
    EMBER_E_INTERRUPTED = 103, /* stopped on request (signal or cancel) */
    /* 200: configuration */
    EMBER_E_CONFIG = 200, /* unknown, duplicate, malformed, out-of-range or contradictory key */
    /* 300: files */
    EMBER_E_IO = 300,        /* the system refused to open, read, write or rename */
    EMBER_E_FORMAT = 301,    /* not the kind of file that was asked for, or malformed */
    EMBER_E_CORRUPT = 302,   /* right kind, but incomplete or checksum mismatch */
    EMBER_E_VERSION = 303,   /* written by a newer version */
    EMBER_E_NOT_FOUND = 304, /* file, dataset, attribute or token that does not exist */
    /* 400: memory */
    EMBER_E_MEMORY = 400,   /* allocation refused */
    EMBER_E_CAPACITY = 401, /* a planned buffer is too small; grow the plan and repeat */
    /* 500: device */
    EMBER_E_DEVICE = 500, /* no usable device, or a device call failed */
    /* 600: unsupported */
    EMBER_E_UNSUPPORTED = 600, /* understood, but not offered; the message names what would work */
    /* 700: numeric */
    EMBER_E_NUMERIC = 700 /* NaN or infinity where a finite number is required */
} ember_status;

/* Message of the last failure on this thread; "" when there was none. Valid until the next
 * failing call on the same thread. */
const char *ember_last_error(void);

/* Short constant name of a status, such as "EMBER_E_CONFIG". Never NULL. */
const char *ember_status_name(ember_status status);

/* "0.1.0" */
const char *ember_version(void);

#ifdef __cplusplus
}
#endif
#endif
