/* rooms: kernels base */
#include <math.h>

#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_adamw_cases);
}

/* By hand: at step 1 the moments' corrections cancel, so the step is lr * sign(g); decay acts on the
 * parameter alone and not through the moments. */
static void first_step(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    float p[2] = {2.0F, -1.0F}, m[2] = {0}, v[2] = {0};
    static const float g[2] = {4.0F, 0.0F};
    ember_adamw_args args = {.n = 2,
                             .param = p,
                             .exp_avg = m,
                             .exp_avg_sq = v,
                             .grad = g,
                             .grad_scale = 0.5,
                             .lr = 0.25,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .eps = 0,
                             .weight_decay = 0.5,
                             .step = 1};
    args.eps = 1e-12;
    check_ok(backend->ops->adamw(backend, &args));
    assert_float_equal(p[0], 2.0F * 0.875F - 0.25F, 1e-6F);
    assert_float_equal(p[1], -0.875F, 1e-6F);
    assert_float_equal(m[0], 0.2F, 1e-6F);
    assert_float_equal(v[0], 0.04F, 1e-7F);
    args.step = 0;
    check_fails(backend->ops->adamw(backend, &args), EMBER_E_ARGUMENT, "step 0");
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(first_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
