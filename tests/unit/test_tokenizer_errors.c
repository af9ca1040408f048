/* rooms: data */
/* What is not supported or not well-formed is refused by name; nothing crashes. */
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/atomic_file.h"
#include "tests/unit/tokenizer_fixture.h"

static void check_text(const char *json, ember_status status, const char *part) {
    ember_tokenizer *tokenizer = NULL;
    check_fails(ember_tokenizer_parse(&tokenizer, json, strlen(json), "some.json"), status, part);
    assert_null(tokenizer);
    assert_non_null(strstr(ember_last_error(), "some.json")); /* the file is named too */
}

#define MODEL(rest) "{\"model\":{\"type\":\"BPE\"," rest "}}"

static void not_a_tokenizer(void **state) {
    (void)state;
    check_text("", EMBER_E_FORMAT, "line 1");
    check_text("[]", EMBER_E_FORMAT, "not a JSON object");
    check_text("{}", EMBER_E_FORMAT, "\"model\"");
    check_text("{\"model\":3}", EMBER_E_FORMAT, "\"model\"");
    check_text("{\"model\":{}} x", EMBER_E_FORMAT, "line 1");
    check_text("{\"model\":{},\"model\":{}}", EMBER_E_FORMAT, "duplicate");
    check_text("{\"format\":\"ember-tokenizer\",\"type\":\"words\"}", EMBER_E_UNSUPPORTED, "words");
    ember_tokenizer *tokenizer = NULL;
    check_fails(ember_tokenizer_open(&tokenizer, "no/such/file"), EMBER_E_NOT_FOUND, "no/such/file");
    check_fails(ember_tokenizer_open(&tokenizer, "."), EMBER_E_NOT_FOUND, "./tokenizer.json");
    char deep[8192];
    memset(deep, '[', sizeof deep);
    check_fails(ember_tokenizer_parse(&tokenizer, deep, sizeof deep, "deep"), EMBER_E_FORMAT, "depth");
}

static void models(void **state) {
    (void)state;
    check_text("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", EMBER_E_UNSUPPORTED, "WordPiece");
    check_text("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", EMBER_E_UNSUPPORTED, "Unigram");
    check_text("{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", EMBER_E_UNSUPPORTED, "WordLevel");
    check_text("{\"model\":{\"vocab\":{\"a\":0}}}", EMBER_E_UNSUPPORTED, "not BPE");
    check_text(MODEL("\"merges\":[]"), EMBER_E_FORMAT, "model.vocab");
    check_text(MODEL("\"vocab\":{},\"merges\":[]"), EMBER_E_FORMAT, "no token");
    check_text(MODEL("\"vocab\":{\"a\":0}"), EMBER_E_FORMAT, "model.merges");
    check_text(MODEL("\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]"), EMBER_E_UNSUPPORTED, "dropout");
    check_text(MODEL("\"continuing_subword_prefix\":\"##\",\"vocab\":{\"a\":0},\"merges\":[]"), EMBER_E_UNSUPPORTED,
               "continuing_subword_prefix");
    check_text(MODEL("\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":0},\"merges\":[]"), EMBER_E_UNSUPPORTED, "end_of_word_suffix");
    check_text(MODEL("\"byte_fallback\":1,\"vocab\":{\"a\":0},\"merges\":[]"), EMBER_E_FORMAT, "byte_fallback");
    check_text(MODEL("\"unk_token\":\"b\",\"vocab\":{\"a\":0},\"merges\":[]"), EMBER_E_FORMAT, "unk_token \"b\"");
}

