/* The BPE model of a tokenizer.json: vocabulary, merges, unknown and byte tokens. */
#include "data/tokenizer_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "lib/base/status.h"

static size_t slot_of(const ember_tokenizer *tokenizer, const char *text, size_t n) {
    size_t slot = (size_t)XXH3_64bits(text, n) & tokenizer->slot_mask;
    while (tokenizer->slots[slot] != 0) {
        const tok_token *token = &tokenizer->tokens[tokenizer->slots[slot] - 1];
        if (token->n == n && memcmp(token->text, text, n) == 0) break;
        slot = (slot + 1) & tokenizer->slot_mask;
    }
    return slot;
}

int64_t tok_lookup(const ember_tokenizer *tokenizer, const char *text, size_t n) {
    return (int64_t)tokenizer->slots[slot_of(tokenizer, text, n)] - 1;
}

/* Id of a token of the model (added tokens left out), or -1. */
static int32_t model_lookup(const ember_tokenizer *tokenizer, const char *text, size_t n) {
    const int64_t id = tok_lookup(tokenizer, text, n);
    return id >= 0 && tokenizer->tokens[id].in_model ? (int32_t)id : TOK_NONE;
}

static ember_status check_id(const json_t *value, const char *token, int64_t *id) {
    if (!json_is_integer(value)) return ember_fail(EMBER_E_FORMAT, "token \"%s\": the id is not an integer", token);
    *id = json_integer_value(value);
    if (*id < 0 || *id >= TOK_MAX_VOCAB) {
        return ember_fail(EMBER_E_FORMAT, "token \"%s\": id %" PRId64 " is out of range; ids go from 0 to %d", token, *id,
                          TOK_MAX_VOCAB - 1);
    }
    return EMBER_OK;
}

typedef struct sizes {
    size_t n_tokens, n_bytes;
    int64_t largest;
} sizes;

static ember_status measure(const json_t *vocab, const json_t *added, sizes *out) {
    *out = (sizes){.largest = -1};
    const char *key = NULL;
    size_t n = 0;
    json_t *value = NULL;
    int64_t id = 0;
    json_object_keylen_foreach((json_t *)vocab, key, n, value) {
        EMBER_TRY(check_id(value, key, &id));
        if (id > out->largest) out->largest = id;
        out->n_tokens++;
        out->n_bytes += n + 1;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *item = json_array_get(added, i);
        const json_t *content = json_object_get(item, "content");
        if (!json_is_string(content)) return ember_fail(EMBER_E_FORMAT, "added_tokens[%zu]: \"content\" is not a string", i);
        EMBER_TRY(check_id(json_object_get(item, "id"), json_string_value(content), &id));
        if (json_string_length(content) == 0) return ember_fail(EMBER_E_FORMAT, "added_tokens[%zu]: \"content\" is empty", i);
        if (id > out->largest) out->largest = id;
        out->n_tokens++;
        out->n_bytes += json_string_length(content) + 1;
    }
    if (out->largest < 0) return ember_fail(EMBER_E_FORMAT, "model.vocab: there is no token");
    return EMBER_OK;
}

static ember_status reserve_tokens(ember_tokenizer *tokenizer, const sizes *size) {
    void *block = NULL;
    tokenizer->vocab_size = (size_t)size->largest + 1;
    EMBER_TRY(ember_allocate(&block, tokenizer->vocab_size, sizeof(tok_token), "tokens"));
    tokenizer->tokens = block;
    EMBER_TRY(ember_allocate(&block, size->n_bytes, 1, "token texts"));
    tokenizer->strings = block;
    size_t n_slots = 16;
    while (n_slots < 2 * size->n_tokens)
        n_slots *= 2;
    EMBER_TRY(ember_allocate(&block, n_slots, sizeof(uint32_t), "token table"));
    tokenizer->slots = block;
    tokenizer->slot_mask = n_slots - 1;
    return EMBER_OK;
}

