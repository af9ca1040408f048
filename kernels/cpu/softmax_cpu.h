/* softmax_cpu.h - the row step that attention and cross-entropy share. */
#ifndef EMBER_SOFTMAX_CPU_H
#define EMBER_SOFTMAX_CPU_H

#include "kernels/cpu/levels_cpu.h"

/* row[0..n) becomes exp(row - max); *max and the sum of the results (float32 in pieces of 64, then
 * double, so that a vocabulary of 100,000 costs no accuracy). NaN in the row makes the sum NaN. n >= 1. */
EMBER_BODY ember_softmax_row(float *row, int64_t n, float *max, double *sum) {
    enum { PIECE = 64, LANES = 16 };
    float lanes[LANES]; /* by hand: compilers do not vectorise a maximum that must respect NaN */
    for (int l = 0; l < LANES; l++)
        lanes[l] = row[0];
    int64_t at = 0;
    for (; at + LANES <= n; at += LANES) {
        for (int l = 0; l < LANES; l++)
            lanes[l] = row[at + l] > lanes[l] ? row[at + l] : lanes[l];
    }
    float top = lanes[0];
    for (int l = 1; l < LANES; l++)
        top = lanes[l] > top ? lanes[l] : top;
    for (; at < n; at++)
        top = row[at] > top ? row[at] : top;
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