static void vocabularies(void **state) {
    (void)state;
    check_text(MODEL("\"vocab\":{\"a\":-1},\"merges\":[]"), EMBER_E_FORMAT, "-1");
    check_text(MODEL("\"vocab\":{\"a\":4194304},\"merges\":[]"), EMBER_E_FORMAT, "4194304");
    check_text(MODEL("\"vocab\":{\"a\":1.5},\"merges\":[]"), EMBER_E_FORMAT, "not an integer");
    check_text(MODEL("\"vocab\":{\"a\":99999999999999999999},\"merges\":[]"), EMBER_E_FORMAT, "integer");
    check_text(MODEL("\"vocab\":{\"a\":7,\"b\":7},\"merges\":[]"), EMBER_E_FORMAT, "two tokens, \"a\" and \"b\"");
    check_text(MODEL("\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]"), EMBER_E_FORMAT, "duplicate");
}

static void merges(void **state) {
    (void)state;
#define AB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":"
    check_text(MODEL(AB "[\"a b\",\"a c\"]"), EMBER_E_FORMAT, "merges[1]: \"c\"");
    check_text(MODEL(AB "[[\"b\",\"a\"]]"), EMBER_E_FORMAT, "merges[0]: its result \"ba\"");
    check_text(MODEL(AB "[\"ab\"]"), EMBER_E_FORMAT, "merges[0]");
    check_text(MODEL(AB "[\"a b c\"]"), EMBER_E_FORMAT, "merges[0]");
    check_text(MODEL(AB "[[\"a\"]]"), EMBER_E_FORMAT, "merges[0]");
    check_text(MODEL(AB "[[\"a\",1]]"), EMBER_E_FORMAT, "merges[0]");
    check_text(MODEL(AB "[7]"), EMBER_E_FORMAT, "merges[0]");
    check_text(MODEL(AB "{}"), EMBER_E_FORMAT, "model.merges");
}

/* One merge a line cannot say where a part with a line end in it ends. */
static void list_of_merges(void **state) {
    (void)state;
    const char *const texts[] = {"#version: 0.2\nl l\nh e\n", "l l\nh e\n"};
    const char *const names[] = {"test_tokenizer_errors.txt", "merges.txt"};
    for (int i = 0; i < 2; i++) {
        char folder[64], path[128];
        (void)snprintf(folder, sizeof folder, "test_tokenizer_errors_%d", (int)getpid());
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
        check_ok(ember_write_file(path, texts[i], strlen(texts[i])));
        ember_tokenizer *tokenizer = NULL;
        check_fails(ember_tokenizer_open(&tokenizer, path), EMBER_E_UNSUPPORTED, "line end");
        assert_non_null(strstr(ember_last_error(), path));
        assert_non_null(strstr(ember_last_error(), "tokenizer.json"));
        assert_null(tokenizer);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(folder), 0);
    }
}

static void added(void **state) {
    (void)state;
#define WITH_ADDED(list)          \
    "{\"added_tokens\":" list "," \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}"
    check_text(WITH_ADDED("{}"), EMBER_E_FORMAT, "added_tokens");
    check_text(WITH_ADDED("[{\"id\":2}]"), EMBER_E_FORMAT, "added_tokens[0]");
    check_text(WITH_ADDED("[{\"id\":2,\"content\":\"\"}]"), EMBER_E_FORMAT, "added_tokens[0]");
    check_text(WITH_ADDED("[{\"content\":\"c\"}]"), EMBER_E_FORMAT, "\"c\"");
    check_text(WITH_ADDED("[{\"id\":1,\"content\":\"c\"}]"), EMBER_E_FORMAT, "two tokens, \"b\" and \"c\"");
    check_text(WITH_ADDED("[{\"id\":2,\"content\":\"a\"}]"), EMBER_E_FORMAT, "two ids");
    check_text(WITH_ADDED("[{\"id\":2,\"content\":\"c\",\"lstrip\":\"no\"}]"), EMBER_E_FORMAT, "lstrip");
}

