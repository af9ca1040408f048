/* ffn_dense.c
 * Math   gated: h = act(x G^T) o (x U^T), y = h D; plain: h = act(x U^T), y = h D, over all neurons; a neuron that
 *        does not fire has h = 0 and no gradient, as in the sparse path. Backward: DESIGN section 4.
 * Shapes x, y, gY, dX [M, d]; G, U, D and gradients [h, d]; g and up are kept [M, h].
 * Map    whole products by ember_sgemm; everything elementwise, with the statistics, in one pass a direction,
 *        over chunks of at most 1024 tokens, so that h and dH never exist for a large batch.
 * Cost   3 + 6 products of 2 M d h FLOP (plain 2 + 4).
 * Order  products on fixed panels; weight gradients add chunk by chunk; L1 in eight partial sums by j mod 8,
 *        then tokens ascending.
 * Limits checked in ffn_cpu.c. */
#include <omp.h>

#include "kernels/cpu/ffn_run.h"
#include "kernels/cpu/gemm_cpu.h"
#include "kernels/cpu/levels_cpu.h"

enum { LANES = 8 };

/* ---- elementwise, one token. `up` is NULL for plain. */

static inline __attribute__((always_inline)) float sigmoid(float g) {
    const float e = ember_exp(-fabsf(g));
    const float p = 1.0F / (1.0F + e);
    return g < 0.0F ? e * p : p;
}

/* act(g); 0 where the neuron is silent. NaN passes. */
static inline __attribute__((always_inline)) float act_of(float g, const ember_activation activation) {
    if (activation == EMBER_SILU) return g * sigmoid(g);
    const float a = activation == EMBER_RELU2 ? g * g : g;
    return g <= 0.0F ? 0.0F : a;
}

static inline __attribute__((always_inline)) float slope_of(float g, const ember_activation activation) {
    if (activation == EMBER_SILU) {
        const float s = sigmoid(g);
        return s * (1.0F + g * (1.0F - s));
    }
    const float slope = activation == EMBER_RELU2 ? 2.0F * g : 1.0F;
    return g <= 0.0F ? 0.0F : slope;
}

static inline __attribute__((always_inline)) float h_of(float g, const float *up, int64_t j, const ember_activation activation) {
    const float a = act_of(g, activation);
    if (!up) return a;
    const float h = a * up[j];
    return activation != EMBER_SILU && g <= 0.0F ? 0.0F : h; /* also where up is infinite */
}

EMBER_BODY forward_row(float *h, double *l1, const float *g, const float *up, int64_t n, const ember_activation activation) {
    double lanes[LANES] = {0.0};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            h[j + l] = h_of(g[j + l], up, j + l, activation);
            lanes[l] += (double)fabsf(h[j + l]);
        }
    }
    for (int l = 0; j + l < n; l++) {
        h[j + l] = h_of(g[j + l], up, j + l, activation);
        lanes[l] += (double)fabsf(h[j + l]);
    }
    *l1 = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/* Firing neurons; counts (may be NULL) get one each. */
EMBER_BODY fire_row(int64_t *fired, uint32_t *counts, const float *g, int64_t n, const bool all) {
    int32_t total = 0;
    if (counts) {
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < n; j++) {
            const uint32_t fires = all || !(g[j] <= 0.0F);
            counts[j] += fires;
            total += (int32_t)fires;
        }
    } else {
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < n; j++)
            total += (int32_t)(all || !(g[j] <= 0.0F));
    }
    *fired = total;
}

/* dh holds gY D^T and becomes dUp (plain: the gradient of g); dgate and h are written. */
EMBER_BODY backward_row(float *h, float *dh, float *dgate, const float *g, const float *up, int64_t n, float l1_scale,
                        const ember_activation activation) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const bool silent = activation != EMBER_SILU && g[j] <= 0.0F;
        const float hj = h_of(g[j], up, j, activation);
        const float sign = (float)(hj > 0.0F) - (float)(hj < 0.0F);
        const float full = silent ? 0.0F : dh[j] + l1_scale * sign;
        h[j] = hj;
        if (up) {
            dh[j] = full * act_of(g[j], activation);
            dgate[j] = silent ? 0.0F : full * up[j] * slope_of(g[j], activation);
        } else {
            dh[j] = full * slope_of(g[j], activation);
        }
    }
}

