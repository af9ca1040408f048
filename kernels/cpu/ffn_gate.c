/* ffn_gate.c
 * Math   g = x G^T (plain: x U^T), packed as TwELL where it is made; then rows of the support.
 * Shapes x [M, d]; G [h, d]; words, values [M, tiles * S]; support row_start [M + 1], neurons, g [nnz].
 * Map    a task is a panel of up to 512 tokens by one tile of 256 neurons: a single-threaded product
 *        into the thread's scratch, which stays in its cache, then packing. Up to 8 tokens: dot products.
 * Cost   2 M d h FLOP; dense g never exists for more than a panel a thread.
 * Order  the cut depends on the shape alone. A tile's overflow takes its place in the spill array with an atomic
 *        counter: that place differs from run to run, but rows find it through spill_start, and row positions
 *        come from counts and a scan, so nothing that is kept or computed differs.
 * Limits checked in ffn_cpu.c. */
#include "kernels/cpu/ffn_run.h"

#include <omp.h>
#include <string.h>

#include "kernels/cpu/gemm_cpu.h"

typedef struct gate_cut {
    int64_t tokens;
    int64_t n_panels;
    int64_t neurons;
    int64_t n_groups;
} gate_cut;

/* Panels as large as the cache likes, but at least 16 tasks where there are so many. */
static gate_cut cut_of(int64_t m, int64_t h) {
    gate_cut cut = {.tokens = FFN_GATE_TOKENS, .neurons = (int64_t)FFN_GATE_TILES * EMBER_TWELL_TILE};
    cut.n_groups = ember_ceil_div(h, cut.neurons);
    while (cut.tokens > 32 && ember_ceil_div(m, cut.tokens) * cut.n_groups < 16)
        cut.tokens /= 2;
    cut.n_panels = ember_ceil_div(m, cut.tokens);
    return cut;
}

static void decode_product(const ffn_run *run, float *g, const float *weight, int64_t t, int64_t m, int64_t first, int64_t n) {
    const float *rows[EMBER_TWELL_TILE * FFN_GATE_TILES];
    for (int64_t j = 0; j < n; j++)
        rows[j] = weight + (first + j) * run->d;
    for (int64_t i = 0; i < m; i++)
        (void)run->simd->dots(g + i * n, run->a->x + (t + i) * run->d, rows, n, run->d);
}

/* Tile `tile` of token `t`, from g [width]. */
static void pack(ffn_run *run, ember_twell_tile *found, const float *g, int64_t t, int64_t tile) {
    const ffn_sparse_scratch *s = &run->scratch;
    const int64_t words = run->slots + 1;
    const int64_t at = (t * run->n_tiles + tile) * words;
    ember_twell_pack_tile(s->words + at, s->values + at, found, run->simd, g, ember_twell_tile_width(run->h, tile),
                          (uint32_t)(tile * EMBER_TWELL_TILE), run->slots);
    const int64_t over = found->count - run->slots;
    if (over <= 0) return;
    int64_t place = 0;
#pragma omp atomic capture
    {
        place = run->spill_used;
        run->spill_used += over;
    }
    s->spill_start[t * run->n_tiles + tile] = place;
    if (place + over > run->a->saved->spill_capacity) return; /* reported once all is counted */
    memcpy(s->spill_neurons + place, found->neurons + run->slots, (size_t)over * sizeof(uint32_t));
    memcpy(s->spill_values + place, found->values + run->slots, (size_t)over * sizeof(float));
}

static void pack_panel(ffn_run *run, const float *g, int64_t ldg, int64_t t, int64_t m, int64_t first, int64_t n) {
    ember_twell_tile found;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j += EMBER_TWELL_TILE)
            pack(run, &found, g + i * ldg + j, t + i, (first + j) / EMBER_TWELL_TILE);
    }
}

void ffn_gate_pack(ffn_run *run) {
    const ember_ffn_args *a = run->a;
    const float *weight = run->gated ? a->gate : a->up;
    const gate_cut cut = cut_of(run->m, run->h);
    float *g = ffn_thread_block(run, omp_get_thread_num());
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < cut.n_panels * cut.n_groups; task++) {
        const int64_t t = task % cut.n_panels * cut.tokens;
        const int64_t first = task / cut.n_panels * cut.neurons;
        const int64_t m = ember_min64(cut.tokens, run->m - t);
        const int64_t n = ember_min64(cut.neurons, run->h - first);
        if (a->given_g && !a->time_gate) {
            /* nothing to compute */
        } else if (run->m <= FFN_DECODE_TOKENS) {
            decode_product(run, g, weight, t, m, first, n);
        } else {
            ember_sgemm_panel(false, true, m, n, run->d, 1.0F, a->x + t * run->d, run->d, weight + first * run->d, run->d, 0.0F, g, n);
        }
        if (a->given_g) {
            pack_panel(run, a->given_g + t * run->h + first, run->h, t, m, first, n);
        } else {
            pack_panel(run, g, n, t, m, first, n);
        }
    }
}

void ffn_count_rows(ffn_run *run) {
    const ffn_sparse_scratch *s = &run->scratch;
    const int64_t words = run->slots + 1;
#pragma omp for schedule(static)
    for (int64_t t = 0; t < run->m; t++) {
        int64_t count = 0;
        for (int64_t tile = 0; tile < run->n_tiles; tile++)
            count += s->words[(t * run->n_tiles + tile) * words];
        run->saved.row_start[t + 1] = count;
    }
#pragma omp single
    {
        run->saved.row_start[0] = 0;
        for (int64_t t = 0; t < run->m; t++)
            run->saved.row_start[t + 1] += run->saved.row_start[t];
    }
}

void ffn_convert_row(const ffn_run *run, int64_t token) {
    const ffn_sparse_scratch *s = &run->scratch;
    uint16_t *neurons = run->saved.neurons + run->saved.row_start[token];
    float *g = run->saved.g + run->saved.row_start[token];
    for (int64_t tile = 0; tile < run->n_tiles; tile++) {
        const int64_t at = (token * run->n_tiles + tile) * (run->slots + 1);
        const int64_t count = s->words[at];
        const int64_t kept = ember_min64(count, run->slots);
        for (int64_t k = 0; k < kept; k++)
            neurons[k] = (uint16_t)s->words[at + 1 + k];
        memcpy(g, s->values + at + 1, (size_t)kept * sizeof(float));
        neurons += kept;
        g += kept;
        if (count == kept) continue;
        const int64_t place = s->spill_start[token * run->n_tiles + tile];
        for (int64_t k = 0; k < count - kept; k++)
            neurons[k] = (uint16_t)s->spill_neurons[place + k];
        memcpy(g, s->spill_values + place, (size_t)(count - kept) * sizeof(float));
        neurons += count - kept;
        g += count - kept;
    }
}