static ember_status add_token(ember_tokenizer *tokenizer, const char *text, size_t n, int64_t id, bool in_model, size_t *used) {
    tok_token *token = &tokenizer->tokens[id];
    const size_t slot = slot_of(tokenizer, text, n);
    if (tokenizer->slots[slot] != 0) {
        const int64_t known = (int64_t)tokenizer->slots[slot] - 1;
        if (known == id) return EMBER_OK;
        return ember_fail(EMBER_E_FORMAT, "token \"%s\" has two ids, %" PRId64 " and %" PRId64, text, known, id);
    }
    if (token->text) return ember_fail(EMBER_E_FORMAT, "id %" PRId64 " belongs to two tokens, \"%s\" and \"%s\"", id, token->text, text);
    if (n > UINT32_MAX) return ember_fail(EMBER_E_FORMAT, "token with id %" PRId64 ": %zu bytes are too many", id, n);
    char *copy = tokenizer->strings + *used;
    memcpy(copy, text, n);
    *used += n + 1;
    *token = (tok_token){.text = copy, .n = (uint32_t)n, .in_model = in_model};
    tokenizer->slots[slot] = (uint32_t)id + 1;
    if (n > tokenizer->longest_token) tokenizer->longest_token = n;
    return EMBER_OK;
}

static ember_status parse_vocab(ember_tokenizer *tokenizer, const json_t *vocab, const json_t *added) {
    sizes size;
    EMBER_TRY(measure(vocab, added, &size));
    EMBER_TRY(reserve_tokens(tokenizer, &size));
    const char *key = NULL;
    size_t n = 0;
    json_t *value = NULL;
    size_t used = 0;
    json_object_keylen_foreach((json_t *)vocab, key, n, value) {
        EMBER_TRY(add_token(tokenizer, key, n, json_integer_value(value), true, &used));
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *item = json_array_get(added, i);
        const json_t *content = json_object_get(item, "content");
        EMBER_TRY(add_token(tokenizer, json_string_value(content), json_string_length(content),
                            json_integer_value(json_object_get(item, "id")), false, &used));
    }
    return EMBER_OK;
}

/* "a b", or ["a", "b"] where a part may hold a blank. */
static ember_status merge_parts(const json_t *item, size_t index, const char *part[2], size_t n[2]) {
    if (json_is_array(item)) {
        for (size_t i = 0; i < 2; i++) {
            const json_t *value = json_array_get(item, i);
            if (json_array_size(item) != 2 || !json_is_string(value)) {
                return ember_fail(EMBER_E_FORMAT, "model.merges[%zu] is not a pair of strings", index);
            }
            part[i] = json_string_value(value);
            n[i] = json_string_length(value);
        }
        return EMBER_OK;
    }
    if (!json_is_string(item)) return ember_fail(EMBER_E_FORMAT, "model.merges[%zu] is neither a string nor a pair", index);
    const char *text = json_string_value(item);
    const size_t length = json_string_length(item);
    const char *blank = memchr(text, ' ', length);
    const size_t left = blank ? (size_t)(blank - text) : length;
    if (!blank || memchr(blank + 1, ' ', length - left - 1)) {
        return ember_fail(EMBER_E_FORMAT, "model.merges[%zu] \"%s\" is not two parts with one blank between them", index, text);
    }
    part[0] = text;
    n[0] = left;
    part[1] = blank + 1;
    n[1] = length - left - 1;
    return EMBER_OK;
}

static void put_merge(ember_tokenizer *tokenizer, uint64_t pair, uint32_t rank, uint32_t id) {
    size_t slot = (size_t)((pair * 0x9E3779B97F4A7C15U) >> tokenizer->merge_shift);
    while (tokenizer->merges[slot].pair != UINT64_MAX && tokenizer->merges[slot].pair != pair)
        slot = (slot + 1) & tokenizer->merge_mask;
    /* of a pair given twice the later rank counts, as in the reference */
    tokenizer->merges[slot] = (tok_merge){.pair = pair, .rank = rank, .id = id};
}

