/* simd_vector_body.h - the row routines over one vector type; simd_avx2.c and simd_avx512.c define
 * the type and include this once each:
 *   VECTOR, WIDTH, TARGET, vload, vload_part(p, n), vstore, vstore_part(p, v, n), vzero, vset, vfma, vadd, vsum
 * (vload_part reads n < WIDTH elements, zeros above; vsum adds the lanes in a fixed order).
 *
 * A list is walked in groups of rows, so that one load of x or of y serves several of them: 4 rows a
 * group for dots (2 partial sums each: 8 independent chains), 8 for add_rows, 4 for add_rows_twice.
 * The rows of the next group are prefetched while this one is multiplied. */
#define INLINE TARGET static inline __attribute__((always_inline))

enum { PREFETCH_LINES = 4, LINE = 16 /* floats */ };

/* The first lines of each row; the processor's own prefetcher follows a row once it has begun. */
INLINE void prefetch_rows(const float *const *rows, int64_t n, int64_t d) {
    for (int64_t k = 0; k < n; k++) {
        for (int64_t j = 0; j < d && j < PREFETCH_LINES * LINE; j += LINE)
            __builtin_prefetch(rows[k] + j, 0, 3);
    }
}

INLINE void dots_group(float *out, const float *x, const float *const *rows, const int count, int64_t d) {
    VECTOR even[4];
    VECTOR odd[4];
    for (int r = 0; r < count; r++)
        even[r] = odd[r] = vzero();
    int64_t j = 0;
    for (; j + 2 * WIDTH <= d; j += 2 * WIDTH) {
        const VECTOR x0 = vload(x + j);
        const VECTOR x1 = vload(x + j + WIDTH);
        for (int r = 0; r < count; r++) {
            even[r] = vfma(x0, vload(rows[r] + j), even[r]);
            odd[r] = vfma(x1, vload(rows[r] + j + WIDTH), odd[r]);
        }
    }
    if (j + WIDTH <= d) {
        const VECTOR x0 = vload(x + j);
        for (int r = 0; r < count; r++)
            even[r] = vfma(x0, vload(rows[r] + j), even[r]);
        j += WIDTH;
    }
    if (j < d) {
        const int part = (int)(d - j);
        const VECTOR x1 = vload_part(x + j, part);
        for (int r = 0; r < count; r++)
            odd[r] = vfma(x1, vload_part(rows[r] + j, part), odd[r]);
    }
    for (int r = 0; r < count; r++)
        out[r] = vsum(vadd(even[r], odd[r]));
}

TARGET static int64_t dots(float *out, const float *x, const float *const *rows, int64_t n, int64_t d) {
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) {
        prefetch_rows(rows + k + 4, n - k - 4 < 4 ? n - k - 4 : 4, d);
        dots_group(out + k, x, rows + k, 4, d);
    }
    if (k + 2 <= n) {
        dots_group(out + k, x, rows + k, 2, d);
        k += 2;
    }
    if (k < n) {
        dots_group(out + k, x, rows + k, 1, d);
        k++;
    }
    return k;
}

/* `columns` vectors of y at once over `count` rows. */
INLINE void add_columns(float *y, const VECTOR *c, const float *const *rows, const int count, const int columns, int64_t j) {
    VECTOR sum[4];
    for (int v = 0; v < columns; v++)
        sum[v] = vload(y + j + v * WIDTH);
    for (int r = 0; r < count; r++) {
        for (int v = 0; v < columns; v++)
            sum[v] = vfma(c[r], vload(rows[r] + j + v * WIDTH), sum[v]);
    }
    for (int v = 0; v < columns; v++)
        vstore(y + j + v * WIDTH, sum[v]);
}

