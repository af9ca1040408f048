/* Normalizers, pre-tokenizers and post-processors of a tokenizer.json. */
#include "data/tokenizer_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "lib/base/status.h"

ember_status tok_copy(char **out, const char *text, size_t n) {
    *out = malloc(n + 1);
    if (!*out) return ember_fail(EMBER_E_MEMORY, "tokenizer: the system refused %zu bytes", n + 1);
    memcpy(*out, text, n);
    (*out)[n] = '\0';
    return EMBER_OK;
}

ember_status tok_type(const json_t *value, const char *part, const char **out) {
    const json_t *type = json_object_get(value, "type");
    if (!json_is_string(type)) return ember_fail(EMBER_E_FORMAT, "%s: it has no \"type\"", part);
    *out = json_string_value(type);
    return EMBER_OK;
}

ember_status tok_bool(const json_t *owner, const char *key, bool fallback, const char *part, bool *out) {
    const json_t *value = json_object_get(owner, key);
    *out = fallback;
    if (!value || json_is_null(value)) return EMBER_OK;
    if (!json_is_boolean(value)) return ember_fail(EMBER_E_FORMAT, "%s: \"%s\" is neither true nor false", part, key);
    *out = json_is_true(value);
    return EMBER_OK;
}

ember_status tok_text(const json_t *owner, const char *key, const char *part, const char **out, size_t *n) {
    const json_t *value = json_object_get(owner, key);
    if (!json_is_string(value)) return ember_fail(EMBER_E_FORMAT, "%s: \"%s\" is not a string", part, key);
    *out = json_string_value(value);
    *n = json_string_length(value);
    return EMBER_OK;
}

/* {"String": ...} is a literal, {"Regex": ...} an expression: never one for the other. */
ember_status tok_pattern_parse(tok_pattern *out, const json_t *owner, const char *part) {
    const json_t *pattern = json_object_get(owner, "pattern");
    const json_t *literal = json_object_get(pattern, "String");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *text = literal ? literal : regex;
    if (!json_is_string(text) || (literal && regex)) {
        return ember_fail(EMBER_E_FORMAT, "%s: \"pattern\" is neither {\"String\": ...} nor {\"Regex\": ...}", part);
    }
    return literal ? tok_pattern_literal(out, json_string_value(text), json_string_length(text), part)
                   : tok_pattern_regex(out, json_string_value(text), json_string_length(text), part);
}

static ember_status refuse(const char *part, const char *type, const char *known) {
    return ember_fail(EMBER_E_UNSUPPORTED, "%s: type \"%s\" is not supported; supported are %s", part, type, known);
}

typedef ember_status (*part_parser)(ember_tokenizer *tokenizer, const json_t *value, int depth);

static ember_status sequence(ember_tokenizer *tokenizer, const json_t *value, const char *key, int depth, const char *part,
                             part_parser parse) {
    const json_t *list = json_object_get(value, key);
    if (!json_is_array(list)) return ember_fail(EMBER_E_FORMAT, "%s: \"%s\" of a Sequence is not an array", part, key);
    if (depth >= TOK_MAX_DEPTH)
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: Sequences nested deeper than %d are not supported", part, TOK_MAX_DEPTH);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *child = json_array_get(list, i);
        if (json_is_null(child)) return ember_fail(EMBER_E_FORMAT, "%s: \"%s\" holds null", part, key);
        EMBER_TRY(parse(tokenizer, child, depth + 1));
    }
    return EMBER_OK;
}

/* ---- normalizers ---- */

