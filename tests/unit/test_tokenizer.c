/* rooms: data */
/* Tokenizers with ids that follow by hand: bytes, merges, added tokens, normalizers, SentencePiece style, decoders. */
#include <pthread.h>

#include "tests/unit/tokenizer_fixture.h"

#define MARK "\xE2\x96\x81" /* U+2581 */
#define ADDED(id, content, flags) "{\"id\":" id ",\"content\":\"" content "\"" flags "}"
#define SPECIAL ",\"special\":true,\"normalized\":false"
#define PLAIN ",\"special\":false,\"normalized\":false"

static void bytes(void **state) {
    (void)state;
    ember_tokenizer *tokenizer = NULL;
    check_ok(ember_tokenizer_open(&tokenizer, "bytes"));
    assert_string_equal(ember_tokenizer_name(tokenizer), "bytes");
    assert_int_equal(ember_tokenizer_vocab_size(tokenizer), 257);
    assert_int_equal(ember_tokenizer_eos(tokenizer), 256);
    assert_int_equal(ember_tokenizer_find(tokenizer, "a"), 97);
    assert_int_equal(ember_tokenizer_find(tokenizer, "<|endoftext|>"), 256);
    assert_int_equal(ember_tokenizer_find(tokenizer, "ab"), -1);
    assert_true(ember_tokenizer_lossless(tokenizer));
    check_encodes(tokenizer, "a\xFF<|endoftext|>b", 97, 255, 256, 98);
    const uint32_t plain[] = {60, 124, 101, 110, 100, 111, 102, 116, 101, 120, 116, 124, 62};
    ember_ids ids = encode_text(tokenizer, "<|endoftext|>", 13, true, true);
    check_ids("plain", ids, plain, 13);
    ember_ids_free(&ids);
    check_decodes(tokenizer, (const uint32_t[]){72, 105, 256}, 3, false, "Hi<|endoftext|>");
    check_decodes(tokenizer, (const uint32_t[]){72, 105, 256}, 3, true, "Hi");
    size_t n = 0;
    const char *text = ember_tokenizer_text(tokenizer, &n);
    ember_tokenizer *again = NULL;
    check_ok(ember_tokenizer_parse(&again, text, n, "stored"));
    assert_int_equal(ember_tokenizer_hash(again), ember_tokenizer_hash(tokenizer));
    assert_int_equal(ember_tokenizer_vocab_size(again), 257);
    ember_tokenizer_free(again);
    ember_tokenizer_free(tokenizer);
}

/* l+l has the lowest rank, so "hello" is h e ll o, then he, then he+ll, and at last hell+o. */
static void merge_order(void **state) {
    (void)state;
    const char *const tokens[] = {"ll", "he", "hell", "hello", "lo", NULL};
    const char *const merges[] = {"l", "l", "h", "e", "he", "ll", "hell", "o", "l", "o", NULL};
    for (int pairs = 0; pairs < 2; pairs++) {
        const fixture f = {
            .pre_tokenizer = BYTE_LEVEL, .decoder = BYTE_LEVEL, .tokens = tokens, .merges = merges, .merges_as_pairs = pairs == 1};
        ember_tokenizer *tokenizer = fixture_open(&f);
        check_encodes(tokenizer, "hello", 259);
        check_encodes(tokenizer, "helo", 257, 260);
        check_encodes(tokenizer, "llll", 256, 256);
        check_encodes(tokenizer, "lll", 256, 'l'); /* the leftmost of equals */
        check_encodes(tokenizer, "h ello", 'h', ' ', 'e', 256, 'o');
        ember_ids ids = encode_text(tokenizer, "", 0, true, false);
        assert_int_equal(ids.n, 0);
        ember_ids_free(&ids);
        assert_true(ember_tokenizer_lossless(tokenizer));
        ember_tokenizer_free(tokenizer);
    }
}

