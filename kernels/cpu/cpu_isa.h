/* cpu_isa.h - which instruction set the CPU kernels use: chosen once, when the backend is made. */
#ifndef EMBER_CPU_ISA_H
#define EMBER_CPU_ISA_H

#include "lib/ember.h"

/* In ascending order: each level includes the ones below it. */
typedef enum ember_cpu_isa {
    EMBER_ISA_PLAIN = 0, /* what every x86-64 (or other) processor has */
    EMBER_ISA_AVX2 = 1,  /* AVX2 and FMA */
    EMBER_ISA_AVX512 = 2 /* AVX-512 F, BW, DQ and VL */
} ember_cpu_isa;

/* The best level of this processor that the operating system has switched on. */
ember_cpu_isa ember_cpu_isa_best(void);
/* The best level, lowered by the environment variable EMBER_CPU = plain | avx2 | avx512 (a level
 * that the processor lacks is the best one it has). Errors: EMBER_E_ARGUMENT for another value. */
EMBER_CHECKED ember_status ember_cpu_isa_choose(ember_cpu_isa *out);
const char *ember_cpu_isa_name(ember_cpu_isa isa); /* "plain", "avx2", "avx512" */

/* Functions compiled for a level carry one of these. On other processors there is only plain. */
#if defined(__x86_64__)
#define EMBER_CPU_X86 1
#define EMBER_TARGET_AVX2 __attribute__((target("avx2,fma")))
#define EMBER_TARGET_AVX512 __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define EMBER_CPU_X86 0
#endif

#endif
