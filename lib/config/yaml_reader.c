#include "lib/config/yaml_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "lib/base/status.h"

typedef struct yaml_reader {
    yaml_parser_t parser;
    yaml_event_t event;
    const char *text;
    size_t n;
    const char *name;
    bool with_lines; /* messages name the line */
    const ember_yaml_handler *handler;
    ember_yaml_scalar items[EMBER_YAML_MAX_ITEMS]; /* texts are copies */
    int n_items;
} yaml_reader;

/* Puts "name:line: " (or "name: ") in front of the message. */
static ember_status at_line(const yaml_reader *reader, ember_status status, int line) {
    if (reader->with_lines) return ember_fail_context(status, "%s:%d", reader->name, line);
    return ember_fail_context(status, "%s", reader->name);
}

static int event_line(const yaml_reader *reader) { return (int)reader->event.start_mark.line + 1; }

static int line_of_offset(const yaml_reader *reader, size_t offset) {
    int line = 1;
    for (size_t i = 0; i < offset && i < reader->n; i++)
        line += reader->text[i] == '\n' ? 1 : 0;
    return line;
}

static ember_status parser_error(const yaml_reader *reader) {
    const yaml_parser_t *parser = &reader->parser;
    const char *problem = parser->problem ? parser->problem : "malformed";
    if (parser->error == YAML_MEMORY_ERROR) return ember_fail(EMBER_E_MEMORY, "%s: no memory to read the config", reader->name);
    if (parser->error == YAML_READER_ERROR) {
        const ember_status status =
            ember_fail(EMBER_E_CONFIG, "not readable as UTF-8 text: %s (byte %zu, value 0x%x); save the file as UTF-8", problem,
                       parser->problem_offset, (unsigned)parser->problem_value);
        return at_line(reader, status, line_of_offset(reader, parser->problem_offset));
    }
    /* What libyaml says of a tab in the indentation names no tab. */
    const bool unstartable = strcmp(problem, "found character that cannot start any token") == 0;
    if (unstartable)
        problem = "found character that cannot start any token; indent with spaces, not tabs, and quote text that begins with % @ or `";
    const ember_status status = parser->context ? ember_fail(EMBER_E_CONFIG, "not valid YAML: %s, %s", parser->context, problem)
                                                : ember_fail(EMBER_E_CONFIG, "not valid YAML: %s", problem);
    return at_line(reader, status, (int)parser->problem_mark.line + 1);
}

static const char *event_anchor(const yaml_event_t *event) {
    switch (event->type) {
    case YAML_SCALAR_EVENT: return (const char *)event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT: return (const char *)event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT: return (const char *)event->data.mapping_start.anchor;
    default: return NULL;
    }
}

static const char *event_tag(const yaml_event_t *event) {
    switch (event->type) {
    case YAML_SCALAR_EVENT: return (const char *)event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT: return (const char *)event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT: return (const char *)event->data.mapping_start.tag;
    default: return NULL;
    }
}

/* The next event into reader->event. What no config may contain is refused here, wherever it stands. */
static ember_status next_event(yaml_reader *reader) {
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event)) return parser_error(reader);
    const yaml_event_t *event = &reader->event;
    ember_status status = EMBER_OK;
    char shown[256];
    if (event->type == YAML_ALIAS_EVENT) {
        status = ember_fail(EMBER_E_CONFIG, "alias *%s: a config has no anchors and aliases; write the value itself",
                            ember_yaml_shown(shown, (const char *)event->data.alias.anchor));
    } else if (event_anchor(event)) {
        status = ember_fail(EMBER_E_CONFIG, "anchor &%s: a config has no anchors and aliases; write the value itself",
                            ember_yaml_shown(shown, event_anchor(event)));
    } else if (event_tag(event)) {
        status = ember_fail(EMBER_E_CONFIG, "tag %s: a config has no tags; the type of a key is fixed (`ember help config`)",
                            ember_yaml_shown(shown, event_tag(event)));
    } else if (event->type == YAML_SCALAR_EVENT && memchr(event->data.scalar.value, 0, event->data.scalar.length)) {
        status = ember_fail(EMBER_E_CONFIG, "the text \"%s...\" contains a NUL byte, which no value can hold",
                            ember_yaml_shown(shown, (const char *)event->data.scalar.value));
    } else if (event->type == YAML_DOCUMENT_START_EVENT &&
               event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end) {
        status = ember_fail(EMBER_E_CONFIG, "%%TAG directive: a config has no tags");
    }
    return status == EMBER_OK ? EMBER_OK : at_line(reader, status, event_line(reader));
}

