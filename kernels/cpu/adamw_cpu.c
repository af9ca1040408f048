/* adamw_cpu.c
 * Math   g = grad * grad_scale;  p -= lr wd p;  m += (1 - b1)(g - m);  v = b2 v + (1 - b2) g^2;
 *        p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)  (Loshchilov, Hutter 2019; the
 *        order of operations of torch.optim.AdamW). Factors in double, rounded once; elements in float32.
 * Shapes param, exp_avg, exp_avg_sq, grad [n].
 * Map    fixed blocks over threads.
 * Cost   memory: 28 bytes an element.
 * Order  elementwise.
 * Limits step >= 1. */
#include <math.h>

#include "kernels/cpu/levels_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "lib/base/status.h"

typedef struct factors {
    float grad_scale, keep, one_minus_beta1, beta2, one_minus_beta2, step_size, sqrt_correction, eps;
} factors;

EMBER_BODY adamw_block(int64_t n, const factors *f, float *p, float *m, float *v, const float *grad) {
    const factors k = *f;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = grad[i] * k.grad_scale;
        const float mi = m[i] + k.one_minus_beta1 * (g - m[i]);
        const float vi = k.beta2 * v[i] + k.one_minus_beta2 * g * g;
        const float denominator = sqrtf(vi) / k.sqrt_correction + k.eps;
        m[i] = mi;
        v[i] = vi;
        p[i] = p[i] * k.keep - k.step_size * (mi / denominator);
    }
}
EMBER_LEVELS(adamw_block, (int64_t n, const factors *f, float *p, float *m, float *v, const float *grad), (n, f, p, m, v, grad))

ember_status ember_adamw_cpu(ember_backend *backend, const ember_adamw_args *args) {
    enum { BLOCK = 4096 };
    if (args->step < 1) return ember_fail(EMBER_E_ARGUMENT, "adamw: step %lld; the first is 1", (long long)args->step);
    const factors f = {
        .grad_scale = (float)args->grad_scale,
        .keep = (float)(1.0 - args->lr * args->weight_decay),
        .one_minus_beta1 = (float)(1.0 - args->beta1),
        .beta2 = (float)args->beta2,
        .one_minus_beta2 = (float)(1.0 - args->beta2),
        .step_size = (float)(args->lr / (1.0 - pow(args->beta1, (double)args->step))),
        .sqrt_correction = (float)sqrt(1.0 - pow(args->beta2, (double)args->step)),
        .eps = (float)args->eps,
    };
    void (*block)(int64_t, const factors *, float *, float *, float *, const float *) = EMBER_LEVEL(backend, adamw_block);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (args->n > 2 * BLOCK)
    for (int64_t i = 0; i < args->n; i += BLOCK) {
        block(ember_min64(BLOCK, args->n - i), &f, args->param + i, args->exp_avg + i, args->exp_avg_sq + i, args->grad + i);
    }
    return EMBER_OK;
}
