/* levels_cpu.h - one source, several instruction sets: a body is written once as an always-inline
 * function and compiled for each level; the compiler vectorises its `omp simd` loops. A reduction
 * sums in the order of that level, which does not depend on the number of threads. */
#ifndef EMBER_LEVELS_CPU_H
#define EMBER_LEVELS_CPU_H

#include <string.h>

#include "kernels/cpu/backend_cpu.h"

#define EMBER_BODY static inline __attribute__((always_inline)) void

/* EMBER_LEVELS(name, (parameters), (arguments)) makes name_plain and name_avx2 out of `name`. */
#if EMBER_CPU_X86
#define EMBER_LEVELS(name, parameters, arguments)           \
    static void name##_plain parameters { name arguments; } \
    EMBER_TARGET_AVX2 static void name##_avx2 parameters { name arguments; }
#define EMBER_LEVEL(backend, name) (ember_cpu_isa_of(backend) >= EMBER_ISA_AVX2 ? name##_avx2 : name##_plain)
#else
#define EMBER_LEVELS(name, parameters, arguments) \
    static void name##_plain parameters { name arguments; }
#define EMBER_LEVEL(backend, name) name##_plain
#endif

/* exp(x) for x <= 88, within 2 ulp; 0 below -87.3 (where the result would be denormal), NaN for
 * NaN. x = n ln 2 + r, |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7 (remainder below
 * 2^-27), 2^n put into the exponent. The lower limit is an integer comparison of the bits: compilers
 * turn a floating one into a branch, and loops over this must vectorise. */
static inline __attribute__((always_inline)) float ember_exp(float x) {
    const float magic = 12582912.0F;      /* 1.5 * 2^23: adding it leaves the integer in the low bits */
    const int32_t low_bits = -1028744806; /* 0xC2AE999A, -87.3 */
    int32_t x_bits;
    memcpy(&x_bits, &x, sizeof x_bits);
    /* negative floats grow with their magnitude as signed integers; -infinity (0xFF800000,
     * -8388608) is the last before NaN */
    const int32_t below = -(int32_t)((x_bits > low_bits) & (x_bits <= -8388608));
    const int32_t clamped_bits = (x_bits & ~below) | (low_bits & below);
    float clamped;
    memcpy(&clamped, &clamped_bits, sizeof clamped);
    const float shifted = clamped * 1.44269504F + magic;
    const float n = shifted - magic;
    float r = clamped - n * 0.693359375F; /* exact: 10 bits times an integer below 128 */
    r = r + n * 2.12194440e-4F;
    float p = 1.98412698e-4F;
    p = p * r + 1.38888889e-3F;
    p = p * r + 8.33333333e-3F;
    p = p * r + 4.16666667e-2F;
    p = p * r + 1.66666667e-1F;
    p = p * r + 0.5F;
    p = (p * r) * r + r;
    p = p + 1.0F;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000U;
    float power;
    memcpy(&power, &bits, sizeof power);
    float y = p * power;
    int32_t y_bits;
    memcpy(&y_bits, &y, sizeof y_bits);
    y_bits &= ~below;
    memcpy(&y, &y_bits, sizeof y);
    return y;
}

#endif