/* A run longer than the array of the short path: 2^k letters, and one less. */
static void long_pieces(void **state) {
    (void)state;
    const char *const tokens[] = {"aa", "aaaa", "aaaaaaaa", NULL};
    const char *const merges[] = {"a", "a", "aa", "aa", "aaaa", "aaaa", NULL};
    const fixture f = {.pre_tokenizer = BYTE_LEVEL, .tokens = tokens, .merges = merges};
    ember_tokenizer *tokenizer = fixture_open(&f);
    enum { N = 1 << 18 };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    ember_ids ids = encode_text(tokenizer, text, N, false, false);
    assert_int_equal(ids.n, N / 8);
    for (size_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.data[i], 258);
    ember_ids_free(&ids);
    ids = encode_text(tokenizer, text, N - 1, false, false); /* 8 ... 8 4 2 1 */
    assert_int_equal(ids.n, N / 8 - 1 + 3);
    assert_int_equal(ids.data[ids.n - 3], 257);
    assert_int_equal(ids.data[ids.n - 2], 256);
    assert_int_equal(ids.data[ids.n - 1], 'a');
    ember_ids_free(&ids);
    free(text);
    ember_tokenizer_free(tokenizer);
}

static void ignore_merges(void **state) {
    (void)state;
    const char *const tokens[] = {"abc", NULL};
    fixture f = {.pre_tokenizer = BYTE_LEVEL, .tokens = tokens};
    ember_tokenizer *tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "abc", 'a', 'b', 'c');
    ember_tokenizer_free(tokenizer);
    f.ignore_merges = true;
    tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "abc", 256);
    check_encodes(tokenizer, "abcd", 'a', 'b', 'c', 'd');
    ember_tokenizer_free(tokenizer);
}

/* In pairs a part may hold a blank; a merge needs no shorter path to its parts. */
static void merges_with_blanks(void **state) {
    (void)state;
    const char *const tokens[] = {"a", " ", "b", "a ", "a b", "  ", "   ", NULL};
    const char *const merges[] = {"a", " ", "a ", "b", " ", "  ", NULL};
    const fixture f = {.tokens = tokens, .merges = merges, .merges_as_pairs = true, .characters = true};
    ember_tokenizer *tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "a b", 4);
    check_encodes(tokenizer, "a  ", 3, 1);
    ember_tokenizer_free(tokenizer);
}

/* A token that one merge alone explains, though no shorter path makes its parts (Llama 3 has such runs of blanks): it
 * loads, applies where the parts come about, and is reached as a whole piece where merges are ignored. */
static void merges_without_a_path(void **state) {
    (void)state;
    const char *const tokens[] = {"   ", "    ", "bb", "bbb", "abbb", NULL};
    const char *const merges[] = {" ", "   ", "b", "b", "bb", "b", "a", "bbb", NULL};
    for (int pairs = 0; pairs < 2; pairs++) {
        fixture f = {.pre_tokenizer = BYTE_LEVEL_ONLY, .tokens = tokens, .merges = merges, .merges_as_pairs = pairs == 1};
        ember_tokenizer *tokenizer = fixture_open(&f);
        check_encodes(tokenizer, "    ", ' ', ' ', ' ', ' ');
        check_encodes(tokenizer, "abbb", 260);
        check_encodes(tokenizer, "abb", 'a', 258);
        ember_tokenizer_free(tokenizer);
        f.ignore_merges = true;
        tokenizer = fixture_open(&f);
        check_encodes(tokenizer, "    ", 257);
        check_decodes(tokenizer, (const uint32_t[]){257}, 1, false, "\xC4\xA0\xC4\xA0\xC4\xA0\xC4\xA0"); /* no decoder */
        ember_tokenizer_free(tokenizer);
    }
}

