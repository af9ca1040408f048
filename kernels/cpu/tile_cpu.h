/* tile_cpu.h - the small products inside attention, where a BLAS spends its time on packing and calls:
 * C[m, n] (+)= alpha A B with A read by strides (so also transposed) and B packed once in panels of 16
 * columns. One thread; a sum over k runs in ascending order. */
#ifndef EMBER_TILE_CPU_H
#define EMBER_TILE_CPU_H

#include "kernels/cpu/cpu_isa.h"
#include "kernels/ops.h"

enum { EMBER_TILE_COLUMNS = 16 };

typedef struct ember_tile_product {
    int64_t m, n, k;
    float alpha;
    bool add;         /* to C; else C is overwritten */
    bool whole_tiles; /* C may be written up to the next multiple of 16 columns */
    const float *a;   /* element (i, k) at a[i * a_row + k * a_column] */
    int64_t a_row, a_column;
    const float *b;    /* panel p at b + p * b_panel, its rows min(16, b_columns - 16 p) wide */
    int64_t b_panel;   /* values between panels */
    int64_t b_columns; /* of the whole pack, from `b` on */
    float *c;
    int64_t c_row;
} ember_tile_product;

/* 16 values are read from every row of a panel: a pack must be followed by 16 readable values. */
void ember_tile_multiply(ember_cpu_isa isa, const ember_tile_product *t);

/* rows [n_rows, n] with stride `row` -> panels of columns [ceil(n / 16)][n_rows][16], zeros beyond n. */
void ember_tile_pack_rows(float *out, int64_t n_rows, int64_t n, const float *rows, int64_t row);
/* rows [n_rows, n] -> its transpose [n, n_rows] in panels [ceil(n_rows / 16)][n][16], the last panel as
 * narrow as what is left: n_rows * n values in all. */
void ember_tile_pack_transposed(float *out, int64_t n_rows, int64_t n, const float *rows, int64_t row);

#endif
