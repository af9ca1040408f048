/* gemm_cpu.c
 * Math   C = alpha op(A) op(B) + beta C, float32, row-major.
 * Shapes A [m, k], B [k, n], C [m, n] after op.
 * Map    C is cut into panels; one panel is one call of a single-threaded BLAS; panels are the
 *        iterations of an OpenMP loop.
 * Cost   2 m n k FLOP at the BLAS's own rate less the packing of k (rows + columns) values a panel;
 *        one row (m = 1) reads W once at memory rate.
 * Order  every panel sums over the whole of k in the BLAS's fixed order, and the cut depends on
 *        the shape alone: the same bits with any number of threads. Panels of few multiply-adds are
 *        summed in double (small_product): there a BLAS spends its time on packing.
 * Limits dimensions and leading dimensions below 2^31 (the BLAS's int); larger k n is split by panels. */
#include "kernels/cpu/gemm_cpu.h"

#include <stdio.h>
#include <string.h>

#if defined(EMBER_BLAS_BLIS)
#include <blis.h>
#elif defined(EMBER_BLAS_OPENBLAS)
#include <cblas.h>
#else
#error "no BLAS was configured"
#endif

#include "kernels/cpu/levels_cpu.h"

enum {
    PACKING_ROWS = 24,     /* from here on packing pays */
    PANEL_ROWS = 288,      /* multiples of the register tiles of BLIS (6 x 16) and OpenBLAS (16 x 4, 8 x 4) */
    PANEL_COLUMNS = 512,   /* packing then costs under 1 % of the arithmetic */
    MIN_PANELS = 16,       /* so that 8 threads find work ... */
    MIN_PANEL_SIDE = 48,   /* ... but no panel is thinner than a few register tiles */
    SERIAL_FLOP = 1 << 17, /* below this a parallel region costs more than it saves */
    DOUBLE_MACS = 1 << 20  /* m n k up to which a panel is summed in double */
};

void ember_blas_start(void) {
#if defined(EMBER_BLAS_OPENBLAS)
    openblas_set_num_threads(1);
#endif
}

void ember_blas_describe(char out[96]) {
#if defined(EMBER_BLAS_BLIS)
    (void)snprintf(out, 96, "BLIS %s (%s)", bli_info_get_version_str(), bli_arch_string(bli_arch_query_id()));
#else
    (void)snprintf(out, 96, "%.60s (%.24s)", openblas_get_config(), openblas_get_corename());
#endif
}

static void scale(int64_t m, int64_t n, float beta, float *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            c[i * ldc + j] = beta == 0.0F ? 0.0F : beta * c[i * ldc + j];
    }
}

/* BLIS: its path for small shapes skips the packing; measured 2026-11-30 on a Zen 3 core with BLIS 0.9.0
 * it reaches 35 to 55 GFLOP/s on panels of 96 to 512 rows where the packing path reaches 65 to 88, and is
 * ahead only where C has a few rows. The choice depends on the shape alone. */
static void call_blas(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                      int64_t ldb, float beta, float *c, int64_t ldc) {
#if defined(EMBER_BLAS_BLIS)
    rntm_t runtime;
    bli_rntm_init_from_global(&runtime);
    bli_rntm_set_num_threads(1, &runtime);
    if (m < PACKING_ROWS) {
        bli_rntm_enable_l3_sup(&runtime);
    } else {
        bli_rntm_disable_l3_sup(&runtime);
    }
    bli_sgemm_ex(ta ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE, tb ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE, m, n, k, &alpha, (float *)a, lda, 1,
                 (float *)b, ldb, 1, &beta, c, ldc, 1, NULL, &runtime);
#else
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda,
                b, (int)ldb, beta, c, (int)ldc);
#endif
}

/* Sums in double, rounded once. What a small model gains: AdamW's first steps divide a gradient by its own
 * size, so an element whose terms nearly cancel moves by its rounding errors; in float32 such an
 * element of a 13,000-element matrix alone was 1.3e-4 of the matrix's norm after three steps. */