static void drop_items(yaml_reader *reader) {
    for (int i = 0; i < reader->n_items; i++)
        free((void *)(uintptr_t)reader->items[i].text);
    reader->n_items = 0;
}

/* Copies the scalar event into the list of items. */
static ember_status take_scalar(yaml_reader *reader) {
    char *copy = strdup((const char *)reader->event.data.scalar.value);
    if (!copy) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a value", reader->name);
    reader->items[reader->n_items++] =
        (ember_yaml_scalar){.text = copy, .quoted = reader->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE};
    return EMBER_OK;
}

/* The scalar or list whose first event is current, handed to the handler. */
static ember_status read_leaf(yaml_reader *reader, const char *path) {
    const int line = event_line(reader);
    ember_yaml_value value = {.line = line, .is_list = reader->event.type == YAML_SEQUENCE_START_EVENT};
    if (!value.is_list) {
        EMBER_TRY(take_scalar(reader));
    } else {
        for (;;) {
            EMBER_TRY(next_event(reader));
            if (reader->event.type == YAML_SEQUENCE_END_EVENT) break;
            if (reader->event.type != YAML_SCALAR_EVENT) {
                return at_line(reader, ember_fail(EMBER_E_CONFIG, "%s: a list holds plain values, not lists or mappings", path),
                               event_line(reader));
            }
            if (reader->n_items == EMBER_YAML_MAX_ITEMS) {
                return at_line(reader, ember_fail(EMBER_E_CONFIG, "%s: a list has at most %d items", path, EMBER_YAML_MAX_ITEMS), line);
            }
            EMBER_TRY(take_scalar(reader));
        }
    }
    value.n = reader->n_items;
    value.items = reader->items;
    const ember_status status = reader->handler->value(reader->handler->user, path, &value);
    drop_items(reader);
    return status == EMBER_OK ? EMBER_OK : at_line(reader, status, line);
}

/* "prefix.key" from the scalar event that is current. */
static ember_status key_path(const yaml_reader *reader, const char *prefix, ember_bytes *path) {
    char shown[256];
    if (reader->event.type != YAML_SCALAR_EVENT) {
        return ember_fail(EMBER_E_CONFIG, "a key must be a plain word, not a list or mapping");
    }
    const char *key = (const char *)reader->event.data.scalar.value;
    if (strcmp(key, "<<") == 0)
        return ember_fail(EMBER_E_CONFIG, "merge key \"<<\": a config has no merge keys; write the values themselves");
    if (strchr(key, '.')) {
        return ember_fail(EMBER_E_CONFIG,
                          "key \"%s\": in a file a key stands inside its section (\"section:\" and below it \"  key: value\")",
                          ember_yaml_shown(shown, key));
    }
    return ember_bytes_printf(path, "%s%s%s", prefix, prefix[0] ? "." : "", key);
}

static ember_status read_mapping(yaml_reader *reader, const char *prefix, int depth);

