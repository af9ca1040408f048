/* softmax_cpu.h - the row step that attention and cross-entropy share. */
#ifndef EMBER_SOFTMAX_CPU_H
#define EMBER_SOFTMAX_CPU_H

#include "kernels/cpu/levels_cpu.h"

/* row[0..n) becomes exp(row - max); *max and the sum of the results (float32 in pieces of 64, then
 * double, so that a vocabulary of 100,000 costs no accuracy). NaN in the row makes the sum NaN. n >= 1. */
EMBER_BODY ember_softmax_row(float *row, int64_t n, float *max, double *sum) {
    enum { PIECE = 64 };
    /* The maximum of the bits as ordered integers: compilers do not vectorise a floating one that must
     * respect NaN. A NaN may or may not be the maximum; it is in the sum either way. */
    int32_t top_key = INT32_MIN;
#pragma omp simd reduction(max : top_key)
    for (int64_t j = 0; j < n; j++) {
        int32_t bits;
        memcpy(&bits, &row[j], sizeof bits);
        const int32_t key = bits ^ ((bits >> 31) & INT32_MAX);
        top_key = key > top_key ? key : top_key;
    }
    const int32_t top_bits = top_key ^ ((top_key >> 31) & INT32_MAX);
    float top;
    memcpy(&top, &top_bits, sizeof top);
    double total = 0;
    for (int64_t first = 0; first < n; first += PIECE) {
        const int64_t end = ember_min64(n, first + PIECE);
        float partial = 0;
#pragma omp simd reduction(+ : partial)
        for (int64_t j = first; j < end; j++) {
            row[j] = ember_exp(row[j] - top);
            partial += row[j];
        }
        total += (double)partial;
    }
    *max = top;
    *sum = total;
}

#endif
