/* schema_value.c - one value of the table: bounds, from YAML, to YAML. */
#include <string.h>

#include "lib/base/parse.h"
#include "lib/base/status.h"
#include "lib/config/schema.h"

_Static_assert(sizeof(ember_device_kind) == sizeof(int) && sizeof(ember_ffn_setting) == sizeof(int) &&
                   sizeof(ember_schedule_kind) == sizeof(int) && sizeof(ember_rope_scaling) == sizeof(int) &&
                   sizeof(ember_ffn_kind) == sizeof(int) && sizeof(ember_activation) == sizeof(int),
               "enum fields are stored as int");

static void *field_of(const ember_schema_row *row, ember_settings *settings) { return (char *)settings + row->offset; }
static const void *const_field_of(const ember_schema_row *row, const ember_settings *settings) {
    return (const char *)settings + row->offset;
}

static bool whole_numbers(ember_schema_type type) { return type == EMBER_KEY_INT || type == EMBER_KEY_INTS; }

/* A bound as it would be written in a config. */
static ember_status append_number(ember_bytes *out, double value, bool whole) {
    const bool plain = value > -1e15 && value < 1e15 && value == (double)(long long)value; /* 10000, not 1e+04 */
    if (whole || plain) return ember_bytes_printf(out, "%lld", (long long)value);
    char text[32];
    ember_format_f64(text, value);
    return ember_bytes_append(out, text, strlen(text));
}

ember_status ember_schema_bounds(const ember_schema_row *row, ember_bytes *out) {
    switch (row->type) {
    case EMBER_KEY_BOOL: return ember_bytes_printf(out, "true or false");
    case EMBER_KEY_UINT64: return ember_bytes_printf(out, "0 to 18446744073709551615");
    case EMBER_KEY_TEXT:
    case EMBER_KEY_TEXTS: return ember_bytes_printf(out, "%s", row->may_be_empty ? "" : "not empty");
    case EMBER_KEY_ENUM:
        for (int i = 0; row->names[i]; i++)
            EMBER_TRY(ember_bytes_printf(out, "%s%s", i == 0 ? "" : row->names[i + 1] ? ", " : " or ", row->names[i]));
        return EMBER_OK;
    case EMBER_KEY_INT:
    case EMBER_KEY_REAL:
    case EMBER_KEY_NUMBERS:
    case EMBER_KEY_INTS: break;
    }
    const bool whole = whole_numbers(row->type);
    if (row->above_low) EMBER_TRY(ember_bytes_printf(out, "above "));
    EMBER_TRY(append_number(out, row->low, whole));
    EMBER_TRY(ember_bytes_printf(out, "%s", row->below_high ? ", below " : row->above_low ? ", at most " : " to "));
    return append_number(out, row->high, whole);
}

/* "KEY is VALUE; it must be WANTED, BOUNDS". */
static ember_status refuse(const ember_schema_row *row, const ember_yaml_scalar *scalar, const char *wanted) {
    char shown[256];
    (void)ember_yaml_shown(shown, scalar->text);
    ember_bytes bounds = {0};
    EMBER_TRY(ember_schema_bounds(row, &bounds));
    const char *quote = scalar->quoted ? "\"" : "";
    const char *limits = bounds.data ? bounds.data : "";
    const ember_status status =
        ember_fail(EMBER_E_CONFIG, "%s is %s%s%s; it must be %s%s%s%s", row->key, quote, shown, quote, wanted,
                   limits[0] && wanted[0] ? ", " : "", limits, scalar->quoted && wanted[0] ? ", without quotes" : "");
    ember_bytes_free(&bounds);
    return status;
}

static bool is_null(const ember_yaml_scalar *scalar) {
    const char *text = scalar->text;
    return !scalar->quoted && (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 || strcmp(text, "Null") == 0 ||
                               strcmp(text, "NULL") == 0);
}

static bool in_bounds(const ember_schema_row *row, double value) {
    if (row->above_low ? value <= row->low : value < row->low) return false;
    return row->below_high ? value < row->high : value <= row->high;
}

static ember_status read_number(const ember_schema_row *row, const ember_yaml_scalar *scalar, double *out) {
    const bool whole = whole_numbers(row->type);
    int64_t integer = 0;
    double real = 0;
    const bool good = !scalar->quoted && (whole ? ember_parse_i64(scalar->text, &integer) : ember_parse_f64(scalar->text, &real));
    if (!good) return refuse(row, scalar, whole ? "a whole number in plain digits" : "a finite decimal number such as 0.5 or 1e-4");
    /* Compared before the conversion rounds: the bounds are exact as doubles, |integer| above them may not be. */
    if (whole && (integer < (int64_t)row->low || integer > (int64_t)row->high)) return refuse(row, scalar, "a whole number");
    if (!whole && !in_bounds(row, real)) return refuse(row, scalar, "a number");
    *out = whole ? (double)integer : real + 0.0; /* -0 becomes 0 */
    return EMBER_OK;
}

static ember_status read_text(const ember_schema_row *row, const ember_yaml_scalar *scalar, ember_schema_keep keep, void *user,
                              const char **out) {
    const size_t n = strlen(scalar->text);
    if (n > EMBER_MAX_TEXT_BYTES) {
        char shown[256];
        return ember_fail(EMBER_E_CONFIG, "%s is \"%s\", %zu bytes long; it may have %d", row->key, ember_yaml_shown(shown, scalar->text),
                          n, EMBER_MAX_TEXT_BYTES);
    }
    if (n == 0 && (row->type == EMBER_KEY_TEXTS || !row->may_be_empty)) {
        return ember_fail(EMBER_E_CONFIG, "%s is an empty text; it must not be empty", row->key);
    }
    return keep(user, scalar->text, out);
}

