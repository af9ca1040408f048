/* rooms: data base */
/* Properties over many random texts, valid and not: what is encoded in two parts equals the whole, lossless
 * tokenizers give every byte back, streaming equals decoding at once, and a used encoder equals a new one. */
#include "lib/base/philox.h"
#include "tests/unit/tokenizer_fixture.h"

enum { N_TEXTS = 300, MAX_PARTS = 40, MAX_TEXT = 2048 };

/* Blanks, line ends, letters of several scripts, digits, stops, contractions, marks, added tokens, and
 * bytes that are no UTF-8: the places where pieces begin and end. */
static const char *const material[] = {" ",
                                       "  ",
                                       "\n",
                                       "\n\n",
                                       "\r\n",
                                       "\t",
                                       "\xC2\xA0",
                                       "\xE3\x80\x80",
                                       "a",
                                       "the",
                                       "ab",
                                       "abab",
                                       "The",
                                       "'s",
                                       "'S",
                                       "'ll",
                                       "12",
                                       "12345",
                                       ",",
                                       ".",
                                       "...",
                                       "!",
                                       "\xE3\x80\x82",
                                       "\xEF\xBC\x8C",
                                       "\xE6\x97\xA5\xE6\x9C\xAC",
                                       "\xE3\x81\x8B\xE3\x82\x99",
                                       "\xED\x95\x9C",
                                       "\xC3\xA9",
                                       "e\xCC\x81",
                                       "\xCC\x81",
                                       "\xC5\xBF",
                                       "\xD0\xBF\xD1\x80",
                                       "<t>",
                                       "<t",
                                       ">",
                                       "a b",
                                       "x\ny",
                                       "\xFF",
                                       "\xC3",
                                       "\xE6\x97",
                                       "\x80\x80",
                                       "\xED\xA0\x80",
                                       "\xC0\xAF",
                                       "\xF4\x90\x80\x80",
                                       "\xE2\x96\x81",
                                       "_",
                                       "-"};
enum { N_MATERIAL = sizeof material / sizeof *material };

static size_t random_text(uint64_t index, char out[MAX_TEXT]) {
    const uint32_t n_parts = ember_philox_u32(11, 1, index) % MAX_PARTS;
    const uint32_t first = ember_philox_u32(11, 3, index) % N_MATERIAL; /* some texts draw from few kinds */
    const uint32_t kinds = index % 3 == 0 ? 4 : N_MATERIAL;
    size_t n = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        const uint32_t pick = (first + ember_philox_u32(11, 2, index * MAX_PARTS + i) % kinds) % N_MATERIAL;
        const size_t length = strlen(material[pick]);
        memcpy(out + n, material[pick], length);
        n += length;
    }
    out[n++] = '\0'; /* a NUL byte is text too */
    return n;
}

static const char *const words[] = {"ab", "he", " t", " th", " the", "  ", ", ", "\n\n", ".\n", "12", NULL};
static const char *const pairs[] = {"a", "b", "h", "e",  " ",  "t", " t", "h", " th", "e", " ",
                                    " ", ",", " ", "\n", "\n", ".", "\n", "1", "2",   NULL};
#define WORDS .decoder = BYTE_LEVEL, .tokens = words, .merges = pairs
#define PLAIN_ADDED "[{\"id\":300,\"content\":\"<t>\",\"special\":true,\"normalized\":false}]"

