/* rooms: model kernels base */
/* Cached decoding against the forward pass of the whole sequence. */
#include "tests/model/model_fixture.h"

enum { T = 23, V = 11 };

typedef struct decode_setup {
    ember_backend *backend;
    ember_model *model;
    fixture_batch batch;
    float logits[T * V]; /* of one pass */
} decode_setup;

static void open_setup(decode_setup *s, ember_hparams p, int64_t chunk, ember_ffn_mode mode) {
    check_ok(ember_cpu_backend_create(&s->backend, 2));
    ember_model_options options = {.n_sequences = 1, .sequence_length = T, .compression = 8, .may_run_dense = true, .may_run_twell = true};
    s->batch = fixture_batch_create(1, T, p.vocab_size, false, false);
    check_ok(ember_model_create(&s->model, s->backend, &p, &options));
    fixture_fill(s->model);
    const ember_micro_batch all = fixture_micro(&s->batch, 0, 1);
    int64_t full_layer = -1;
    check_ok(ember_model_logits(s->model, &all, s->logits, &full_layer));
    if (chunk == T) return;
    ember_model_free(s->model);
    options.sequence_length = chunk;
    check_ok(ember_model_create(&s->model, s->backend, &p, &options));
    fixture_fill(s->model);
    for (int64_t layer = 0; layer < p.num_hidden_layers; layer++)
        check_ok(ember_model_set_mode(s->model, layer, mode));
}

static void close_setup(decode_setup *s) {
    fixture_batch_free(&s->batch);
    ember_model_free(s->model);
    ember_backend_free(s->backend);
}

static void check_row(const float *row, const float *wanted, const char *what, int64_t position) {
    double difference = 0.0, norm = 0.0;
    for (int i = 0; i < V; i++) {
        difference += ((double)row[i] - (double)wanted[i]) * ((double)row[i] - (double)wanted[i]);
        norm += (double)wanted[i] * (double)wanted[i];
    }
    if (!(sqrt(difference / norm) <= 1e-5)) fail_msg("%s, position %d: logits off by %g", what, (int)position, sqrt(difference / norm));
}

/* Steps of 1, 2, 7 and all tokens, in models planned for small and large chunks. */
static void check_model(ember_hparams p, ember_ffn_mode mode) {
    const int64_t steps[] = {1, 2, 7, T};
    const int64_t planned[] = {1, 3, T};
    for (int k = 0; k < 3; k++) {
        decode_setup s = {0};
        open_setup(&s, p, planned[k], mode);
        ember_kv_cache *cache = NULL;
        check_ok(ember_kv_cache_create(&cache, s.model, T));
        for (int i = 0; i < 4; i++) {
            ember_kv_cache_reset(cache);
            assert_int_equal(ember_kv_cache_length(cache), 0);
            for (int64_t at = 0; at < T; at += steps[i]) {
                const int64_t n = T - at < steps[i] ? T - at : steps[i];
                float row[V];
                check_ok(ember_model_decode(s.model, cache, s.batch.input_ids + at, n, row));
                assert_int_equal(ember_kv_cache_length(cache), at + n);
                check_row(row, s.logits + (at + n - 1) * V, "chunked", at + n - 1);
            }
        }
        ember_kv_cache_free(cache);
        close_setup(&s);
    }
}

static void test_chunks_equal_one_pass(void **state) {
    (void)state;
    ember_hparams p = fixture_hparams();
    check_model(p, EMBER_MODE_DENSE);
    check_model(p, EMBER_MODE_TWELL);
    p.qk_norm = true;
    p.qkv_bias = true;
    p.ffn_kind = EMBER_FFN_PLAIN;
    p.activation = EMBER_RELU2;
    check_model(p, EMBER_MODE_TWELL);
    p = fixture_hparams();
    p.activation = EMBER_SILU;
    p.num_key_value_heads = 1;
    check_model(p, EMBER_MODE_DENSE);
}

/* A model whose neurons nearly all fire: more than the inference plan holds packed, so layers are redone dense. */
static void test_dense_firing_is_exact(void **state) {
    (void)state;
    ember_hparams p = fixture_hparams();
    p.neurons[0] = 512;
    p.neurons[1] = 257;
    decode_setup s = {0};
    open_setup(&s, p, T - 1, EMBER_MODE_TWELL);
    const ember_micro_batch part = {.n_sequences = 1, .sequence_length = T - 1, .input_ids = s.batch.input_ids};
    float logits[(T - 1) * V];
    int64_t full_layer = -1;
    check_ok(ember_model_logits(s.model, &part, logits, &full_layer));
    for (int64_t t = 0; t < T - 1; t++)
        check_row(logits + t * V, s.logits + t * V, "twell with overflow", t);
    ember_kv_cache *cache = NULL;
    check_ok(ember_kv_cache_create(&cache, s.model, T));
    for (int64_t t = 0; t < T; t++) {
        float row[V];
        check_ok(ember_model_decode(s.model, cache, s.batch.input_ids + t, 1, row));
        check_row(row, s.logits + t * V, "decode with overflow", t);
    }
    ember_kv_cache_free(cache);
    close_setup(&s);
}