/* Line ends inside the parts of a merge, which is JSON's to hold and no list of lines could. */
static void merges_with_line_ends(void **state) {
    (void)state;
    const char *const tokens[] = {"\r", "\n", "a", "\r\n", "\n\n", "a\n", NULL};
    const char *const merges[] = {"\r", "\n", "\n", "\n", "a", "\n", NULL};
    for (int pairs = 0; pairs < 2; pairs++) {
        fixture f = {
            .decoder = "{\"type\":\"Fuse\"}", .tokens = tokens, .merges = merges, .merges_as_pairs = pairs == 1, .characters = true};
        ember_tokenizer *tokenizer = fixture_open(&f);
        check_encodes(tokenizer, "\r\n", 3);
        check_encodes(tokenizer, "a\n\n", 2, 4);
        check_encodes(tokenizer, "a\n\r\n\r", 5, 3, 0);
        check_decodes(tokenizer, (const uint32_t[]){5, 3, 4, 0}, 4, false, "a\n\r\n\n\n\r");
        ember_tokenizer_free(tokenizer);
        f.characters = false; /* and as bytes, where they have other names */
        f.pre_tokenizer = BYTE_LEVEL_ONLY;
        tokenizer = fixture_open(&f);
        check_encodes(tokenizer, "a\n\r\n", 258, 256);
        ember_tokenizer_free(tokenizer);
    }
}

static void added_tokens(void **state) {
    (void)state;
    const fixture f = {
        .pre_tokenizer = BYTE_LEVEL,
        .decoder = BYTE_LEVEL,
        .added =
            "[" ADDED("256", "<a>", SPECIAL) "," ADDED("257", "<a><b>", PLAIN) "," ADDED("258", "<l>", PLAIN ",\"lstrip\":true") "," ADDED(
                "259", "<r>", PLAIN ",\"rstrip\":true") "," ADDED("260", "cat", PLAIN ",\"single_word\":true") "]"};
    ember_tokenizer *tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "x<a>y", 'x', 256, 'y');
    check_encodes(tokenizer, "<a><b><a>", 257, 256); /* the longest, from the left */
    check_encodes(tokenizer, "x \n<l> y", 'x', 258, ' ', 'y');
    check_encodes(tokenizer, "x <r>\t y", 'x', ' ', 259, 'y');
    check_encodes(tokenizer, "cat cats", 260, ' ', 'c', 'a', 't', 's');
    check_encodes(tokenizer, "(cat)", '(', 260, ')');
    check_encodes(tokenizer,
                  "\xC3\xA9"
                  "cat",
                  0xC3, 0xA9, 'c', 'a', 't'); /* a letter stands before it */
    const uint32_t plain[] = {'<', 'a', '>', 259};
    ember_ids ids = encode_text(tokenizer, "<a><r>", 6, false, true);
    check_ids("special tokens are not made from data", ids, plain, 4);
    ember_ids_free(&ids);
    check_decodes(tokenizer, (const uint32_t[]){'x', 256, 257}, 3, true, "x<a><b>"); /* added, not special: stays */
    check_decodes(tokenizer, (const uint32_t[]){'x', 256, 257}, 3, false, "x<a><a><b>");
    assert_true(ember_tokenizer_is_special(tokenizer, 256));
    assert_false(ember_tokenizer_is_special(tokenizer, 257));
    assert_false(ember_tokenizer_lossless(tokenizer)); /* lstrip swallows blanks */
    ember_tokenizer_free(tokenizer);
}

/* `normalized` tokens are sought in the normalized text, the others before. */
static void normalized_added_tokens(void **state) {
    (void)state;
    const fixture f = {.normalizer = "{\"type\":\"Lowercase\"}",
                       .pre_tokenizer = BYTE_LEVEL,
                       .added = "[" ADDED("256", "NORM", ",\"special\":false,\"normalized\":true") "," ADDED("257", "RAW", PLAIN) "]"};
    ember_tokenizer *tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "normNoRm", 256, 256);
    check_encodes(tokenizer, "RAWraw", 257, 'r', 'a', 'w');
    ember_tokenizer_free(tokenizer);
}