static const struct {
    const char *name;
    fixture f;
    bool lossless, cuts; /* what must hold; cuts: some text has a place to cut */
} cases[] = {
    {"gpt2", {.pre_tokenizer = BYTE_LEVEL, .added = PLAIN_ADDED, WORDS}, true, true},
    {"prefix space", {.pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", .added = PLAIN_ADDED, WORDS}, false, true},
    {"llama3",
     {.pre_tokenizer = SEQUENCE(SPLIT("{\"Regex\":\"" LLAMA3_REGEX "\"}", "Isolated", "false"), BYTE_LEVEL_ONLY),
      .ignore_merges = true,
      WORDS},
     true,
     true},
    {"llama3 inverted",
     {.pre_tokenizer = SEQUENCE(SPLIT("{\"Regex\":\"" LLAMA3_REGEX "\"}", "Removed", "true"), BYTE_LEVEL_ONLY), WORDS},
     true,
     true},
    {"qwen2",
     {.normalizer = "{\"type\":\"NFC\"}",
      .pre_tokenizer = SEQUENCE(SPLIT("{\"Regex\":\"" QWEN2_REGEX "\"}", "Isolated", "false"), BYTE_LEVEL_ONLY),
      .added = PLAIN_ADDED,
      WORDS},
     false,
     true},
    {"smollm", {.pre_tokenizer = SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}", BYTE_LEVEL), WORDS}, true, true},
    {"digit runs", {.pre_tokenizer = SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":false}", BYTE_LEVEL), WORDS}, true, true},
    {"one piece", {.pre_tokenizer = BYTE_LEVEL_ONLY, WORDS}, true, false},
    {"unknown pattern",
     {.pre_tokenizer = SEQUENCE(SPLIT("{\"Regex\":\"[a-z ]+\"}", "Isolated", "false"), BYTE_LEVEL_ONLY), WORDS},
     true,
     false},
    {"removing", {.pre_tokenizer = SEQUENCE(SPLIT("{\"Regex\":\"\\\\s\"}", "Removed", "false"), BYTE_LEVEL), WORDS}, false, false},
    {"token over the cut",
     {.pre_tokenizer = BYTE_LEVEL,
      .added = "[{\"id\":300,\"content\":\"a b\",\"normalized\":false},{\"id\":301,\"content\":\"x\\ny\"}]",
      WORDS},
     true,
     true},
    {"flags",
     {.pre_tokenizer = BYTE_LEVEL,
      .added = "[{\"id\":300,\"content\":\"the\",\"single_word\":true},{\"id\":301,\"content\":\"<t\",\"rstrip\":true},"
               "{\"id\":46,\"content\":\".\",\"lstrip\":true}]",
      WORDS},
     false,
     false},
    {"metaspace",
     {.pre_tokenizer = "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"always\",\"split\":true}",
      .tokens = (const char *const[]){"<unk>", "\xE2\x96\x81", "a", "t", "h", "e", "\xE2\x96\x81t", NULL},
      .merges = (const char *const[]){"\xE2\x96\x81", "t", NULL},
      .unk = "<unk>",
      .characters = true},
     false,
     true},
};

static void same(const char *name, uint64_t index, const char *what, const void *a, size_t n_a, const void *b, size_t n_b) {
    if (n_a != n_b || (n_a > 0 && memcmp(a, b, n_a) != 0)) fail_msg("%s, text %llu: %s differs", name, (unsigned long long)index, what);
}

static size_t check_cuts(const char *name, uint64_t index, const ember_tokenizer *tokenizer, ember_encoder *encoder, const char *text,
                         size_t n) {
    size_t n_cuts = 0;
    for (size_t from = 0; from < n; from++) {
        const size_t cut = ember_encode_cut(tokenizer, text, n, from);
        assert_true(cut >= from && cut <= n);
        if (cut >= n) break;
        assert_true(cut > 0);
        for (int plain = 0; plain < 2; plain++) {
            ember_ids whole = {0};
            ember_ids parts = {0};
            check_ok(ember_encode(encoder, text, n, false, plain == 1, &whole));
            check_ok(ember_encode(encoder, text, cut, false, plain == 1, &parts));
            check_ok(ember_encode(encoder, text + cut, n - cut, false, plain == 1, &parts));
            same(name, index, "a text in two parts", whole.data, 4 * whole.n, parts.data, 4 * parts.n);
            ember_ids_free(&whole);
            ember_ids_free(&parts);
        }
        n_cuts++;
        from = cut;
    }
    return n_cuts;
}

static void check_round_trip(const char *name, uint64_t index, const ember_tokenizer *tokenizer, ember_ids ids, const char *text, size_t n,
                             bool lossless) {
    ember_bytes whole = {0};
    ember_bytes stream = {0};
    ember_decoder *decoder = NULL;
    check_ok(ember_decode(tokenizer, ids.data, ids.n, false, &whole));
    check_ok(ember_decoder_create(&decoder, tokenizer, false));
    for (size_t i = 0; i < ids.n; i++)
        check_ok(ember_decoder_push(decoder, ids.data[i], &stream));
    check_ok(ember_decoder_flush(decoder, &stream));
    same(name, index, "streamed text", stream.data, stream.n, whole.data, whole.n);
    if (lossless) same(name, index, "the round trip", whole.data, whole.n, text, n);
    ember_decoder_free(decoder);
    ember_bytes_free(&whole);
    ember_bytes_free(&stream);
}

static void check_case(const char *name, const ember_tokenizer *tokenizer, bool lossless, bool cuts) {
    ember_encoder *encoder = NULL;
    size_t n_cuts = 0;
    check_ok(ember_encoder_create(&encoder, tokenizer));
    assert_int_equal(ember_tokenizer_lossless(tokenizer), lossless);
    for (uint64_t index = 0; index < N_TEXTS; index++) {
        char text[MAX_TEXT];
        const size_t n = random_text(index, text);
        ember_ids ids = {0};
        check_ok(ember_encode(encoder, text, n, false, false, &ids));
        if (index % 16 == 0) {
            ember_ids fresh = encode_text(tokenizer, text, n, false, false);
            same(name, index, "a used encoder's result", ids.data, 4 * ids.n, fresh.data, 4 * fresh.n);
            ember_ids_free(&fresh);
        }
        check_round_trip(name, index, tokenizer, ids, text, n, lossless);
        n_cuts += check_cuts(name, index, tokenizer, encoder, text, n);
        ember_ids_free(&ids);
    }
    if (cuts != (n_cuts > 0)) fail_msg("%s: %zu places to cut", name, n_cuts);
    ember_encoder_free(encoder);
}

static void all_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ember_tokenizer *tokenizer = fixture_open(&cases[i].f);
        check_case(cases[i].name, tokenizer, cases[i].lossless, cases[i].cuts);
        ember_tokenizer_free(tokenizer);
    }
}

