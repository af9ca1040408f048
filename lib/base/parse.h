/* parse.h - strict scalars, independent of the locale. The whole text must be the number:
 * no blanks, no trailing bytes, decimal only. */
#ifndef EMBER_BASE_PARSE_H
#define EMBER_BASE_PARSE_H

#include "lib/ember.h"

/* Each returns false when the text is not exactly such a value or does not fit; `out` is then
 * untouched. Leading zeros ("010"), "1e3" as an integer, "1.", ".5", "inf", "nan" and a double that
 * overflows are refused; "1e3", "-0.5", "5e-4" are doubles. bool is exactly true or false. */
bool ember_parse_i64(const char *text, int64_t *out);
bool ember_parse_u64(const char *text, uint64_t *out);
bool ember_parse_f64(const char *text, double *out);
bool ember_parse_bool(const char *text, bool *out);

/* Shortest decimal that reads back as the same double ("0.1", "1e-05"), with '.' in any locale;
 * "nan", "inf", "-inf" for those. `out` holds at least 32 bytes. */
void ember_format_f64(char out[32], double value);

#endif
