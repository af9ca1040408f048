/* rooms: kernels base */
/* The matrix products under everything: every transposition and stride, beta 0 over NaN, empty sizes,
 * the same bits with any number of threads, and many threads inside the BLAS at once. */
#include <math.h>
#include <omp.h>

#include "kernels/cpu/backend_cpu.h"
#include "kernels/cpu/gemm_cpu.h"
#include "lib/base/philox.h"
#include "tests/check.h"

typedef struct product {
    bool ta, tb;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    float alpha, beta;
} product;

static float *values(int64_t n, uint64_t stream) {
    float *out = malloc((size_t)(n > 0 ? n : 1) * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < n; i++)
        out[i] = ember_philox_normal(3, stream, (uint64_t)i);
    return out;
}

static double reference(const product *p, const float *a, const float *b, float c, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        sum += (double)(p->ta ? a[k * p->lda + i] : a[i * p->lda + k]) * (double)(p->tb ? b[j * p->ldb + k] : b[k * p->ldb + j]);
    }
    return (double)p->alpha * sum + (p->beta == 0.0F ? 0.0 : (double)p->beta * (double)c);
}

/* Through ember_sgemm at 1, 2 and 4 threads and through ember_sgemm_panel. */
static void check_product(product p) {
    p.lda = (p.ta ? p.m : p.k) + 3;
    p.ldb = (p.tb ? p.k : p.n) + 5;
    p.ldc = p.n + 7;
    const int64_t size_c = p.m * p.ldc;
    float *a = values((p.ta ? p.k : p.m) * p.lda, 1);
    float *b = values((p.tb ? p.n : p.k) * p.ldb, 2);
    float *start = values(size_c, 3);
    float *first = NULL;
    for (int run = 0; run < 4; run++) {
        static const int threads[] = {1, 2, 4, 1};
        float *c = values(size_c, 3);
        for (int64_t i = 0; p.beta == 0.0F && i < p.m; i++) {
            for (int64_t j = 0; j < p.n; j++)
                c[i * p.ldc + j] = NAN;
        }
        ember_backend *backend = NULL;
        check_ok(ember_cpu_backend_create(&backend, threads[run]));
        if (run == 3) {
            ember_sgemm_panel(p.ta, p.tb, p.m, p.n, p.k, p.alpha, a, p.lda, b, p.ldb, p.beta, c, p.ldc);
        } else {
            ember_sgemm(backend, p.ta, p.tb, p.m, p.n, p.k, p.alpha, a, p.lda, b, p.ldb, p.beta, c, p.ldc);
        }
        const double allowed = 4 * 5.96e-8 * (double)(p.k + 4); /* of values near 1, sums of k products */
        for (int64_t i = 0; i < p.m; i++) {
            for (int64_t j = 0; j < p.ldc; j++) {
                const double value = (double)c[i * p.ldc + j];
                const double expected = j < p.n ? reference(&p, a, b, start[i * p.ldc + j], i, j) : (double)start[i * p.ldc + j];
                if (j >= p.n ? value != expected : !(fabs(value - expected) <= allowed)) {
                    fail_msg("ta %d tb %d m %d n %d k %d beta %g, run %d, element %d, %d: %g, not %g", p.ta, p.tb, (int)p.m, (int)p.n,
                             (int)p.k, (double)p.beta, run, (int)i, (int)j, value, expected);
                }
            }
        }
        if (run == 0) {
            first = c;
        } else {
            if (run < 3 && size_c) assert_memory_equal(first, c, (size_t)size_c * sizeof *c);
            free(c);
        }
        ember_backend_free(backend);
    }
    free(first);
    free(start);
    free(b);
    free(a);
}

static void products(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1}, {1, 37, 5}, {1, 1000, 130}, {5, 1, 9},     {3, 5, 7},     {0, 4, 4},    {4, 0, 4},
                                       {4, 4, 0}, {1, 4, 0},  {31, 47, 97},   {241, 49, 13}, {97, 513, 31}, {49, 33, 300}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int t = 0; t < 4; t++) {
            for (int beta = 0; beta < 2; beta++) {
                check_product((product){.ta = (t & 1) != 0,
                                        .tb = (t & 2) != 0,
                                        .m = sizes[i][0],
                                        .n = sizes[i][1],
                                        .k = sizes[i][2],
                                        .alpha = t == 3 ? 0.5F : 1.0F,
                                        .beta = (float)beta});
            }
        }
    }
}

/* Panels cover C and are as many as 8 threads need where C is large enough. */
static void cut(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {64, 256}, {1024, 2048}, {50000, 256}, {7, 131072}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const ember_gemm_cut c = ember_sgemm_cut(sizes[i][0], sizes[i][1], 64);
        assert_true(c.rows > 0 && c.columns > 0);
        const int64_t n = ember_ceil_div(sizes[i][0], c.rows) * ember_ceil_div(sizes[i][1], c.columns);
        if (sizes[i][0] * sizes[i][1] >= 1 << 19) assert_true(n >= 8);
    }
}

/* Eight threads in the BLAS at once, small and large shapes mixed; every result has the bits that one
 * thread alone computes. */
static void concurrent(void **state) {
    (void)state;
    enum { N_SHAPES = 4, THREADS = 8, ROUNDS = 60 };
    static const int64_t shapes[N_SHAPES][3] = {{64, 64, 64}, {13, 200, 300}, {120, 96, 257}, {6, 16, 1000}};
    float *a = values(120 * 1000, 5);
    float *b = values(200 * 1000, 6);
    float *expected[N_SHAPES];
    for (int s = 0; s < N_SHAPES; s++) {
        expected[s] = values(shapes[s][0] * shapes[s][1], 7);
        ember_sgemm_panel(false, s % 2 == 0, shapes[s][0], shapes[s][1], shapes[s][2], 1.0F, a, shapes[s][2], b,
                          s % 2 == 0 ? shapes[s][2] : shapes[s][1], 0.0F, expected[s], shapes[s][1]);
    }
    int n_wrong = 0;
    int n_done = 0;
#pragma omp parallel num_threads(THREADS) reduction(+ : n_wrong, n_done)
    {
        float *c = malloc(sizeof(float) * 120 * 200);
        for (int round = 0; c && round < ROUNDS; round++) {
            const int s = (round + omp_get_thread_num()) % N_SHAPES;
            ember_sgemm_panel(false, s % 2 == 0, shapes[s][0], shapes[s][1], shapes[s][2], 1.0F, a, shapes[s][2], b,
                              s % 2 == 0 ? shapes[s][2] : shapes[s][1], 0.0F, c, shapes[s][1]);
            n_wrong += memcmp(c, expected[s], (size_t)(shapes[s][0] * shapes[s][1]) * sizeof *c) != 0;
            n_done++;
        }
        free(c);
    }
    assert_int_equal(n_wrong, 0);
    assert_true(n_done >= ROUNDS);
    for (int s = 0; s < N_SHAPES; s++)
        free(expected[s]);
    free(b);
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(cut), cmocka_unit_test(concurrent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
