#include "lib/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"
#include "lib/config/config_state.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

ember_status ember_config_keep(void *user, const char *text, const char **out) {
    ember_config *config = user;
    if (config->n_texts == config->texts_capacity) {
        const size_t capacity = config->texts_capacity ? 2 * config->texts_capacity : 64;
        char **grown = realloc(config->texts, capacity * sizeof *grown);
        if (!grown) return ember_fail(EMBER_E_MEMORY, "%s: no memory for the config", config->name);
        config->texts = grown;
        config->texts_capacity = capacity;
    }
    char *copy = strdup(text);
    if (!copy) return ember_fail(EMBER_E_MEMORY, "%s: no memory for the config", config->name);
    config->texts[config->n_texts++] = copy;
    *out = copy;
    return EMBER_OK;
}

bool ember_config_given(const ember_config *config, const char *key) {
    const int row = ember_schema_find(key);
    return row >= 0 && config->origin[row] != EMBER_FROM_DEFAULT;
}

static ember_status store_default(void *user, const char *path, const ember_yaml_value *value) {
    ember_config *config = user;
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    return ember_schema_store(&rows[ember_schema_find(path)], value, ember_config_keep, config, &config->settings);
}

ember_status ember_config_reset(ember_config *config, int row) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    config->origin[row] = EMBER_FROM_DEFAULT;
    if (!rows[row].initial) return EMBER_OK;
    const ember_yaml_handler handler = {.user = config, .value = store_default};
    return ember_yaml_read_value(rows[row].initial, strlen(rows[row].initial), "default", rows[row].key, &handler);
}

/* What to say about a name that is no key. */
static ember_status unknown_key(const char *path) {
    char shown[256];
    (void)ember_yaml_shown(shown, path);
    if (ember_schema_is_section(path)) return ember_fail(EMBER_E_CONFIG, "%s is a section, not a key; its keys stand below it", shown);
    return ember_fail(EMBER_E_CONFIG, "unknown key %s; the nearest known one is %s (`ember help config` lists all)", shown,
                      ember_schema_nearest(path));
}

typedef struct file_reading {
    ember_config *config;
    int section_line[EMBER_MAX_KEYS]; /* indexed by the first row of the section; 0: not seen */
} file_reading;

/* Index of the first row below the section. */
static int first_row(const char *section) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    const size_t length = strlen(section);
    int row = 0;
    while (strncmp(rows[row].key, section, length) != 0 || rows[row].key[length] != '.')
        row++;
    return row;
}

static ember_status file_section(void *user, const char *path, int line) {
    file_reading *reading = user;
    const int row = ember_schema_find(path);
    if (row >= 0) return ember_fail(EMBER_E_CONFIG, "%s is a mapping here; it is a single key", path);
    if (!ember_schema_is_section(path)) {
        char shown[256];
        int length = 0;
        const char *nearest = ember_schema_nearest_section(path, &length);
        return ember_fail(EMBER_E_CONFIG, "unknown section %s; the nearest known one is %.*s (`ember help config` lists all keys)",
                          ember_yaml_shown(shown, path), length, nearest);
    }
    int *seen = &reading->section_line[first_row(path)];
    if (*seen) return ember_fail(EMBER_E_CONFIG, "section %s is given twice, first in line %d; put its keys together", path, *seen);
    *seen = line;
    return EMBER_OK;
}

static ember_status store_given(ember_config *config, const char *path, const ember_yaml_value *value, ember_origin origin) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    const int row = ember_schema_find(path);
    if (row < 0) return unknown_key(path);
    if (origin == EMBER_FROM_FILE && config->origin[row] == EMBER_FROM_FILE) {
        return ember_fail(EMBER_E_CONFIG, "%s is given twice, first in line %d", path, config->line[row]);
    }
    EMBER_TRY(ember_schema_store(&rows[row], value, ember_config_keep, config, &config->settings));
    config->origin[row] = origin;
    config->line[row] = value->line;
    return EMBER_OK;
}

static ember_status file_value(void *user, const char *path, const ember_yaml_value *value) {
    file_reading *reading = user;
    return store_given(reading->config, path, value, EMBER_FROM_FILE);
}

static ember_status set_value(void *user, const char *path, const ember_yaml_value *value) {
    return store_given(user, path, value, EMBER_FROM_SET);
}

/* A path may hold ": ", " #" or a newline, which plain YAML would cut: an unquoted text is taken as it stands. */
static bool taken_verbatim(int row, const char *text) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    if (row < 0 || text[0] == '\0' || text[0] == '"' || text[0] == '\'') return false;
    return rows[row].type == EMBER_KEY_TEXT || (rows[row].type == EMBER_KEY_TEXTS && text[0] != '[');
}