static void bytes(void **state) {
    (void)state;
    ember_tokenizer *tokenizer = NULL;
    check_ok(ember_tokenizer_open(&tokenizer, "bytes"));
    check_case("bytes", tokenizer, true, true);
    static const char text[] = "ab<|endoftext|>cd";
    assert_int_equal(ember_encode_cut(tokenizer, text, 17, 2), 2);
    assert_int_equal(ember_encode_cut(tokenizer, text, 17, 3), 15); /* not inside the token */
    assert_int_equal(ember_encode_cut(tokenizer, text, 17, 17), 17);
    ember_tokenizer_free(tokenizer);
}

/* All 65,536 pairs of bytes and all single ones come back. */
static void every_pair_of_bytes(void **state) {
    (void)state;
    ember_tokenizer *tokenizer = fixture_open(&cases[0].f);
    ember_encoder *encoder = NULL;
    check_ok(ember_encoder_create(&encoder, tokenizer));
    ember_ids ids = {0};
    ember_bytes text = {0};
    for (unsigned pair = 0; pair < 65536; pair++) {
        const char in[2] = {(char)(pair >> 8), (char)pair};
        ids.n = 0;
        text.n = 0;
        check_ok(ember_encode(encoder, in, pair < 256 ? 1 : 2, false, false, &ids));
        check_ok(ember_decode(tokenizer, ids.data, ids.n, false, &text));
        same("gpt2", pair, "a pair of bytes", text.data, text.n, in, pair < 256 ? 1 : 2);
    }
    ember_bytes_free(&text);
    ember_ids_free(&ids);
    ember_encoder_free(encoder);
    ember_tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_cases), cmocka_unit_test(bytes), cmocka_unit_test(every_pair_of_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
