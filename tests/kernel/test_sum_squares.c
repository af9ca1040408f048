/* rooms: kernels base */
#include <math.h>

#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_sum_squares_cases);
}

/* One bad value anywhere shows; values whose float squares would overflow do not. */
static void extremes(void **state) {
    (void)state;
    enum { N = 1001 };
    static const int at[] = {0, 15, 500, N - 1};
    for (int isa = 0; isa <= (int)ember_cpu_isa_best(); isa++) {
        ember_backend *backend = NULL;
        check_ok(ember_cpu_backend_create(&backend, 2));
        ember_cpu_set_isa(backend, (ember_cpu_isa)isa);
        for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
            float x[N] = {0};
            double sum = 0;
            x[at[i]] = NAN;
            check_ok(backend->ops->sum_squares(backend, &sum, x, N));
            assert_true(isnan(sum));
            sum = 0;
            x[at[i]] = -INFINITY;
            check_ok(backend->ops->sum_squares(backend, &sum, x, N));
            assert_true(isinf(sum));
            sum = 1;
            x[at[i]] = 1e30F;
            check_ok(backend->ops->sum_squares(backend, &sum, x, N));
            assert_true(fabs(sum / 1e60 - 1) < 1e-6);
        }
        double sum = 3;
        check_ok(backend->ops->sum_squares(backend, &sum, NULL, 0));
        assert_true(sum == 3);
        ember_backend_free(backend);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(extremes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
