/* rooms: kernels base */
#include <math.h>

#include "lib/base/philox.h"
#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_cross_entropy_cases);
}

enum { M = 4, V = 11, HIDDEN = 5 };

static void prepare(ember_backend *backend) {
    const ember_workspace_shape shape = {.n_tokens = M,
                                         .sequence_length = 1,
                                         .n_heads = 1,
                                         .n_kv_heads = 1,
                                         .head_dim = 2,
                                         .hidden = HIDDEN,
                                         .n_neurons = 1,
                                         .vocab_size = V,
                                         .compression = 8,
                                         .training = true};
    check_ok(backend->ops->prepare(backend, &shape));
}

static double loss_of(ember_backend *backend, const float *x, const float *w, const int32_t *targets) {
    float loss[M];
    double sum = 0;
    const ember_cross_entropy_args args = {
        .n_tokens = M, .hidden = HIDDEN, .vocab_size = V, .x = x, .weight = w, .targets = targets, .loss = loss, .loss_sum = &sum};
    check_ok(backend->ops->cross_entropy(backend, &args));
    return sum;
}

/* The gradient is the slope of the loss; a token without a target has none. */
static void slope(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    prepare(backend);
    float x[M * HIDDEN], w[V * HIDDEN], loss[M], dx[M * HIDDEN];
    float dw[V * HIDDEN] = {0};
    static const int32_t targets[M] = {3, -1, 10, 0};
    for (int i = 0; i < M * HIDDEN; i++)
        x[i] = ember_philox_normal(4, 1, (uint64_t)i);
    for (int i = 0; i < V * HIDDEN; i++)
        w[i] = ember_philox_normal(4, 2, (uint64_t)i);
    double sum = 0;
    const ember_cross_entropy_args args = {.n_tokens = M,
                                           .hidden = HIDDEN,
                                           .vocab_size = V,
                                           .x = x,
                                           .weight = w,
                                           .targets = targets,
                                           .loss = loss,
                                           .loss_sum = &sum,
                                           .scale = 1.0F,
                                           .dx = dx,
                                           .d_weight = dw};
    check_ok(backend->ops->cross_entropy(backend, &args));
    assert_true(loss[1] == 0.0F);
    for (int j = 0; j < HIDDEN; j++)
        assert_true(dx[HIDDEN + j] == 0.0F);
    const float step = 1e-2F;
    for (int i = 0; i < (M + V) * HIDDEN; i++) {
        float *value = i < M * HIDDEN ? &x[i] : &w[i - M * HIDDEN];
        const float kept = *value;
        *value = kept + step;
        const double up = loss_of(backend, x, w, targets);
        *value = kept - step;
        const double down = loss_of(backend, x, w, targets);
        *value = kept;
        assert_float_equal(i < M * HIDDEN ? dx[i] : dw[i - M * HIDDEN], (float)((up - down) / (2 * (double)step)), 2e-3F);
    }
    ember_backend_free(backend);
}

/* Logits of +-1e4: the loss is their difference, not infinity; a sure token has loss near 0, never below;
 * NaN shows in its token's loss and in the sum. */
static void extremes(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    prepare(backend);
    float x[M * HIDDEN] = {0}, w[V * HIDDEN] = {0}, loss[M];
    for (int i = 0; i < M; i++)
        x[i * HIDDEN] = 100.0F;
    w[0] = 100.0F;
    w[HIDDEN] = -100.0F;
    x[3 * HIDDEN + 1] = NAN;
    static const int32_t targets[M] = {0, 1, -1, 2};
    double sum = 0;
    const ember_cross_entropy_args args = {
        .n_tokens = M, .hidden = HIDDEN, .vocab_size = V, .x = x, .weight = w, .targets = targets, .loss = loss, .loss_sum = &sum};
    check_ok(backend->ops->cross_entropy(backend, &args));
    assert_true(loss[0] == 0.0F);
    assert_float_equal(loss[1], 20000.0F, 0.0F);
    assert_true(loss[2] == 0.0F);
    assert_true(isnan(loss[3]));
    assert_true(isnan(sum));
    ember_backend_free(backend);
}

static void refusals(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    float block[64] = {0};
    double sum = 0;
    static const int32_t targets[1] = {2};
    ember_cross_entropy_args args = {
        .n_tokens = 1, .hidden = 2, .vocab_size = 2, .x = block, .weight = block, .targets = targets, .loss = block, .loss_sum = &sum};
    check_fails(backend->ops->cross_entropy(backend, &args), EMBER_E_ARGUMENT, "target 2");
    args.vocab_size = 3;
    check_fails(backend->ops->cross_entropy(backend, &args), EMBER_E_STATE, "prepare");
    args.hidden = 0;
    check_fails(backend->ops->cross_entropy(backend, &args), EMBER_E_SHAPE, "hidden 0");
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(slope), cmocka_unit_test(extremes),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
