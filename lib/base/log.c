#include "lib/base/log.h"

#include <stdarg.h>
#include <stdio.h>

void ember_logf(const ember_log *log, ember_log_level level, const char *format, ...) {
    if (!log || !log->sink) return;
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    log->sink(log->user, level, line);
}
