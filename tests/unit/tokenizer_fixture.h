/* tokenizer_fixture.h - small tokenizer.json texts. Byte-level ones give byte b the id b, further tokens
 * follow from 256 on, so that expected ids can be worked out by hand. */
#ifndef EMBER_TESTS_TOKENIZER_FIXTURE_H
#define EMBER_TESTS_TOKENIZER_FIXTURE_H

#include <jansson.h>

#include "data/tokenizer.h"
#include "tests/check.h"

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true,\"trim_offsets\":true}"
#define BYTE_LEVEL_ONLY "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false,\"trim_offsets\":true}"
#define SEQUENCE(a, b) "{\"type\":\"Sequence\",\"pretokenizers\":[" a "," b "]}"
#define SPLIT(pattern, behavior, invert) "{\"type\":\"Split\",\"pattern\":" pattern ",\"behavior\":\"" behavior "\",\"invert\":" invert "}"
#define LLAMA3_REGEX                                                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" \
    "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define QWEN2_REGEX                                                                                                           \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" \
    "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

typedef struct fixture {
    const char *normalizer, *pre_tokenizer, *post_processor, *decoder, *added; /* JSON; NULL: null */
    const char *const *tokens;                                                 /* further tokens, NULL-terminated, as text */
    const char *const *merges;                                                 /* pairs: left, right, ..., NULL */
    bool merges_as_pairs, ignore_merges, byte_fallback, fuse_unk;
    const char *unk;
    bool characters; /* tokens are characters, not bytes: no alphabet is put in front, ids from 0 */
} fixture;

/* The character that stands for a byte in byte-level vocabularies. */
static inline size_t byte_character(unsigned byte, char out[3]) {
    unsigned code = byte;
    if (!((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174)) {
        code = byte <= 32 ? 256 + byte : byte <= 160 ? 256 + 33 + byte - 127 : 256 + 67;
    }
    if (code < 128) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
}

static inline void byte_text(const char *text, char out[512]) {
    size_t n = 0;
    for (; *text; text++)
        n += byte_character((unsigned char)*text, out + n);
    out[n] = '\0';
}

static inline json_t *json_part(const char *text) {
    json_t *part = text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
    if (!part) fail_msg("the test's own JSON is malformed: %s", text ? text : "null");
    return part;
}

static inline void put_token(json_t *vocab, const fixture *f, const char *text) {
    char name[512];
    if (f->characters)
        (void)snprintf(name, sizeof name, "%s", text);
    else
        byte_text(text, name);
    if (!json_object_get(vocab, name))
        assert_int_equal(json_object_set_new(vocab, name, json_integer((json_int_t)json_object_size(vocab))), 0);
}

static inline json_t *fixture_vocab(const fixture *f) {
    json_t *vocab = json_object();
    for (unsigned byte = 0; !f->characters && byte < 256; byte++) {
        char name[4] = "";
        (void)byte_character(byte, name);
        assert_int_equal(json_object_set_new(vocab, name, json_integer(byte)), 0);
    }
    for (size_t i = 0; f->tokens && f->tokens[i]; i++)
        put_token(vocab, f, f->tokens[i]);
    return vocab;
}

static inline json_t *fixture_merges(const fixture *f) {
    json_t *merges = json_array();
    for (size_t i = 0; f->merges && f->merges[i]; i += 2) {
        char left[512];
        char right[512];
        char both[1100];
        (void)snprintf(left, sizeof left, "%s", f->merges[i]);
        (void)snprintf(right, sizeof right, "%s", f->merges[i + 1]);
        if (!f->characters) {
            byte_text(f->merges[i], left);
            byte_text(f->merges[i + 1], right);
        }
        (void)snprintf(both, sizeof both, "%s %s", left, right);
        assert_int_equal(json_array_append_new(merges, f->merges_as_pairs ? json_pack("[ss]", left, right) : json_string(both)), 0);
    }
    return merges;
}

/* The text of the tokenizer.json; free() it. */
static inline char *fixture_text(const fixture *f) {
    json_t *model = json_pack("{s:s, s:n, s:s?, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token", f->unk,
                              "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", f->fuse_unk, "byte_fallback", f->byte_fallback,
                              "ignore_merges", f->ignore_merges, "vocab", fixture_vocab(f), "merges", fixture_merges(f));
    json_t *root = json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding", "added_tokens",
                             json_part(f->added ? f->added : "[]"), "normalizer", json_part(f->normalizer), "pre_tokenizer",
                             json_part(f->pre_tokenizer), "post_processor", json_part(f->post_processor), "decoder", json_part(f->decoder),
                             "model", model);
    char *text = root ? json_dumps(root, 0) : NULL;
    assert_non_null(text);
    json_decref(root);
    return text;
}

