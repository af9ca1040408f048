/* check.h - what every test program needs: cmocka, and a status that must be what is expected. */
#ifndef EMBER_TESTS_CHECK_H
#define EMBER_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/ember.h"

enum { SKIPPED = 77 }; /* exit code of a program that could not run; it prints why */

/* Succeeds, or shows the message. */
#define check_ok(expression)                                                                              \
    do {                                                                                                  \
        const ember_status check_status_ = (expression);                                                  \
        if (check_status_ != EMBER_OK) fail_msg("%s: %s", ember_status_name(check_status_), ember_last_error()); \
    } while (0)

/* Fails with `wanted`, and the message holds `part`. */
#define check_fails(expression, wanted, part)                                                                           \
    do {                                                                                                                \
        const ember_status check_status_ = (expression);                                                                \
        if (check_status_ != (wanted)) {                                                                                \
            fail_msg("got %s (%s), not %s", ember_status_name(check_status_), ember_last_error(), ember_status_name(wanted)); \
        }                                                                                                               \
        if (!strstr(ember_last_error(), (part))) fail_msg("the message \"%s\" does not name \"%s\"", ember_last_error(), (part)); \
    } while (0)

/* `relative` below the shared reference folder when it is there, else NULL. */
static inline const char *shared_path(char out[4096], const char *relative) {
    (void)snprintf(out, 4096, "%s/%s", SHARED_FOLDER, relative);
    FILE *file = fopen(out, "rb");
    if (!file) return NULL;
    (void)fclose(file);
    return out;
}

#endif
