/* rooms: data */
/* Ids and decoded text of the reference for two real tokenizers; needs the shared folder. */
#include "tests/unit/tokenizer_fixture.h"

#include "lib/base/memory.h"

typedef struct vectors {
    ember_tokenizer *tokenizer;
    json_t *list;
} vectors;

static vectors load(const char *tokenizer, const char *list) {
    char path[4096];
    vectors v = {0};
    check_ok(ember_tokenizer_open(&v.tokenizer, shared_path(path, tokenizer)));
    v.list = json_load_file(shared_path(path, list), JSON_ALLOW_NUL, NULL);
    assert_true(json_array_size(v.list) > 60);
    return v;
}

static void unload(vectors v) {
    ember_tokenizer_free(v.tokenizer);
    json_decref(v.list);
}

static void check_list(const ember_tokenizer *tokenizer, const json_t *entry, const char *key, bool special) {
    const json_t *text = json_object_get(entry, "text");
    const json_t *list = json_object_get(entry, key);
    const size_t n = json_array_size(list);
    uint32_t *wanted = calloc(n + 1, sizeof *wanted);
    assert_non_null(wanted);
    for (size_t i = 0; i < n; i++)
        wanted[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    ember_ids ids = encode_text(tokenizer, json_string_value(text), json_string_length(text), special, false);
    check_ids(json_string_value(text), ids, wanted, n);
    ember_ids_free(&ids);
    free(wanted);
}

/* At once, and token by token. */
static void check_text(const ember_tokenizer *tokenizer, const json_t *entry) {
    const json_t *text = json_object_get(entry, "text");
    const json_t *wanted = json_object_get(entry, "decoded");
    ember_ids ids = encode_text(tokenizer, json_string_value(text), json_string_length(text), false, false);
    ember_bytes whole = {0};
    ember_bytes parts = {0};
    ember_decoder *decoder = NULL;
    check_ok(ember_decode(tokenizer, ids.data, ids.n, false, &whole));
    check_ok(ember_decoder_create(&decoder, tokenizer, false));
    for (size_t i = 0; i < ids.n; i++)
        check_ok(ember_decoder_push(decoder, ids.data[i], &parts));
    check_ok(ember_decoder_flush(decoder, &parts));
    assert_int_equal(whole.n, json_string_length(wanted));
    assert_memory_equal(whole.data, json_string_value(wanted), whole.n);
    assert_int_equal(parts.n, whole.n);
    assert_memory_equal(parts.data, whole.data, whole.n);
    ember_decoder_free(decoder);
    ember_bytes_free(&whole);
    ember_bytes_free(&parts);
    ember_ids_free(&ids);
}

static void check_all(vectors v) {
    for (size_t i = 0; i < json_array_size(v.list); i++) {
        const json_t *entry = json_array_get(v.list, i);
        check_list(v.tokenizer, entry, "ids", false);
        check_list(v.tokenizer, entry, "ids_special", true);
        check_text(v.tokenizer, entry);
    }
}

static void byte_level(void **state) {
    (void)state;
    const vectors v = load("tokenizer/bpe16k.json", "tokenizer/bpe16k_vectors.json");
    assert_true(ember_tokenizer_lossless(v.tokenizer));
    assert_int_equal(ember_tokenizer_eos(v.tokenizer), 0);
    assert_int_equal(ember_tokenizer_bos(v.tokenizer), -1);
    assert_int_equal(ember_tokenizer_vocab_size(v.tokenizer), 16384);
    check_all(v);
    unload(v);
}

static void byte_fallback(void **state) {
    (void)state;
    const vectors v = load("models/stories260K/tokenizer.json", "models/stories260K/stories260K_vectors.json");
    assert_false(ember_tokenizer_lossless(v.tokenizer));
    assert_int_equal(ember_tokenizer_eos(v.tokenizer), 2);
    assert_int_equal(ember_tokenizer_bos(v.tokenizer), 1);
    assert_int_equal(ember_tokenizer_unk(v.tokenizer), 0);
    assert_int_equal(ember_tokenizer_vocab_size(v.tokenizer), 512);
    check_all(v);
    unload(v);
}

/* What a shard or checkpoint stores gives the same tokenizer back. */
static void from_its_text(void **state) {
    (void)state;
    const vectors v = load("tokenizer/bpe16k.json", "tokenizer/bpe16k_vectors.json");
    size_t n = 0;
    const char *text = ember_tokenizer_text(v.tokenizer, &n);
    vectors again = {.list = v.list};
    check_ok(ember_tokenizer_parse(&again.tokenizer, text, n, "stored"));
    assert_int_equal(ember_tokenizer_hash(again.tokenizer), ember_tokenizer_hash(v.tokenizer));
    check_all(again);
    ember_tokenizer_free(again.tokenizer);
    unload(v);
}

int main(void) {
    char path[4096];
    if (!shared_path(path, "tokenizer/bpe16k_vectors.json") || !shared_path(path, "models/stories260K/stories260K_vectors.json")) {
        (void)printf("skipped: %s is not there\n", path);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(byte_level), cmocka_unit_test(byte_fallback), cmocka_unit_test(from_its_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
