/* add_cpu.c
 * Math   y += x.
 * Shapes x, y [n].
 * Map    fixed blocks over threads.
 * Cost   memory: 12 bytes an element.
 * Order  elementwise.
 * Limits none. */
#include "kernels/cpu/levels_cpu.h"
#include "kernels/cpu/ops_cpu.h"

EMBER_BODY add_block(int64_t n, float *y, const float *x) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}
EMBER_LEVELS(add_block, (int64_t n, float *y, const float *x), (n, y, x))

ember_status ember_add_cpu(ember_backend *backend, float *y, const float *x, int64_t n) {
    enum { BLOCK = 8192 };
    void (*add)(int64_t, float *, const float *) = EMBER_LEVEL(backend, add_block);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (n > 4 * BLOCK)
    for (int64_t i = 0; i < n; i += BLOCK)
        add(ember_min64(BLOCK, n - i), y + i, x + i);
    return EMBER_OK;
}
