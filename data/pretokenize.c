/* Pre-tokenizer stages as a pipeline: each stage hands its pieces on as it finds them, so that a long
 * text needs no list of pieces. Behaviours follow the reference: matches and the text between them
 * are items; Removed, Isolated, ... say how items become pieces. */
#include "data/tokenizer_parts.h"

#include <string.h>

#include "lib/base/status.h"

typedef struct piece_context {
    ember_encoder *encoder;
    size_t stage;
    const char *text;
    bool first, continued;
    bool mapped; /* pieces go on as the characters that stand for their bytes */
    tok_behavior behavior;
    bool pending;       /* [start, end) waits for the next item */
    bool pending_match; /* what the waiting item is */
    size_t start, end;
} piece_context;

ember_status tok_map_bytes(const ember_tokenizer *tokenizer, const char *text, size_t n, ember_bytes *out) {
    EMBER_TRY(ember_bytes_reserve(out, out->n + 2 * n));
    char *to = out->data + out->n;
    for (size_t i = 0; i < n; i++)
        to += tok_utf8_put(to, tokenizer->byte_char[(unsigned char)text[i]]);
    out->n = (size_t)(to - out->data);
    return EMBER_OK;
}

static ember_status emit(const piece_context *c, size_t start, size_t end) {
    if (end == start) return EMBER_OK;
    const char *text = c->text + start;
    size_t n = end - start;
    if (c->mapped) {
        ember_bytes *scratch = &c->encoder->mapped[c->stage];
        scratch->n = 0;
        EMBER_TRY(tok_map_bytes(c->encoder->tokenizer, text, n, scratch));
        text = scratch->data;
        n = scratch->n;
    }
    return tok_pretokenize(c->encoder, c->stage + 1, text, n, c->first && start == 0, c->continued && start == 0);
}

static ember_status item(piece_context *c, size_t start, size_t end, bool match) {
    switch (c->behavior) {
    case TOK_REMOVED: return match ? EMBER_OK : emit(c, start, end);
    case TOK_ISOLATED: return emit(c, start, end);
    case TOK_MERGED_PREVIOUS: /* a match joins the item before it, unless that is a match too */
    case TOK_MERGED_NEXT:     /* a match joins the item behind it, unless that is a match too */
    case TOK_CONTIGUOUS: break;
    }
    if (c->pending) {
        const bool joins = c->behavior == TOK_CONTIGUOUS        ? match == c->pending_match
                           : c->behavior == TOK_MERGED_PREVIOUS ? match && !c->pending_match
                                                                : !match && c->pending_match;
        if (joins) {
            c->end = end;
            c->pending_match = match;
            return EMBER_OK;
        }
        EMBER_TRY(emit(c, c->start, c->end));
    }
    c->pending = true;
    c->pending_match = match;
    c->start = start;
    c->end = end;
    return EMBER_OK;
}

static ember_status split(piece_context *c, const tok_pattern *pattern, size_t n, bool invert) {
    tok_scan scan = {.pattern = pattern, .matcher = &c->encoder->matcher, .text = c->text, .n = n};
    size_t done = 0;
    for (;;) {
        EMBER_TRY(tok_scan_next(&scan));
        if (!scan.found) break;
        if (scan.start > done) EMBER_TRY(item(c, done, scan.start, invert));
        EMBER_TRY(item(c, scan.start, scan.end, !invert));
        done = scan.end;
    }
    if (n > done) EMBER_TRY(item(c, done, n, invert));
    return c->pending ? emit(c, c->start, c->end) : EMBER_OK;
}

static ember_status byte_level(piece_context *c, const tok_stage *stage, size_t n) {
    ember_bytes *scratch = &c->encoder->scratch[c->stage];
    if (stage->prefix && !c->continued && c->text[0] != ' ') {
        scratch->n = 0;
        EMBER_TRY(ember_bytes_append(scratch, " ", 1));
        EMBER_TRY(ember_bytes_append(scratch, c->text, n));
        c->text = scratch->data;
        n = scratch->n;
    }
    c->mapped = !c->encoder->tokenizer->raw_bytes;
    return stage->split ? split(c, &stage->pattern, n, false) : emit(c, 0, n);
}

static ember_status metaspace(piece_context *c, const tok_stage *stage, size_t n) {
    const tok_pattern *mark = &stage->pattern;
    ember_bytes *scratch = &c->encoder->scratch[c->stage];
    scratch->n = 0;
    EMBER_TRY(ember_bytes_reserve(scratch, n + n / 2 + mark->n));
    const bool marked = c->text[0] == ' ' || (n >= mark->n && memcmp(c->text, mark->text, mark->n) == 0);
    const bool wanted = stage->prepend == TOK_PREPEND_ALWAYS || (stage->prepend == TOK_PREPEND_FIRST && c->first);
    if (wanted && !marked && !c->continued) EMBER_TRY(ember_bytes_append(scratch, mark->text, mark->n));
    for (size_t done = 0; done < n;) {
        const char *blank = memchr(c->text + done, ' ', n - done);
        const size_t end = blank ? (size_t)(blank - c->text) : n;
        EMBER_TRY(ember_bytes_append(scratch, c->text + done, end - done));
        if (blank) EMBER_TRY(ember_bytes_append(scratch, mark->text, mark->n));
        done = end + (blank ? 1 : 0);
    }
    c->text = scratch->data;
    if (!stage->split) return emit(c, 0, scratch->n);
    c->behavior = TOK_MERGED_NEXT;
    return split(c, mark, scratch->n, false);
}

/* `first`: the text begins where the input does. `continued`: it follows a run of invalid bytes, so no
 * blank is put in front. The text is valid UTF-8 and not empty. */
ember_status tok_pretokenize(ember_encoder *encoder, size_t stage, const char *text, size_t n, bool first, bool continued) {
    if (stage == encoder->tokenizer->n_stages) return tok_bpe_piece(encoder, text, n);
    const tok_stage *rule = &encoder->tokenizer->stages[stage];
    piece_context c = {
        .encoder = encoder, .stage = stage, .text = text, .first = first, .continued = continued, .behavior = rule->behavior};
    switch (rule->kind) {
    case TOK_STAGE_SPLIT: return split(&c, &rule->pattern, n, rule->invert);
    case TOK_STAGE_BYTE_LEVEL: return byte_level(&c, rule, n);
    case TOK_STAGE_METASPACE: break;
    }
    return metaspace(&c, rule, n);
}
