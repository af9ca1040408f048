/* rooms: kernels base */
/* The exponential and the softmax row, as the compiler makes them for each instruction set. */
#include <math.h>

#include "kernels/cpu/softmax_cpu.h"
#include "tests/check.h"

EMBER_BODY exponentials(int64_t n, float *y, const float *x) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = ember_exp(x[i]);
}
EMBER_LEVELS(exponentials, (int64_t n, float *y, const float *x), (n, y, x))
EMBER_BODY softmax(float *row, int64_t n, float *max, double *sum) { ember_softmax_row(row, n, max, sum); }
EMBER_LEVELS(softmax, (float *row, int64_t n, float *max, double *sum), (row, n, max, sum))

static void exponential(void **state) {
    (void)state;
    enum { N = 400000 };
    float *x = malloc(sizeof(float) * N);
    float *y = malloc(sizeof(float) * N);
    assert_true(x && y);
    for (int i = 0; i < N; i++)
        x[i] = -88.0F + 90.0F * (float)i / (float)N;
    for (int isa = 0; isa <= (int)ember_cpu_isa_best(); isa++) {
        ember_backend *backend = NULL;
        check_ok(ember_cpu_backend_create(&backend, 1));
        ember_cpu_set_isa(backend, (ember_cpu_isa)isa);
        EMBER_LEVEL(backend, exponentials)(N, y, x);
        double worst = 0;
        for (int i = 0; i < N; i++) {
            const double expected = exp((double)x[i]);
            if (x[i] < -87.3F) {
                assert_true(y[i] == 0.0F);
                continue;
            }
            const double ulps = fabs((double)y[i] - expected) / (expected * 1.1920929e-7);
            if (ulps > worst) worst = ulps;
        }
        print_message("exp, %s: %.2f ulp\n", ember_cpu_isa_name((ember_cpu_isa)isa), worst);
        assert_true(worst <= 2.0);
        static const float edges[8] = {0.0F, -0.0F, NAN, -INFINITY, -1e30F, 88.0F, 1e-30F, -87.3F};
        EMBER_LEVEL(backend, exponentials)(8, y, edges);
        assert_true(y[0] == 1.0F && y[1] == 1.0F && isnan(y[2]) && y[3] == 0.0F && y[4] == 0.0F && y[6] == 1.0F && y[7] > 0.0F);
        assert_true(fabs((double)y[5] / exp(88.0) - 1) < 1e-6);
        ember_backend_free(backend);
    }
    free(y);
    free(x);
}

static void rows(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 255, 256, 257, 513};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (int isa = 0; isa <= (int)ember_cpu_isa_best(); isa++) {
            ember_backend *backend = NULL;
            check_ok(ember_cpu_backend_create(&backend, 1));
            ember_cpu_set_isa(backend, (ember_cpu_isa)isa);
            const int64_t n = lengths[l];
            for (int64_t top = 0; top < n; top += n / 3 + 1) { /* the maximum at several places, huge offset */
                float row[513];
                for (int64_t j = 0; j < n; j++)
                    row[j] = 1e4F + (j == top ? 3.0F : (float)(j % 3));
                double expected = 0;
                for (int64_t j = 0; j < n; j++)
                    expected += exp((double)row[j] - (double)row[top]);
                float max = 0;
                double sum = 0;
                EMBER_LEVEL(backend, softmax)(row, n, &max, &sum);
                assert_true(max == 10003.0F);
                assert_true(row[top] == 1.0F);
                assert_true(fabs(sum / expected - 1) < 1e-6);
                row[top] = NAN;
                EMBER_LEVEL(backend, softmax)(row, n, &max, &sum);
                assert_true(isnan(sum));
            }
            ember_backend_free(backend);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exponential), cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
