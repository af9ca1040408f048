/* rmsnorm_cpu.c
 * Math   r = 1 / sqrt(mean(x^2) + eps);  y = x r w.
 *        dx = r (w dy) - x r^3 / n sum(w dy x);  dw += sum over rows of dy x r.
 * Shapes x, y, dy, dx [n_rows, n_columns]; w, dw [n_columns]; r [n_rows].
 * Map    rows are split over threads; dw is split over blocks of columns.
 * Cost   memory: forward 2, backward 5 passes over [n_rows, n_columns].
 * Order  row sums in double; each element of dw sums its rows in order, in double.
 * Limits none; n_columns = 0 does nothing. x may be y, dy may be dx. */
#include <math.h>

#include "kernels/cpu/levels_cpu.h"
#include "kernels/cpu/ops_cpu.h"

enum { COLUMN_BLOCK = 32 };

EMBER_BODY forward_row(int64_t n, double eps, float *y, float *rstd, const float *x, const float *w) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j] * (double)x[j];
    const float r = (float)(1.0 / sqrt(sum / (double)n + eps));
    if (rstd) *rstd = r;
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        y[j] = x[j] * r * w[j];
}
EMBER_LEVELS(forward_row, (int64_t n, double eps, float *y, float *rstd, const float *x, const float *w), (n, eps, y, rstd, x, w))

ember_status ember_rmsnorm_forward_cpu(ember_backend *backend, const ember_rmsnorm_args *args) {
    const int64_t n = args->n_columns;
    if (n <= 0) return EMBER_OK;
    void (*row)(int64_t, double, float *, float *, const float *, const float *) = EMBER_LEVEL(backend, forward_row);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (args->n_rows > 4)
    for (int64_t i = 0; i < args->n_rows; i++) {
        row(n, args->eps, args->y + i * n, args->rstd ? args->rstd + i : NULL, args->x + i * n, args->weight);
    }
    return EMBER_OK;
}

EMBER_BODY backward_row(int64_t n, bool accumulate, float r, float *dx, const float *dy, const float *x, const float *w) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += (double)(dy[j] * w[j]) * (double)x[j];
    const float c = (float)(sum * (double)r * (double)r * (double)r / (double)n);
    if (accumulate) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            dx[j] += dy[j] * w[j] * r - x[j] * c;
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            dx[j] = dy[j] * w[j] * r - x[j] * c;
    }
}
EMBER_LEVELS(backward_row, (int64_t n, bool accumulate, float r, float *dx, const float *dy, const float *x, const float *w),
             (n, accumulate, r, dx, dy, x, w))

/* d_weight of columns [j, j + width) */
EMBER_BODY weight_block(const ember_rmsnorm_args *args, int64_t j, int64_t width) {
    double sums[COLUMN_BLOCK] = {0};
    for (int64_t i = 0; i < args->n_rows; i++) {
        const float *dy = args->dy + i * args->n_columns + j;
        const float *x = args->x + i * args->n_columns + j;
        const double r = (double)args->rstd[i];
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            sums[c] += (double)dy[c] * (double)x[c] * r;
    }
    for (int64_t c = 0; c < width; c++)
        args->d_weight[j + c] += (float)sums[c];
}
EMBER_LEVELS(weight_block, (const ember_rmsnorm_args *args, int64_t j, int64_t width), (args, j, width))

ember_status ember_rmsnorm_backward_cpu(ember_backend *backend, const ember_rmsnorm_args *args) {
    const int64_t n = args->n_columns;
    if (n <= 0) return EMBER_OK;
    void (*row)(int64_t, bool, float, float *, const float *, const float *, const float *) = EMBER_LEVEL(backend, backward_row);
    void (*block)(const ember_rmsnorm_args *, int64_t, int64_t) = EMBER_LEVEL(backend, weight_block);
#pragma omp parallel num_threads(backend->n_threads)
    {
        if (args->d_weight) { /* first: dx may lie on dy; the loop ends with a barrier */
#pragma omp for schedule(static)
            for (int64_t j = 0; j < n; j += COLUMN_BLOCK)
                block(args, j, ember_min64(COLUMN_BLOCK, n - j));
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < args->n_rows; i++) {
            row(n, args->accumulate, args->rstd[i], args->dx + i * n, args->dy + i * n, args->x + i * n, args->weight);
        }
    }
    return EMBER_OK;
}