static inline ember_tokenizer *fixture_open(const fixture *f) {
    char *text = fixture_text(f);
    ember_tokenizer *tokenizer = NULL;
    check_ok(ember_tokenizer_parse(&tokenizer, text, strlen(text), "fixture"));
    free(text);
    return tokenizer;
}

static inline void fixture_fails(const fixture *f, ember_status status, const char *part) {
    char *text = fixture_text(f);
    ember_tokenizer *tokenizer = NULL;
    check_fails(ember_tokenizer_parse(&tokenizer, text, strlen(text), "fixture"), status, part);
    assert_null(tokenizer);
    free(text);
}

/* Encodes once more into a fresh list; free it with ember_ids_free. */
static inline ember_ids encode_text(const ember_tokenizer *tokenizer, const char *text, size_t n, bool special, bool plain) {
    ember_encoder *encoder = NULL;
    ember_ids ids = {0};
    check_ok(ember_encoder_create(&encoder, tokenizer));
    check_ok(ember_encode(encoder, text, n, special, plain, &ids));
    ember_encoder_free(encoder);
    return ids;
}

static inline void check_ids(const char *what, ember_ids ids, const uint32_t *wanted, size_t n) {
    bool same = ids.n == n;
    for (size_t i = 0; same && i < n; i++)
        same = ids.data[i] == wanted[i];
    if (same) return;
    char got[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < ids.n && used < 900; i++)
        used += (size_t)snprintf(got + used, sizeof got - used, " %u", ids.data[i]);
    fail_msg("\"%s\": %zu ids, not %zu:%s", what, ids.n, n, got);
}

#define check_encodes(tokenizer, text, ...)                                            \
    do {                                                                               \
        const uint32_t wanted_[] = {__VA_ARGS__};                                      \
        ember_ids ids_ = encode_text((tokenizer), (text), strlen(text), false, false); \
        check_ids((text), ids_, wanted_, sizeof wanted_ / sizeof *wanted_);            \
        ember_ids_free(&ids_);                                                         \
    } while (0)

static inline void check_decodes(const ember_tokenizer *tokenizer, const uint32_t *ids, size_t n, bool skip, const char *wanted) {
    ember_bytes text = {0};
    check_ok(ember_decode(tokenizer, ids, n, skip, &text));
    assert_string_equal(text.data, wanted);
    ember_bytes_free(&text);
}

/* `pieces` (NULL-terminated) are what the pre-tokenizer must make of `text`: each is a token of its own and
 * ignore_merges is on, so any other split gives other ids. */
static inline void check_pieces(const char *normalizer, const char *pre_tokenizer, const char *text, const char *const *pieces) {
    const fixture f = {.normalizer = normalizer, .pre_tokenizer = pre_tokenizer, .tokens = pieces, .ignore_merges = true};
    ember_tokenizer *tokenizer = fixture_open(&f);
    uint32_t wanted[64];
    size_t n = 0;
    for (; pieces[n]; n++) {
        char name[512];
        byte_text(pieces[n], name);
        wanted[n] = (uint32_t)ember_tokenizer_find(tokenizer, name);
    }
    ember_ids ids = encode_text(tokenizer, text, strlen(text), false, false);
    check_ids(text, ids, wanted, n);
    ember_ids_free(&ids);
    ember_tokenizer_free(tokenizer);
}
#define CHECK_PIECES(pre, text, ...) check_pieces(NULL, (pre), (text), (const char *const[]){__VA_ARGS__, NULL})

#endif