static void normalizers(void **state) {
    (void)state;
    check_pieces("{\"type\":\"NFC\"}", BYTE_LEVEL, "e\xCC\x81 x", (const char *const[]){"\xC3\xA9", " x", NULL});
    check_pieces("{\"type\":\"NFD\"}", BYTE_LEVEL_ONLY, "\xC3\xA9", (const char *const[]){"e\xCC\x81", NULL});
    check_pieces("{\"type\":\"NFKC\"}", BYTE_LEVEL, "\xEF\xAC\x81", (const char *const[]){"fi", NULL});
    check_pieces("{\"type\":\"NFC\"}", BYTE_LEVEL, "\xE1\x84\x80\xE1\x85\xA1", (const char *const[]){"\xEA\xB0\x80", NULL}); /* Hangul */
    check_pieces("{\"type\":\"Lowercase\"}", BYTE_LEVEL,
                 "\xC3\x89"
                 "A\xC4\xB0",
                 (const char *const[]){"\xC3\xA9"
                                       "ai",
                                       "\xCC\x87", NULL});
    check_pieces("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s{2,}\"},\"content\":\" \"}", BYTE_LEVEL, "a   b c",
                 (const char *const[]){"a", " b", " c", NULL});
    check_pieces("{\"type\":\"Replace\",\"pattern\":{\"String\":\"..\"},\"content\":\"$0\"}", BYTE_LEVEL_ONLY, "ab..",
                 (const char *const[]){"ab$0", NULL});
    check_pieces("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"x\"},{\"type\":\"Lowercase\"}]}", BYTE_LEVEL,
                 "A", (const char *const[]){"xa", NULL});
}

/* A long run of marks: e, acute and cedilla in turn, becomes e-cedilla, the other cedillas, then the acutes. */
static void many_marks(void **state) {
    (void)state;
    enum { N = 20000 };
    const fixture f = {.normalizer = "{\"type\":\"NFC\"}", .pre_tokenizer = BYTE_LEVEL};
    ember_tokenizer *tokenizer = fixture_open(&f);
    char *text = malloc(1 + 4 * N);
    assert_non_null(text);
    text[0] = 'e';
    for (size_t i = 0; i < N; i++)
        memcpy(text + 1 + 4 * i, "\xCC\x81\xCC\xA7", 4);
    ember_ids ids = encode_text(tokenizer, text, 1 + 4 * N, false, false);
    assert_int_equal(ids.n, 4 * N);
    assert_int_equal(ids.data[0], 0xC8);
    assert_int_equal(ids.data[1], 0xA9);
    for (size_t i = 1; i < 2 * N; i++) {
        assert_int_equal(ids.data[2 * i], 0xCC);
        assert_int_equal(ids.data[2 * i + 1], i < N ? 0xA7 : 0x81);
    }
    ember_ids_free(&ids);
    free(text);
    ember_tokenizer_free(tokenizer);
}

/* ids: 0 <unk>, 1 <s>, 2 mark, 3 a, 4 b, 5 mark-a, 6 <0xFF>, 7 <0xC3>, 8 <0xA9> */
static const char *const piece_tokens[] = {"<unk>", "<s>", MARK, "a", "b", MARK "a", "<0xFF>", "<0xC3>", "<0xA9>", NULL};
static const char *const piece_merges[] = {MARK, "a", NULL};
static const char llama_normalizer[] = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},"
                                       "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}]}";
static const char llama_decoder[] = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK
                                    "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
                                    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}";
static const char template[] = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
                               "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}],\"pair\":[],"
                               "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}}";

