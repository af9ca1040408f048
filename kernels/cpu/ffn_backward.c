/* ffn_backward.c
 * Math   on the support, with H = act(g) Up: dH = gY . D[k] + lambda' sign(H); dUp = dH act(g);
 *        dGate = dH Up act'(g); dX = sum_k dUp U[k] + dGate G[k]; dD[j] += sum_t H gY_t; dU[j] += sum_t dUp x_t;
 *        dG[j] += sum_t dGate x_t. plain: one gradient dH act'(g) in the place of dUp, no gate.
 * Shapes gY, x, dX [M, d]; weights and their gradients [h, d]; slots [nnz] by neuron, then token.
 * Map    one transpose for all weight gradients: firings of each neuron counted by block of tokens, scanned,
 *        and filled while dX is made. Then a thread takes a few neurons and sums their rows
 *        in its own cache, tokens in slices whose rows of gY and x stay there too; each is read once a firing.
 * Cost   16 nnz d FLOP (gated), rows out of the last-level cache at low density.
 * Order  a slot's place is the number of earlier tokens that fired the neuron: independent of blocks and
 *        threads. dX sums neurons ascending, weight rows sum tokens ascending, and then add once.
 * Limits checked in ffn_cpu.c. */
#include "kernels/cpu/ffn_run.h"

#include <omp.h>
#include <string.h>

