/* Decoders of a tokenizer.json. Steps up to the first fusing one (ByteFallback, ByteLevel, Fuse) work on
 * one token, so every token is decoded once at load; behind it only one Strip may follow. */
#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

static const char part[] = "decoder";

static ember_status order(const char *type) {
    return ember_fail(
        EMBER_E_UNSUPPORTED,
        "%s: %s at this place of the sequence is not supported; supported is Replace, Metaspace or Strip, then ByteFallback or "
        "ByteLevel, then Fuse, then one Strip",
        part, type);
}

static ember_status parse_count(const json_t *value, const char *key, size_t *out) {
    const json_t *count = json_object_get(value, key);
    if (!json_is_integer(count) || json_integer_value(count) < 0)
        return ember_fail(EMBER_E_FORMAT, "%s: \"%s\" of Strip is not a count", part, key);
    *out = (size_t)json_integer_value(count);
    return EMBER_OK;
}

static ember_status parse_strip(ember_tokenizer *tokenizer, const json_t *value, tok_decode_step *step) {
    tok_decode_rules *rules = &tokenizer->decoder;
    const char *content = NULL;
    uint32_t code = 0;
    EMBER_TRY(tok_text(value, "content", part, &content, &step->content_n));
    if (step->content_n == 0 || tok_utf8_next(content, step->content_n, &code) != step->content_n) {
        return ember_fail(EMBER_E_FORMAT, "%s: \"content\" of Strip is not one character", part);
    }
    EMBER_TRY(parse_count(value, "start", &step->start));
    EMBER_TRY(parse_count(value, "stop", &step->stop));
    step->kind = TOK_DECODE_STRIP;
    if (rules->bytes && !rules->fused) return order("Strip before Fuse");
    /* its bytes could arrive one by one */
    if (rules->fused && code >= 0x80)
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: Strip of \"%s\" after Fuse is not supported; ASCII is", part, content);
    return tok_copy(&step->content, content, step->content_n);
}

static ember_status parse_metaspace(const json_t *value, tok_decode_step *step) {
    const char *text = NULL;
    size_t n = 0;
    bool prefix = true;
    EMBER_TRY(tok_text(value, "replacement", part, &text, &n));
    EMBER_TRY(tok_bool(value, "add_prefix_space", true, part, &prefix));
    const char *scheme = json_string_value(json_object_get(value, "prepend_scheme"));
    step->drops_first = scheme ? strcmp(scheme, "never") != 0 : prefix;
    step->kind = TOK_DECODE_METASPACE;
    return tok_pattern_literal(&step->pattern, text, n, part);
}

static ember_status parse_replace(const json_t *value, tok_decode_step *step) {
    const char *content = NULL;
    EMBER_TRY(tok_pattern_parse(&step->pattern, value, part));
    EMBER_TRY(tok_text(value, "content", part, &content, &step->content_n));
    step->kind = TOK_DECODE_REPLACE;
    return tok_copy(&step->content, content, step->content_n);
}

static ember_status parse_step(ember_tokenizer *tokenizer, const json_t *value, const char *type) {
    tok_decode_rules *rules = &tokenizer->decoder;
    const bool open = !rules->fused && !rules->bytes;
    if (strcmp(type, "Fuse") == 0) {
        rules->fused = true;
        return EMBER_OK;
    }
    if (strcmp(type, "Strip") == 0 && rules->fused) {
        if (rules->has_strip) return order("a second Strip");
        rules->has_strip = true;
        return parse_strip(tokenizer, value, &rules->strip);
    }
    if (!open) return order(type);
    if (rules->n_steps == TOK_MAX_STAGES)
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: more than %d steps are not supported", part, TOK_MAX_STAGES);
    tok_decode_step *step = &rules->steps[rules->n_steps++];
    if (strcmp(type, "Strip") == 0) return parse_strip(tokenizer, value, step);
    if (strcmp(type, "Metaspace") == 0) return parse_metaspace(value, step);
    if (strcmp(type, "Replace") == 0) return parse_replace(value, step);
    step->kind = strcmp(type, "ByteLevel") == 0 ? TOK_DECODE_BYTE_LEVEL : TOK_DECODE_FALLBACK;
    rules->fused = step->kind == TOK_DECODE_BYTE_LEVEL;
    rules->bytes = step->kind == TOK_DECODE_FALLBACK;
    return EMBER_OK;
}

ember_status tok_decoder_parse(ember_tokenizer *tokenizer, const json_t *value, int depth) {
    static const char *const known[] = {"ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"};
    if (!value || json_is_null(value)) {
        tokenizer->decoder.join = true;
        return EMBER_OK;
    }
    const char *type = NULL;
    EMBER_TRY(tok_type(value, part, &type));
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(value, "decoders");
        if (!json_is_array(list)) return ember_fail(EMBER_E_FORMAT, "%s: \"decoders\" of a Sequence is not an array", part);
        if (depth >= TOK_MAX_DEPTH)
            return ember_fail(EMBER_E_UNSUPPORTED, "%s: Sequences nested deeper than %d are not supported", part, TOK_MAX_DEPTH);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *child = json_array_get(list, i);
            if (json_is_null(child)) return ember_fail(EMBER_E_FORMAT, "%s: \"decoders\" holds null", part);
            EMBER_TRY(tok_decoder_parse(tokenizer, child, depth + 1));
        }
        return EMBER_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(type, known[i]) == 0) return parse_step(tokenizer, value, type);
    }
    return ember_fail(
        EMBER_E_UNSUPPORTED,
        "%s: type \"%s\" is not supported; supported are ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace and Sequence", part,
        type);
}