EMBER_BODY small_dots(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                      float *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0.0;
#pragma omp simd reduction(+ : sum)
            for (int64_t q = 0; q < k; q++)
                sum += (double)a[i * lda + q] * (double)b[j * ldb + q];
            sum *= (double)alpha;
            c[i * ldc + j] = (float)(beta == 0.0F ? sum : sum + (double)beta * (double)c[i * ldc + j]);
        }
    }
}

/* A's element (i, q) is at i * a_row + q * a_column; B is not transposed. */
EMBER_BODY small_rows(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_column, const float *b,
                      int64_t ldb, float beta, float *c, int64_t ldc) {
    enum { COLUMNS = 64 };
    double sums[COLUMNS];
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j += COLUMNS) {
            const int64_t width = ember_min64(COLUMNS, n - j);
            memset(sums, 0, sizeof sums);
            for (int64_t q = 0; q < k; q++) {
                const double factor = (double)a[i * a_row + q * a_column];
                const float *row = b + q * ldb + j;
#pragma omp simd
                for (int64_t p = 0; p < width; p++)
                    sums[p] += factor * (double)row[p];
            }
            for (int64_t p = 0; p < width; p++) {
                const double sum = sums[p] * (double)alpha;
                float *to = c + i * ldc + j + p;
                *to = (float)(beta == 0.0F ? sum : sum + (double)beta * (double)*to);
            }
        }
    }
}

