/* rooms: kernels base */
#include <math.h>

#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_rmsnorm_cases);
}

enum { ROWS = 3, N = 19 };

static double weighted(ember_backend *backend, const float *x, const float *w, const float *dy) {
    float y[ROWS * N];
    const ember_rmsnorm_args args = {.n_rows = ROWS, .n_columns = N, .eps = 1e-5, .y = y, .x = x, .weight = w}; /* no rstd: inference */
    check_ok(backend->ops->rmsnorm_forward(backend, &args));
    double sum = 0;
    for (int i = 0; i < ROWS * N; i++)
        sum += (double)y[i] * (double)dy[i];
    return sum;
}

/* The gradient is the slope of the forward function; dx may lie on dy. */
static void slope(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    float x[ROWS * N], w[N], dy[ROWS * N], y[ROWS * N], dx[ROWS * N], rstd[ROWS];
    float dw[N] = {0};
    for (int i = 0; i < ROWS * N; i++) {
        x[i] = sinf((float)i * 1.7F) + 0.2F;
        dy[i] = cosf((float)i * 0.9F);
        dx[i] = dy[i];
        w[i % N] = 1.0F + 0.1F * (float)(i % 5);
    }
    ember_rmsnorm_args args = {
        .n_rows = ROWS, .n_columns = N, .eps = 1e-5, .y = y, .rstd = rstd, .x = x, .weight = w, .dy = dx, .dx = dx, .d_weight = dw};
    check_ok(backend->ops->rmsnorm_forward(backend, &args));
    check_ok(backend->ops->rmsnorm_backward(backend, &args));
    const float step = 1e-2F;
    for (int i = 0; i < ROWS * N + N; i++) {
        float *value = i < ROWS * N ? &x[i] : &w[i - ROWS * N];
        const float kept = *value;
        *value = kept + step;
        const double up = weighted(backend, x, w, dy);
        *value = kept - step;
        const double down = weighted(backend, x, w, dy);
        *value = kept;
        assert_float_equal(i < ROWS * N ? dx[i] : dw[i - ROWS * N], (float)((up - down) / (2 * (double)step)), 2e-3F);
    }
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(slope)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
