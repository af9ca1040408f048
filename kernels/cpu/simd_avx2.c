/* simd_avx2.c
 * Math   the routines of simd_cpu.h with AVX2 and FMA.
 * Shapes rows [d], lists of n rows; any d (the last d mod 8 elements through masked loads).
 * Map    groups of rows over 8-wide vectors; simd_vector_body.h.
 * Cost   n d floats read; 1.25 (dots) and 1.25 (add_rows) memory operations an FMA.
 * Order  dots: two 8-lane partial sums by j, then a fixed tree; add_rows: k ascending, fused.
 * Limits a processor with AVX2 and FMA (ember_cpu_isa_best). */
#include "kernels/cpu/simd_cpu.h"

#if EMBER_CPU_X86
#include <immintrin.h>

#define TARGET EMBER_TARGET_AVX2
#define VECTOR __m256
#define WIDTH 8
#define vzero() _mm256_setzero_ps()
#define vset(a) _mm256_set1_ps(a)
#define vload(p) _mm256_loadu_ps(p)
#define vstore(p, v) _mm256_storeu_ps(p, v)
#define vfma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vadd(a, b) _mm256_add_ps(a, b)

TARGET static inline __m256i part_mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
TARGET static inline __m256 vload_part(const float *p, int n) { return _mm256_maskload_ps(p, part_mask(n)); }
TARGET static inline void vstore_part(float *p, __m256 v, int n) { _mm256_maskstore_ps(p, part_mask(n), v); }
TARGET static inline float vsum(__m256 v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#include "kernels/cpu/simd_vector_body.h"

/* Bit l: lane l fires. NaN fires, so the comparison is "not less or equal, or unordered". */
TARGET static inline uint32_t firing_mask(const float *g) {
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(g), _mm256_setzero_ps(), _CMP_NLE_UQ));
}

TARGET static int64_t firing(uint32_t *neurons, float *values, const float *g, int64_t n, uint32_t first) {
    int64_t count = 0;
    int64_t j = 0;
    for (; j + 32 <= n; j += 32) {
        uint32_t mask = firing_mask(g + j) | firing_mask(g + j + 8) << 8 | firing_mask(g + j + 16) << 16 | firing_mask(g + j + 24) << 24;
        for (; mask != 0; mask &= mask - 1) {
            const int bit = __builtin_ctz(mask);
            neurons[count] = first + (uint32_t)j + (uint32_t)bit;
            values[count] = g[j + bit];
            count++;
        }
    }
    for (; j < n; j++) {
        if (g[j] <= 0.0F) continue;
        neurons[count] = first + (uint32_t)j;
        values[count] = g[j];
        count++;
    }
    return count;
}

const ember_simd ember_simd_avx2 = {.dots = dots, .add_rows = add_rows, .add_rows_twice = add_rows_twice, .firing = firing};
#endif