static ember_status store_scalar(const ember_schema_row *row, const ember_yaml_scalar *scalar, ember_schema_keep keep, void *user,
                                 void *field) {
    double number = 0;
    switch (row->type) {
    case EMBER_KEY_BOOL:
        if (scalar->quoted || !ember_parse_bool(scalar->text, field)) return refuse(row, scalar, "a bool");
        return EMBER_OK;
    case EMBER_KEY_UINT64:
        if (scalar->quoted || !ember_parse_u64(scalar->text, field)) return refuse(row, scalar, "a whole number in plain digits");
        return EMBER_OK;
    case EMBER_KEY_INT:
        EMBER_TRY(read_number(row, scalar, &number));
        *(int64_t *)field = (int64_t)number;
        return EMBER_OK;
    case EMBER_KEY_REAL: return read_number(row, scalar, field);
    case EMBER_KEY_ENUM:
        for (int i = 0; row->names[i]; i++) {
            if (strcmp(row->names[i], scalar->text) != 0) continue;
            memcpy(field, &i, sizeof i);
            return EMBER_OK;
        }
        return refuse(row, scalar, "");
    case EMBER_KEY_TEXT: return read_text(row, scalar, keep, user, field);
    case EMBER_KEY_TEXTS:
    case EMBER_KEY_NUMBERS:
    case EMBER_KEY_INTS: break;
    }
    return ember_fail(EMBER_E_CONFIG, "%s is a list", row->key);
}

static ember_status store_list(const ember_schema_row *row, const ember_yaml_value *value, ember_schema_keep keep, void *user,
                               void *field) {
    ember_text_list *texts = field;
    ember_number_list *numbers = field;
    const bool of_texts = row->type == EMBER_KEY_TEXTS;
    const int most = of_texts ? (int)EMBER_MAX_LIST : (int)EMBER_MAX_LAYERS;
    if (value->n > most) return ember_fail(EMBER_E_CONFIG, "%s has %d items; it may have %d", row->key, value->n, most);
    if (value->n == 0 && !row->may_be_empty) return ember_fail(EMBER_E_CONFIG, "%s is []; it must have at least one item", row->key);
    for (int i = 0; i < value->n; i++) {
        if (is_null(&value->items[i])) return ember_fail(EMBER_E_CONFIG, "%s: item %d of the list has no value", row->key, i + 1);
        if (of_texts) {
            EMBER_TRY(read_text(row, &value->items[i], keep, user, &texts->item[i]));
        } else {
            EMBER_TRY(read_number(row, &value->items[i], &numbers->item[i]));
        }
    }
    *(of_texts ? &texts->n : &numbers->n) = value->n;
    return EMBER_OK;
}

ember_status ember_schema_store(const ember_schema_row *row, const ember_yaml_value *value, ember_schema_keep keep, void *user,
                                ember_settings *settings) {
    const bool list = row->type == EMBER_KEY_TEXTS || row->type == EMBER_KEY_NUMBERS || row->type == EMBER_KEY_INTS;
    if (!value->is_list && is_null(&value->items[0])) {
        ember_bytes bounds = {0};
        EMBER_TRY(ember_schema_bounds(row, &bounds));
        const ember_status status = ember_fail(EMBER_E_CONFIG, "%s has no value; it is a %s%s%s", row->key,
                                               ember_schema_type_name(row->type), bounds.n ? ", " : "", bounds.n ? bounds.data : "");
        ember_bytes_free(&bounds);
        return status;
    }
    if (list) return store_list(row, value, keep, user, field_of(row, settings));
    if (value->is_list) return ember_fail(EMBER_E_CONFIG, "%s is a list; it must be one %s", row->key, ember_schema_type_name(row->type));
    return store_scalar(row, &value->items[0], keep, user, field_of(row, settings));
}

static ember_status format_list(const ember_schema_row *row, const void *field, ember_bytes *out) {
    const ember_text_list *texts = field;
    const ember_number_list *numbers = field;
    const int64_t n = row->type == EMBER_KEY_TEXTS ? texts->n : numbers->n;
    EMBER_TRY(ember_bytes_append(out, "[", 1));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) EMBER_TRY(ember_bytes_append(out, ", ", 2));
        if (row->type == EMBER_KEY_TEXTS) {
            EMBER_TRY(ember_yaml_quote(out, texts->item[i]));
        } else {
            EMBER_TRY(append_number(out, numbers->item[i], row->type == EMBER_KEY_INTS));
        }
    }
    return ember_bytes_append(out, "]", 1);
}

ember_status ember_schema_format(const ember_schema_row *row, const ember_settings *settings, ember_bytes *out) {
    const void *field = const_field_of(row, settings);
    int index = 0;
    switch (row->type) {
    case EMBER_KEY_BOOL: return ember_bytes_printf(out, "%s", *(const bool *)field ? "true" : "false");
    case EMBER_KEY_INT: return ember_bytes_printf(out, "%lld", (long long)*(const int64_t *)field);
    case EMBER_KEY_UINT64: return ember_bytes_printf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
    case EMBER_KEY_REAL: return append_number(out, *(const double *)field, false);
    case EMBER_KEY_ENUM: memcpy(&index, field, sizeof index); return ember_bytes_printf(out, "%s", row->names[index]);
    case EMBER_KEY_TEXT: return ember_yaml_quote(out, *(const char *const *)field);
    case EMBER_KEY_TEXTS:
    case EMBER_KEY_NUMBERS:
    case EMBER_KEY_INTS: return format_list(row, field, out);
    }
    return EMBER_OK;
}
