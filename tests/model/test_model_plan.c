/* rooms: model kernels base */
/* What is planned is what is allocated; what is wrong is refused; what is drawn has the right spread. */
#include "tests/model/model_fixture.h"

static const ember_ops *inner_ops;
static size_t allocated_bytes;
static int n_blocks;
static int fail_after; /* allocations that still succeed; -1: all */

static ember_status counting_allocate(ember_backend *backend, void **out, size_t bytes, const char *what) {
    if (fail_after == 0) {
        *out = NULL;
        return EMBER_E_MEMORY;
    }
    if (fail_after > 0) fail_after--;
    allocated_bytes += bytes;
    n_blocks++;
    return inner_ops->allocate(backend, out, bytes, what);
}

static void counting_release(ember_backend *backend, void *block) {
    if (block) n_blocks--;
    inner_ops->release(backend, block);
}

/* A CPU backend whose allocations are counted. */
static ember_backend *counting_backend(ember_ops *ops) {
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    inner_ops = backend->ops;
    *ops = *backend->ops;
    ops->allocate = counting_allocate;
    ops->release = counting_release;
    backend->ops = ops;
    allocated_bytes = 0;
    n_blocks = 0;
    fail_after = -1;
    return backend;
}

static void counting_backend_free(ember_backend *backend) {
    backend->ops = inner_ops;
    ember_backend_free(backend);
}

static ember_model_options options_of(bool training, bool dense, bool twell) {
    return (ember_model_options){
        .training = training, .n_sequences = 3, .sequence_length = 10, .compression = 8, .may_run_dense = dense, .may_run_twell = twell};
}

static void test_plan_is_what_is_allocated(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++) {
        ember_hparams p = fixture_hparams();
        p.qkv_bias = i & 1;
        p.qk_norm = i & 1;
        p.tie_word_embeddings = !(i & 2);
        p.ffn_kind = i & 2 ? EMBER_FFN_PLAIN : EMBER_FFN_GATED;
        const ember_model_options options = options_of((i & 4) != 0, true, (i & 8) != 0);
        ember_ops ops;
        ember_backend *backend = counting_backend(&ops);
        ember_memory_plan plan;
        check_ok(ember_model_plan(&plan, backend, &p, &options));
        assert_int_equal(allocated_bytes, 0);
        ember_model *model = NULL;
        check_ok(ember_model_create(&model, backend, &p, &options));
        assert_int_equal(allocated_bytes,
                         plan.weight_bytes + plan.gradient_bytes + plan.optimizer_bytes + plan.activation_bytes + plan.ffn_bytes);
        assert_int_equal(plan.total_bytes, allocated_bytes + plan.workspace_bytes + plan.tracker_bytes);
        assert_true(plan.weight_bytes >= (size_t)ember_hparams_n_elements(&p) * sizeof(float));
        assert_true((plan.gradient_bytes > 0) == options.training);
        /* A step and an evaluation allocate nothing. */
        fixture_fill(model);
        const size_t before = allocated_bytes;
        fixture_batch batch = fixture_batch_create(3, 10, p.vocab_size, true, true);
        const ember_micro_batch all = fixture_micro(&batch, 0, 3);
        fixture_stats s;
        fixture_stats_clear(&s);
        int64_t full_layer = -1;
        const double l1[FIXTURE_LAYERS] = {0};
        const ember_loss_scale scale = {.ce = 0.1, .l1 = l1};
        check_ok(ember_model_run(model, &all, options.training ? &scale : NULL, &s.stats, NULL, &full_layer));
        assert_int_equal(allocated_bytes, before);
        fixture_batch_free(&batch);
        ember_model_free(model);
        assert_int_equal(n_blocks, 0);
        counting_backend_free(backend);
    }
}

static void test_refused_memory_leaves_nothing(void **state) {
    (void)state;
    const ember_hparams p = fixture_hparams();
    const ember_model_options options = options_of(true, true, true);
    ember_ops ops;
    ember_backend *backend = counting_backend(&ops);
    ember_model *model = NULL;
    for (int n = 0;; n++) {
        fail_after = n;
        const ember_status status = ember_model_create(&model, backend, &p, &options);
        if (status == EMBER_OK) {
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, EMBER_E_MEMORY);
        assert_null(model);
        assert_int_equal(n_blocks, 0);
    }
    ember_model_free(model);
    assert_int_equal(n_blocks, 0);
    ember_model_free(NULL);
    counting_backend_free(backend);
}

