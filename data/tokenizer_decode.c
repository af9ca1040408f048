#include "data/tokenizer_parts.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/status.h"

/* Byte tokens that make no character come out as the bytes they are (the reference writes U+FFFD): text
 * that is generated is never altered, and a later push may complete the character. */
struct ember_decoder {
    const ember_tokenizer *tokenizer;
    bool skip_special;
    bool started;      /* a token has been decoded */
    size_t start_left; /* characters Strip may still take from the front */
    size_t held;       /* copies of Strip's character held back: they may be the end */
    tok_matcher matcher;
    ember_bytes scratch[2];
};

ember_status ember_decoder_create(ember_decoder **out, const ember_tokenizer *tokenizer, bool skip_special) {
    void *block = NULL;
    *out = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_decoder), "decoder"));
    ember_decoder *decoder = block;
    decoder->tokenizer = tokenizer;
    decoder->skip_special = skip_special;
    decoder->start_left = tokenizer->decoder.has_strip ? tokenizer->decoder.strip.start : 0;
    bool has_regex = false; /* rare, and its stack is not cheap */
    for (size_t i = 0; i < tokenizer->decoder.n_steps; i++)
        has_regex = has_regex || tokenizer->decoder.steps[i].pattern.code;
    const ember_status status = has_regex ? tok_matcher_create(&decoder->matcher) : EMBER_OK;
    if (status != EMBER_OK) {
        ember_decoder_free(decoder);
        return status;
    }
    *out = decoder;
    return EMBER_OK;
}

void ember_decoder_free(ember_decoder *decoder) {
    if (!decoder) return;
    tok_matcher_free(&decoder->matcher);
    ember_bytes_free(&decoder->scratch[0]);
    ember_bytes_free(&decoder->scratch[1]);
    ember_release(decoder);
}

/* Strip over the whole text, with what may be its end held back. The character is one byte. */
static ember_status put_stripped(ember_decoder *decoder, const char *text, size_t n, ember_bytes *out) {
    const tok_decode_step *strip = &decoder->tokenizer->decoder.strip;
    const char mark = strip->content[0];
    while (n > 0 && decoder->start_left > 0) {
        if (text[0] != mark) {
            decoder->start_left = 0;
            break;
        }
        decoder->start_left--;
        text++;
        n--;
    }
    size_t trailing = 0;
    while (trailing < n && trailing < strip->stop && text[n - 1 - trailing] == mark)
        trailing++;
    const size_t all = trailing == n ? decoder->held + n : trailing; /* marks at the end of what has come so far */
    const size_t hold = all < strip->stop ? all : strip->stop;
    const size_t release = decoder->held + n - hold; /* bytes of held marks, then text */
    const size_t marks = release < decoder->held ? release : decoder->held;
    for (size_t i = 0; i < marks; i++)
        EMBER_TRY(ember_bytes_append(out, &mark, 1));
    EMBER_TRY(ember_bytes_append(out, text, release - marks));
    decoder->held = hold;
    return EMBER_OK;
}

static ember_status put(ember_decoder *decoder, const char *text, size_t n, ember_bytes *out) {
    return decoder->tokenizer->decoder.has_strip ? put_stripped(decoder, text, n, out) : ember_bytes_append(out, text, n);
}

ember_status ember_decoder_push(ember_decoder *decoder, uint32_t id, ember_bytes *out) {
    const ember_tokenizer *tokenizer = decoder->tokenizer;
    if (id >= tokenizer->vocab_size || !tokenizer->tokens[id].text) {
        return ember_fail(EMBER_E_ARGUMENT, "id %" PRIu32 " is no token; the vocabulary ends at %zu", id, tokenizer->vocab_size - 1);
    }
    const tok_token *token = &tokenizer->tokens[id];
    if (decoder->skip_special && token->special) return EMBER_OK;
    const char *text = tokenizer->decoder.text + token->decoded;
    size_t n = token->decoded_n;
    bool is_byte = token->is_byte;
    uint8_t byte = token->byte;
    if (!decoder->started) {
        EMBER_TRY(tok_decode_token(tokenizer, &decoder->matcher, token, true, decoder->scratch, &text, &n, &is_byte, &byte));
    } else if (tokenizer->decoder.join) {
        EMBER_TRY(ember_bytes_append(out, " ", 1));
    }
    decoder->started = true;
    if (!is_byte) return put(decoder, text, n, out);
    const char raw = (char)byte;
    return put(decoder, &raw, 1, out);
}

ember_status ember_decoder_flush(ember_decoder *decoder, ember_bytes *out) {
    decoder->held = 0; /* these were the end, and Strip takes them */
    decoder->started = false;
    decoder->start_left = decoder->tokenizer->decoder.has_strip ? decoder->tokenizer->decoder.strip.start : 0;
    return ember_bytes_append(out, "", 0);
}

ember_status ember_decode(const ember_tokenizer *tokenizer, const uint32_t *ids, size_t n, bool skip_special, ember_bytes *out) {
    ember_decoder *decoder = NULL;
    ember_status status = EMBER_OK;
    const size_t before = out->n;
    EMBER_TRY(ember_decoder_create(&decoder, tokenizer, skip_special));
    for (size_t i = 0; i < n; i++)
        EMBER_TRY_GOTO(ember_decoder_push(decoder, ids[i], out), done);
    status = ember_decoder_flush(decoder, out);
done:
    ember_decoder_free(decoder);
    if (status != EMBER_OK) {
        out->n = before;
        if (out->data) out->data[before] = '\0';
    }
    return status;
}
