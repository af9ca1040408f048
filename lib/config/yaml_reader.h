/* yaml_reader.h - the part of YAML that a config may use, read with libyaml: one document of mappings whose leaves are
 * scalars or lists of scalars. Tags, anchors, aliases, merge keys, further documents, deep nesting and text that is
 * not UTF-8 are errors. */
#ifndef EMBER_YAML_READER_H
#define EMBER_YAML_READER_H

#include "lib/base/hparams.h"
#include "lib/base/memory.h"

enum { EMBER_YAML_MAX_DEPTH = 3, EMBER_YAML_MAX_ITEMS = EMBER_MAX_LAYERS };

typedef struct ember_yaml_scalar {
    const char *text; /* UTF-8 without NUL */
    bool quoted;
} ember_yaml_scalar;

typedef struct ember_yaml_value {
    bool is_list;
    int n; /* 1 for a scalar */
    const ember_yaml_scalar *items;
    int line; /* from 1 */
} ember_yaml_value;

typedef struct ember_yaml_handler {
    void *user;
    /* A mapping begins at `path` ("model.rope_scaling"). */
    ember_status (*section)(void *user, const char *path, int line);
    ember_status (*value)(void *user, const char *path, const ember_yaml_value *value);
} ember_yaml_handler;

/* Calls the handler for everything in the document; a message from it gets "name:line: " in front. */
EMBER_CHECKED ember_status ember_yaml_read(const char *text, size_t n, const char *name, const ember_yaml_handler *handler);
/* A document that is one scalar or one list: the right side of --set, or a default. `path` is handed to
 * handler->value; messages name `name` without a line. */
EMBER_CHECKED ember_status ember_yaml_read_value(const char *text, size_t n, const char *name, const char *path,
                                                 const ember_yaml_handler *handler);

/* `text` cut to 60 bytes, control bytes as \xNN: what a message can show. */
const char *ember_yaml_shown(char out[256], const char *text);
/* Length of the valid UTF-8 sequence at `text` (n bytes left), or 0. */
size_t ember_yaml_utf8_length(const char *text, size_t n);
/* Appends `text` as a double-quoted scalar on one line. */
EMBER_CHECKED ember_status ember_yaml_quote(ember_bytes *out, const char *text);

#endif
