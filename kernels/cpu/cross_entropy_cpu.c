/* cross_entropy_cpu.c
 * Math   logits = x W^T; loss_i = log sum_j exp(logit_ij) - logit_i,target;
 *        dlogits = (softmax - onehot) scale; dx = dlogits W; dW += dlogits^T x. Tokens with a negative
 *        target have loss 0 and gradient 0.
 * Shapes x, dx [M, d]; W, dW [V, d]; loss, targets [M]; logits [chunk, V] in shared scratch.
 * Map    chunks of tokens one after another; in a chunk, panels of the products and rows of the softmax
 *        over threads.
 * Cost   6 M V d FLOP with gradient, 2 without; each chunk reads W twice and reads and writes dW once.
 * Order  a row's sums have a fixed order, loss_sum adds tokens in order in double, dW adds chunks in order;
 *        the chunk depends on V alone.
 * Limits targets below V, checked; d and V at least 1. */
#include <math.h>

#include "kernels/cpu/gemm_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/softmax_cpu.h"
#include "lib/base/status.h"

/* Tokens of a chunk: about 16 MB of logits, at least 64 tokens so that reading W pays. */
static int64_t chunk_of(int64_t vocab_size) {
    const int64_t tokens = ((int64_t)1 << 22) / ember_max64(vocab_size, 1) / 16 * 16;
    return ember_min64(ember_max64(tokens, 64), 512);
}

size_t ember_cross_entropy_shared_scratch_bytes(const ember_workspace_shape *shape) {
    const int64_t chunk = ember_min64(chunk_of(shape->vocab_size), shape->n_tokens);
    return (size_t)chunk * (size_t)shape->vocab_size * sizeof(float);
}

/* One row of logits -> loss, and the gradient in its place. */
EMBER_BODY loss_row(float *row, int64_t n, int32_t target, float scale, bool gradient, float *loss) {
    const float wanted = row[target];
    float max = 0;
    double sum = 0;
    ember_softmax_row(row, n, &max, &sum);
    *loss = (float)(log(sum) + ((double)max - (double)wanted));
    if (!gradient) return;
    const float factor = (float)((double)scale / sum);
    const double p = (double)row[target] / sum; /* p - 1 from the double: exact where p is near 1 */
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        row[j] *= factor;
    row[target] = (float)((p - 1.0) * (double)scale);
}
EMBER_LEVELS(loss_row, (float *row, int64_t n, int32_t target, float scale, bool gradient, float *loss),
             (row, n, target, scale, gradient, loss))

static ember_status check(const ember_backend *backend, const ember_cross_entropy_args *args) {
    if (args->hidden < 1 || args->vocab_size < 1) {
        return ember_fail(EMBER_E_SHAPE, "cross_entropy: hidden %lld and vocabulary %lld must be at least 1", (long long)args->hidden,
                          (long long)args->vocab_size);
    }
    for (int64_t i = 0; i < args->n_tokens; i++) {
        if (args->targets[i] >= args->vocab_size) {
            return ember_fail(EMBER_E_ARGUMENT, "cross_entropy: target %d of token %lld is not below the vocabulary's %lld",
                              args->targets[i], (long long)i, (long long)args->vocab_size);
        }
    }
    const ember_workspace_shape shape = {.n_tokens = args->n_tokens, .vocab_size = args->vocab_size};
    return ember_cpu_need(backend, "cross_entropy", 0, ember_cross_entropy_shared_scratch_bytes(&shape));
}

ember_status ember_cross_entropy_cpu(ember_backend *backend, const ember_cross_entropy_args *args) {
    EMBER_TRY(check(backend, args));
    void (*run)(float *, int64_t, int32_t, float, bool, float *) = EMBER_LEVEL(backend, loss_row);
    const int64_t d = args->hidden;
    const int64_t v = args->vocab_size;
    const int64_t chunk = chunk_of(v);
    const bool gradient = args->dx != NULL;
    float *logits = ember_cpu_shared_scratch(backend);
    for (int64_t first = 0; first < args->n_tokens; first += chunk) {
        const int64_t m = ember_min64(chunk, args->n_tokens - first);
        const float *x = args->x + first * d;
        ember_sgemm(backend, false, true, m, v, d, 1.0F, x, d, args->weight, d, 0.0F, logits, v);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static)
        for (int64_t i = 0; i < m; i++) {
            const int32_t target = args->targets[first + i];
            if (target >= 0) {
                run(logits + i * v, v, target, args->scale, gradient, args->loss + first + i);
            } else {
                args->loss[first + i] = 0.0F;
                if (gradient) memset(logits + i * v, 0, (size_t)v * sizeof *logits);
            }
        }
        for (int64_t i = first; i < first + m; i++) {
            if (args->targets[i] >= 0) *args->loss_sum += (double)args->loss[i];
        }
        if (!gradient) continue;
        ember_sgemm(backend, false, false, m, d, v, 1.0F, logits, v, args->weight, d, 0.0F, args->dx + first * d, d);
        if (args->d_weight) ember_sgemm(backend, true, false, v, d, m, 1.0F, logits, v, x, d, 1.0F, args->d_weight, d);
    }
    return EMBER_OK;
}
