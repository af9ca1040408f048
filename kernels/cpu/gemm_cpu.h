/* gemm_cpu.h - float32 matrix products on the CPU: BLIS or OpenBLAS inside, our threads outside.
 *
 * C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, row-major; op transposes when ta / tb is set, so
 * A is stored [m, k] or [k, m] and B [k, n] or [n, k] with leading dimensions lda, ldb, ldc.
 * beta = 0 overwrites C whatever it holds; beta = 1 adds. m, n or k may be 0. */
#ifndef EMBER_GEMM_CPU_H
#define EMBER_GEMM_CPU_H

#include "kernels/ops.h"

/* One thread; may be called from inside a parallel region, by many threads at once. */
void ember_sgemm_panel(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                       int64_t ldb, float beta, float *c, int64_t ldc);

/* The whole product with backend->n_threads threads. C is cut into panels whose cut depends on the
 * shape alone, so the bits do not depend on the number of threads. Not from inside a parallel region. */
void ember_sgemm(const ember_backend *backend, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* The cut of ember_sgemm: rows and columns of one panel. */
typedef struct ember_gemm_cut {
    int64_t rows;
    int64_t columns;
} ember_gemm_cut;
ember_gemm_cut ember_sgemm_cut(int64_t m, int64_t n, int64_t k);

/* y[n] = beta y + x[k] W[n, k]^T: the product of one token, memory-bound, split over rows of W. */
void ember_sgemv(const ember_backend *backend, int64_t n, int64_t k, const float *w, int64_t ldw, const float *x, float beta, float *y);

/* The same on one thread, at the backend's instruction set; may be called inside a parallel region. */
void ember_sgemv_panel(const ember_backend *backend, int64_t n, int64_t k, const float *w, int64_t ldw, const float *x, float beta,
                       float *y);

/* Library and version, "BLIS 0.9.0 (zen3)"; `out` holds at least 96 bytes. */
void ember_blas_describe(char out[96]);
/* OpenBLAS builds with threads of their own are set to one. Called when a backend is made. */
void ember_blas_start(void);

#endif
