/* tile_cpu.c
 * Math   C (+)= alpha A B.
 * Shapes tile_cpu.h.
 * Map    one thread; tiles of 4 x 16: eight accumulators, two loads of B and four broadcasts of A for
 *        eight multiply-adds.
 * Cost   2 m n k FLOP with n rounded up to 16.
 * Order  k ascending, one accumulator an element.
 * Limits none. */
#include "kernels/cpu/tile_cpu.h"

#include <string.h>

#if EMBER_CPU_X86
#include <immintrin.h>
#endif

enum { ROWS = 4, COLUMNS = EMBER_TILE_COLUMNS };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* A tile whose columns end inside C's row goes through this. */
static void store_part(const ember_tile_product *t, int64_t n_rows, int64_t n_columns, float *c, const float *tile) {
    for (int64_t r = 0; r < n_rows; r++) {
        for (int64_t j = 0; j < n_columns; j++) {
            const float value = t->alpha * tile[r * COLUMNS + j];
            c[r * t->c_row + j] = t->add ? c[r * t->c_row + j] + value : value;
        }
    }
}

static void tile_plain(const ember_tile_product *t, int64_t n_rows, int64_t n_columns, const float *a, const float *b, int64_t b_row,
                       float *c) {
    for (int64_t r = 0; r < n_rows; r++) { /* 16 sums are what SSE's registers hold with room to work */
        float sums[COLUMNS] = {0};
        for (int64_t k = 0; k < t->k; k++) {
            const float factor = a[r * t->a_row + k * t->a_column];
            for (int j = 0; j < COLUMNS; j++)
                sums[j] += factor * b[k * b_row + j];
        }
        store_part(t, 1, n_columns, c + r * t->c_row, sums);
    }
}

#if EMBER_CPU_X86
EMBER_TARGET_AVX2 static inline __attribute__((always_inline)) void store_row(const ember_tile_product *t, int64_t n_columns, float *c,
                                                                              __m256 low, __m256 high) {
    if (n_columns < COLUMNS) {
        float sums[COLUMNS];
        _mm256_storeu_ps(sums, low);
        _mm256_storeu_ps(sums + 8, high);
        store_part(t, 1, n_columns, c, sums);
        return;
    }
    const __m256 alpha = _mm256_set1_ps(t->alpha);
    low = _mm256_mul_ps(alpha, low);
    high = _mm256_mul_ps(alpha, high);
    if (t->add) {
        low = _mm256_add_ps(_mm256_loadu_ps(c), low);
        high = _mm256_add_ps(_mm256_loadu_ps(c + 8), high);
    }
    _mm256_storeu_ps(c, low);
    _mm256_storeu_ps(c + 8, high);
}

/* Accumulators are named, not an array, so that every compiler keeps them in registers. */
EMBER_TARGET_AVX2 static void tile_four(const ember_tile_product *t, int64_t n_columns, const float *a, const float *b, int64_t b_row,
                                        float *c) {
    __m256 low0 = _mm256_setzero_ps(), low1 = low0, low2 = low0, low3 = low0;
    __m256 high0 = low0, high1 = low0, high2 = low0, high3 = low0;
    const int64_t step = t->a_column;
    const float *a0 = a;
    const float *a1 = a0 + t->a_row;
    const float *a2 = a1 + t->a_row;
    const float *a3 = a2 + t->a_row;
    for (int64_t k = t->k; k > 0; k--) {
        const __m256 b0 = _mm256_loadu_ps(b);
        const __m256 b1 = _mm256_loadu_ps(b + 8);
        __m256 factor = _mm256_broadcast_ss(a0);
        low0 = _mm256_fmadd_ps(factor, b0, low0);
        high0 = _mm256_fmadd_ps(factor, b1, high0);
        factor = _mm256_broadcast_ss(a1);
        low1 = _mm256_fmadd_ps(factor, b0, low1);
        high1 = _mm256_fmadd_ps(factor, b1, high1);
        factor = _mm256_broadcast_ss(a2);
        low2 = _mm256_fmadd_ps(factor, b0, low2);
        high2 = _mm256_fmadd_ps(factor, b1, high2);
        factor = _mm256_broadcast_ss(a3);
        low3 = _mm256_fmadd_ps(factor, b0, low3);
        high3 = _mm256_fmadd_ps(factor, b1, high3);
        b += b_row;
        a0 += step;
        a1 += step;
        a2 += step;
        a3 += step;
    }
    store_row(t, n_columns, c, low0, high0);
    store_row(t, n_columns, c + t->c_row, low1, high1);
    store_row(t, n_columns, c + 2 * t->c_row, low2, high2);
    store_row(t, n_columns, c + 3 * t->c_row, low3, high3);
}