static void parts(void **state) {
    (void)state;
    const fixture plain = {0};
#define REFUSED(member, json, status, part)   \
    do {                                      \
        fixture f_ = plain;                   \
        f_.member = (json);                   \
        fixture_fails(&f_, (status), (part)); \
    } while (0)
    REFUSED(normalizer, "{\"type\":\"Precompiled\"}", EMBER_E_UNSUPPORTED, "normalizer: type \"Precompiled\"");
    REFUSED(normalizer, "{\"type\":\"StripAccents\"}", EMBER_E_UNSUPPORTED, "StripAccents");
    REFUSED(normalizer, "{}", EMBER_E_FORMAT, "normalizer");
    REFUSED(normalizer, "{\"type\":\"Replace\",\"pattern\":\" \",\"content\":\"\"}", EMBER_E_FORMAT, "pattern");
    REFUSED(pre_tokenizer, "{\"type\":\"UnicodeScripts\"}", EMBER_E_UNSUPPORTED, "pre_tokenizer: type \"UnicodeScripts\"");
    REFUSED(pre_tokenizer, "{\"type\":\"BertPreTokenizer\"}", EMBER_E_UNSUPPORTED, "BertPreTokenizer");
    REFUSED(pre_tokenizer, "{\"type\":\"Sequence\"}", EMBER_E_FORMAT, "pretokenizers");
    REFUSED(pre_tokenizer, SPLIT("{\"Regex\":\"(\"}", "Isolated", "false"), EMBER_E_UNSUPPORTED, "does not compile");
    REFUSED(pre_tokenizer, SPLIT("{\"Regex\":\"[a[b]]\"}", "Isolated", "false"), EMBER_E_UNSUPPORTED, "class inside a class");
    REFUSED(pre_tokenizer, SPLIT("{\"Regex\":\"[a-z&&b]\"}", "Isolated", "false"), EMBER_E_UNSUPPORTED, "intersection");
    REFUSED(pre_tokenizer, SPLIT("{\"Regex\":\"a\"}", "Sideways", "false"), EMBER_E_UNSUPPORTED, "Sideways");
    REFUSED(pre_tokenizer, SPLIT("{\"String\":\"\"}", "Isolated", "false"), EMBER_E_UNSUPPORTED, "empty pattern");
    REFUSED(pre_tokenizer, "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", EMBER_E_FORMAT, "one character");
    REFUSED(pre_tokenizer, "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}", EMBER_E_UNSUPPORTED, "last");
    REFUSED(post_processor, "{\"type\":\"BertProcessing\"}", EMBER_E_UNSUPPORTED, "post_processor: type \"BertProcessing\"");
    REFUSED(post_processor, "{\"type\":\"TemplateProcessing\",\"single\":[]}", EMBER_E_UNSUPPORTED, "0 sequences");
    REFUSED(post_processor, "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}", EMBER_E_FORMAT, "\"x\"");
    REFUSED(post_processor,
            "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[999]}}}",
            EMBER_E_FORMAT, "999");
    REFUSED(decoder, "{\"type\":\"WordPiece\"}", EMBER_E_UNSUPPORTED, "decoder: type \"WordPiece\"");
    REFUSED(decoder, "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}]}", EMBER_E_UNSUPPORTED,
            "at this place");
    REFUSED(decoder, "{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}", EMBER_E_FORMAT, "start");
    char nested[2048] = "";
    for (int i = 0; i < 12; i++)
        strcat(nested, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    strcat(nested, BYTE_LEVEL);
    for (int i = 0; i < 12; i++)
        strcat(nested, "]}");
    REFUSED(pre_tokenizer, nested, EMBER_E_UNSUPPORTED, "nested");
}

static char *rich_text(void) {
    static const char *const tokens[] = {"ab", "abc", "<s>", NULL};
    static const char *const pairs[] = {"a", "b", "ab", "c", NULL};
    const fixture f = {.normalizer = "{\"type\":\"NFC\"}",
                       .pre_tokenizer = SEQUENCE(SPLIT("{\"Regex\":\"" QWEN2_REGEX "\"}", "Isolated", "false"), BYTE_LEVEL_ONLY),
                       .decoder = BYTE_LEVEL,
                       .added = "[{\"id\":258,\"content\":\"<s>\",\"special\":true,\"lstrip\":true}]",
                       .tokens = tokens,
                       .merges = pairs};
    return fixture_text(&f);
}

/* Every prefix fails; every text with one byte changed fails or works. */
static void damaged_texts(void **state) {
    (void)state;
    char *text = rich_text();
    const size_t n = strlen(text);
    ember_tokenizer *tokenizer = NULL;
    for (size_t cut = 0; cut < n; cut += 1 + cut / 64) {
        assert_int_not_equal(ember_tokenizer_parse(&tokenizer, text, cut, "cut"), EMBER_OK);
        assert_null(tokenizer);
    }
    size_t n_failed = 0;
    size_t n_tried = 0;
    for (size_t at = 0; at < n; at += 3) {
        const char kept = text[at];
        text[at] = (char)(kept ^ (1 << at % 7));
        n_tried++;
        if (ember_tokenizer_parse(&tokenizer, text, n, "flipped") == EMBER_OK) {
            ember_ids ids = encode_text(tokenizer, "a abc<s> \xFF", 10, true, false);
            ember_bytes decoded = {0};
            check_ok(ember_decode(tokenizer, ids.data, ids.n, false, &decoded));
            ember_bytes_free(&decoded);
            ember_ids_free(&ids);
            ember_tokenizer_free(tokenizer);
        } else {
            n_failed++;
            assert_true(strlen(ember_last_error()) > 0);
        }
        text[at] = kept;
    }
    assert_true(n_failed > n_tried / 4);
    free(text);
}

static void ids_outside(void **state) {
    (void)state;
    const char *const tokens[] = {"x", NULL};
    const fixture f = {.tokens = tokens, .characters = true, .added = "[{\"id\":5,\"content\":\"<y>\"}]"};
    ember_tokenizer *tokenizer = fixture_open(&f);
    ember_bytes text = {0};
    check_ok(ember_bytes_append(&text, "kept", 4));
    check_fails(ember_decode(tokenizer, (const uint32_t[]){0, 6}, 2, false, &text), EMBER_E_ARGUMENT, "6");
    check_fails(ember_decode(tokenizer, (const uint32_t[]){0, 3}, 2, false, &text), EMBER_E_ARGUMENT, "3"); /* a hole */
    assert_string_equal(text.data, "kept");
    ember_bytes_free(&text);
    ember_tokenizer_free(tokenizer);
}

/* A pattern that needs more than its limits fails with the reason and leaves the ids as they were. */
static void hostile_pattern(void **state) {
    (void)state;
    const fixture f = {.pre_tokenizer = SEQUENCE(SPLIT("{\"Regex\":\"(?:(?:a|b)*)*(?:a|b)*[cd]\"}", "Isolated", "false"), BYTE_LEVEL_ONLY)};
    ember_tokenizer *tokenizer = fixture_open(&f);
    ember_encoder *encoder = NULL;
    check_ok(ember_encoder_create(&encoder, tokenizer));
    ember_ids ids = {0};
    check_ok(ember_encode(encoder, "xy", 2, false, false, &ids));
    enum { N = 200000 };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    check_fails(ember_encode(encoder, text, N, false, false, &ids), EMBER_E_UNSUPPORTED, "regular expression");
    assert_int_equal(ids.n, 2);
    check_ok(ember_encode(encoder, "z", 1, false, false, &ids)); /* the encoder goes on working */
    assert_int_equal(ids.n, 3);
    ember_ids_free(&ids);
    free(text);
    ember_encoder_free(encoder);
    ember_tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_a_tokenizer), cmocka_unit_test(models),         cmocka_unit_test(vocabularies),
        cmocka_unit_test(merges),          cmocka_unit_test(list_of_merges), cmocka_unit_test(added),
        cmocka_unit_test(parts),           cmocka_unit_test(damaged_texts),  cmocka_unit_test(ids_outside),
        cmocka_unit_test(hostile_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
