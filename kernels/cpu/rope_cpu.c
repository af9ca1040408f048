/* rope_cpu.c
 * Math   pair (x_j, x_{j + D/2}) of every q and k head turns by the angle of (position, j):
 *        x_j cos - x_{j+D/2} sin, x_{j+D/2} cos + x_j sin (Su et al. 2021, half-split pairs);
 *        backward turns the gradient by the negative angle.
 * Shapes qkv [M, (H + 2 KV) D] in place; tables [max position, D / 2].
 * Map    tokens are split over threads.
 * Cost   memory: one read and one write of the q and k parts.
 * Order  elementwise.
 * Limits D even; positions must be rows of the tables (checked against 0; the upper end is the caller's). */
#include "kernels/cpu/levels_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "lib/base/status.h"

EMBER_BODY turn_token(const ember_rope_args *args, int64_t token) {
    const int64_t half = args->head_dim / 2;
    const float *cosine = args->cos_table + args->positions[token] * half;
    const float *sine = args->sin_table + args->positions[token] * half;
    const float sign = args->backward ? -1.0F : 1.0F;
    float *row = args->qkv + token * (args->n_heads + 2 * args->n_kv_heads) * args->head_dim;
    for (int64_t head = 0; head < args->n_heads + args->n_kv_heads; head++) {
        float *a = row + head * args->head_dim;
        float *b = a + half;
#pragma omp simd
        for (int64_t j = 0; j < half; j++) {
            const float s = sine[j] * sign;
            const float x = a[j];
            const float y = b[j];
            a[j] = x * cosine[j] - y * s;
            b[j] = y * cosine[j] + x * s;
        }
    }
}
EMBER_LEVELS(turn_token, (const ember_rope_args *args, int64_t token), (args, token))

ember_status ember_rope_cpu(ember_backend *backend, const ember_rope_args *args) {
    if (args->head_dim % 2 != 0) {
        return ember_fail(EMBER_E_SHAPE, "rope: head_dim %lld is odd; pairs need an even one", (long long)args->head_dim);
    }
    for (int64_t i = 0; i < args->n_tokens; i++) {
        if (args->positions[i] < 0) {
            return ember_fail(EMBER_E_ARGUMENT, "rope: position %d of token %lld is negative", args->positions[i], (long long)i);
        }
    }
    void (*turn)(const ember_rope_args *, int64_t) = EMBER_LEVEL(backend, turn_token);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (args->n_tokens > 4)
    for (int64_t token = 0; token < args->n_tokens; token++)
        turn(args, token);
    return EMBER_OK;
}
