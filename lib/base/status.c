#include "lib/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 8192 }; /* a path of 4096 bytes, and what is wrong with it */

/* The only mutable state of the library outside its objects. */
static _Thread_local char last_error[MESSAGE_BYTES];

const char *ember_last_error(void) { return last_error; }
void ember_clear_error(void) { last_error[0] = '\0'; }
const char *ember_version(void) { return EMBER_VERSION_TEXT; }

ember_status ember_fail(ember_status status, const char *format, ...) {
    /* Formatted beside the old message first: an argument may be ember_last_error() itself. */
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(last_error, text, sizeof text);
    return status;
}

ember_status ember_fail_context(ember_status status, const char *format, ...) {
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int prefix = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t used = prefix < 0 ? 0 : (size_t)prefix < sizeof text ? (size_t)prefix : sizeof text - 1;
    (void)snprintf(text + used, sizeof text - used, ": %s", last_error);
    memcpy(last_error, text, sizeof text);
    return status;
}

const char *ember_status_name(ember_status status) {
    switch (status) {
    case EMBER_OK: return "EMBER_OK";
    case EMBER_E_ARGUMENT: return "EMBER_E_ARGUMENT";
    case EMBER_E_SHAPE: return "EMBER_E_SHAPE";
    case EMBER_E_STATE: return "EMBER_E_STATE";
    case EMBER_E_INTERRUPTED: return "EMBER_E_INTERRUPTED";
    case EMBER_E_CONFIG: return "EMBER_E_CONFIG";
    case EMBER_E_IO: return "EMBER_E_IO";
    case EMBER_E_FORMAT: return "EMBER_E_FORMAT";
    case EMBER_E_CORRUPT: return "EMBER_E_CORRUPT";
    case EMBER_E_VERSION: return "EMBER_E_VERSION";
    case EMBER_E_NOT_FOUND: return "EMBER_E_NOT_FOUND";
    case EMBER_E_MEMORY: return "EMBER_E_MEMORY";
    case EMBER_E_CAPACITY: return "EMBER_E_CAPACITY";
    case EMBER_E_DEVICE: return "EMBER_E_DEVICE";
    case EMBER_E_UNSUPPORTED: return "EMBER_E_UNSUPPORTED";
    case EMBER_E_NUMERIC: return "EMBER_E_NUMERIC";
    }
    return "unknown status";
}
