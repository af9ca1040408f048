#include "data/documents.h"

#include <string.h>

#include <jansson.h>

#include "lib/base/parse.h"
#include "lib/base/status.h"

struct ember_splitter {
    const ember_document_rule *rule;
    ember_document_sink sink;
    /* Line rules. */
    bool at_line_start;
    bool held_cr;    /* a line began with \r at the end of the last piece: an empty line, or not */
    bool has_text;   /* the document holds a line that is not empty */
    bool has_blank;  /* an empty line came last */
    int64_t n_bytes; /* of the document */
    /* Separator and JSON: bytes that cannot be judged yet. */
    ember_bytes carry;
    int64_t line; /* JSON: number of the line being read, from 1 */
};

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static ember_status unescape(ember_bytes *out, const char *text) {
    for (const char *at = text; *at; at++) {
        char byte = *at;
        if (byte == '\\') {
            at++;
            switch (*at) {
            case 'n': byte = '\n'; break;
            case 'r': byte = '\r'; break;
            case 't': byte = '\t'; break;
            case '0': byte = '\0'; break;
            case '\\': byte = '\\'; break;
            case 'x':
                if (hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0) {
                    byte = (char)(hex_digit(at[1]) * 16 + hex_digit(at[2]));
                    at += 2;
                    break;
                }
                return ember_fail(EMBER_E_ARGUMENT, "separator \"%s\": two hexadecimal digits must follow \\x", text);
            default: return ember_fail(EMBER_E_ARGUMENT, "separator \"%s\": after a backslash only n r t 0 x and \\ have a meaning", text);
            }
        }
        EMBER_TRY(ember_bytes_append(out, &byte, 1));
    }
    return EMBER_OK;
}

/* The part after "name:", or NULL. */
static const char *value_of(const char *text, const char *name) {
    const size_t n = strlen(name);
    return strncmp(text, name, n) == 0 && text[n] == ':' ? text + n + 1 : NULL;
}

ember_status ember_document_rule_parse(ember_document_rule *out, const char *text) {
    *out = (ember_document_rule){0};
    const char *value = NULL;
    if (strcmp(text, "file") == 0) {
        out->kind = EMBER_DOCUMENT_FILE;
    } else if (strcmp(text, "line") == 0) {
        out->kind = EMBER_DOCUMENT_LINE;
    } else if (strcmp(text, "blank-line") == 0) {
        out->kind = EMBER_DOCUMENT_BLANK_LINE;
    } else if ((value = value_of(text, "blocks"))) {
        out->kind = EMBER_DOCUMENT_BLOCKS;
        if (!ember_parse_i64(value, &out->block_bytes) || out->block_bytes < 1 || out->block_bytes > INT64_C(1) << 50) {
            return ember_fail(EMBER_E_ARGUMENT, "document rule \"%s\": the block size is a number of bytes, at least 1", text);
        }
    } else if ((value = value_of(text, "separator"))) {
        out->kind = EMBER_DOCUMENT_SEPARATOR;
        EMBER_TRY(unescape(&out->separator, value));
        if (out->separator.n == 0) return ember_fail(EMBER_E_ARGUMENT, "document rule \"%s\": the separator is empty", text);
    } else if (strcmp(text, "jsonl") == 0 || (value = value_of(text, "jsonl"))) {
        out->kind = EMBER_DOCUMENT_JSONL;
        if (!value) value = "text";
        EMBER_TRY(ember_bytes_append(&out->field, value, strlen(value)));
    } else {
        return ember_fail(EMBER_E_ARGUMENT,
                          "unknown document rule \"%s\"; there are file, line, blank-line, blocks:BYTES, separator:STRING, jsonl and "
                          "jsonl:FIELD",
                          text);
    }
    return EMBER_OK;
}

void ember_document_rule_free(ember_document_rule *rule) {
    ember_bytes_free(&rule->separator);
    ember_bytes_free(&rule->field);
}

