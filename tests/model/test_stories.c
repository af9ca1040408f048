/* rooms: api model config data checkpoints kernels h5 base */
/* The imported stories model: streamed text is the decoded text for seeds 1 to 20 at temperature 5, where tokens
 * end inside characters all the time. */
#include <unistd.h>

#include "checkpoints/hf_import.h"
#include "tests/check.h"

enum { NEW_TOKENS = 300, MAX_BYTES = 16384 };

static char folder[4096];

static void test_streamed_is_decoded(void **state) {
    (void)state;
    char path[64];
    (void)snprintf(path, sizeof path, "test_stories_%d.h5", (int)getpid());
    check_ok(ember_hf_import(folder, path, NULL));
    ember_context *context = NULL;
    ember_llm *llm = NULL;
    const ember_context_options device = {.n_threads = 1};
    check_ok(ember_context_create(&context, &device));
    check_ok(ember_llm_open(&llm, context, path, NULL));
    (void)unlink(path);
    int broken = 0; /* texts that are no valid UTF-8: they must not be rare here */
    for (uint64_t seed = 1; seed <= 20; seed++) {
        ember_generation_options options;
        ember_generation_defaults(&options);
        options.n_tokens = NEW_TOKENS;
        options.temperature = 5;
        options.top_p = 1;
        options.seed = seed;
        ember_generation *generation = NULL;
        check_ok(ember_generation_create(&generation, llm, &options));
        static uint32_t ids[1 + NEW_TOKENS];
        static char streamed[MAX_BYTES], decoded[MAX_BYTES];
        size_t n_ids = 0, n_streamed = 0, n_decoded = 0;
        size_t n_prompt = 0;
        const uint32_t *prompt = ember_generation_prompt(generation, &n_prompt);
        assert_int_equal(n_prompt, 1);
        ids[n_ids++] = prompt[0];
        for (ember_generated token = {0}; token.stop == EMBER_STOP_NONE;) {
            check_ok(ember_generation_step(generation, &token));
            assert_true(n_streamed + token.n_bytes <= sizeof streamed);
            memcpy(streamed + n_streamed, token.text, token.n_bytes);
            n_streamed += token.n_bytes;
            if (token.has_id && token.stop != EMBER_STOP_EOS) ids[n_ids++] = token.id;
        }
        check_ok(ember_llm_decode(llm, ids, n_ids, decoded, sizeof decoded, &n_decoded));
        assert_int_equal(n_streamed, n_decoded);
        assert_memory_equal(streamed, decoded, n_decoded);
        for (size_t i = 0; i < n_decoded; i++) {
            if ((unsigned char)decoded[i] >= 0x80) {
                broken++;
                break;
            }
        }
        ember_generation_free(generation);
    }
    assert_true(broken > 5);
    ember_llm_free(llm);
    ember_context_free(context);
}

int main(void) {
    if (!shared_path(folder, "models/stories260K/model.safetensors")) {
        printf("skipped: %s is not there\n", SHARED_FOLDER "/models/stories260K");
        return SKIPPED;
    }
    (void)snprintf(folder, sizeof folder, "%s/models/stories260K", SHARED_FOLDER);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_streamed_is_decoded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
