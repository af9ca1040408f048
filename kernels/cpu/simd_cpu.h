/* simd_cpu.h - the vector routines under the sparse passes, one table an instruction set.
 *
 * Rows come as a list of pointers: a row of weights for each firing neuron of a token, or a row of
 * activations for each token of a neuron. The arithmetic of one output element is the same however
 * a list is cut into calls, so blocking and threads never change a bit (the three tables may
 * differ from each other in rounding). Each routine returns the number of rows it multiplied. */
#ifndef EMBER_SIMD_CPU_H
#define EMBER_SIMD_CPU_H

#include <stdint.h>

#include "kernels/cpu/cpu_isa.h"

enum { EMBER_SIMD_PAD = 16 }; /* elements that `firing` may write past its result */

typedef struct ember_simd {
    /* out[k] = sum_j x[j] rows[k][j], j < d */
    int64_t (*dots)(float *out, const float *x, const float *const *rows, int64_t n, int64_t d);
    /* y[j] += sum_k c[k] rows[k][j], k ascending, one rounding a term */
    int64_t (*add_rows)(float *y, const float *c, const float *const *rows, int64_t n, int64_t d);
    /* y1 += sum_k c1[k] rows[k], y2 += sum_k c2[k] rows[k]; every row is read once */
    int64_t (*add_rows_twice)(float *y1, float *y2, const float *c1, const float *c2, const float *const *rows, int64_t n, int64_t d);
    /* The neurons of g[0..n) that fire (unless g <= 0), ascending, as first + index, with their
     * values. Both outputs have room for n + EMBER_SIMD_PAD. Returns how many fire. */
    int64_t (*firing)(uint32_t *neurons, float *values, const float *g, int64_t n, uint32_t first);
} ember_simd;

const ember_simd *ember_simd_table(ember_cpu_isa isa);

extern const ember_simd ember_simd_plain;
#if EMBER_CPU_X86
extern const ember_simd ember_simd_avx2;
extern const ember_simd ember_simd_avx512;
#endif

#endif