ember_status ember_splitter_create(ember_splitter **out, const ember_document_rule *rule, ember_document_sink sink) {
    ember_splitter *splitter = NULL;
    *out = NULL;
    EMBER_TRY(ember_allocate((void **)&splitter, 1, sizeof *splitter, "document splitter"));
    splitter->rule = rule;
    splitter->sink = sink;
    splitter->at_line_start = true;
    splitter->line = 1;
    *out = splitter;
    return EMBER_OK;
}

void ember_splitter_free(ember_splitter *splitter) {
    if (!splitter) return;
    ember_bytes_free(&splitter->carry);
    ember_release(splitter);
}

static ember_status emit(ember_splitter *splitter, const char *bytes, size_t n) {
    return n == 0 ? EMBER_OK : splitter->sink.text(splitter->sink.user, bytes, n);
}

/* A line that is not empty begins: does a document begin with it? */
static bool begins_document(const ember_splitter *splitter) {
    if (!splitter->has_text) return false;
    const int64_t block = splitter->rule->block_bytes;
    switch (splitter->rule->kind) {
    case EMBER_DOCUMENT_LINE: return true;
    case EMBER_DOCUMENT_BLANK_LINE: return splitter->has_blank;
    case EMBER_DOCUMENT_BLOCKS: return (splitter->has_blank && splitter->n_bytes >= block) || splitter->n_bytes / 2 >= block;
    case EMBER_DOCUMENT_FILE:
    case EMBER_DOCUMENT_SEPARATOR:
    case EMBER_DOCUMENT_JSONL: break;
    }
    return false;
}

/* Starts a line that is not empty; the bytes [*start, at) still belong to the document before. */
static ember_status begin_line(ember_splitter *splitter, const char **start, const char *at) {
    if (begins_document(splitter)) {
        EMBER_TRY(emit(splitter, *start, (size_t)(at - *start)));
        *start = at;
        EMBER_TRY(splitter->sink.end(splitter->sink.user));
        splitter->n_bytes = 0;
    }
    splitter->has_text = true;
    splitter->has_blank = false;
    splitter->at_line_start = false;
    return EMBER_OK;
}

static void note_blank(ember_splitter *splitter, int64_t n_bytes) {
    splitter->has_blank = true;
    splitter->n_bytes += n_bytes;
}

static ember_status release_cr(ember_splitter *splitter, bool blank) {
    const char *none = "";
    splitter->held_cr = false;
    if (!blank) EMBER_TRY(begin_line(splitter, &none, none));
    splitter->n_bytes++;
    return emit(splitter, "\r", 1);
}

static ember_status feed_lines(ember_splitter *splitter, const char *bytes, size_t n) {
    const char *start = bytes; /* not emitted yet */
    const char *at = bytes;
    const char *const end = bytes + n;
    if (splitter->held_cr && n > 0) EMBER_TRY(release_cr(splitter, bytes[0] == '\n'));
    while (at < end) {
        if (splitter->at_line_start) {
            if (*at == '\n') {
                note_blank(splitter, 1);
                at++;
                continue;
            }
            if (*at == '\r' && at + 1 == end) {
                splitter->held_cr = true;
                break;
            }
            if (*at == '\r' && at[1] == '\n') {
                note_blank(splitter, 2);
                at += 2;
                continue;
            }
            EMBER_TRY(begin_line(splitter, &start, at));
        }
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline + 1 : end;
        splitter->n_bytes += stop - at;
        splitter->at_line_start = newline != NULL;
        at = stop;
    }
    return emit(splitter, start, (size_t)(at - start));
}

static const char *find(const char *text, size_t n, const ember_bytes *wanted) {
    const char *at = text;
    while (n >= wanted->n) {
        const char *hit = memchr(at, wanted->data[0], n - wanted->n + 1);
        if (!hit) return NULL;
        if (memcmp(hit, wanted->data, wanted->n) == 0) return hit;
        n -= (size_t)(hit + 1 - at);
        at = hit + 1;
    }
    return NULL;
}

static void drop_front(ember_bytes *carry, size_t n) {
    memmove(carry->data, carry->data + n, carry->n - n);
    carry->n -= n;
}

