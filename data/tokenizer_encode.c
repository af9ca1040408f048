#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

ember_status ember_encoder_create(ember_encoder **out, const ember_tokenizer *tokenizer) {
    ember_status status = EMBER_OK;
    void *block = NULL;
    *out = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_encoder), "encoder"));
    ember_encoder *encoder = block;
    encoder->tokenizer = tokenizer;
    if (!tokenizer->is_bytes) {
        EMBER_TRY_GOTO(ember_allocate(&block, (size_t)TOK_CACHE_SETS * TOK_CACHE_WAYS, sizeof(tok_cache_entry), "word cache"), failed);
        encoder->cache = block;
        tok_cache_clear(encoder);
        EMBER_TRY_GOTO(tok_matcher_create(&encoder->matcher), failed);
        /* room for the longest token as characters, so that looking one up cannot fail */
        EMBER_TRY_GOTO(ember_bytes_reserve(&encoder->mapped[TOK_MAX_STAGES - 1], 2 * tokenizer->longest_token), failed);
    }
    *out = encoder;
    return EMBER_OK;
failed:
    ember_encoder_free(encoder);
    return status;
}

void ember_encoder_free(ember_encoder *encoder) {
    if (!encoder) return;
    ember_release(encoder->cache);
    tok_matcher_free(&encoder->matcher);
    tok_bpe_work_free(&encoder->work);
    for (size_t i = 0; i < TOK_MAX_STAGES; i++) {
        ember_bytes_free(&encoder->scratch[i]);
        ember_bytes_free(&encoder->mapped[i]);
    }
    ember_bytes_free(&encoder->normal[0]);
    ember_bytes_free(&encoder->normal[1]);
    ember_release(encoder);
}

void ember_ids_free(ember_ids *ids) {
    free(ids->data);
    *ids = (ember_ids){0};
}

typedef struct run_place {
    bool first;     /* the run begins where the input does */
    bool continued; /* it follows a run of invalid bytes */
} run_place;

/* One valid run: normalizer, added tokens with `normalized`, pre-tokenizer. */
static ember_status encode_run(ember_encoder *encoder, const char *text, size_t n, run_place place) {
    const ember_tokenizer *tokenizer = encoder->tokenizer;
    EMBER_TRY(tok_normalize(tokenizer, &encoder->matcher, encoder->normal, text, n, !place.continued, &text, &n));
    size_t from = 0;
    size_t used = 0;
    const tok_added *token = NULL;
    size_t start = 0;
    size_t end = 0;
    while (tok_added_next(&tokenizer->normalized, text, n, &from, used, encoder->plain, &token, &start, &end)) {
        if (start > used) {
            EMBER_TRY(tok_pretokenize(encoder, 0, text + used, start - used, place.first && used == 0, place.continued && used == 0));
        }
        EMBER_TRY(tok_ids_append(encoder->out, &token->id, 1));
        used = end;
    }
    if (used >= n) return EMBER_OK;
    return tok_pretokenize(encoder, 0, text + used, n - used, place.first && used == 0, place.continued && used == 0);
}

/* Bytes that are no UTF-8 make pieces of their own between the valid runs: no rule of the tokenizer
 * speaks of them. Byte-level vocabularies spell them, byte fallback has tokens for them. */
static ember_status encode_invalid(ember_encoder *encoder, const char *text, size_t n) {
    const ember_tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->maps_bytes && !tokenizer->raw_bytes) {
        ember_bytes *mapped = &encoder->mapped[0];
        mapped->n = 0;
        EMBER_TRY(tok_map_bytes(tokenizer, text, n, mapped));
        return tok_bpe_piece(encoder, mapped->data, mapped->n);
    }
    return tok_bpe_piece(encoder, text, n);
}

/* Text without `raw` added tokens, as valid and invalid runs in turn. */
static ember_status encode_segment(ember_encoder *encoder, const char *text, size_t n, bool first) {
    bool continued = false;
    for (size_t at = 0; at < n;) {
        const size_t valid = tok_utf8_valid(text + at, n - at);
        if (valid > 0) EMBER_TRY(encode_run(encoder, text + at, valid, (run_place){.first = first && at == 0, .continued = continued}));
        at += valid;
        const size_t invalid = tok_utf8_invalid(text + at, n - at);
        if (invalid > 0) EMBER_TRY(encode_invalid(encoder, text + at, invalid));
        at += invalid;
        continued = true;
    }
    return EMBER_OK;
}

static ember_status encode_bytes(ember_encoder *encoder, const char *text, size_t n) {
    uint32_t ids[256];
    for (size_t at = 0; at < n;) {
        const size_t length = n - at < 256 ? n - at : 256;
        for (size_t i = 0; i < length; i++)
            ids[i] = (unsigned char)text[at + i];
        EMBER_TRY(tok_ids_append(encoder->out, ids, length));
        at += length;
    }
    return EMBER_OK;
}

static ember_status encode_all(ember_encoder *encoder, const char *text, size_t n, bool add_special) {
    const ember_tokenizer *tokenizer = encoder->tokenizer;
    if (add_special) EMBER_TRY(tok_ids_append(encoder->out, tokenizer->prefix, tokenizer->n_prefix));
    size_t from = 0;
    size_t used = 0;
    for (;;) {
        const tok_added *token = NULL;
        size_t start = n;
        size_t end = n;
        const bool found = tok_added_next(&tokenizer->raw, text, n, &from, used, encoder->plain, &token, &start, &end);
        const size_t stop = found ? start : n;
        if (stop > used) {
            EMBER_TRY(tokenizer->is_bytes ? encode_bytes(encoder, text + used, stop - used)
                                          : encode_segment(encoder, text + used, stop - used, used == 0));
        }
        if (!found) break;
        EMBER_TRY(tok_ids_append(encoder->out, &token->id, 1));
        used = end;
    }
    return add_special ? tok_ids_append(encoder->out, tokenizer->suffix, tokenizer->n_suffix) : EMBER_OK;
}

ember_status ember_encode(ember_encoder *encoder, const char *text, size_t n, bool add_special, bool plain, ember_ids *out) {
    const size_t before = out->n;
    if (encoder->plain != plain && encoder->cache) tok_cache_clear(encoder); /* special tokens are looked up differently */
    encoder->plain = plain;
    encoder->out = out;
    const ember_status status = encode_all(encoder, text, n, add_special);
    encoder->out = NULL;
    if (status != EMBER_OK) out->n = before;
    return status;
}
