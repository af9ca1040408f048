/* simd_plain.c
 * Math   the routines of simd_cpu.h in plain C: the obvious version, and the one of processors without AVX2.
 * Shapes rows [d], lists of n rows.
 * Map    none; the compiler may use what the baseline has.
 * Cost   2 n d FLOP (4 n d for add_rows_twice), n d floats read.
 * Order  dots: eight partial sums by j mod 8, then their sum; add_rows: k ascending.
 * Limits none. */
#include "kernels/cpu/simd_cpu.h"

enum { LANES = 8 };

static int64_t dots(float *out, const float *x, const float *const *rows, int64_t n, int64_t d) {
    for (int64_t k = 0; k < n; k++) {
        const float *row = rows[k];
        float lane[LANES] = {0};
        int64_t j = 0;
        for (; j + LANES <= d; j += LANES) {
            for (int l = 0; l < LANES; l++)
                lane[l] += x[j + l] * row[j + l];
        }
        for (int l = 0; j + l < d; l++)
            lane[l] += x[j + l] * row[j + l];
        out[k] = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    }
    return n;
}

static int64_t add_rows(float *y, const float *c, const float *const *rows, int64_t n, int64_t d) {
    for (int64_t k = 0; k < n; k++) {
        const float *row = rows[k];
        const float factor = c[k];
        for (int64_t j = 0; j < d; j++)
            y[j] += factor * row[j];
    }
    return n;
}

static int64_t add_rows_twice(float *y1, float *y2, const float *c1, const float *c2, const float *const *rows, int64_t n, int64_t d) {
    for (int64_t k = 0; k < n; k++) {
        const float *row = rows[k];
        const float factor1 = c1[k];
        const float factor2 = c2[k];
        for (int64_t j = 0; j < d; j++) {
            y1[j] += factor1 * row[j];
            y2[j] += factor2 * row[j];
        }
    }
    return n;
}

static int64_t firing(uint32_t *neurons, float *values, const float *g, int64_t n, uint32_t first) {
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++) {
        if (g[j] <= 0.0F) continue;
        neurons[count] = first + (uint32_t)j;
        values[count] = g[j];
        count++;
    }
    return count;
}

const ember_simd ember_simd_plain = {.dots = dots, .add_rows = add_rows, .add_rows_twice = add_rows_twice, .firing = firing};

const ember_simd *ember_simd_table(ember_cpu_isa isa) {
#if EMBER_CPU_X86
    if (isa >= EMBER_ISA_AVX512) return &ember_simd_avx512;
    if (isa >= EMBER_ISA_AVX2) return &ember_simd_avx2;
#else
    (void)isa;
#endif
    return &ember_simd_plain;
}