static ember_status feed_separated(ember_splitter *splitter, const char *bytes, size_t n) {
    ember_bytes *carry = &splitter->carry;
    const ember_bytes *separator = &splitter->rule->separator;
    EMBER_TRY(ember_bytes_append(carry, bytes, n));
    size_t done = 0;
    for (;;) {
        const char *from = carry->data + done;
        const char *hit = find(from, carry->n - done, separator);
        if (!hit) break;
        EMBER_TRY(emit(splitter, from, (size_t)(hit - from)));
        EMBER_TRY(splitter->sink.end(splitter->sink.user));
        done = (size_t)(hit - carry->data) + separator->n;
    }
    /* The last bytes may be the beginning of a separator. */
    const size_t left = carry->n - done;
    const size_t keep = left < separator->n - 1 ? left : separator->n - 1;
    EMBER_TRY(emit(splitter, carry->data + done, left - keep));
    drop_front(carry, carry->n - keep);
    return EMBER_OK;
}

static ember_status json_line(ember_splitter *splitter, const char *path, const char *line, size_t n) {
    size_t blank = 0;
    while (blank < n && (line[blank] == ' ' || line[blank] == '\t' || line[blank] == '\r'))
        blank++;
    if (blank == n) return EMBER_OK;
    const char *field = splitter->rule->field.data;
    json_error_t error;
    json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!object) {
        return ember_fail(EMBER_E_FORMAT, "%s: line %lld is not JSON: %s; --document line or file takes plain text", path,
                          (long long)splitter->line, error.text);
    }
    ember_status status = EMBER_OK;
    const json_t *text = json_object_get(object, field);
    if (!json_is_string(text)) {
        status = ember_fail(EMBER_E_FORMAT,
                            "%s: line %lld is not a JSON object with a string in \"%s\"; --document jsonl:FIELD names another field", path,
                            (long long)splitter->line, field);
    } else {
        status = emit(splitter, json_string_value(text), json_string_length(text));
        if (status == EMBER_OK) status = splitter->sink.end(splitter->sink.user);
    }
    json_decref(object);
    return status;
}

static ember_status feed_jsonl(ember_splitter *splitter, const char *path, const char *bytes, size_t n) {
    ember_bytes *carry = &splitter->carry;
    const char *at = bytes;
    const char *const end = bytes + n;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) break;
        if (carry->n > 0) {
            EMBER_TRY(ember_bytes_append(carry, at, (size_t)(newline - at)));
            EMBER_TRY(json_line(splitter, path, carry->data, carry->n));
            carry->n = 0;
        } else {
            EMBER_TRY(json_line(splitter, path, at, (size_t)(newline - at)));
        }
        splitter->line++;
        at = newline + 1;
    }
    return at == end ? EMBER_OK : ember_bytes_append(carry, at, (size_t)(end - at));
}

ember_status ember_splitter_feed(ember_splitter *splitter, const char *path, const char *bytes, size_t n) {
    switch (splitter->rule->kind) {
    case EMBER_DOCUMENT_FILE: return emit(splitter, bytes, n);
    case EMBER_DOCUMENT_LINE:
    case EMBER_DOCUMENT_BLANK_LINE:
    case EMBER_DOCUMENT_BLOCKS: return feed_lines(splitter, bytes, n);
    case EMBER_DOCUMENT_SEPARATOR: return feed_separated(splitter, bytes, n);
    case EMBER_DOCUMENT_JSONL: break;
    }
    return feed_jsonl(splitter, path, bytes, n);
}

ember_status ember_splitter_finish_file(ember_splitter *splitter, const char *path) {
    if (splitter->held_cr) EMBER_TRY(release_cr(splitter, false));
    const bool json = splitter->rule->kind == EMBER_DOCUMENT_JSONL;
    if (splitter->carry.n > 0) {
        EMBER_TRY(json ? json_line(splitter, path, splitter->carry.data, splitter->carry.n)
                       : emit(splitter, splitter->carry.data, splitter->carry.n));
    }
    splitter->carry.n = 0;
    splitter->at_line_start = true;
    splitter->has_text = false;
    splitter->has_blank = false;
    splitter->n_bytes = 0;
    splitter->line = 1;
    return json ? EMBER_OK : splitter->sink.end(splitter->sink.user);
}
