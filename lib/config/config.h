/* config.h - YAML under one schema table. Scalars are parsed strictly (lib/base/parse.h). */
#ifndef EMBER_CONFIG_H
#define EMBER_CONFIG_H

#include "lib/base/memory.h"
#include "lib/config/settings.h"

typedef struct ember_config ember_config;

/* Reads `path`, applies `sets` ("section.key=value", later wins), fills defaults, checks every
 * bound and the combinations. Unknown, duplicate, out-of-range or malformed keys are
 * EMBER_E_CONFIG: file, line, key, value, limit and the nearest known name. Lists are YAML
 * sequences, or one scalar for a list of one. Errors also: EMBER_E_NOT_FOUND, EMBER_E_IO. */
EMBER_CHECKED ember_status ember_config_load(ember_config **out, const char *path, const char *const *sets, int n_sets);
/* The same from text; `name` stands for the path. */
EMBER_CHECKED ember_status ember_config_parse(ember_config **out, const char *text, size_t n, const char *name, const char *const *sets,
                                              int n_sets);
void ember_config_free(ember_config *config);
const ember_settings *ember_config_settings(const ember_config *config);

/* The whole resolved config as YAML; parsing it again gives the same settings. */
EMBER_CHECKED ember_status ember_config_to_yaml(const ember_config *config, ember_bytes *out);
/* One line a key: name, value, unit, where it came from (file:line, --set, default), which part reads it. */
EMBER_CHECKED ember_status ember_config_describe(const ember_config *config, ember_bytes *out);
/* `ember help config`: every key with type, default, bounds, unit, help. */
EMBER_CHECKED ember_status ember_config_help(ember_bytes *out);
/* configs/README.md, from the same table. */
EMBER_CHECKED ember_status ember_config_markdown(ember_bytes *out);
/* Keys whose values differ, one "section.key: a -> b" a line; empty when equal. */
EMBER_CHECKED ember_status ember_config_diff(const ember_config *a, const ember_config *b, ember_bytes *out);

/* The model that the settings describe. `vocab_size` from the shards replaces
 * model.vocab_size = 0. Errors: EMBER_E_CONFIG naming the key. */
EMBER_CHECKED ember_status ember_config_hparams(const ember_config *config, int64_t shard_vocab_size, ember_hparams *out);

#endif