static void test_flop_per_token(void **state) {
    (void)state;
    ember_hparams p = fixture_hparams();
    p.tie_word_embeddings = false;
    const ember_model_options options = options_of(true, true, false);
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    ember_memory_plan plan;
    check_ok(ember_model_plan(&plan, backend, &p, &options));
    /* q 16x8, k 8x8, v 8x8, o 8x16, 3 x 13 x 8 and 3 x 6 x 8 neurons, head 11x8 */
    const double matrices = 2 * (128 + 64 + 64 + 128) + 3 * 8 * (13 + 6) + 88;
    const double attention = 2 * 2.0 * 16 * 11;
    check_close(plan.flop_per_token, 3 * (2 * matrices + attention), 1e-9);
    p.tie_word_embeddings = true; /* the head's product stays */
    check_ok(ember_model_plan(&plan, backend, &p, &options));
    check_close(plan.flop_per_token, 3 * (2 * matrices + attention), 1e-9);
    ember_backend_free(backend);
}

static void test_layout(void **state) {
    (void)state;
    ember_hparams p = fixture_hparams();
    p.qkv_bias = true;
    p.hidden_size = 7;
    const ember_model_options options = options_of(true, true, true);
    ember_backend *backend = NULL;
    ember_model *model = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    check_ok(ember_model_create(&model, backend, &p, &options));
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        const ember_param *param = ember_model_param(model, i);
        const ember_param *last = i > 0 ? ember_model_param(model, i - 1) : NULL;
        const ember_param_role role = param->spec.role;
        if (role == EMBER_PARAM_K || role == EMBER_PARAM_V || role == EMBER_PARAM_K_BIAS || role == EMBER_PARAM_V_BIAS) {
            assert_ptr_equal(param->value.data, (float *)last->value.data + ember_tensor_count(last->value));
            assert_ptr_equal(param->grad.data, (float *)last->grad.data + ember_tensor_count(last->grad));
        } else {
            assert_int_equal((uintptr_t)param->value.data % EMBER_ALIGNMENT, 0);
            assert_int_equal((uintptr_t)param->exp_avg_sq.data % EMBER_ALIGNMENT, 0);
        }
    }
    ember_model_free(model);
    ember_backend_free(backend);
}

static void test_init(void **state) {
    (void)state;
    ember_hparams p = fixture_hparams();
    p.hidden_size = 64;
    p.neurons[0] = p.neurons[1] = 500;
    p.qkv_bias = true;
    p.qk_norm = true;
    const ember_model_options options = options_of(false, true, true);
    ember_backend *backend = NULL;
    ember_model *model = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    check_ok(ember_model_create(&model, backend, &p, &options));
    check_ok(ember_model_init(model, 42, 0.02, true));
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        const ember_param *param = ember_model_param(model, i);
        const float *value = param->value.data;
        const int64_t n = ember_tensor_count(param->value);
        const bool bias =
            param->spec.role == EMBER_PARAM_Q_BIAS || param->spec.role == EMBER_PARAM_K_BIAS || param->spec.role == EMBER_PARAM_V_BIAS;
        double sum = 0.0, squares = 0.0;
        for (int64_t k = 0; k < n; k++) {
            sum += (double)value[k];
            squares += (double)value[k] * (double)value[k];
            if (param->spec.n_dims == 1) assert_true(value[k] == (bias ? 0.0f : 1.0f));
        }
        if (param->spec.n_dims == 1) continue;
        const bool residual = param->spec.role == EMBER_PARAM_O || param->spec.role == EMBER_PARAM_DOWN;
        const double std = residual ? 0.01 : 0.02; /* 0.02 / sqrt(2 L), L = 2 */
        check_close(sqrt(squares / (double)n), std, 5 * std / sqrt(2.0 * (double)n));
        check_close(sum / (double)n, 0.0, 5 * std / sqrt((double)n));
        assert_true(value[1] == (float)std * ember_philox_normal(42, (uint64_t)EMBER_STREAM_TENSOR + (uint64_t)i, 1));
    }
    const float first = *(const float *)ember_model_param(model, 0)->value.data;
    check_ok(ember_model_init(model, 43, 0.02, true));
    assert_true(*(const float *)ember_model_param(model, 0)->value.data != first);
    check_fails(ember_model_init(model, 0, NAN, true), EMBER_E_ARGUMENT, "std");
    int64_t index = 0;
    check_ok(ember_model_find_nonfinite(model, false, &index));
    assert_int_equal(index, -1);
    const ember_param *third = ember_model_param(model, 3);
    ((float *)third->value.data)[ember_tensor_count(third->value) - 1] = NAN;
    check_ok(ember_model_find_nonfinite(model, false, &index));
    assert_int_equal(index, 3);
    check_fails(ember_model_find_nonfinite(model, true, &index), EMBER_E_STATE, "gradients");
    check_fails(ember_model_zero_grad(model), EMBER_E_STATE, "gradients");
    ember_model_free(model);
    ember_backend_free(backend);
}

