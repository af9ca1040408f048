#define _GNU_SOURCE
#include "lib/base/parse.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* strtod and printf follow the thread's locale; numbers in files do not. */
static locale_t enter_c_locale(locale_t *previous) {
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    *previous = c ? uselocale(c) : (locale_t)0;
    return c;
}

static void leave_c_locale(locale_t c, locale_t previous) {
    if (!c) return;
    (void)uselocale(previous);
    freelocale(c);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Length of "0" or a digit string without leading zero at `text`; 0 when there is none. */
static size_t integer_length(const char *text) {
    if (!is_digit(text[0])) return 0;
    if (text[0] == '0') return is_digit(text[1]) ? 0 : 1;
    size_t n = 0;
    while (is_digit(text[n]))
        n++;
    return n;
}

bool ember_parse_u64(const char *text, uint64_t *out) {
    const size_t n = integer_length(text);
    if (n == 0 || text[n] != '\0') return false;
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) return false;
    }
    *out = value;
    return true;
}

bool ember_parse_i64(const char *text, int64_t *out) {
    const bool negative = text[0] == '-';
    uint64_t magnitude = 0;
    if (!ember_parse_u64(text + (negative ? 1 : 0), &magnitude)) return false;
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1u : 0u)) return false;
    *out = negative ? (int64_t)(0u - magnitude) : (int64_t)magnitude;
    return true;
}

bool ember_parse_f64(const char *text, double *out) {
    const char *at = text + (text[0] == '-' ? 1 : 0);
    const size_t whole = integer_length(at);
    if (whole == 0) return false;
    at += whole;
    if (*at == '.') {
        at++;
        if (!is_digit(*at)) return false;
        while (is_digit(*at))
            at++;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        if (*at == '+' || *at == '-') at++;
        if (!is_digit(*at)) return false;
        while (is_digit(*at))
            at++;
    }
    if (*at != '\0') return false;
    locale_t previous;
    const locale_t c = enter_c_locale(&previous);
    const double value = strtod(text, NULL);
    leave_c_locale(c, previous);
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}

bool ember_parse_bool(const char *text, bool *out) {
    if (strcmp(text, "true") == 0) {
        *out = true;
    } else if (strcmp(text, "false") == 0) {
        *out = false;
    } else {
        return false;
    }
    return true;
}

void ember_format_f64(char out[32], double value) {
    if (isnan(value)) {
        memcpy(out, "nan", 4);
        return;
    }
    if (isinf(value)) {
        memcpy(out, value > 0 ? "inf" : "-inf", value > 0 ? 4 : 5);
        return;
    }
    locale_t previous;
    const locale_t c = enter_c_locale(&previous);
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    leave_c_locale(c, previous);
}