/* One key and what follows it. */
static ember_status read_pair(yaml_reader *reader, const char *prefix, int depth) {
    ember_bytes path = {0};
    int line = event_line(reader);
    ember_status status = key_path(reader, prefix, &path);
    if (status != EMBER_OK) {
        status = at_line(reader, status, line);
        goto done;
    }
    EMBER_TRY_GOTO(next_event(reader), done);
    if (reader->event.type != YAML_MAPPING_START_EVENT) {
        status = read_leaf(reader, path.data);
        goto done;
    }
    status = depth == EMBER_YAML_MAX_DEPTH ? ember_fail(EMBER_E_CONFIG, "%s: mappings are nested deeper than any key", path.data)
                                           : reader->handler->section(reader->handler->user, path.data, line);
    if (status != EMBER_OK) {
        status = at_line(reader, status, line);
        goto done;
    }
    status = read_mapping(reader, path.data, depth + 1);
done:
    ember_bytes_free(&path);
    return status;
}

/* The pairs of a mapping whose start is current, up to its end. */
static ember_status read_mapping(yaml_reader *reader, const char *prefix, int depth) {
    for (;;) {
        EMBER_TRY(next_event(reader));
        if (reader->event.type == YAML_MAPPING_END_EVENT) return EMBER_OK;
        EMBER_TRY(read_pair(reader, prefix, depth));
    }
}

/* Root of a file: nothing at all, or a mapping. `path` not NULL: one value instead. */
static ember_status read_document(yaml_reader *reader, const char *path) {
    EMBER_TRY(next_event(reader)); /* stream start */
    EMBER_TRY(next_event(reader));
    if (reader->event.type == YAML_STREAM_END_EVENT) {
        if (!path) return EMBER_OK;
        return at_line(reader, ember_fail(EMBER_E_CONFIG, "%s has no value; write \"\" for an empty text, [] for an empty list", path), 1);
    }
    EMBER_TRY(next_event(reader));
    const yaml_event_type_t type = reader->event.type;
    if (path) {
        if (type == YAML_MAPPING_START_EVENT) {
            return at_line(reader, ember_fail(EMBER_E_CONFIG, "%s: the value reads as a YAML mapping; put it in quotes", path), 1);
        }
        EMBER_TRY(read_leaf(reader, path));
    } else {
        if (type != YAML_MAPPING_START_EVENT) {
            return at_line(reader,
                           ember_fail(EMBER_E_CONFIG, "a config is sections of keys (\"train:\", \"  steps: 100\"), not %s",
                                      type == YAML_SEQUENCE_START_EVENT ? "a list" : "a single value"),
                           event_line(reader));
        }
        EMBER_TRY(read_mapping(reader, "", 1));
    }
    EMBER_TRY(next_event(reader)); /* document end */
    EMBER_TRY(next_event(reader));
    if (reader->event.type == YAML_STREAM_END_EVENT) return EMBER_OK;
    return at_line(reader, ember_fail(EMBER_E_CONFIG, "a second document (\"---\") begins here; a config is one document"),
                   event_line(reader));
}

static ember_status read_text(const char *text, size_t n, const char *name, const char *path, const ember_yaml_handler *handler) {
    yaml_reader *reader = NULL;
    EMBER_TRY(ember_allocate((void **)&reader, 1, sizeof *reader, "the YAML reader"));
    /* libyaml refuses the byte order mark that some editors write when the encoding is given. */
    const bool marked = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    reader->text = text + (marked ? 3 : 0);
    reader->n = n - (marked ? 3 : 0);
    reader->name = name;
    reader->with_lines = path == NULL;
    reader->handler = handler;
    ember_status status = EMBER_OK;
    if (!yaml_parser_initialize(&reader->parser)) {
        ember_release(reader);
        return ember_fail(EMBER_E_MEMORY, "%s: no memory to read the config", name);
    }
    yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader->parser, (const unsigned char *)reader->text, reader->n);
    status = read_document(reader, path);
    drop_items(reader);
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    ember_release(reader);
    return status;
}

ember_status ember_yaml_read(const char *text, size_t n, const char *name, const ember_yaml_handler *handler) {
    return read_text(text, n, name, NULL, handler);
}

ember_status ember_yaml_read_value(const char *text, size_t n, const char *name, const char *path, const ember_yaml_handler *handler) {
    return read_text(text, n, name, path, handler);
}
