/* rooms: model kernels base */
/* The float32 model against the double-precision one: logits, losses, counts and every gradient, over
 * every kind of model that the hyper-parameters describe. */
#include "tests/model/model_fixture.h"
#include "tests/reference/transformer_reference.h"

typedef struct test_case {
    const char *name;
    ember_hparams hparams;
    bool padding;
    bool documents;
    int64_t n_sequences, sequence_length;
} test_case;

static double **copy_params(ember_model *model) {
    const int64_t n = ember_model_n_params(model);
    double **params = calloc((size_t)n, sizeof *params);
    assert_non_null(params);
    for (int64_t i = 0; i < n; i++) {
        const ember_param *param = ember_model_param(model, i);
        const int64_t count = ember_tensor_count(param->value);
        params[i] = calloc((size_t)count, sizeof(double));
        assert_non_null(params[i]);
        for (int64_t k = 0; k < count; k++)
            params[i][k] = (double)((const float *)param->value.data)[k];
    }
    return params;
}

static void check_near(const char *what, const char *name, double value, double reference, double bound) {
    if (!(fabs(value - reference) <= bound * fabs(reference) + 1e-12)) {
        fail_msg("%s, %s: %.9g, reference %.9g", name, what, value, reference);
    }
}

static void check_forward(const test_case *c, ember_model *model, double *const *params, const fixture_batch *batch,
                          const fixture_stats *s) {
    const int64_t n = batch->n_sequences * batch->sequence_length * c->hparams.vocab_size;
    float *logits = calloc((size_t)n, sizeof(float));
    double *wanted = calloc((size_t)n, sizeof(double));
    assert_non_null(logits);
    assert_non_null(wanted);
    const ember_micro_batch all = fixture_micro(batch, 0, batch->n_sequences);
    int64_t full_layer = -1;
    check_ok(ember_model_logits(model, &all, logits, &full_layer));
    const reference_batch reference = {.n_sequences = batch->n_sequences,
                                       .sequence_length = batch->sequence_length,
                                       .input_ids = batch->input_ids,
                                       .target_ids = batch->target_ids,
                                       .mask = batch->mask,
                                       .document_start = batch->document_start};
    reference_result result;
    transformer_reference_forward(&result, wanted, &c->hparams, params, &reference);
    double difference = 0.0, norm = 0.0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)logits[i] - wanted[i]) * ((double)logits[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    if (!(sqrt(difference / norm) <= 3e-6)) fail_msg("%s: logits off by %g", c->name, sqrt(difference / norm));
    check_near("cross-entropy", c->name, s->stats.ce_sum, result.ce_sum, 2e-6);
    for (int64_t layer = 0; layer < c->hparams.num_hidden_layers; layer++) {
        check_near("L1", c->name, s->l1_sum[layer], result.l1_sum[layer], 5e-6);
        assert_int_equal((int64_t)s->l0_sum[layer], (int64_t)result.l0_sum[layer]);
    }
    free(wanted);
    free(logits);
}

/* Each tensor by norm; a tensor whose gradient is zero in exact arithmetic is held to the whole's norm. */
static void check_gradients(const test_case *c, ember_model *model, double *const *params, const fixture_batch *batch,
                            const double *lambda) {
    const reference_batch reference = {.n_sequences = batch->n_sequences,
                                       .sequence_length = batch->sequence_length,
                                       .input_ids = batch->input_ids,
                                       .target_ids = batch->target_ids,
                                       .mask = batch->mask,
                                       .document_start = batch->document_start};
    double whole = 0.0;
    double difference[64] = {0}, norm[64] = {0};
    const int64_t n = ember_model_n_params(model);
    assert_true(n <= 64);
    for (int64_t i = 0; i < n; i++) {
        const ember_param *param = ember_model_param(model, i);
        for (int64_t k = 0; k < ember_tensor_count(param->grad); k++) {
            const double wanted = transformer_reference_gradient(&c->hparams, params, &reference, lambda, i, k);
            const double got = (double)((const float *)param->grad.data)[k];
            difference[i] += (got - wanted) * (got - wanted);
            norm[i] += wanted * wanted;
        }
        whole += norm[i];
    }
    assert_true(whole > 0);
    for (int64_t i = 0; i < n; i++) {
        if (!(sqrt(difference[i]) <= 2e-5 * sqrt(norm[i]) + 1e-7 * sqrt(whole))) {
            fail_msg("%s: gradient of %s is off by %g of %g", c->name, ember_model_param(model, i)->spec.name, sqrt(difference[i]),
                     sqrt(norm[i]));
        }
    }
}

static void run_case(const test_case *c, ember_ffn_mode mode) {
    const double lambda[FIXTURE_LAYERS] = {0.3, 0.7, 0.5, 0.2};
    ember_backend *backend = NULL;
    ember_model *model = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    const ember_model_options options = {.training = true,
                                         .n_sequences = c->n_sequences,
                                         .sequence_length = c->sequence_length,
                                         .compression = 8,
                                         .may_run_dense = true,
                                         .may_run_twell = true};
    check_ok(ember_model_create(&model, backend, &c->hparams, &options));
    for (int64_t layer = 0; layer < c->hparams.num_hidden_layers; layer++)
        check_ok(ember_model_set_mode(model, layer, mode));
    fixture_fill(model);
    double **params = copy_params(model);
    fixture_batch batch = fixture_batch_create(c->n_sequences, c->sequence_length, c->hparams.vocab_size, c->padding, c->documents);
    fixture_stats s;
    (void)fixture_step(model, &batch, c->n_sequences, lambda, &s, NULL);
    check_gradients(c, model, params, &batch, lambda);
    check_forward(c, model, params, &batch, &s);
    fixture_batch_free(&batch);
    for (int64_t i = 0; i < ember_model_n_params(model); i++)
        free(params[i]);
    free(params);
    ember_model_free(model);
    ember_backend_free(backend);
}

static void run_modes(const test_case *c) {
    run_case(c, EMBER_MODE_DENSE);
    if (c->hparams.activation != EMBER_SILU) run_case(c, EMBER_MODE_TWELL);
}

static void test_gated_grouped(void **state) {
    (void)state;
    run_modes(&(test_case){.name = "gated, grouped heads", .hparams = fixture_hparams(), .n_sequences = 2, .sequence_length = 6});
}

static void test_bias_and_qk_norm(void **state) {
    (void)state;
    test_case c = {.name = "qkv bias, q/k norm, one key head", .hparams = fixture_hparams(), .n_sequences = 2, .sequence_length = 5};
    c.hparams.qkv_bias = true;
    c.hparams.qk_norm = true;
    c.hparams.num_key_value_heads = 1;
    run_modes(&c);
}

static void test_plain_relu2_untied(void **state) {
    (void)state;
    test_case c = {.name = "plain, relu2, untied", .hparams = fixture_hparams(), .n_sequences = 2, .sequence_length = 5};
    c.hparams.ffn_kind = EMBER_FFN_PLAIN;
    c.hparams.activation = EMBER_RELU2;
    c.hparams.tie_word_embeddings = false;
    run_modes(&c);
}

static void test_gated_relu2(void **state) {
    (void)state;
    test_case c = {.name = "gated, relu2", .hparams = fixture_hparams(), .n_sequences = 2, .sequence_length = 5};
    c.hparams.activation = EMBER_RELU2;
    run_modes(&c);
}

static void test_documents_and_padding(void **state) {
    (void)state;
    test_case c = {.name = "plain, relu, documents, padding",
                   .hparams = fixture_hparams(),
                   .padding = true,
                   .documents = true,
                   .n_sequences = 3,
                   .sequence_length = 7};
    c.hparams.ffn_kind = EMBER_FFN_PLAIN;
    run_modes(&c);
    c.name = "gated, documents, padding";
    c.hparams.ffn_kind = EMBER_FFN_GATED;
    run_modes(&c);
}

static void test_silu_llama3(void **state) {
    (void)state;
    test_case c = {.name = "silu, llama3 scaling", .hparams = fixture_hparams(), .n_sequences = 1, .sequence_length = 16};
    c.hparams.activation = EMBER_SILU;
    c.hparams.head_dim = 8;
    c.hparams.num_attention_heads = 2;
    c.hparams.num_key_value_heads = 2;
    c.hparams.rope_theta = 100.0;
    c.hparams.rope_scaling = EMBER_ROPE_LLAMA3;
    c.hparams.rope_factor = 4.0;
    c.hparams.rope_low_freq_factor = 0.3;
    c.hparams.rope_high_freq_factor = 1.5;
    c.hparams.rope_original_max_position_embeddings = 16;
    run_modes(&c);
}

static void test_linear_scaling(void **state) {
    (void)state;
    test_case c = {.name = "linear scaling", .hparams = fixture_hparams(), .n_sequences = 1, .sequence_length = 9};
    c.hparams.rope_scaling = EMBER_ROPE_LINEAR;
    c.hparams.rope_factor = 3.0;
    run_modes(&c);
}

static void test_smallest(void **state) {
    (void)state;
    test_case c = {
        .name = "hidden 8, one of everything, vocabulary 2", .hparams = fixture_hparams(), .n_sequences = 1, .sequence_length = 1};
    c.hparams.num_hidden_layers = 1;
    c.hparams.num_attention_heads = 1;
    c.hparams.num_key_value_heads = 1;
    c.hparams.head_dim = 8;
    c.hparams.neurons[0] = 1;
    c.hparams.vocab_size = 2;
    run_modes(&c);
    c.name = "the same, 3 sequences of 4 tokens";
    c.n_sequences = 3;
    c.sequence_length = 4;
    run_modes(&c);
}

static void test_prime_sizes(void **state) {
    (void)state;
    test_case c = {.name = "prime sizes", .hparams = fixture_hparams(), .n_sequences = 3, .sequence_length = 5};
    c.hparams.hidden_size = 7;
    c.hparams.num_attention_heads = 3;
    c.hparams.num_key_value_heads = 1;
    c.hparams.head_dim = 2;
    c.hparams.neurons[0] = 19;
    c.hparams.neurons[1] = 3;
    c.hparams.vocab_size = 17;
    run_modes(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gated_grouped),         cmocka_unit_test(test_bias_and_qk_norm), cmocka_unit_test(test_plain_relu2_untied),
        cmocka_unit_test(test_gated_relu2),           cmocka_unit_test(test_silu_llama3),      cmocka_unit_test(test_linear_scaling),
        cmocka_unit_test(test_documents_and_padding), cmocka_unit_test(test_smallest),         cmocka_unit_test(test_prime_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