static void test_refusals(void **state) {
    (void)state;
    ember_hparams p = fixture_hparams();
    ember_backend *backend = NULL;
    ember_model *model = NULL;
    ember_memory_plan plan;
    check_ok(ember_cpu_backend_create(&backend, 1));
    ember_model_options options = options_of(true, true, true);
    options.sequence_length = 65;
    check_fails(ember_model_create(&model, backend, &p, &options), EMBER_E_ARGUMENT, "65");
    options = options_of(true, true, true);
    options.n_sequences = 0;
    check_fails(ember_model_plan(&plan, backend, &p, &options), EMBER_E_ARGUMENT, "0 sequences");
    options.n_sequences = INT64_MAX;
    check_fails(ember_model_plan(&plan, backend, &p, &options), EMBER_E_ARGUMENT, "sequences");
    options = options_of(true, true, true);
    options.compression = 3;
    check_fails(ember_model_create(&model, backend, &p, &options), EMBER_E_ARGUMENT, "compression");
    options = options_of(true, false, false);
    check_fails(ember_model_create(&model, backend, &p, &options), EMBER_E_ARGUMENT, "mode");
    p.activation = EMBER_SILU;
    options = options_of(true, false, true);
    check_fails(ember_model_create(&model, backend, &p, &options), EMBER_E_UNSUPPORTED, "silu");
    options = options_of(true, true, true);
    check_ok(ember_model_create(&model, backend, &p, &options));
    check_fails(ember_model_set_mode(model, 0, EMBER_MODE_TWELL), EMBER_E_UNSUPPORTED, "silu");
    check_fails(ember_model_set_mode(model, 2, EMBER_MODE_DENSE), EMBER_E_ARGUMENT, "layer 2");
    ember_model_free(model);
    p.activation = EMBER_RELU;
    options = options_of(false, true, false);
    check_ok(ember_model_create(&model, backend, &p, &options));
    check_fails(ember_model_set_mode(model, 0, EMBER_MODE_TWELL), EMBER_E_STATE, "twell");
    fixture_batch batch = fixture_batch_create(3, 10, p.vocab_size, true, true);
    fixture_stats s;
    fixture_stats_clear(&s);
    int64_t full_layer = -1;
    const double l1[FIXTURE_LAYERS] = {0};
    const ember_loss_scale scale = {.ce = 1, .l1 = l1};
    ember_micro_batch all = fixture_micro(&batch, 0, 3);
    check_fails(ember_model_run(model, &all, &scale, &s.stats, NULL, &full_layer), EMBER_E_STATE, "backward");
    all.n_sequences = 4;
    check_fails(ember_model_run(model, &all, NULL, &s.stats, NULL, &full_layer), EMBER_E_SHAPE, "4 sequences");
    all.n_sequences = 3;
    const int32_t id = batch.input_ids[4];
    batch.input_ids[4] = 11;
    check_fails(ember_model_run(model, &all, NULL, &s.stats, NULL, &full_layer), EMBER_E_ARGUMENT, "id 11 at position 4");
    batch.input_ids[4] = -1;
    check_fails(ember_model_run(model, &all, NULL, &s.stats, NULL, &full_layer), EMBER_E_ARGUMENT, "id -1");
    batch.input_ids[4] = id;
    batch.target_ids[2] = 11;
    check_fails(ember_model_run(model, &all, NULL, &s.stats, NULL, &full_layer), EMBER_E_ARGUMENT, "target id 11");
    batch.target_ids[2] = 0;
    batch.mask[2] = 0;
    check_fails(ember_model_run(model, &all, NULL, &s.stats, NULL, &full_layer), EMBER_E_ARGUMENT, "padding");
    batch.mask[2] = 1;
    batch.document_start[3] = 4;
    check_fails(ember_model_run(model, &all, NULL, &s.stats, NULL, &full_layer), EMBER_E_ARGUMENT, "document start 4");
    batch.document_start[3] = 0;
    check_ok(ember_model_run(model, &all, NULL, &s.stats, NULL, &full_layer));
    fixture_batch_free(&batch);
    ember_model_free(model);
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_is_what_is_allocated),
        cmocka_unit_test(test_refused_memory_leaves_nothing),
        cmocka_unit_test(test_flop_per_token),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
