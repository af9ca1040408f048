/* rooms: data h5 base */
/* With real tokenizers: a document that was cut over many chunks and threads has exactly the ids of the
 * document encoded at once, and decodes to its text. Needs the shared tokenizers. */
#include "tests/check.h"

#include <unistd.h>

#include "data/prepare.h"
#include "data/shard.h"

static char folder[] = "prepare_bpe_test_XXXXXX";
static char text_path[64];
static char shard_path[64];

/* Words, numbers, blanks of all kinds, accents, broken UTF-8, and the text of a special token. */
static char *make_text(size_t n) {
    static const char *const parts[] = {"the",    " of", " and", ", ",       ".\n",  "\r\n\r\n",   " \t  ",         "1234567",
                                        "'s",     "'LL", "é",    "日本",     "\xff", " xylophone", "<|endoftext|>", "\n\n\n",
                                        "<0x41>", "  a", "_",    "\xe2\x82", "!?",   "A",          "ington",        "\xc2\xa0"};
    enum { N_PARTS = (int)(sizeof parts / sizeof *parts) };
    char *text = malloc(n + 16);
    assert_non_null(text);
    uint32_t state = 99;
    size_t at = 0;
    while (at < n) {
        state = state * 1664525u + 1013904223u;
        const char *part = parts[(state >> 16) % N_PARTS];
        const size_t m = strlen(part);
        memcpy(text + at, part, m);
        at += m;
    }
    return text;
}

static void same_ids_as_at_once(const char *relative, size_t n) {
    char path[4096];
    assert_non_null(shared_path(path, relative));
    char *text = make_text(n);
    FILE *file = fopen(text_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    ember_tokenizer *tokenizer = NULL;
    ember_encoder *encoder = NULL;
    ember_ids ids = {0};
    check_ok(ember_tokenizer_open(&tokenizer, path));
    check_ok(ember_encoder_create(&encoder, tokenizer));
    check_ok(ember_encode(encoder, text, n, false, true, &ids));
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, "file"));
    const char *const files[] = {text_path};
    for (int64_t threads = 1; threads <= 3; threads++) {
        const ember_prepare_options options = {.files = files,
                                               .n_files = 1,
                                               .tokenizer = tokenizer,
                                               .output = shard_path,
                                               .rule = &rule,
                                               .add_eos = true,
                                               .n_threads = threads};
        ember_prepare_report report;
        check_ok(ember_prepare(&report, &options));
        assert_int_equal(report.train.n_tokens, ids.n + 1);
        ember_shard *shard = NULL;
        check_ok(ember_shard_open(&shard, shard_path, true));
        uint32_t *stored = calloc(ids.n + 1, sizeof *stored);
        assert_non_null(stored);
        check_ok(ember_shard_read(shard, 0, (int64_t)ids.n + 1, stored));
        for (size_t i = 0; i < ids.n; i++)
            if (stored[i] != ids.data[i]) fail_msg("token %zu of %zu is %u, not %u", i, ids.n, stored[i], ids.data[i]);
        assert_int_equal(stored[ids.n], ember_tokenizer_eos(tokenizer));
        /* The shard alone is enough: its tokenizer gives the text back. */
        ember_tokenizer *inside = NULL;
        size_t n_json = 0;
        const char *json = ember_shard_tokenizer_text(shard, &n_json);
        check_ok(ember_tokenizer_parse(&inside, json, n_json, "shard"));
        assert_int_equal(ember_tokenizer_hash(inside), ember_shard_tokenizer_hash(shard));
        if (ember_tokenizer_lossless(inside)) {
            ember_bytes decoded = {0};
            check_ok(ember_decode(inside, stored, ids.n, false, &decoded));
            assert_int_equal(decoded.n, n);
            assert_memory_equal(decoded.data, text, n);
            ember_bytes_free(&decoded);
        }
        ember_tokenizer_free(inside);
        free(stored);
        ember_shard_close(shard);
        assert_int_equal(unlink(shard_path), 0);
    }
    ember_document_rule_free(&rule);
    ember_ids_free(&ids);
    ember_encoder_free(encoder);
    ember_tokenizer_free(tokenizer);
    assert_int_equal(unlink(text_path), 0);
    free(text);
}

/* Begin and end tokens go round each document, whatever the text says about them. */
static void begin_and_end(void **state) {
    (void)state;
    char path[4096];
    assert_non_null(shared_path(path, "models/stories260K/tokenizer.json"));
    FILE *file = fopen(text_path, "wb");
    assert_non_null(file);
    assert_true(fputs("<s>one</s>\ntwo\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    ember_tokenizer *tokenizer = NULL;
    check_ok(ember_tokenizer_open(&tokenizer, path));
    const uint32_t bos = (uint32_t)ember_tokenizer_bos(tokenizer);
    const uint32_t eos = (uint32_t)ember_tokenizer_eos(tokenizer);
    assert_int_not_equal(bos, eos);
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, "line"));
    const char *const files[] = {text_path};
    const ember_prepare_options options = {
        .files = files, .n_files = 1, .tokenizer = tokenizer, .output = shard_path, .rule = &rule, .add_bos = true, .add_eos = true};
    ember_prepare_report report;
    check_ok(ember_prepare(&report, &options));
    ember_shard *shard = NULL;
    check_ok(ember_shard_open(&shard, shard_path, true));
    const int64_t n = ember_shard_n_tokens(shard);
    uint32_t ids[64];
    assert_in_range(n, 8, 64);
    assert_int_equal(ember_shard_n_documents(shard), 2);
    check_ok(ember_shard_read(shard, 0, n, ids));
    const int64_t second = ember_shard_documents(shard)[1];
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(ids[i] == bos, i == 0 || i == second);
        assert_int_equal(ids[i] == eos, i == n - 1 || i == second - 1);
    }
    ember_shard_close(shard);
    ember_tokenizer_free(tokenizer);
    ember_document_rule_free(&rule);
    assert_int_equal(unlink(shard_path), 0);
    assert_int_equal(unlink(text_path), 0);
}

static void byte_level(void **state) {
    (void)state;
    same_ids_as_at_once("tokenizer/bpe16k.json", 1500000);
}

static void sentencepiece_like(void **state) {
    (void)state;
    same_ids_as_at_once("models/stories260K/tokenizer.json", 600000);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(text_path, sizeof text_path, "%s/text", folder);
    (void)snprintf(shard_path, sizeof shard_path, "%s/shard.h5", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return rmdir(folder);
}

int main(void) {
    char path[4096];
    if (!shared_path(path, "tokenizer/bpe16k.json") || !shared_path(path, "models/stories260K/tokenizer.json")) {
        printf("skipped: the shared tokenizers are not there\n");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(byte_level), cmocka_unit_test(sentencepiece_like), cmocka_unit_test(begin_and_end)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