/* ---- one token ---- */

/* The bytes its characters stand for; a token with any other character is its own text. */
static ember_status unmap_bytes(const ember_tokenizer *tokenizer, const char *text, size_t n, ember_bytes *out) {
    for (size_t at = 0; at < n;) {
        uint32_t code = 0;
        const size_t length = tok_utf8_next(text + at, n - at, &code);
        if (length == 0 || code >= TOK_BYTE_CHARS || tokenizer->char_byte[code] < 0) {
            out->n = 0;
            return ember_bytes_append(out, text, n);
        }
        const char byte = (char)tokenizer->char_byte[code];
        EMBER_TRY(ember_bytes_append(out, &byte, 1));
        at += length;
    }
    return EMBER_OK;
}

/* Up to `start` copies of the character go in front, up to `stop` at the end. */
static ember_status strip_token(const tok_decode_step *step, const char *text, size_t n, ember_bytes *out) {
    const size_t width = step->content_n;
    for (size_t i = 0; i < step->start && n >= width && memcmp(text, step->content, width) == 0; i++) {
        text += width;
        n -= width;
    }
    for (size_t i = 0; i < step->stop && n >= width && memcmp(text + n - width, step->content, width) == 0; i++)
        n -= width;
    return ember_bytes_append(out, text, n);
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1; }

static bool byte_token(const char *text, size_t n, uint8_t *byte) {
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || hex(text[3]) < 0 || hex(text[4]) < 0) return false;
    *byte = (uint8_t)(hex(text[3]) * 16 + hex(text[4]));
    return true;
}

ember_status tok_decode_token(const ember_tokenizer *tokenizer, tok_matcher *matcher, const tok_token *token, bool first,
                              ember_bytes scratch[2], const char **out, size_t *out_n, bool *is_byte, uint8_t *byte) {
    const char *text = token->text;
    size_t n = token->n;
    *is_byte = false;
    for (size_t i = 0; i < tokenizer->decoder.n_steps; i++) {
        const tok_decode_step *step = &tokenizer->decoder.steps[i];
        ember_bytes *to = &scratch[i & 1];
        to->n = 0;
        EMBER_TRY(ember_bytes_reserve(to, n));
        switch (step->kind) {
        case TOK_DECODE_FALLBACK: *is_byte = byte_token(text, n, byte); continue; /* the last step, see parse_step */
        case TOK_DECODE_BYTE_LEVEL: EMBER_TRY(unmap_bytes(tokenizer, text, n, to)); break;
        case TOK_DECODE_REPLACE: EMBER_TRY(tok_replace_all(&step->pattern, matcher, text, n, step->content, step->content_n, to)); break;
        case TOK_DECODE_STRIP: EMBER_TRY(strip_token(step, text, n, to)); break;
        case TOK_DECODE_METASPACE:
            EMBER_TRY(tok_replace_all(&step->pattern, matcher, text, n, " ", first && step->drops_first ? 0 : 1, to));
            break;
        }
        text = to->data;
        n = to->n;
    }
    *out = text;
    *out_n = n;
    return EMBER_OK;
}

/* Decodes every token once. */
ember_status tok_decoder_finish(ember_tokenizer *tokenizer) {
    ember_status status = EMBER_OK;
    ember_bytes scratch[2] = {{0}, {0}};
    ember_bytes all = {0};
    tok_matcher matcher = {0};
    EMBER_TRY_GOTO(tok_matcher_create(&matcher), done);
    EMBER_TRY_GOTO(ember_bytes_reserve(&all, 0), done);
    for (size_t id = 0; id < tokenizer->vocab_size; id++) {
        tok_token *token = &tokenizer->tokens[id];
        if (!token->text) continue;
        const char *text = NULL;
        size_t n = 0;
        EMBER_TRY_GOTO(tok_decode_token(tokenizer, &matcher, token, false, scratch, &text, &n, &token->is_byte, &token->byte), done);
        if (n > UINT32_MAX) {
            status = ember_fail(EMBER_E_FORMAT, "%s: token \"%.40s\" decodes to %zu bytes", part, token->text, n);
            goto done;
        }
        token->decoded = all.n;
        token->decoded_n = (uint32_t)n;
        EMBER_TRY_GOTO(ember_bytes_append(&all, text, n), done);
    }
    tokenizer->decoder.text = all.data;
    all = (ember_bytes){0};
done:
    ember_bytes_free(&all);
    ember_bytes_free(&scratch[0]);
    ember_bytes_free(&scratch[1]);
    tok_matcher_free(&matcher);
    return status;
}
