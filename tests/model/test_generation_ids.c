/* rooms: api model config data checkpoints kernels h5 base */
/* A tokenizer with fewer ids than the embedding has rows, and with numbers that none of its tokens has: only ids of tokens
 * are ever sampled, and each of them is. */
#include <unistd.h>

#include "checkpoints/checkpoint.h"
#include "tests/model/model_fixture.h"
#include "tests/unit/tokenizer_fixture.h"

/* a = 0, b = 1, c = 2, <y> = 6, <z> = 9; no token has 3, 4, 5, 7 and 8; 10 to 15 are padding of the embedding. */
enum { ROWS = 16, CONTEXT = 300, NEW_TOKENS = 290 };
static const bool has_token[ROWS] = {[0] = true, [1] = true, [2] = true, [6] = true, [9] = true};

static char path[64];
static ember_context *context;
static ember_llm *llm;

static void write_checkpoint(const ember_hparams *p, const char *tokenizer) {
    ember_checkpoint_writer *writer = NULL;
    const ember_checkpoint_meta meta = {.config = "", .tokenizer = tokenizer, .tokenizer_bytes = strlen(tokenizer)};
    check_ok(ember_checkpoint_create(&writer, path, &meta, p));
    for (int64_t i = 0; i < ember_hparams_n_params(p); i++) {
        const ember_param_spec spec = ember_hparams_param(p, i);
        const int64_t n = spec.n_dims == 2 ? spec.dims[0] * spec.dims[1] : spec.dims[0];
        float *values = calloc((size_t)n, sizeof(float));
        assert_non_null(values);
        for (int64_t k = 0; k < n; k++)
            values[k] = fixture_value(&spec, i, k);
        const ember_tensor tensor = spec.n_dims == 2 ? ember_tensor_2d(values, EMBER_F32, spec.dims[0], spec.dims[1])
                                                     : ember_tensor_1d(values, EMBER_F32, spec.dims[0]);
        check_ok(ember_checkpoint_put_param(writer, &spec, tensor));
        free(values);
    }
    check_ok(ember_checkpoint_commit(writer));
}

static int open_model(void **state) {
    (void)state;
    static const char *const tokens[] = {"a", "b", "c", NULL};
    const fixture f = {.decoder = "{\"type\":\"Fuse\"}",
                       .tokens = tokens,
                       .characters = true,
                       .added = "[{\"id\":6,\"content\":\"<y>\"},{\"id\":9,\"content\":\"<z>\"}]"};
    char *text = fixture_text(&f);
    ember_hparams p = fixture_hparams();
    p.vocab_size = ROWS;
    p.max_position_embeddings = CONTEXT;
    (void)snprintf(path, sizeof path, "test_generation_ids_%d.h5", (int)getpid());
    write_checkpoint(&p, text);
    free(text);
    const ember_context_options device = {.device = "cpu", .n_threads = 1};
    check_ok(ember_context_create(&context, &device));
    check_ok(ember_llm_open(&llm, context, path, NULL));
    (void)unlink(path);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    ember_llm_free(llm);
    ember_context_free(context);
    return 0;
}

/* Counts what is sampled, and compares the text with the decoded ids. */
static void generate(const ember_generation_options *options, int count[ROWS]) {
    ember_generation *generation = NULL;
    check_ok(ember_generation_create(&generation, llm, options));
    uint32_t ids[CONTEXT];
    char streamed[4 * CONTEXT], decoded[4 * CONTEXT];
    size_t n = 0, n_streamed = 0, n_decoded = 0;
    for (ember_generated token = {0}; token.stop == EMBER_STOP_NONE;) {
        check_ok(ember_generation_step(generation, &token));
        assert_true(token.has_id && token.id < ROWS && n < CONTEXT);
        count[token.id]++;
        ids[n++] = token.id;
        assert_true(n_streamed + token.n_bytes <= sizeof streamed);
        memcpy(streamed + n_streamed, token.text, token.n_bytes);
        n_streamed += token.n_bytes;
    }
    assert_int_equal(n, NEW_TOKENS);
    check_ok(ember_llm_decode(llm, ids, n, decoded, sizeof decoded, &n_decoded));
    assert_int_equal(n_decoded, n_streamed);
    assert_memory_equal(decoded, streamed, n_decoded);
    ember_generation_free(generation);
}

static ember_generation_options options_of(double temperature, double top_p) {
    ember_generation_options options;
    ember_generation_defaults(&options);
    options.prompt = "ab";
    options.prompt_bytes = 2;
    options.n_tokens = NEW_TOKENS;
    options.temperature = temperature;
    options.top_p = top_p;
    options.ignore_eos = true;
    return options;
}

static void only_ids_of_tokens(void **state) {
    (void)state;
    int count[ROWS] = {0};
    ember_generation_options options = options_of(1e30, 1); /* every id is as likely as another */
    generate(&options, count);
    for (int id = 0; id < ROWS; id++) {
        if (has_token[id] != (count[id] > 0)) fail_msg("id %d was sampled %d times", id, count[id]);
    }
    /* through the sorted candidates, and through none */
    const double temperatures[] = {1e30, 5, 0};
    for (int i = 0; i < 3; i++) {
        options = options_of(temperatures[i], 0.99);
        options.top_k = i == 1 ? 4 : 0;
        memset(count, 0, sizeof count);
        generate(&options, count);
        for (int id = 0; id < ROWS; id++)
            assert_true(has_token[id] || count[id] == 0);
    }
}

/* A prompt given as ids may hold rows without a token: the model has them, and they have no text. */
static void prompt_of_any_rows(void **state) {
    (void)state;
    const uint32_t ids[] = {0, 4, 15, 9};
    ember_generation_options options = options_of(1, 1);
    options.prompt_ids = ids;
    options.n_prompt_ids = 4;
    int count[ROWS] = {0};
    generate(&options, count);
    const uint32_t beyond[] = {ROWS};
    options.prompt_ids = beyond;
    options.n_prompt_ids = 1;
    ember_generation *generation = NULL;
    check_fails(ember_generation_create(&generation, llm, &options), EMBER_E_ARGUMENT, "prompt id 16");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_ids_of_tokens), cmocka_unit_test(prompt_of_any_rows)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