EMBER_LEVELS(small_dots,
             (int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
              int64_t ldc),
             (m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
EMBER_LEVELS(small_rows,
             (int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t ldb,
              float beta, float *c, int64_t ldc),
             (m, n, k, alpha, a, a_row, a_column, b, ldb, beta, c, ldc))

#if EMBER_CPU_X86
/* Like the BLAS this asks the processor, not the backend. */
#define SMALL_LEVEL(name) (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? name##_avx2 : name##_plain)
#else
#define SMALL_LEVEL(name) name##_plain
#endif

/* False: not a product for this path. */
static bool small_product(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                          int64_t ldb, float beta, float *c, int64_t ldc) {
    if ((ta && tb) || (double)m * (double)n * (double)k > DOUBLE_MACS) return false;
    if (tb) {
        SMALL_LEVEL(small_dots)(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    } else {
        SMALL_LEVEL(small_rows)(m, n, k, alpha, a, ta ? 1 : lda, ta ? lda : 1, b, ldb, beta, c, ldc);
    }
    return true;
}

void ember_sgemm_panel(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                       int64_t ldb, float beta, float *c, int64_t ldc) {
    if (m <= 0 || n <= 0) return;
    if (k <= 0) {
        scale(m, n, beta, c, ldc);
        return;
    }
    if (!small_product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) {
        call_blas(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    }
}

static int64_t side(int64_t n, int64_t pieces) {
    return (ember_ceil_div(n, pieces) + MIN_PANEL_SIDE - 1) / MIN_PANEL_SIDE * MIN_PANEL_SIDE;
}

ember_gemm_cut ember_sgemm_cut(int64_t m, int64_t n, int64_t k) {
    (void)k;
    int64_t row_pieces = ember_max64(ember_ceil_div(m, PANEL_ROWS), 1);
    int64_t column_pieces = ember_max64(ember_ceil_div(n, PANEL_COLUMNS), 1);
    /* small C, as in the products that reduce over a vocabulary: halve the longer side of a panel */
    while (row_pieces * column_pieces < MIN_PANELS) {
        const int64_t rows = side(m, row_pieces);
        const int64_t columns = side(n, column_pieces);
        if (columns >= rows && columns > 2 * MIN_PANEL_SIDE) {
            column_pieces *= 2;
        } else if (rows > 2 * MIN_PANEL_SIDE) {
            row_pieces *= 2;
        } else {
            break;
        }
    }
    return (ember_gemm_cut){.rows = side(m, row_pieces), .columns = side(n, column_pieces)};
}

void ember_sgemm(const ember_backend *backend, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    if (m <= 0 || n <= 0) return;
    if (m == 1 && tb && !ta && alpha == 1.0F) { /* one token: decoding */
        ember_sgemv(backend, n, k, b, ldb, a, beta, c);
        return;
    }
    const ember_gemm_cut cut = ember_sgemm_cut(m, n, k);
    const int64_t n_rows = ember_ceil_div(m, cut.rows);
    const int64_t n_columns = ember_ceil_div(n, cut.columns);
    const int64_t n_panels = n_rows * n_columns;
    const bool parallel = n_panels > 1 && 2.0 * (double)m * (double)n * (double)k > SERIAL_FLOP;
#pragma omp parallel for num_threads(backend->n_threads) schedule(dynamic, 1) if (parallel)
    for (int64_t p = 0; p < n_panels; p++) {
        const int64_t i = p / n_columns * cut.rows;
        const int64_t j = p % n_columns * cut.columns;
        ember_sgemm_panel(ta, tb, ember_min64(cut.rows, m - i), ember_min64(cut.columns, n - j), k, alpha, ta ? a + i : a + i * lda, lda,
                          tb ? b + j * ldb : b + j, ldb, beta, c + i * ldc + j, ldc);
    }
}

/* One block of rows of W, four at a time: x is loaded once for four dot products. */
EMBER_BODY gemv_rows(int64_t n, int64_t k, const float *w, int64_t ldw, const float *x, float beta, float *y) {
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
        const float *w0 = w + j * ldw;
        const float *w1 = w0 + ldw;
        const float *w2 = w1 + ldw;
        const float *w3 = w2 + ldw;
        float s0 = 0.0F;
        float s1 = 0.0F;
        float s2 = 0.0F;
        float s3 = 0.0F;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t i = 0; i < k; i++) {
            s0 += w0[i] * x[i];
            s1 += w1[i] * x[i];
            s2 += w2[i] * x[i];
            s3 += w3[i] * x[i];
        }
        y[j] = beta == 0.0F ? s0 : beta * y[j] + s0;
        y[j + 1] = beta == 0.0F ? s1 : beta * y[j + 1] + s1;
        y[j + 2] = beta == 0.0F ? s2 : beta * y[j + 2] + s2;
        y[j + 3] = beta == 0.0F ? s3 : beta * y[j + 3] + s3;
    }
    for (; j < n; j++) {
        float s = 0.0F;
#pragma omp simd reduction(+ : s)
        for (int64_t i = 0; i < k; i++)
            s += w[j * ldw + i] * x[i];
        y[j] = beta == 0.0F ? s : beta * y[j] + s;
    }
}

EMBER_LEVELS(gemv_rows, (int64_t n, int64_t k, const float *w, int64_t ldw, const float *x, float beta, float *y),
             (n, k, w, ldw, x, beta, y))

void ember_sgemv_panel(const ember_backend *backend, int64_t n, int64_t k, const float *w, int64_t ldw, const float *x, float beta,
                       float *y) {
    EMBER_LEVEL(backend, gemv_rows)(n, k, w, ldw, x, beta, y);
}

void ember_sgemv(const ember_backend *backend, int64_t n, int64_t k, const float *w, int64_t ldw, const float *x, float beta, float *y) {
    enum { ROWS = 32 };
    const int64_t n_blocks = ember_ceil_div(n, ROWS);
    const bool parallel = n_blocks > 1 && 2.0 * (double)n * (double)k > SERIAL_FLOP;
    void (*rows)(int64_t, int64_t, const float *, int64_t, const float *, float, float *) = EMBER_LEVEL(backend, gemv_rows);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (parallel)
    for (int64_t block = 0; block < n_blocks; block++) {
        const int64_t j = block * ROWS;
        rows(ember_min64(ROWS, n - j), k, w + j * ldw, ldw, x, beta, y + j);
    }
}
