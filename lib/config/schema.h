/* schema.h - the one table of config keys. The file reader, --set, the help texts, configs/README.md, the copy in a
 * checkpoint and the tests are all driven by its rows. */
#ifndef EMBER_SCHEMA_H
#define EMBER_SCHEMA_H

#include "lib/base/memory.h"
#include "lib/config/settings.h"
#include "lib/config/yaml_reader.h"

typedef enum ember_schema_type {
    EMBER_KEY_BOOL,
    EMBER_KEY_INT,     /* int64_t */
    EMBER_KEY_UINT64,  /* uint64_t, its whole range */
    EMBER_KEY_REAL,    /* double, finite */
    EMBER_KEY_ENUM,    /* one of `names`; its index is stored */
    EMBER_KEY_TEXT,    /* const char * */
    EMBER_KEY_TEXTS,   /* ember_text_list */
    EMBER_KEY_NUMBERS, /* ember_number_list */
    EMBER_KEY_INTS     /* ember_number_list of whole numbers */
} ember_schema_type;

enum { EMBER_MAX_KEYS = 128, EMBER_MAX_TEXT_BYTES = 4096 };

typedef struct ember_schema_row {
    const char *key; /* "train.lr" */
    ember_schema_type type;
    size_t offset;            /* of the field in ember_settings */
    const char *initial;      /* default, as YAML; NULL: computed (see initial_note), or the key must be given */
    const char *initial_note; /* what the default is or stands for, in words; NULL: needs none */
    double low, high;         /* bounds of numbers and of list items, inclusive */
    bool above_low;           /* low itself is not allowed */
    bool below_high;          /* high itself is not allowed */
    bool may_be_empty;        /* "" or [] is a value */
    const char *const *names; /* of an enum, NULL-terminated */
    const char *unit;         /* NULL when there is none */
    const char *reader;       /* the part that reads it */
    const char *help;
} ember_schema_row;

const ember_schema_row *ember_schema_rows(int *n);
/* Index of the row, or -1. */
int ember_schema_find(const char *key);
/* Whether keys begin with "section." */
bool ember_schema_is_section(const char *section);
/* The known key that is most like `key` by edit distance; never NULL. */
const char *ember_schema_nearest(const char *key);
/* The same for a section: its name is the first *length bytes of the result. */
const char *ember_schema_nearest_section(const char *section, int *length);

const char *ember_schema_type_name(ember_schema_type type);
/* "0 to 1", "above 0, at most 10", "relu, relu2 or silu"; empty when every value is allowed. */
EMBER_CHECKED ember_status ember_schema_bounds(const ember_schema_row *row, ember_bytes *out);

/* Checks type and bounds, then writes the field. `keep` copies a text into memory that lives as long as the
 * settings. EMBER_E_CONFIG: the message begins with the key and holds value and limit. */
typedef ember_status (*ember_schema_keep)(void *user, const char *text, const char **out);
EMBER_CHECKED ember_status ember_schema_store(const ember_schema_row *row, const ember_yaml_value *value, ember_schema_keep keep,
                                              void *user, ember_settings *settings);
/* The field as YAML that reads back as the same value; texts are double-quoted, lists are in brackets. */
EMBER_CHECKED ember_status ember_schema_format(const ember_schema_row *row, const ember_settings *settings, ember_bytes *out);

#endif