static ember_status parse_merge(ember_tokenizer *tokenizer, const json_t *item, size_t index, uint32_t rank, ember_bytes *scratch) {
    const char *part[2];
    size_t n[2];
    int32_t id[2];
    EMBER_TRY(merge_parts(item, index, part, n));
    for (size_t i = 0; i < 2; i++) {
        id[i] = model_lookup(tokenizer, part[i], n[i]);
        if (id[i] < 0) return ember_fail(EMBER_E_FORMAT, "model.merges[%zu]: \"%.*s\" is not in the vocabulary", index, (int)n[i], part[i]);
    }
    scratch->n = 0;
    EMBER_TRY(ember_bytes_append(scratch, part[0], n[0]));
    EMBER_TRY(ember_bytes_append(scratch, part[1], n[1]));
    const int32_t result = model_lookup(tokenizer, scratch->data, scratch->n);
    if (result < 0)
        return ember_fail(EMBER_E_FORMAT, "model.merges[%zu]: its result \"%s\" is not in the vocabulary", index, scratch->data);
    put_merge(tokenizer, (uint64_t)(uint32_t)id[0] << 32 | (uint32_t)id[1], rank, (uint32_t)result);
    return EMBER_OK;
}

static ember_status parse_merges(ember_tokenizer *tokenizer, const json_t *merges) {
    if (!json_is_array(merges)) return ember_fail(EMBER_E_FORMAT, "model.merges is not an array");
    int bits = 4;
    while (((size_t)1 << bits) < 2 * json_array_size(merges))
        bits++;
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, (size_t)1 << bits, sizeof(tok_merge), "merges"));
    tokenizer->merges = block;
    tokenizer->merge_shift = 64 - bits;
    tokenizer->merge_mask = ((size_t)1 << bits) - 1;
    for (size_t i = 0; i <= tokenizer->merge_mask; i++)
        tokenizer->merges[i].pair = UINT64_MAX;
    ember_bytes scratch = {0};
    ember_status status = EMBER_OK;
    uint32_t rank = 0;
    for (size_t i = 0; i < json_array_size(merges) && status == EMBER_OK; i++) {
        const json_t *item = json_array_get(merges, i);
        if (json_is_string(item) && strncmp(json_string_value(item), "#version", 8) == 0) continue;
        status = parse_merge(tokenizer, item, i, rank++, &scratch);
    }
    ember_bytes_free(&scratch);
    return status;
}

/* Parts of the model that would change the ids and are not built. */
static ember_status refuse_options(const json_t *model) {
    const json_t *type = json_object_get(model, "type");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0)) {
        return ember_fail(EMBER_E_UNSUPPORTED, "model: type \"%s\" is not supported; BPE is",
                          json_is_string(type) ? json_string_value(type) : "?");
    }
    if (!type && !json_object_get(model, "merges")) {
        return ember_fail(EMBER_E_UNSUPPORTED, "model: it has no \"type\" and no \"merges\", so it is not BPE; only BPE is supported");
    }
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) &&
        !(json_is_number(dropout) && !(json_number_value(dropout) > 0 || json_number_value(dropout) < 0))) {
        return ember_fail(EMBER_E_UNSUPPORTED, "model.dropout is set; ids would be random; only null is supported");
    }
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *affix = json_object_get(model, affixes[i]);
        if (affix && !json_is_null(affix) && !(json_is_string(affix) && json_string_length(affix) == 0)) {
            return ember_fail(EMBER_E_UNSUPPORTED, "model.%s is set, which is not supported; null is", affixes[i]);
        }
    }
    return EMBER_OK;
}

static ember_status parse_unknown(ember_tokenizer *tokenizer, const json_t *model) {
    const json_t *unknown = json_object_get(model, "unk_token");
    tokenizer->unk = TOK_NONE;
    if (!unknown || json_is_null(unknown)) return EMBER_OK;
    if (!json_is_string(unknown)) return ember_fail(EMBER_E_FORMAT, "model.unk_token is not a string");
    tokenizer->unk = tok_lookup(tokenizer, json_string_value(unknown), json_string_length(unknown));
    if (tokenizer->unk < 0)
        return ember_fail(EMBER_E_FORMAT, "model.unk_token \"%s\" is not in the vocabulary", json_string_value(unknown));
    return EMBER_OK;
}