EMBER_TARGET_AVX2 static void tile_one(const ember_tile_product *t, int64_t n_columns, const float *a, const float *b, int64_t b_row,
                                       float *c) {
    __m256 low = _mm256_setzero_ps();
    __m256 high = low;
    for (int64_t k = 0; k < t->k; k++) {
        const __m256 factor = _mm256_broadcast_ss(a + k * t->a_column);
        low = _mm256_fmadd_ps(factor, _mm256_loadu_ps(b + k * b_row), low);
        high = _mm256_fmadd_ps(factor, _mm256_loadu_ps(b + k * b_row + 8), high);
    }
    store_row(t, n_columns, c, low, high);
}

EMBER_TARGET_AVX2 static void tile_avx2(const ember_tile_product *t, int64_t n_rows, int64_t n_columns, const float *a, const float *b,
                                        int64_t b_row, float *c) {
    if (n_rows == ROWS) {
        tile_four(t, n_columns, a, b, b_row, c);
        return;
    }
    for (int64_t r = 0; r < n_rows; r++)
        tile_one(t, n_columns, a + r * t->a_row, b, b_row, c + r * t->c_row);
}
#endif

void ember_tile_multiply(ember_cpu_isa isa, const ember_tile_product *t) {
    void (*tile)(const ember_tile_product *, int64_t, int64_t, const float *, const float *, int64_t, float *) = tile_plain;
#if EMBER_CPU_X86
    if (isa >= EMBER_ISA_AVX2) tile = tile_avx2;
#else
    (void)isa;
#endif
    for (int64_t j = 0; j < t->n; j += COLUMNS) {
        const float *b = t->b + j / COLUMNS * t->b_panel;
        const int64_t b_row = smaller(COLUMNS, t->b_columns - j);
        const int64_t n_columns = t->whole_tiles ? COLUMNS : smaller(COLUMNS, t->n - j);
        for (int64_t i = 0; i < t->m; i += ROWS) {
            tile(t, smaller(ROWS, t->m - i), n_columns, t->a + i * t->a_row, b, b_row, t->c + i * t->c_row + j);
        }
    }
}

void ember_tile_pack_rows(float *out, int64_t n_rows, int64_t n, const float *rows, int64_t row) {
    for (int64_t j = 0; j < n; j += COLUMNS) {
        const int64_t width = smaller(COLUMNS, n - j);
        for (int64_t i = 0; i < n_rows; i++, out += COLUMNS) {
            memcpy(out, rows + i * row + j, (size_t)width * sizeof *out);
            if (width < COLUMNS) memset(out + width, 0, (size_t)(COLUMNS - width) * sizeof *out);
        }
    }
}

void ember_tile_pack_transposed(float *out, int64_t n_rows, int64_t n, const float *rows, int64_t row) {
    for (int64_t i = 0; i < n_rows; i += COLUMNS) {
        const int64_t width = smaller(COLUMNS, n_rows - i);
        for (int64_t j = 0; j < n; j++, out += width) {
            for (int64_t c = 0; c < width; c++)
                out[c] = rows[(i + c) * row + j];
        }
    }
}