/* The activation becomes a constant, so that the loops above have no branch. */
EMBER_BODY forward_any(float *h, double *l1, const float *g, const float *up, int64_t n, ember_activation activation) {
    switch (activation) {
    case EMBER_RELU: forward_row(h, l1, g, up, n, EMBER_RELU); break;
    case EMBER_RELU2: forward_row(h, l1, g, up, n, EMBER_RELU2); break;
    case EMBER_SILU: forward_row(h, l1, g, up, n, EMBER_SILU); break;
    }
}
EMBER_BODY fire_any(int64_t *fired, uint32_t *counts, const float *g, int64_t n, bool all) {
    if (all) {
        fire_row(fired, counts, g, n, true);
    } else {
        fire_row(fired, counts, g, n, false);
    }
}
EMBER_BODY backward_any(float *h, float *dh, float *dgate, const float *g, const float *up, int64_t n, float l1_scale,
                        ember_activation activation) {
    switch (activation) {
    case EMBER_RELU: backward_row(h, dh, dgate, g, up, n, l1_scale, EMBER_RELU); break;
    case EMBER_RELU2: backward_row(h, dh, dgate, g, up, n, l1_scale, EMBER_RELU2); break;
    case EMBER_SILU: backward_row(h, dh, dgate, g, up, n, l1_scale, EMBER_SILU); break;
    }
}
EMBER_LEVELS(forward_any, (float *h, double *l1, const float *g, const float *up, int64_t n, ember_activation activation),
             (h, l1, g, up, n, activation))
EMBER_LEVELS(fire_any, (int64_t * fired, uint32_t *counts, const float *g, int64_t n, bool all), (fired, counts, g, n, all))
EMBER_LEVELS(backward_any,
             (float *h, float *dh, float *dgate, const float *g, const float *up, int64_t n, float l1_scale, ember_activation activation),
             (h, dh, dgate, g, up, n, l1_scale, activation))

/* ---- forward */

static void products_to_saved(ember_backend *backend, const ember_ffn_args *a, ffn_dense_saved saved) {
    const int64_t m = a->shape.n_tokens;
    const int64_t d = a->shape.hidden;
    const int64_t h = a->shape.n_neurons;
    const bool gated = a->shape.kind == EMBER_FFN_GATED;
    if (!a->given_g || a->time_gate) {
        ember_sgemm(backend, false, true, m, h, d, 1.0F, a->x, d, gated ? a->gate : a->up, d, 0.0F, saved.g, h);
    }
    if (a->given_g) {
#pragma omp parallel for num_threads(backend->n_threads) schedule(static)
        for (int64_t t = 0; t < m; t++)
            memcpy(saved.g + t * h, a->given_g + t * h, (size_t)h * sizeof(float));
    }
    if (gated) ember_sgemm(backend, false, true, m, h, d, 1.0F, a->x, d, a->up, d, 0.0F, saved.up, h);
}

/* Values of tokens [first, first + n) and their statistics; returns firing pairs. */
static int64_t forward_chunk(const ffn_run *run, ffn_dense_saved saved, ffn_dense_scratch scratch, int64_t first, int64_t n) {
    const ember_ffn_args *a = run->a;
    const int64_t h = run->h;
    const bool all = a->shape.activation == EMBER_SILU;
    int64_t nnz = 0;
#pragma omp parallel num_threads(run->n_threads) reduction(+ : nnz)
    {
        uint32_t *counts = a->fire_count ? ffn_thread_counts(run, omp_get_thread_num()) : NULL;
        ffn_clear_counts(run);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = first + i;
            const bool input = ffn_is_input(a, t);
            const float *up = saved.up ? saved.up + t * h : NULL;
            int64_t fired = 0;
            EMBER_LEVEL(run->backend, forward_any)(scratch.h + i * h, &scratch.token_l1[t], saved.g + t * h, up, h, a->shape.activation);
            EMBER_LEVEL(run->backend, fire_any)(&fired, input ? counts : NULL, saved.g + t * h, h, all);
            nnz += fired;
            if (a->token_l0) a->token_l0[t] = input ? (uint32_t)fired : 0;
            if (a->l0_sum && input) {
#pragma omp atomic
                *a->l0_sum += (uint64_t)fired;
            }
        }
        ffn_merge_counts(run);
    }
    return nnz;
}