static ember_status unicode_form(const char *type, int *options) {
    static const struct {
        const char *type;
        int options;
    } forms[] = {{"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
                 {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
                 {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                 {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(type, forms[i].type) == 0) {
            *options = forms[i].options;
            return EMBER_OK;
        }
    }
    return refuse("normalizer", type, "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace and Sequence");
}

ember_status tok_normalizer_parse(ember_tokenizer *tokenizer, const json_t *value, int depth) {
    static const char part[] = "normalizer";
    if (!value || json_is_null(value)) return EMBER_OK;
    const char *type = NULL;
    EMBER_TRY(tok_type(value, part, &type));
    if (strcmp(type, "Sequence") == 0) return sequence(tokenizer, value, "normalizers", depth, part, tok_normalizer_parse);
    if (tokenizer->n_norms == TOK_MAX_STAGES)
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: more than %d steps are not supported", part, TOK_MAX_STAGES);
    tok_norm *norm = &tokenizer->norms[tokenizer->n_norms++];
    const char *content = "";
    if (strcmp(type, "Prepend") == 0) {
        norm->kind = TOK_NORM_PREPEND;
        EMBER_TRY(tok_text(value, "prepend", part, &content, &norm->content_n));
    } else if (strcmp(type, "Replace") == 0) {
        norm->kind = TOK_NORM_REPLACE;
        EMBER_TRY(tok_pattern_parse(&norm->pattern, value, part));
        EMBER_TRY(tok_text(value, "content", part, &content, &norm->content_n));
    } else if (strcmp(type, "Lowercase") == 0) {
        norm->kind = TOK_NORM_LOWERCASE;
    } else {
        norm->kind = TOK_NORM_UNICODE;
        EMBER_TRY(unicode_form(type, &norm->options));
    }
    return tok_copy(&norm->content, content, norm->content_n);
}

/* ---- pre-tokenizers ---- */

/* \w of the reference's Whitespace, which runs on another engine than Split does */
#define RUST_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"

static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static ember_status fixed_regex(tok_stage *stage, const char *pattern, const char *part) {
    return tok_pattern_regex(&stage->pattern, pattern, strlen(pattern), part);
}

static ember_status parse_behavior(const json_t *value, const char *fallback, const char *part, tok_behavior *out) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const json_t *behavior = json_object_get(value, "behavior");
    const char *name = behavior ? json_string_value(behavior) : fallback;
    for (int i = 0; name && i <= TOK_CONTIGUOUS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (tok_behavior)i;
            return EMBER_OK;
        }
    }
    return ember_fail(EMBER_E_UNSUPPORTED,
                      "%s: behavior \"%s\" is not supported; Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous are",
                      part, name ? name : "?");
}

static ember_status parse_split(tok_stage *stage, const json_t *value, const char *part) {
    EMBER_TRY(tok_pattern_parse(&stage->pattern, value, part));
    EMBER_TRY(parse_behavior(value, NULL, part, &stage->behavior));
    EMBER_TRY(tok_bool(value, "invert", false, part, &stage->invert));
    /* a word pattern matches everything, so both spellings isolate its matches */
    const bool isolates = stage->invert ? stage->behavior == TOK_REMOVED : stage->behavior == TOK_ISOLATED;
    if (stage->pattern.code && isolates) stage->cut = tok_cut_of_regex(stage->pattern.text, stage->pattern.n);
    if (stage->invert && stage->cut == TOK_CUT_TRANSPARENT) stage->cut = TOK_CUT_NEVER;
    return EMBER_OK;
}

static ember_status parse_digits(tok_stage *stage, const json_t *value, const char *part) {
    bool individual = false;
    EMBER_TRY(tok_bool(value, "individual_digits", false, part, &individual));
    stage->behavior = individual ? TOK_ISOLATED : TOK_CONTIGUOUS;
    stage->cut = TOK_CUT_TRANSPARENT;
    return fixed_regex(stage, "\\p{N}", part);
}

static ember_status parse_byte_level(tok_stage *stage, const json_t *value, const char *part) {
    stage->kind = TOK_STAGE_BYTE_LEVEL;
    EMBER_TRY(tok_bool(value, "use_regex", true, part, &stage->split));
    EMBER_TRY(tok_bool(value, "add_prefix_space", true, part, &stage->prefix));
    stage->cut = stage->split ? TOK_CUT_WORDS : TOK_CUT_TRANSPARENT;
    return fixed_regex(stage, gpt2_pattern, part);
}

/* prepend_scheme, or the older add_prefix_space. */
static ember_status parse_scheme(const json_t *value, const char *part, tok_prepend *out) {
    static const char *const names[] = {"always", "first", "never"};
    const json_t *scheme = json_object_get(value, "prepend_scheme");
    bool prefix = true;
    EMBER_TRY(tok_bool(value, "add_prefix_space", true, part, &prefix));
    *out = prefix ? TOK_PREPEND_ALWAYS : TOK_PREPEND_NEVER;
    if (!scheme) return EMBER_OK;
    for (int i = 0; json_is_string(scheme) && i <= TOK_PREPEND_NEVER; i++) {
        if (strcmp(json_string_value(scheme), names[i]) != 0) continue;
        if (!prefix && i != TOK_PREPEND_NEVER) {
            return ember_fail(EMBER_E_FORMAT, "%s: add_prefix_space is false, but prepend_scheme is \"%s\"", part, names[i]);
        }
        *out = (tok_prepend)i;
        return EMBER_OK;
    }
    return ember_fail(EMBER_E_UNSUPPORTED, "%s: prepend_scheme \"%s\" is not supported; always, first and never are", part,
                      json_is_string(scheme) ? json_string_value(scheme) : "?");
}

static ember_status parse_one_char(const json_t *value, const char *key, const char *part, const char **text, size_t *n) {
    uint32_t code = 0;
    EMBER_TRY(tok_text(value, key, part, text, n));
    if (*n == 0 || tok_utf8_next(*text, *n, &code) != *n) return ember_fail(EMBER_E_FORMAT, "%s: \"%s\" is not one character", part, key);
    return EMBER_OK;
}

static ember_status parse_metaspace(tok_stage *stage, const json_t *value, const char *part) {
    const char *text = NULL;
    size_t n = 0;
    stage->kind = TOK_STAGE_METASPACE;
    EMBER_TRY(parse_one_char(value, "replacement", part, &text, &n));
    EMBER_TRY(parse_scheme(value, part, &stage->prepend));
    EMBER_TRY(tok_bool(value, "split", true, part, &stage->split));
    stage->cut = stage->split ? TOK_CUT_WORDS : TOK_CUT_NEVER;
    return tok_pattern_literal(&stage->pattern, text, n, part);
}

ember_status tok_stages_parse(ember_tokenizer *tokenizer, const json_t *value, int depth) {
    static const char part[] = "pre_tokenizer";
    if (!value || json_is_null(value)) return EMBER_OK;
    const char *type = NULL;
    EMBER_TRY(tok_type(value, part, &type));
    if (strcmp(type, "Sequence") == 0) return sequence(tokenizer, value, "pretokenizers", depth, part, tok_stages_parse);
    if (tokenizer->n_stages == TOK_MAX_STAGES)
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: more than %d steps are not supported", part, TOK_MAX_STAGES);
    tok_stage *stage = &tokenizer->stages[tokenizer->n_stages++];
    *stage = (tok_stage){.kind = TOK_STAGE_SPLIT, .behavior = TOK_ISOLATED};
    if (strcmp(type, "Split") == 0) return parse_split(stage, value, part);
    if (strcmp(type, "Digits") == 0) return parse_digits(stage, value, part);
    if (strcmp(type, "ByteLevel") == 0) return parse_byte_level(stage, value, part);
    if (strcmp(type, "Metaspace") == 0) return parse_metaspace(stage, value, part);
    if (strcmp(type, "Punctuation") == 0) {
        EMBER_TRY(parse_behavior(value, "Isolated", part, &stage->behavior));
        return fixed_regex(stage, "[!-/:-@\\[-`{-~\\p{P}]", part);
    }
    stage->behavior = TOK_REMOVED;
    if (strcmp(type, "WhitespaceSplit") == 0) return fixed_regex(stage, "\\s", part);
    if (strcmp(type, "Whitespace") == 0) {
        stage->invert = true;
        return fixed_regex(stage, "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+", part);
    }
    return refuse(part, type, "ByteLevel, Split, Digits, Metaspace, Punctuation, Whitespace, WhitespaceSplit and Sequence");
}

/* ---- post-processors ---- */

/* Puts `n` ids in front of the prefix or behind the suffix. */
static ember_status wrap(uint32_t **ids, size_t *count, const uint32_t *more, size_t n, bool front) {
    uint32_t *grown = malloc((*count + n + 1) * sizeof *grown);
    if (!grown) return ember_fail(EMBER_E_MEMORY, "post_processor: the system refused memory");
    if (front && n > 0) memcpy(grown, more, n * sizeof *grown);
    if (*count > 0) memcpy(grown + (front ? n : 0), *ids, *count * sizeof *grown);
    if (!front && n > 0) memcpy(grown + *count, more, n * sizeof *grown);
    free(*ids);
    *ids = grown;
    *count += n;
    return EMBER_OK;
}

static ember_status template_ids(const ember_tokenizer *tokenizer, const json_t *value, const json_t *special, ember_ids *out) {
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *ids = name ? json_object_get(json_object_get(json_object_get(value, "special_tokens"), name), "ids") : NULL;
    if (!json_is_array(ids)) return ember_fail(EMBER_E_FORMAT, "post_processor: special token \"%s\" has no ids", name ? name : "?");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *item = json_array_get(ids, i);
        const int64_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id < 0 || (size_t)id >= tokenizer->vocab_size || !tokenizer->tokens[id].text) {
            return ember_fail(EMBER_E_FORMAT, "post_processor: special token \"%s\" has id %" PRId64 ", which no token has", name, id);
        }
        const uint32_t small = (uint32_t)id;
        EMBER_TRY(tok_ids_append(out, &small, 1));
    }
    return EMBER_OK;
}

