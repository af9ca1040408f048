/* status.h - setting and forwarding errors. */
#ifndef EMBER_BASE_STATUS_H
#define EMBER_BASE_STATUS_H

#include "lib/ember.h"

/* Stores the formatted message for ember_last_error() and returns `status`. */
ember_status ember_fail(ember_status status, const char *format, ...) EMBER_PRINTF(2, 3);

/* Puts "prefix: " in front of the current message (naming a file, a layer, ...); returns `status`. */
ember_status ember_fail_context(ember_status status, const char *format, ...) EMBER_PRINTF(2, 3);

/* Clears the message of this thread. */
void ember_clear_error(void);

/* Forwards a failure to the caller. */
#define EMBER_TRY(expression)                            \
    do {                                                 \
        const ember_status try_status_ = (expression);   \
        if (try_status_ != EMBER_OK) return try_status_; \
    } while (0)

/* Forwards a failure to the exit label of a function that has resources; needs a local `status`. */
#define EMBER_TRY_GOTO(expression, label)   \
    do {                                    \
        status = (expression);              \
        if (status != EMBER_OK) goto label; \
    } while (0)

#endif