INLINE void add_group(float *y, const float *coefficients, const float *const *rows, const int count, int64_t d) {
    VECTOR c[8];
    for (int r = 0; r < count; r++)
        c[r] = vset(coefficients[r]);
    int64_t j = 0;
    for (; j + 4 * WIDTH <= d; j += 4 * WIDTH)
        add_columns(y, c, rows, count, 4, j);
    for (; j + WIDTH <= d; j += WIDTH)
        add_columns(y, c, rows, count, 1, j);
    if (j < d) {
        const int part = (int)(d - j);
        VECTOR sum = vload_part(y + j, part);
        for (int r = 0; r < count; r++)
            sum = vfma(c[r], vload_part(rows[r] + j, part), sum);
        vstore_part(y + j, sum, part);
    }
}

TARGET static int64_t add_rows(float *y, const float *c, const float *const *rows, int64_t n, int64_t d) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        prefetch_rows(rows + k + 8, n - k - 8 < 8 ? n - k - 8 : 8, d);
        add_group(y, c + k, rows + k, 8, d);
    }
    if (k + 4 <= n) {
        add_group(y, c + k, rows + k, 4, d);
        k += 4;
    }
    if (k + 2 <= n) {
        add_group(y, c + k, rows + k, 2, d);
        k += 2;
    }
    if (k < n) {
        add_group(y, c + k, rows + k, 1, d);
        k++;
    }
    return k;
}

INLINE void add_twice_columns(float *y1, float *y2, const VECTOR *c1, const VECTOR *c2, const float *const *rows, const int count,
                              const int columns, int64_t j) {
    VECTOR sum1[2];
    VECTOR sum2[2];
    for (int v = 0; v < columns; v++) {
        sum1[v] = vload(y1 + j + v * WIDTH);
        sum2[v] = vload(y2 + j + v * WIDTH);
    }
    for (int r = 0; r < count; r++) {
        for (int v = 0; v < columns; v++) {
            const VECTOR row = vload(rows[r] + j + v * WIDTH);
            sum1[v] = vfma(c1[r], row, sum1[v]);
            sum2[v] = vfma(c2[r], row, sum2[v]);
        }
    }
    for (int v = 0; v < columns; v++) {
        vstore(y1 + j + v * WIDTH, sum1[v]);
        vstore(y2 + j + v * WIDTH, sum2[v]);
    }
}

INLINE void add_twice_group(float *y1, float *y2, const float *coefficients1, const float *coefficients2, const float *const *rows,
                            const int count, int64_t d) {
    VECTOR c1[4];
    VECTOR c2[4];
    for (int r = 0; r < count; r++) {
        c1[r] = vset(coefficients1[r]);
        c2[r] = vset(coefficients2[r]);
    }
    int64_t j = 0;
    for (; j + 2 * WIDTH <= d; j += 2 * WIDTH)
        add_twice_columns(y1, y2, c1, c2, rows, count, 2, j);
    for (; j + WIDTH <= d; j += WIDTH)
        add_twice_columns(y1, y2, c1, c2, rows, count, 1, j);
    if (j < d) {
        const int part = (int)(d - j);
        VECTOR sum1 = vload_part(y1 + j, part);
        VECTOR sum2 = vload_part(y2 + j, part);
        for (int r = 0; r < count; r++) {
            const VECTOR row = vload_part(rows[r] + j, part);
            sum1 = vfma(c1[r], row, sum1);
            sum2 = vfma(c2[r], row, sum2);
        }
        vstore_part(y1 + j, sum1, part);
        vstore_part(y2 + j, sum2, part);
    }
}

TARGET static int64_t add_rows_twice(float *y1, float *y2, const float *c1, const float *c2, const float *const *rows, int64_t n,
                                     int64_t d) {
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) {
        prefetch_rows(rows + k + 4, n - k - 4 < 4 ? n - k - 4 : 4, d);
        add_twice_group(y1, y2, c1 + k, c2 + k, rows + k, 4, d);
    }
    if (k + 2 <= n) {
        add_twice_group(y1, y2, c1 + k, c2 + k, rows + k, 2, d);
        k += 2;
    }
    if (k < n) {
        add_twice_group(y1, y2, c1 + k, c2 + k, rows + k, 1, d);
        k++;
    }
    return k;
}