static ember_status apply_set(ember_config *config, const char *set) {
    char shown[256];
    (void)ember_yaml_shown(shown, set);
    const char *equals = strchr(set, '=');
    if (!equals || equals == set) {
        return ember_fail(EMBER_E_CONFIG, "--set %s: it must be section.key=value, such as train.steps=100", shown);
    }
    ember_bytes key = {0};
    ember_bytes quoted = {0};
    ember_bytes prefix = {0};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_bytes_append(&key, set, (size_t)(equals - set)), done);
    EMBER_TRY_GOTO(ember_bytes_printf(&prefix, "--set %s", shown), done);
    const char *text = equals + 1;
    const int row = ember_schema_find(key.data);
    if (row < 0) {
        status = ember_fail_context(unknown_key(key.data), "%s", prefix.data);
        goto done;
    }
    if (taken_verbatim(row, text)) {
        const ember_yaml_scalar item = {.text = text};
        const ember_yaml_value value = {.n = 1, .items = &item, .line = 1};
        status = ember_yaml_quote(&quoted, text); /* for its check of the bytes */
        if (status == EMBER_OK) status = set_value(config, key.data, &value);
        if (status != EMBER_OK) status = ember_fail_context(status, "%s", prefix.data);
        goto done;
    }
    const ember_yaml_handler handler = {.user = config, .value = set_value};
    status = ember_yaml_read_value(text, strlen(text), prefix.data, key.data, &handler);
done:
    ember_bytes_free(&key);
    ember_bytes_free(&quoted);
    ember_bytes_free(&prefix);
    return status;
}

static ember_status create(ember_config **out, const char *name) {
    ember_config *config = NULL;
    EMBER_TRY(ember_allocate((void **)&config, 1, sizeof *config, "the config"));
    config->name = strdup(name);
    int n = 0;
    (void)ember_schema_rows(&n);
    ember_status status = config->name ? EMBER_OK : ember_fail(EMBER_E_MEMORY, "%s: no memory for the config", name);
    for (int row = 0; row < n && status == EMBER_OK; row++)
        status = ember_config_reset(config, row);
    if (status != EMBER_OK) {
        ember_config_free(config);
        return status;
    }
    *out = config;
    return EMBER_OK;
}

ember_status ember_config_parse(ember_config **out, const char *text, size_t n, const char *name, const char *const *sets, int n_sets) {
    *out = NULL;
    ember_config *config = NULL;
    file_reading *reading = NULL;
    ember_status status = create(&config, name);
    if (status != EMBER_OK) goto done;
    if (n > MAX_CONFIG_BYTES) {
        status = ember_fail(EMBER_E_CONFIG, "%s: %zu bytes; a config has at most %d", name, n, MAX_CONFIG_BYTES);
        goto done;
    }
    EMBER_TRY_GOTO(ember_allocate((void **)&reading, 1, sizeof *reading, "the config reader"), done);
    reading->config = config;
    const ember_yaml_handler handler = {.user = reading, .section = file_section, .value = file_value};
    EMBER_TRY_GOTO(ember_yaml_read(text, n, name, &handler), done);
    for (int i = 0; i < n_sets; i++)
        EMBER_TRY_GOTO(apply_set(config, sets[i]), done);
    EMBER_TRY_GOTO(ember_config_complete(config), done);
    *out = config;
    config = NULL;
done:
    ember_release(reading);
    ember_config_free(config);
    return status;
}

ember_status ember_config_load(ember_config **out, const char *path, const char *const *sets, int n_sets) {
    *out = NULL;
    ember_bytes text = {0};
    ember_status status = ember_read_file(&text, path, MAX_CONFIG_BYTES);
    /* Too large: for a config that is a matter of its content. */
    if (status == EMBER_E_FORMAT) return EMBER_E_CONFIG;
    if (status != EMBER_OK) return status;
    status = ember_config_parse(out, text.data, text.n, path, sets, n_sets);
    ember_bytes_free(&text);
    return status;
}

void ember_config_free(ember_config *config) {
    if (!config) return;
    for (size_t i = 0; i < config->n_texts; i++)
        free(config->texts[i]);
    free(config->texts);
    free(config->name);
    ember_release(config);
}

const ember_settings *ember_config_settings(const ember_config *config) { return &config->settings; }

ember_status ember_config_origin(const ember_config *config, int row, ember_bytes *out) {
    switch (config->origin[row]) {
    case EMBER_FROM_FILE: return ember_bytes_printf(out, "%s:%d", config->name, config->line[row]);
    case EMBER_FROM_SET: return ember_bytes_printf(out, "--set");
    case EMBER_FROM_DEFAULT: break;
    }
    return ember_bytes_printf(out, "default");
}
