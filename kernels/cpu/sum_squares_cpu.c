/* sum_squares_cpu.c
 * Math   out += sum of x_i^2.
 * Shapes x [n].
 * Map    PIECES pieces, whatever the number of threads, over threads.
 * Cost   memory: 4 bytes an element.
 * Order  in double; pieces are added in order.
 * Limits none; NaN and infinity propagate. */
#include "kernels/cpu/levels_cpu.h"
#include "kernels/cpu/ops_cpu.h"

enum { PIECES = 64 };

EMBER_BODY piece_sum(int64_t n, double *out, const float *x) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    *out = sum;
}
EMBER_LEVELS(piece_sum, (int64_t n, double *out, const float *x), (n, out, x))

ember_status ember_sum_squares_cpu(ember_backend *backend, double *out, const float *x, int64_t n) {
    double partial[PIECES];
    const int64_t length = ember_ceil_div(n, PIECES);
    void (*sum)(int64_t, double *, const float *) = EMBER_LEVEL(backend, piece_sum);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (n > 32768)
    for (int p = 0; p < PIECES; p++) {
        const int64_t first = ember_min64(p * length, n);
        sum(ember_min64(length, n - first), &partial[p], x + first);
    }
    double total = 0;
    for (int p = 0; p < PIECES; p++)
        total += partial[p];
    *out += total;
    return EMBER_OK;
}
