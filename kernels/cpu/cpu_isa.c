/* cpu_isa.c - instruction set at run time. */
#include "kernels/cpu/cpu_isa.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

static const char *const names[] = {"plain", "avx2", "avx512"};

const char *ember_cpu_isa_name(ember_cpu_isa isa) { return isa >= EMBER_ISA_PLAIN && isa <= EMBER_ISA_AVX512 ? names[isa] : "unknown"; }

ember_cpu_isa ember_cpu_isa_best(void) {
#if EMBER_CPU_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return EMBER_ISA_PLAIN;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        return EMBER_ISA_AVX512;
    }
    return EMBER_ISA_AVX2;
#else
    return EMBER_ISA_PLAIN;
#endif
}

ember_status ember_cpu_isa_choose(ember_cpu_isa *out) {
    const ember_cpu_isa best = ember_cpu_isa_best();
    *out = best;
    const char *wanted = getenv("EMBER_CPU");
    if (!wanted || !*wanted) return EMBER_OK;
    for (int i = EMBER_ISA_PLAIN; i <= EMBER_ISA_AVX512; i++) {
        if (strcmp(wanted, names[i]) != 0) continue;
        if (i < (int)best) *out = (ember_cpu_isa)i;
        return EMBER_OK;
    }
    return ember_fail(EMBER_E_ARGUMENT, "environment variable EMBER_CPU is \"%s\"; use plain, avx2 or avx512, or unset it", wanted);
}