ember_status tok_model_parse(ember_tokenizer *tokenizer, const json_t *model, const json_t *added) {
    if (!json_is_object(model)) return ember_fail(EMBER_E_FORMAT, "\"model\" is not an object; a tokenizer.json has one");
    EMBER_TRY(refuse_options(model));
    const json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(vocab)) return ember_fail(EMBER_E_FORMAT, "model.vocab is not an object");
    if (added && !json_is_null(added) && !json_is_array(added)) return ember_fail(EMBER_E_FORMAT, "added_tokens is not an array");
    EMBER_TRY(parse_vocab(tokenizer, vocab, added));
    EMBER_TRY(parse_merges(tokenizer, json_object_get(model, "merges")));
    EMBER_TRY(parse_unknown(tokenizer, model));
    EMBER_TRY(tok_bool(model, "ignore_merges", false, "model", &tokenizer->ignore_merges));
    EMBER_TRY(tok_bool(model, "byte_fallback", false, "model", &tokenizer->byte_fallback));
    return tok_bool(model, "fuse_unk", false, "model", &tokenizer->fuse_unk);
}

/* The GPT-2 alphabet: printable Latin-1 bytes are themselves, the others count up from U+0100. */
static void fill_alphabet(ember_tokenizer *tokenizer) {
    for (size_t i = 0; i < TOK_BYTE_CHARS; i++)
        tokenizer->char_byte[i] = TOK_NONE;
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        const unsigned code = printable ? byte : next++;
        tokenizer->byte_char[byte] = (uint16_t)code;
        tokenizer->char_byte[code] = (int16_t)byte;
    }
}

/* True when no merge makes a token with U+2581 behind another character: then such a place is never
 * merged across, and a text that is one long piece may be encoded word by word. */
static bool marker_splits(const ember_tokenizer *tokenizer) {
    static const char marker[] = "\xE2\x96\x81";
    if (tokenizer->ignore_merges || model_lookup(tokenizer, marker, 3) < 0) return false;
    for (size_t i = 0; i <= tokenizer->merge_mask; i++) {
        if (tokenizer->merges[i].pair == UINT64_MAX) continue;
        const tok_token *token = &tokenizer->tokens[tokenizer->merges[i].id];
        for (size_t at = 1; at + 3 <= token->n; at++) {
            if (memcmp(token->text + at, marker, 3) == 0 && (at < 3 || memcmp(token->text + at - 3, marker, 3) != 0)) return false;
        }
    }
    return true;
}

/* Tables that follow from the vocabulary and the rules. */
void tok_model_finish(ember_tokenizer *tokenizer) {
    fill_alphabet(tokenizer);
    bool complete = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        tokenizer->byte_symbol[byte] = model_lookup(tokenizer, text, tok_utf8_put(text, tokenizer->byte_char[byte]));
        complete = complete && tokenizer->byte_symbol[byte] >= 0;
        (void)snprintf(text, sizeof text, "<0x%02X>", byte);
        tokenizer->byte_fallbacks[byte] = model_lookup(tokenizer, text, 6);
        text[0] = (char)byte;
        if (byte < 128) tokenizer->ascii_symbol[byte] = model_lookup(tokenizer, text, 1);
    }
    for (size_t i = 0; i < tokenizer->n_stages; i++)
        tokenizer->maps_bytes = tokenizer->maps_bytes || tokenizer->stages[i].kind == TOK_STAGE_BYTE_LEVEL;
    size_t n_byte_level = 0;
    for (size_t i = 0; i < tokenizer->n_stages; i++)
        n_byte_level += tokenizer->stages[i].kind == TOK_STAGE_BYTE_LEVEL;
    tokenizer->raw_bytes = complete && n_byte_level == 1 && tokenizer->stages[tokenizer->n_stages - 1].kind == TOK_STAGE_BYTE_LEVEL;
    tokenizer->marker_splits = marker_splits(tokenizer);
}
