/* rooms: kernels base */
#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_embedding_cases);
}

/* An id outside the table is an error that names it, before anything is written. */
static void refusals(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    float table[6] = {0};
    float rows[4] = {0};
    const ember_tensor t = ember_tensor_2d(table, EMBER_F32, 3, 2);
    const ember_tensor y = ember_tensor_2d(rows, EMBER_F32, 2, 2);
    static const int32_t high[2] = {0, 3};
    static const int32_t low[2] = {-1, 0};
    check_fails(backend->ops->embedding_forward(backend, y, t, high), EMBER_E_ARGUMENT, "id 3");
    check_fails(backend->ops->embedding_backward(backend, t, y, low), EMBER_E_ARGUMENT, "id -1");
    check_fails(backend->ops->embedding_forward(backend, ember_tensor_2d(rows, EMBER_F32, 1, 3), t, low), EMBER_E_SHAPE, "3 values");
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