static ffn_run run_of(ember_backend *backend, const ember_ffn_args *a) {
    return (ffn_run){.backend = backend,
                     .a = a,
                     .m = a->shape.n_tokens,
                     .d = a->shape.hidden,
                     .h = a->shape.n_neurons,
                     .gated = a->shape.kind == EMBER_FFN_GATED,
                     .n_threads = ffn_threads(backend, &a->shape)};
}

ember_status ffn_dense_forward(ember_backend *backend, const ember_ffn_args *a) {
    size_t bytes = 0;
    const ffn_run run = run_of(backend, a);
    const ffn_dense_saved saved = ffn_dense_saved_view(a->saved->block, &a->shape, &bytes);
    const ffn_dense_scratch scratch = ffn_dense_scratch_view(ember_cpu_shared_scratch(backend), &a->shape, false, &bytes);
    products_to_saved(backend, a, saved);
    for (int64_t first = 0; first < run.m; first += scratch.chunk) {
        const int64_t n = ember_min64(scratch.chunk, run.m - first);
        a->saved->nnz += forward_chunk(&run, saved, scratch, first, n);
        ember_sgemm(backend, false, false, n, run.d, run.h, 1.0F, scratch.h, run.h, a->down, run.d, a->accumulate ? 1.0F : 0.0F,
                    a->y + first * run.d, run.d);
    }
    ffn_sum_stats(a, NULL, scratch.token_l1);
    return EMBER_OK;
}

/* ---- backward */

static void backward_chunk(const ffn_run *run, ffn_dense_saved saved, ffn_dense_scratch scratch, int64_t first, int64_t n) {
    const ember_ffn_args *a = run->a;
    const int64_t h = run->h;
#pragma omp parallel for num_threads(run->n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = first + i;
        EMBER_LEVEL(run->backend, backward_any)
        (scratch.h + i * h, scratch.dh + i * h, scratch.dgate ? scratch.dgate + i * h : NULL, saved.g + t * h,
         saved.up ? saved.up + t * h : NULL, h, ffn_is_input(a, t) ? a->l1_scale : 0.0F, a->shape.activation);
    }
}

ember_status ffn_dense_backward(ember_backend *backend, const ember_ffn_args *a) {
    size_t bytes = 0;
    const ffn_run run = run_of(backend, a);
    const ffn_dense_saved saved = ffn_dense_saved_view(a->saved->block, &a->shape, &bytes);
    const ffn_dense_scratch s = ffn_dense_scratch_view(ember_cpu_shared_scratch(backend), &a->shape, true, &bytes);
    const int64_t d = run.d;
    const int64_t h = run.h;
    for (int64_t first = 0; first < run.m; first += s.chunk) {
        const int64_t n = ember_min64(s.chunk, run.m - first);
        const float *x = a->x + first * d;
        const float *dy = a->dy + first * d;
        float *dx = a->dx + first * d;
        ember_sgemm(backend, false, true, n, h, d, 1.0F, dy, d, a->down, d, 0.0F, s.dh, h);
        backward_chunk(&run, saved, s, first, n);
        ember_sgemm(backend, true, false, h, d, n, 1.0F, s.h, h, dy, d, 1.0F, a->d_down, d);
        ember_sgemm(backend, true, false, h, d, n, 1.0F, s.dh, h, x, d, 1.0F, a->d_up, d);
        ember_sgemm(backend, false, false, n, d, h, 1.0F, s.dh, h, a->up, d, 0.0F, dx, d);
        if (!run.gated) continue;
        ember_sgemm(backend, true, false, h, d, n, 1.0F, s.dgate, h, x, d, 1.0F, a->d_gate, d);
        ember_sgemm(backend, false, false, n, d, h, 1.0F, s.dgate, h, a->gate, d, 1.0F, dx, d);
    }
    return EMBER_OK;
}
