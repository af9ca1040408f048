/* simd_avx512.c
 * Math   the routines of simd_cpu.h with AVX-512.
 * Shapes rows [d], lists of n rows; any d (the last d mod 16 elements through masks).
 * Map    groups of rows over 16-wide vectors; simd_vector_body.h. Firing neurons are compressed 16 at a time.
 * Cost   n d floats read; 1.25 (dots) and 1.25 (add_rows) memory operations an FMA.
 * Order  dots: two 16-lane partial sums by j, then a fixed tree; add_rows: k ascending, fused.
 * Limits a processor with AVX-512 F, BW, DQ and VL (ember_cpu_isa_best). */
#include "kernels/cpu/simd_cpu.h"

#if EMBER_CPU_X86
#include <immintrin.h>

#define TARGET EMBER_TARGET_AVX512
#define VECTOR __m512
#define WIDTH 16
#define vzero() _mm512_setzero_ps()
#define vset(a) _mm512_set1_ps(a)
#define vload(p) _mm512_loadu_ps(p)
#define vstore(p, v) _mm512_storeu_ps(p, v)
#define vfma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vadd(a, b) _mm512_add_ps(a, b)

TARGET static inline __mmask16 part_mask(int n) { return (__mmask16)((1U << n) - 1U); }
TARGET static inline __m512 vload_part(const float *p, int n) { return _mm512_maskz_loadu_ps(part_mask(n), p); }
TARGET static inline void vstore_part(float *p, __m512 v, int n) { _mm512_mask_storeu_ps(p, part_mask(n), v); }
TARGET static inline float vsum(__m512 v) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#include "kernels/cpu/simd_vector_body.h"

/* NaN fires, so the comparison is "not less or equal, or unordered". Compressing in the register and
 * storing whole vectors (hence the padding) avoids the slow compressing store of some processors. */
TARGET static int64_t firing(uint32_t *neurons, float *values, const float *g, int64_t n, uint32_t first) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int64_t count = 0;
    for (int64_t j = 0; j < n; j += 16) {
        const __mmask16 inside = n - j >= 16 ? (__mmask16)0xffff : part_mask((int)(n - j));
        const __m512 v = _mm512_maskz_loadu_ps(inside, g + j);
        const __mmask16 mask = _mm512_mask_cmp_ps_mask(inside, v, _mm512_setzero_ps(), _CMP_NLE_UQ);
        if (mask == 0) continue;
        const __m512i index = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)(first + (uint32_t)j)));
        _mm512_storeu_si512(neurons + count, _mm512_maskz_compress_epi32(mask, index));
        _mm512_storeu_ps(values + count, _mm512_maskz_compress_ps(mask, v));
        count += __builtin_popcount(mask);
    }
    return count;
}

const ember_simd ember_simd_avx512 = {.dots = dots, .add_rows = add_rows, .add_rows_twice = add_rows_twice, .firing = firing};
#endif
