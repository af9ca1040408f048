/* rooms: kernels base */
#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_linear_cases);
}

static void refusals(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    float block[64] = {0};
    const ember_tensor y = ember_tensor_2d(block, EMBER_F32, 2, 3);
    const ember_tensor x = ember_tensor_2d(block, EMBER_F32, 2, 4);
    const ember_tensor w = ember_tensor_2d(block, EMBER_F32, 3, 5);
    check_fails(backend->ops->linear_forward(backend, y, x, w, NULL, 0.0F), EMBER_E_SHAPE, "[3, 5]");
    check_fails(backend->ops->linear_backward_input(backend, x, y, w, 0.0F), EMBER_E_SHAPE, "[3, 5]");
    check_fails(backend->ops->linear_backward_weight(backend, w, NULL, y, x), EMBER_E_SHAPE, "[3, 5]");
    const ember_tensor half = ember_tensor_2d(block, EMBER_BF16, 3, 4);
    check_fails(backend->ops->linear_forward(backend, y, x, half, NULL, 0.0F), EMBER_E_SHAPE, "bf16");
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
