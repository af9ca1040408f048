/* rooms: kernels base */
#include <math.h>

#include "lib/base/philox.h"
#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_attention_cases);
}

enum { B = 2, T = 9, H = 4, KV = 2, D = 6, WIDTH = (H + 2 * KV) * D, M = B * T };

static void prepare(ember_backend *backend, int64_t length) {
    const ember_workspace_shape shape = {.n_tokens = B * length,
                                         .sequence_length = length,
                                         .n_heads = H,
                                         .n_kv_heads = KV,
                                         .head_dim = D,
                                         .hidden = 8,
                                         .n_neurons = 1,
                                         .vocab_size = 1,
                                         .compression = 8,
                                         .training = true};
    check_ok(backend->ops->prepare(backend, &shape));
}

static double weighted(ember_backend *backend, const float *qkv, const int32_t *start, const float *d_out) {
    float out[M * H * D];
    const ember_attention_args args = {.n_sequences = B,
                                       .sequence_length = T,
                                       .n_heads = H,
                                       .n_kv_heads = KV,
                                       .head_dim = D,
                                       .qkv = qkv,
                                       .document_start = start,
                                       .out = out}; /* no lse: inference */
    check_ok(backend->ops->attention_forward(backend, &args));
    double sum = 0;
    for (int i = 0; i < M * H * D; i++)
        sum += (double)out[i] * (double)d_out[i];
    return sum;
}

/* The gradient is the slope of the forward function, with and without documents. */
static void slope(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    prepare(backend, T);
    float qkv[M * WIDTH], d_out[M * H * D], out[M * H * D], lse[B * H * T], d_qkv[M * WIDTH];
    int32_t start[M];
    for (int i = 0; i < M * WIDTH; i++)
        qkv[i] = ember_philox_normal(1, 1, (uint64_t)i);
    for (int i = 0; i < M * H * D; i++)
        d_out[i] = ember_philox_normal(1, 2, (uint64_t)i);
    for (int i = 0; i < M; i++)
        start[i] = i % T < 4 ? -3 : 4;
    for (int documents = 0; documents < 2; documents++) {
        const ember_attention_args args = {.n_sequences = B,
                                           .sequence_length = T,
                                           .n_heads = H,
                                           .n_kv_heads = KV,
                                           .head_dim = D,
                                           .qkv = qkv,
                                           .document_start = documents ? start : NULL,
                                           .out = out,
                                           .lse = lse,
                                           .d_out = d_out,
                                           .d_qkv = d_qkv};
        check_ok(backend->ops->attention_forward(backend, &args));
        check_ok(backend->ops->attention_backward(backend, &args));
        const float step = 2e-2F;
        for (int i = 0; i < M * WIDTH; i += 5) {
            const float kept = qkv[i];
            qkv[i] = kept + step;
            const double up = weighted(backend, qkv, args.document_start, d_out);
            qkv[i] = kept - step;
            const double down = weighted(backend, qkv, args.document_start, d_out);
            qkv[i] = kept;
            assert_float_equal(d_qkv[i], (float)((up - down) / (2 * (double)step)), 3e-3F);
        }
    }
    ember_backend_free(backend);
}

/* Nothing of the future and nothing of another document reaches a query: bits stay when it changes. */
static void hidden_keys(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    prepare(backend, T);
    float qkv[M * WIDTH], before[M * H * D], after[M * H * D];
    int32_t start[M];
    for (int i = 0; i < M * WIDTH; i++)
        qkv[i] = ember_philox_normal(1, 3, (uint64_t)i);
    for (int i = 0; i < M; i++)
        start[i] = i % T < 4 ? 0 : 4;
    ember_attention_args args = {.n_sequences = B,
                                 .sequence_length = T,
                                 .n_heads = H,
                                 .n_kv_heads = KV,
                                 .head_dim = D,
                                 .qkv = qkv,
                                 .document_start = start,
                                 .out = before};
    check_ok(backend->ops->attention_forward(backend, &args));
    args.out = after;
    for (int j = 0; j < WIDTH; j++) {
        qkv[2 * WIDTH + j] += 1e3F; /* token 2: seen by tokens 2 and 3 alone */
        qkv[8 * WIDTH + j] += 1e3F; /* token 8: the last */
    }
    check_ok(backend->ops->attention_forward(backend, &args));
    for (int token = 0; token < M; token++) {
        const bool sees = token == 2 || token == 3 || token == 8;
        const int differs = memcmp(before + token * H * D, after + token * H * D, sizeof(float) * H * D) != 0;
        assert_int_equal(differs, sees);
    }
    ember_backend_free(backend);
}

/* Scores of +-1e4 neither overflow nor lose the row. */
static void large_scores(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    prepare(backend, T);
    float qkv[M * WIDTH], out[M * H * D], lse[B * H * T], d_qkv[M * WIDTH];
    for (int i = 0; i < M * WIDTH; i++)
        qkv[i] = 60.0F * ember_philox_normal(1, 4, (uint64_t)i);
    const ember_attention_args args = {.n_sequences = B,
                                       .sequence_length = T,
                                       .n_heads = H,
                                       .n_kv_heads = KV,
                                       .head_dim = D,
                                       .qkv = qkv,
                                       .out = out,
                                       .lse = lse,
                                       .d_out = out,
                                       .d_qkv = d_qkv};
    check_ok(backend->ops->attention_forward(backend, &args));
    check_ok(backend->ops->attention_backward(backend, &args));
    for (int i = 0; i < M * H * D; i++)
        assert_true(isfinite(out[i]));
    for (int i = 0; i < M * WIDTH; i++)
        assert_true(isfinite(d_qkv[i]));
    ember_backend_free(backend);
}

static void refusals(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    float block[64] = {0};
    ember_attention_args args = {.n_sequences = 1,
                                 .sequence_length = 1,
                                 .n_heads = 3,
                                 .n_kv_heads = 2,
                                 .head_dim = 2,
                                 .qkv = block,
                                 .out = block,
                                 .lse = block,
                                 .d_out = block,
                                 .d_qkv = block};
    check_fails(backend->ops->attention_forward(backend, &args), EMBER_E_SHAPE, "3 heads");
    check_fails(backend->ops->attention_backward(backend, &args), EMBER_E_SHAPE, "2 key/value heads");
    args.n_kv_heads = 3;
    check_fails(backend->ops->attention_forward(backend, &args), EMBER_E_STATE, "prepare");
    check_fails(backend->ops->attention_backward(backend, &args), EMBER_E_STATE, "prepare");
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(slope), cmocka_unit_test(hidden_keys),
                                       cmocka_unit_test(large_scores), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
