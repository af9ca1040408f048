/* rooms: kernels base */
#include <math.h>

#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_qknorm_cases);
}

enum { M = 2, H = 2, KV = 1, D = 6, WIDTH = (H + 2 * KV) * D };

static double weighted(ember_backend *backend, const float *from, float *qw, float *kw, const float *dy) {
    float qkv[M * WIDTH];
    memcpy(qkv, from, sizeof qkv);
    const ember_qknorm_args args = {.n_tokens = M,
                                    .n_heads = H,
                                    .n_kv_heads = KV,
                                    .head_dim = D,
                                    .eps = 1e-6,
                                    .qkv = qkv,
                                    .q_weight = qw,
                                    .k_weight = kw}; /* nothing kept: inference */
    check_ok(backend->ops->qknorm_forward(backend, &args));
    double sum = 0;
    for (int i = 0; i < M * WIDTH; i++)
        sum += (double)qkv[i] * (double)dy[i];
    return sum;
}

/* The gradient is the slope of the forward function, v included (where it passes through). */
static void slope(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    float x[M * WIDTH], dy[M * WIDTH], qkv[M * WIDTH], d_qkv[M * WIDTH], x_qk[M * (H + KV) * D], rstd[M * (H + KV)], qw[D], kw[D];
    float dqw[D] = {0};
    float dkw[D] = {0};
    for (int i = 0; i < M * WIDTH; i++) {
        x[i] = qkv[i] = sinf((float)i * 1.3F) + 0.3F;
        dy[i] = d_qkv[i] = cosf((float)i * 0.7F);
        qw[i % D] = 1.0F + 0.1F * (float)(i % D);
        kw[i % D] = 1.3F - 0.1F * (float)(i % D);
    }
    const ember_qknorm_args args = {.n_tokens = M,
                                    .n_heads = H,
                                    .n_kv_heads = KV,
                                    .head_dim = D,
                                    .eps = 1e-6,
                                    .qkv = qkv,
                                    .x_qk = x_qk,
                                    .rstd = rstd,
                                    .q_weight = qw,
                                    .k_weight = kw,
                                    .d_qkv = d_qkv,
                                    .d_q_weight = dqw,
                                    .d_k_weight = dkw};
    check_ok(backend->ops->qknorm_forward(backend, &args));
    check_ok(backend->ops->qknorm_backward(backend, &args));
    const float step = 1e-2F;
    for (int i = 0; i < M * WIDTH + 2 * D; i++) {
        float *value = i < M * WIDTH ? &x[i] : i < M * WIDTH + D ? &qw[i - M * WIDTH] : &kw[i - M * WIDTH - D];
        const float found = i < M * WIDTH ? d_qkv[i] : i < M * WIDTH + D ? dqw[i - M * WIDTH] : dkw[i - M * WIDTH - D];
        const float kept = *value;
        *value = kept + step;
        const double up = weighted(backend, x, qw, kw, dy);
        *value = kept - step;
        const double down = weighted(backend, x, qw, kw, dy);
        *value = kept;
        assert_float_equal(found, (float)((up - down) / (2 * (double)step)), 3e-3F);
    }
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(slope)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