static const ember_ops *inner_ops;
static int n_calls[2]; /* of ffn_forward, by mode */

static ember_status counting_ffn_forward(ember_backend *backend, const ember_ffn_args *args) {
    n_calls[args->mode]++;
    return inner_ops->ffn_forward(backend, args);
}

/* A single token runs on its firing neurons alone even where the layer's mode is dense; a chunk obeys
 * the mode; silu, which has no zeros, stays dense. */
static void test_single_tokens_run_on_the_support(void **state) {
    (void)state;
    for (int silu = 0; silu < 2; silu++) {
        ember_hparams p = fixture_hparams();
        p.activation = silu ? EMBER_SILU : EMBER_RELU;
        decode_setup s = {0};
        open_setup(&s, p, 4, EMBER_MODE_DENSE);
        inner_ops = s.backend->ops;
        ember_ops ops = *inner_ops;
        ops.ffn_forward = counting_ffn_forward;
        s.backend->ops = &ops;
        ember_kv_cache *cache = NULL;
        check_ok(ember_kv_cache_create(&cache, s.model, T));
        memset(n_calls, 0, sizeof n_calls);
        check_ok(ember_model_decode(s.model, cache, s.batch.input_ids, 3, NULL));
        assert_int_equal(n_calls[EMBER_MODE_DENSE], 2);
        assert_int_equal(n_calls[EMBER_MODE_TWELL], 0);
        check_ok(ember_model_decode(s.model, cache, s.batch.input_ids + 3, 1, NULL));
        assert_int_equal(n_calls[EMBER_MODE_DENSE], silu ? 4 : 2);
        assert_int_equal(n_calls[EMBER_MODE_TWELL], silu ? 0 : 2);
        ember_kv_cache_free(cache);
        s.backend->ops = inner_ops;
        close_setup(&s);
    }
}

static void test_capacity(void **state) {
    (void)state;
    decode_setup s = {0};
    open_setup(&s, fixture_hparams(), 4, EMBER_MODE_DENSE);
    ember_kv_cache *cache = NULL;
    check_fails(ember_kv_cache_create(&cache, s.model, 0), EMBER_E_ARGUMENT, "0 tokens");
    check_fails(ember_kv_cache_create(&cache, s.model, 65), EMBER_E_ARGUMENT, "64");
    check_ok(ember_kv_cache_create(&cache, s.model, 10));
    float row[V], again[V];
    check_fails(ember_model_decode(s.model, cache, s.batch.input_ids, 11, row), EMBER_E_ARGUMENT, "11 tokens");
    assert_int_equal(ember_kv_cache_length(cache), 0);
    check_fails(ember_model_decode(s.model, cache, s.batch.input_ids, 0, row), EMBER_E_ARGUMENT, "0 tokens");
    check_ok(ember_model_decode(s.model, cache, s.batch.input_ids, 9, NULL));
    const int32_t bad[1] = {V};
    check_fails(ember_model_decode(s.model, cache, bad, 1, row), EMBER_E_ARGUMENT, "id 11");
    check_fails(ember_model_decode(s.model, cache, s.batch.input_ids + 9, 2, row), EMBER_E_ARGUMENT, "1 more");
    assert_int_equal(ember_kv_cache_length(cache), 9);
    check_ok(ember_model_decode(s.model, cache, s.batch.input_ids + 9, 1, row));
    check_row(row, s.logits + 9 * V, "the last place of the cache", 9);
    check_fails(ember_model_decode(s.model, cache, s.batch.input_ids, 1, row), EMBER_E_ARGUMENT, "0 more");
    /* the same again after a reset, to the bit */
    ember_kv_cache_reset(cache);
    check_ok(ember_model_decode(s.model, cache, s.batch.input_ids, 9, NULL));
    check_ok(ember_model_decode(s.model, cache, s.batch.input_ids + 9, 1, again));
    assert_memory_equal(row, again, sizeof row);
    ember_kv_cache_free(cache);
    ember_kv_cache_free(NULL);
    close_setup(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_equal_one_pass),
        cmocka_unit_test(test_dense_firing_is_exact),
        cmocka_unit_test(test_single_tokens_run_on_the_support),
        cmocka_unit_test(test_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