static void sentencepiece(void **state) {
    (void)state;
    fixture f = {.normalizer = llama_normalizer,
                 .decoder = llama_decoder,
                 .post_processor = template,
                 .added = "[" ADDED("1", "<s>", SPECIAL) "]",
                 .tokens = piece_tokens,
                 .merges = piece_merges,
                 .characters = true,
                 .byte_fallback = true,
                 .fuse_unk = true,
                 .unk = "<unk>"};
    ember_tokenizer *tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "a", 5);
    check_encodes(tokenizer, " a", 2, 5); /* the dummy blank, and the text's own */
    check_encodes(tokenizer, "  a", 2, 2, 5);
    check_encodes(tokenizer, "b a<s>a", 2, 4, 5, 1, 5);
    check_encodes(tokenizer, "\xC3\xA9", 2, 7, 8); /* bytes of a character that is no token */
    check_encodes(tokenizer,
                  "a\xFF"
                  "a",
                  5, 6, 3);                        /* an invalid byte; no dummy blank behind it */
    check_encodes(tokenizer, "bxyzb", 2, 4, 0, 4); /* one unknown token for the three */
    check_encodes(tokenizer, "xy za", 2, 0, 2, 0, 3);
    ember_ids ids = encode_text(tokenizer, "", 0, true, false);
    check_ids("empty, with template", ids, (const uint32_t[]){1, 1}, 2); /* no dummy blank alone */
    ember_ids_free(&ids);
    ids = encode_text(tokenizer, "a", 1, true, false);
    check_ids("template", ids, (const uint32_t[]){1, 5, 1}, 3);
    ember_ids_free(&ids);
    check_decodes(tokenizer, (const uint32_t[]){2, 5, 2, 4}, 4, false, " a b"); /* exactly one blank was the tokenizer's */
    check_decodes(tokenizer, (const uint32_t[]){7, 8, 7, 3}, 4, false,
                  "\xC3\xA9\xC3"
                  "a"); /* nothing is replaced */
    check_decodes(tokenizer, (const uint32_t[]){1, 5}, 2, true, "a");
    check_decodes(tokenizer, (const uint32_t[]){1, 5}, 2, false, "<s> a");
    ember_tokenizer_free(tokenizer);
    f.fuse_unk = false;
    tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "bxyb", 2, 4, 0, 0, 4);
    ember_tokenizer_free(tokenizer);
    f.unk = NULL;
    tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "bxyb", 2, 4, 4); /* nothing can say it, as in the reference */
    ember_tokenizer_free(tokenizer);
}

#define METASPACE(scheme, split) \
    "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"" scheme "\",\"split\":" split "}"

static void metaspace(void **state) {
    (void)state;
    fixture f = {.pre_tokenizer = METASPACE("always", "true"),
                 .decoder = METASPACE("always", "true"),
                 .added = "[" ADDED("1", "<s>", SPECIAL) "]",
                 .tokens = piece_tokens,
                 .merges = piece_merges,
                 .characters = true};
    ember_tokenizer *tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "a b", 5, 2, 4);
    check_encodes(tokenizer, " a", 5);
    check_encodes(tokenizer, "  a", 2, 5);
    check_encodes(tokenizer, "a<s>a", 5, 1, 5);
    check_decodes(tokenizer, (const uint32_t[]){5, 5}, 2, false, "a a");
    check_decodes(tokenizer, (const uint32_t[]){1, 5}, 2, true, "a"); /* the first that counts */
    ember_tokenizer_free(tokenizer);
    f.pre_tokenizer = METASPACE("first", "false");
    tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "a<s>a", 5, 1, 3);
    check_encodes(tokenizer, "<s>a", 1, 3);
    ember_tokenizer_free(tokenizer);
    f.pre_tokenizer = METASPACE("never", "true");
    f.decoder = METASPACE("never", "true");
    tokenizer = fixture_open(&f);
    check_encodes(tokenizer, "a a", 3, 5);
    check_decodes(tokenizer, (const uint32_t[]){5, 3}, 2, false, " aa");
    ember_tokenizer_free(tokenizer);
}

static void other_decoders(void **state) {
    (void)state;
    fixture f = {.tokens = piece_tokens, .characters = true};
    ember_tokenizer *tokenizer = fixture_open(&f);
    check_decodes(tokenizer, (const uint32_t[]){3, 4, 3}, 3, false, "a b a"); /* no decoder: blanks between tokens */
    check_decodes(tokenizer, NULL, 0, false, "");
    ember_tokenizer_free(tokenizer);
    f.decoder = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\"a\",\"start\":1,\"stop\":2}]}";
    tokenizer = fixture_open(&f);
    check_decodes(tokenizer, (const uint32_t[]){3, 3, 4, 3, 4, 3, 3, 3}, 8, false, "ababa");
    ember_tokenizer_free(tokenizer);
    f.decoder = "{\"type\":\"Strip\",\"content\":\"a\",\"start\":1,\"stop\":0}"; /* of every token */
    tokenizer = fixture_open(&f);
    check_decodes(tokenizer, (const uint32_t[]){3, 4, 5}, 3, false, "b" MARK "a");
    ember_tokenizer_free(tokenizer);
}

