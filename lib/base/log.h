/* log.h - where messages go. The library never prints; the caller hands in a sink. */
#ifndef EMBER_BASE_LOG_H
#define EMBER_BASE_LOG_H

#include "lib/ember.h"

typedef enum ember_log_level { EMBER_LOG_INFO = 0, EMBER_LOG_NOTE = 1, EMBER_LOG_WARNING = 2 } ember_log_level;

typedef struct ember_log {
    void (*sink)(void *user, ember_log_level level, const char *line); /* NULL: silent */
    void *user;
} ember_log;

/* Formats one line (no newline) and hands it to the sink; `log` may be NULL. */
void ember_logf(const ember_log *log, ember_log_level level, const char *format, ...) EMBER_PRINTF(3, 4);

#endif
