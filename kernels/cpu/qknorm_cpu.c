/* qknorm_cpu.c
 * Math   RMSNorm of every q and k head: u = x r w, r = 1 / sqrt(mean(x^2) + eps) over D;
 *        dx = r (w du) - x r^3 / D sum(w du x);  dw += sum over tokens and heads of du x r.
 * Shapes qkv, d_qkv [M, (H + 2 KV) D], v part untouched; x_qk [M, (H + KV) D]; r [M, H + KV]; w, dw [D].
 * Map    tokens are split over threads; dw over blocks of columns of D.
 * Cost   memory: forward 2 reads and 2 writes, backward 5 passes over the q and k parts.
 * Order  head sums in double; each element of dw sums tokens in order, heads within a token in order.
 * Limits none. Forward: x_qk and rstd may be NULL (inference). */
#include <math.h>

#include "kernels/cpu/levels_cpu.h"
#include "kernels/cpu/ops_cpu.h"

enum { COLUMN_BLOCK = 8 };

static int64_t row_width(const ember_qknorm_args *args) { return (args->n_heads + 2 * args->n_kv_heads) * args->head_dim; }

EMBER_BODY forward_token(const ember_qknorm_args *args, int64_t token) {
    const int64_t d = args->head_dim;
    const int64_t n_normed = args->n_heads + args->n_kv_heads;
    float *row = args->qkv + token * (args->n_heads + 2 * args->n_kv_heads) * d;
    for (int64_t head = 0; head < n_normed; head++) {
        float *x = row + head * d;
        const float *w = head < args->n_heads ? args->q_weight : args->k_weight;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < d; j++)
            sum += (double)x[j] * (double)x[j];
        const float r = (float)(1.0 / sqrt(sum / (double)d + args->eps));
        if (args->rstd) args->rstd[token * n_normed + head] = r;
        if (args->x_qk) memcpy(args->x_qk + (token * n_normed + head) * d, x, (size_t)d * sizeof *x);
#pragma omp simd
        for (int64_t j = 0; j < d; j++)
            x[j] = x[j] * r * w[j];
    }
}
EMBER_LEVELS(forward_token, (const ember_qknorm_args *args, int64_t token), (args, token))

ember_status ember_qknorm_forward_cpu(ember_backend *backend, const ember_qknorm_args *args) {
    void (*run)(const ember_qknorm_args *, int64_t) = EMBER_LEVEL(backend, forward_token);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (args->n_tokens > 4)
    for (int64_t token = 0; token < args->n_tokens; token++)
        run(args, token);
    return EMBER_OK;
}

EMBER_BODY backward_token(const ember_qknorm_args *args, int64_t token) {
    const int64_t d = args->head_dim;
    const int64_t n_normed = args->n_heads + args->n_kv_heads;
    float *row = args->d_qkv + token * (args->n_heads + 2 * args->n_kv_heads) * d;
    for (int64_t head = 0; head < n_normed; head++) {
        float *du = row + head * d;
        const float *x = args->x_qk + (token * n_normed + head) * d;
        const float *w = head < args->n_heads ? args->q_weight : args->k_weight;
        const float r = args->rstd[token * n_normed + head];
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < d; j++)
            sum += (double)(du[j] * w[j]) * (double)x[j];
        const float c = (float)(sum * (double)r * (double)r * (double)r / (double)d);
#pragma omp simd
        for (int64_t j = 0; j < d; j++)
            du[j] = du[j] * w[j] * r - x[j] * c;
    }
}
EMBER_LEVELS(backward_token, (const ember_qknorm_args *args, int64_t token), (args, token))

/* dw of columns [j, j + width) over heads [first, first + n_heads) of every token */
static void weight_block(const ember_qknorm_args *args, int64_t j, int64_t width, int64_t first, int64_t n_heads, float *dw) {
    const int64_t d = args->head_dim;
    const int64_t n_normed = args->n_heads + args->n_kv_heads;
    double sums[COLUMN_BLOCK] = {0};
    for (int64_t token = 0; token < args->n_tokens; token++) {
        for (int64_t head = first; head < first + n_heads; head++) {
            const float *du = args->d_qkv + token * row_width(args) + head * d + j;
            const float *x = args->x_qk + (token * n_normed + head) * d + j;
            const double r = (double)args->rstd[token * n_normed + head];
            for (int64_t c = 0; c < width; c++)
                sums[c] += (double)du[c] * (double)x[c] * r;
        }
    }
    for (int64_t c = 0; c < width; c++)
        dw[j + c] += (float)sums[c];
}

ember_status ember_qknorm_backward_cpu(ember_backend *backend, const ember_qknorm_args *args) {
    void (*run)(const ember_qknorm_args *, int64_t) = EMBER_LEVEL(backend, backward_token);
    const int64_t d = args->head_dim;
#pragma omp parallel num_threads(backend->n_threads)
    {
#pragma omp for schedule(static) /* before dx replaces du; the loop ends with a barrier */
        for (int64_t j = 0; j < d; j += COLUMN_BLOCK) {
            const int64_t width = ember_min64(COLUMN_BLOCK, d - j);
            weight_block(args, j, width, 0, args->n_heads, args->d_q_weight);
            weight_block(args, j, width, args->n_heads, args->n_kv_heads, args->d_k_weight);
        }
#pragma omp for schedule(static)
        for (int64_t token = 0; token < args->n_tokens; token++)
            run(args, token);
    }
    return EMBER_OK;
}