static void usual_names(void **state) {
    (void)state;
    static const struct {
        const char *token;
        bool is_bos;
    } names[] = {{"<|endoftext|>", false}, {"<|end_of_text|>", false}, {"</s>", false},
                 {"<eos>", false},         {"<|im_end|>", false},      {"<s>", true},
                 {"<bos>", true},          {"<|begin_of_text|>", true}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const tokens[] = {"x", names[i].token, NULL};
        const fixture f = {.tokens = tokens, .characters = true};
        ember_tokenizer *tokenizer = fixture_open(&f);
        assert_int_equal(ember_tokenizer_bos(tokenizer), names[i].is_bos ? 1 : -1);
        assert_int_equal(ember_tokenizer_eos(tokenizer), names[i].is_bos ? -1 : 1);
        assert_string_equal(ember_tokenizer_token(tokenizer, 1), names[i].token);
        assert_null(ember_tokenizer_token(tokenizer, 2));
        ember_tokenizer_free(tokenizer);
    }
}

typedef struct share {
    const ember_tokenizer *tokenizer;
    ember_ids ids;
} share;

static void *encode_often(void *argument) {
    share *mine = argument;
    ember_encoder *encoder = NULL;
    ember_status status = ember_encoder_create(&encoder, mine->tokenizer);
    for (int i = 0; status == EMBER_OK && i < 2000; i++) {
        char text[64];
        const int n = snprintf(text, sizeof text, "hello %d hell\xC3\xA9\xFF%dlo ", i, i % 7);
        status = ember_encode(encoder, text, (size_t)n, false, false, &mine->ids);
    }
    ember_encoder_free(encoder);
    return status == EMBER_OK ? mine : NULL;
}

/* One tokenizer, an encoder a thread. */
static void threads(void **state) {
    (void)state;
    enum { N = 4 };
    const char *const tokens[] = {"ll", "he", "hell", NULL};
    const char *const merges[] = {"l", "l", "h", "e", "he", "ll", NULL};
    const fixture f = {.normalizer = "{\"type\":\"NFC\"}", .pre_tokenizer = BYTE_LEVEL, .tokens = tokens, .merges = merges};
    ember_tokenizer *tokenizer = fixture_open(&f);
    pthread_t thread[N];
    share shares[N];
    for (int i = 0; i < N; i++) {
        shares[i] = (share){.tokenizer = tokenizer};
        assert_int_equal(pthread_create(&thread[i], NULL, encode_often, &shares[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(thread[i], &result), 0);
        assert_non_null(result);
    }
    for (int i = 1; i < N; i++) {
        assert_int_equal(shares[i].ids.n, shares[0].ids.n);
        assert_memory_equal(shares[i].ids.data, shares[0].ids.data, 4 * shares[0].ids.n);
    }
    for (int i = 0; i < N; i++)
        ember_ids_free(&shares[i].ids);
    ember_tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes),
        cmocka_unit_test(merge_order),
        cmocka_unit_test(long_pieces),
        cmocka_unit_test(ignore_merges),
        cmocka_unit_test(merges_with_blanks),
        cmocka_unit_test(merges_without_a_path),
        cmocka_unit_test(merges_with_line_ends),
        cmocka_unit_test(added_tokens),
        cmocka_unit_test(normalized_added_tokens),
        cmocka_unit_test(normalizers),
        cmocka_unit_test(many_marks),
        cmocka_unit_test(sentencepiece),
        cmocka_unit_test(metaspace),
        cmocka_unit_test(other_decoders),
        cmocka_unit_test(usual_names),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