/* First token of a block; blocks hold about equally many entries. */
static int64_t block_start(const ffn_run *run, int64_t block) {
    if (block >= run->transpose.n_blocks) return run->m;
    const int64_t wanted = run->saved.row_start[run->m] / run->transpose.n_blocks * block;
    int64_t low = 0;
    int64_t high = run->m;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (run->saved.row_start[middle] < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void ffn_transpose_count(ffn_run *run) {
    const ffn_transpose_scratch *s = &run->transpose;
#pragma omp for schedule(dynamic, 1)
    for (int64_t block = 0; block < s->n_blocks; block++) {
        uint32_t *counts = s->offset + block * run->h;
        memset(counts, 0, (size_t)run->h * sizeof *counts);
        const int64_t end = run->saved.row_start[block_start(run, block + 1)];
        for (int64_t k = run->saved.row_start[block_start(run, block)]; k < end; k++)
            counts[run->saved.neurons[k]]++;
    }
#pragma omp for schedule(static)
    for (int64_t j = 0; j < run->h; j++) {
        uint32_t before = 0;
        for (int64_t block = 0; block < s->n_blocks; block++) {
            const uint32_t count = s->offset[block * run->h + j];
            s->offset[block * run->h + j] = before;
            before += count;
        }
        s->neuron_start[j + 1] = before;
    }
#pragma omp single
    {
        s->neuron_start[0] = 0;
        for (int64_t j = 0; j < run->h; j++)
            s->neuron_start[j + 1] += s->neuron_start[j];
    }
}

/* ---- by token: dH, its two products with act and Up, dX, and the slots */

/* From dH's product to the gradients of one entry; also its slot. */
static void entry_gradients(const ffn_run *run, float *pair, uint32_t *offset, int64_t t, int64_t k, float dh, float l1_scale) {
    const float g = run->saved.g[k];
    const float up = run->gated ? run->saved.up[k] : 1.0F;
    const float act = run->squared ? g * g : g;
    const float slope = run->squared ? 2.0F * g : 1.0F;
    const float h = run->gated ? act * up : act;
    const float full = dh + l1_scale * ffn_sign(h);
    pair[0] = run->gated ? full * act : full * slope;
    pair[1] = run->gated ? full * up * slope : 0.0F;
    const uint16_t j = run->saved.neurons[k];
    run->transpose.slots[run->transpose.neuron_start[j] + offset[j]++] =
        (ffn_slot){.token = (uint32_t)t, .h = h, .d_up = pair[0], .d_gate = pair[1]};
}

/* Entries [begin, end) of token t. */
static void token_entries(const ffn_run *run, uint32_t *offset, int64_t t, int64_t begin, int64_t end, int64_t *n_dh, int64_t *n_dx) {
    const ember_ffn_args *a = run->a;
    const float l1_scale = ffn_is_input(a, t) ? a->l1_scale : 0.0F;
    const float *rows[2 * FFN_LIST];
    float dh[FFN_LIST];
    float gradients[2 * FFN_LIST + 1];
    const int64_t step = run->gated ? 2 : 1;
    for (int64_t k = begin; k < end; k += FFN_LIST) {
        const int64_t n = ember_min64(FFN_LIST, end - k);
        for (int64_t i = 0; i < n; i++)
            rows[i] = a->down + (int64_t)run->saved.neurons[k + i] * run->d;
        *n_dh += run->simd->dots(dh, a->dy + t * run->d, rows, n, run->d);
        for (int64_t i = 0; i < n; i++) {
            entry_gradients(run, gradients + i * step, offset, t, k + i, dh[i], l1_scale);
            rows[i * step] = a->up + (int64_t)run->saved.neurons[k + i] * run->d;
            if (run->gated) rows[i * step + 1] = a->gate + (int64_t)run->saved.neurons[k + i] * run->d;
        }
        *n_dx += run->simd->add_rows(a->dx + t * run->d, gradients, rows, n * step, run->d) / step;
    }
}

static int64_t slice_of(const ffn_run *run) {
    const int64_t nnz = run->saved.row_start[run->m];
    const int64_t cached = FFN_SLICE_BYTES / (run->d * (int64_t)sizeof(float) * (run->gated ? 3 : 2));
    const int64_t dense_enough = FFN_SLICE_ENTRIES * run->m * run->h / ember_max64(nnz, 1);
    return ember_max64(ember_max64(cached, dense_enough), 1);
}

void ffn_input_gradients(ffn_run *run) {
    const int64_t slice = slice_of(run);
#pragma omp for schedule(dynamic, 1)
    for (int64_t block = 0; block < run->transpose.n_blocks; block++) {
        uint32_t *offset = run->transpose.offset + block * run->h;
        const int64_t block_end = block_start(run, block + 1);
        int64_t n_dh = 0;
        int64_t n_dx = 0;
        for (int64_t first = block_start(run, block); first < block_end; first += FFN_TOKEN_BLOCK) {
            const int64_t n_tokens = ember_min64(FFN_TOKEN_BLOCK, block_end - first);
            int64_t next[FFN_TOKEN_BLOCK];
            for (int64_t i = 0; i < n_tokens; i++)
                next[i] = run->saved.row_start[first + i];
            memset(run->a->dx + first * run->d, 0, (size_t)(n_tokens * run->d) * sizeof(float));
            for (int64_t bound = slice; bound - slice < run->h; bound += slice) {
                for (int64_t i = 0; i < n_tokens; i++) {
                    const int64_t last = run->saved.row_start[first + i + 1];
                    int64_t end = bound >= run->h ? last : next[i];
                    while (end < last && run->saved.neurons[end] < bound)
                        end++;
                    token_entries(run, offset, first + i, next[i], end, &n_dh, &n_dx);
                    next[i] = end;
                }
            }
        }
#pragma omp atomic
        run->n_dh += n_dh;
#pragma omp atomic
        run->n_dx += n_dx;
    }
}

/* ---- by neuron: the weight gradients */

static void add_to(float *row, const float *sum, int64_t d) {
    for (int64_t j = 0; j < d; j++)
        row[j] += sum[j];
}

/* Sums [3, d]: down, up, gate. */
static void neuron_slots(const ffn_run *run, float *sums, int64_t begin, int64_t end, int64_t *n_dd, int64_t *n_du_dg) {
    const ember_ffn_args *a = run->a;
    const int64_t d = run->d;
    const float *dy_rows[FFN_LIST];
    const float *x_rows[FFN_LIST];
    float h[FFN_LIST];
    float d_up[FFN_LIST];
    float d_gate[FFN_LIST];
    for (int64_t k = begin; k < end; k += FFN_LIST) {
        const int64_t n = ember_min64(FFN_LIST, end - k);
        for (int64_t i = 0; i < n; i++) {
            const ffn_slot slot = run->transpose.slots[k + i];
            dy_rows[i] = a->dy + (int64_t)slot.token * d;
            x_rows[i] = a->x + (int64_t)slot.token * d;
            h[i] = slot.h;
            d_up[i] = slot.d_up;
            d_gate[i] = slot.d_gate;
        }
        *n_dd += run->simd->add_rows(sums, h, dy_rows, n, d);
        *n_du_dg += run->gated ? run->simd->add_rows_twice(sums + d, sums + 2 * d, d_up, d_gate, x_rows, n, d)
                               : run->simd->add_rows(sums + d, d_up, x_rows, n, d);
    }
}

/* Tokens of a slice: rows of gY and x that the cache holds, but so many that a neuron has some of them. */
static int64_t token_slice(const ffn_run *run) {
    const int64_t nnz = run->saved.row_start[run->m];
    const int64_t cached = FFN_SLICE_BYTES / (2 * run->d * (int64_t)sizeof(float));
    const int64_t dense_enough = FFN_SLICE_ENTRIES * run->m * run->h / ember_max64(nnz, 1);
    return ember_max64(ember_max64(cached, dense_enough), 1);
}

/* Neurons [first, first + n). */
static void neuron_block(const ffn_run *run, float *sums, int64_t first, int64_t n, int64_t slice, int64_t *n_dd, int64_t *n_du_dg) {
    const ember_ffn_args *a = run->a;
    const int64_t *start = run->transpose.neuron_start + first;
    const int64_t d = run->d;
    int64_t next[FFN_NEURON_BLOCK];
    for (int64_t i = 0; i < n; i++)
        next[i] = start[i];
    memset(sums, 0, (size_t)(n * 3 * d) * sizeof *sums);
    for (int64_t bound = slice; bound - slice < run->m; bound += slice) {
        for (int64_t i = 0; i < n; i++) {
            int64_t end = bound >= run->m ? start[i + 1] : next[i];
            while (end < start[i + 1] && run->transpose.slots[end].token < bound)
                end++;
            neuron_slots(run, sums + i * 3 * d, next[i], end, n_dd, n_du_dg);
            next[i] = end;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        if (start[i] == start[i + 1]) continue;
        const float *sum = sums + i * 3 * d;
        add_to(a->d_down + (first + i) * d, sum, d);
        add_to(a->d_up + (first + i) * d, sum + d, d);
        if (run->gated) add_to(a->d_gate + (first + i) * d, sum + 2 * d, d);
    }
}

void ffn_weight_gradients(ffn_run *run) {
    float *sums = ffn_thread_block(run, omp_get_thread_num());
    const int64_t slice = token_slice(run);
    int64_t n_dd = 0;
    int64_t n_du_dg = 0;
#pragma omp for schedule(dynamic, 1)
    for (int64_t j = 0; j < run->h; j += FFN_NEURON_BLOCK) {
        neuron_block(run, sums, j, ember_min64(FFN_NEURON_BLOCK, run->h - j), slice, &n_dd, &n_du_dg);
    }
#pragma omp atomic
    run->n_dd += n_dd;
#pragma omp atomic
    run->n_du_dg += n_du_dg;
}
