/* config_state.h - inside of ember_config, for the files of lib/config alone. */
#ifndef EMBER_CONFIG_STATE_H
#define EMBER_CONFIG_STATE_H

#include "lib/config/config.h"
#include "lib/config/schema.h"

typedef enum ember_origin { EMBER_FROM_DEFAULT = 0, EMBER_FROM_FILE, EMBER_FROM_SET } ember_origin;

struct ember_config {
    ember_settings settings;
    char *name; /* path of the file, or what stands for it */
    ember_origin origin[EMBER_MAX_KEYS];
    int line[EMBER_MAX_KEYS];
    char **texts; /* every text of the settings */
    size_t n_texts;
    size_t texts_capacity;
};

/* A copy of `text` that lives as long as the config; an ember_schema_keep. */
EMBER_CHECKED ember_status ember_config_keep(void *config, const char *text, const char **out);
/* Writes the default of a row. Rows without one keep their zero. */
EMBER_CHECKED ember_status ember_config_reset(ember_config *config, int row);
bool ember_config_given(const ember_config *config, const char *key);
/* "FILE:LINE", "--set" or "default". */
EMBER_CHECKED ember_status ember_config_origin(const ember_config *config, int row, ember_bytes *out);

/* Fills what is computed from other keys, then checks what no single row can: combinations, keys without effect. */
EMBER_CHECKED ember_status ember_config_complete(ember_config *config);

#endif