static ember_status parse_template(ember_tokenizer *tokenizer, const json_t *value) {
    const json_t *single = json_object_get(value, "single");
    if (!json_is_array(single)) return ember_fail(EMBER_E_FORMAT, "post_processor: \"single\" of the template is not an array");
    ember_ids ids = {0};
    ember_status status = EMBER_OK;
    size_t n_sequences = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *special = json_object_get(piece, "SpecialToken");
        if (special) {
            EMBER_TRY_GOTO(template_ids(tokenizer, value, special, &ids), done);
        } else if (json_object_get(piece, "Sequence")) {
            if (n_sequences++ == 0) EMBER_TRY_GOTO(wrap(&tokenizer->prefix, &tokenizer->n_prefix, ids.data, ids.n, true), done);
            ids.n = 0;
        } else {
            status = ember_fail(EMBER_E_FORMAT, "post_processor: single[%zu] is neither a SpecialToken nor a Sequence", i);
            goto done;
        }
    }
    if (n_sequences != 1) {
        status = ember_fail(EMBER_E_UNSUPPORTED, "post_processor: a template with %zu sequences is not supported; 1 is", n_sequences);
        goto done;
    }
    status = wrap(&tokenizer->suffix, &tokenizer->n_suffix, ids.data, ids.n, false);
done:
    ember_ids_free(&ids);
    return status;
}

ember_status tok_post_parse(ember_tokenizer *tokenizer, const json_t *value, int depth) {
    static const char part[] = "post_processor";
    if (!value || json_is_null(value)) return EMBER_OK;
    const char *type = NULL;
    EMBER_TRY(tok_type(value, part, &type));
    if (strcmp(type, "Sequence") == 0) return sequence(tokenizer, value, "processors", depth, part, tok_post_parse);
    if (strcmp(type, "ByteLevel") == 0) return EMBER_OK; /* moves offsets only */
    if (strcmp(type, "TemplateProcessing") == 0) return parse_template(tokenizer, value);
    return refuse(part, type, "TemplateProcessing, ByteLevel and Sequence");
}
