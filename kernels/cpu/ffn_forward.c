/* ffn_forward.c
 * Math   on the support S of a token: up_k = x . U[k] (gated), h_k = act(g_k) up_k, y = sum_k h_k D[k].
 * Shapes x, y [M, d]; U, D [h, d]; support as in ffn_cpu.h.
 * Map    one parallel region: gate product and packing, scan, then blocks of tokens. Inside a block the neurons are
 *        walked in slices, so that the rows of U and D of a slice are read once from memory for all its
 *        tokens. Few tokens: the threads share a token, by entries for up, by columns for down.
 * Cost   4 nnz d FLOP (gated; plain 2), rows out of the last-level cache at low density.
 * Order  up_k is one dot product; y sums k ascending from zero, whatever the slice, block or thread;
 *        L1 sums k ascending in double, then tokens ascending.
 * Limits checked in ffn_cpu.c. */
#include "kernels/cpu/ffn_run.h"

#include <omp.h>
#include <string.h>

#include "lib/base/status.h"

/* ---- statistics */

void ffn_clear_counts(const ffn_run *run) {
    if (run->a->fire_count) memset(ffn_thread_counts(run, omp_get_thread_num()), 0, (size_t)run->h * sizeof(uint32_t));
}

void ffn_merge_counts(const ffn_run *run) {
    if (!run->a->fire_count) return;
    const int n_threads = omp_get_num_threads();
#pragma omp for schedule(static)
    for (int64_t j = 0; j < run->h; j++) {
        uint64_t count = 0;
        for (int thread = 0; thread < n_threads; thread++)
            count += ffn_thread_counts(run, thread)[j];
        run->a->fire_count[j] += count;
    }
}

void ffn_sum_stats(const ember_ffn_args *a, const int64_t *row_start, const double *token_l1) {
    uint64_t l0 = 0;
    double l1 = 0.0;
    for (int64_t t = 0; t < a->shape.n_tokens; t++) {
        if (!ffn_is_input(a, t)) continue;
        if (row_start) l0 += (uint64_t)(row_start[t + 1] - row_start[t]);
        l1 += token_l1[t];
    }
    if (a->l0_sum) *a->l0_sum += l0;
    if (a->l1_sum) *a->l1_sum += l1;
}

static void count_row(const ffn_run *run, int64_t t) {
    const ember_ffn_args *a = run->a;
    const bool input = ffn_is_input(a, t);
    const int64_t start = run->saved.row_start[t];
    const int64_t end = run->saved.row_start[t + 1];
    if (a->token_l0) a->token_l0[t] = input ? (uint32_t)(end - start) : 0;
    if (!a->fire_count || !input) return;
    uint32_t *counts = ffn_thread_counts(run, omp_get_thread_num());
    for (int64_t k = start; k < end; k++)
        counts[run->saved.neurons[k]]++;
}

/* ---- the two products */

/* up of entries [begin, end) of token t into the saved support; returns entries multiplied. */
static int64_t up_entries(const ffn_run *run, int64_t t, int64_t begin, int64_t end) {
    if (!run->gated) return 0;
    const float *rows[FFN_LIST];
    int64_t done = 0;
    for (int64_t k = begin; k < end; k += FFN_LIST) {
        const int64_t n = ember_min64(FFN_LIST, end - k);
        for (int64_t i = 0; i < n; i++)
            rows[i] = run->a->up + (int64_t)run->saved.neurons[k + i] * run->d;
        done += run->simd->dots(run->saved.up + k, run->a->x + t * run->d, rows, n, run->d);
    }
    return done;
}

static inline float h_of(const ffn_run *run, int64_t k) {
    const float g = run->saved.g[k];
    const float a = run->squared ? g * g : g;
    return run->gated ? a * run->saved.up[k] : a;
}

/* sum[0..n_columns) += h_k D[k][column..] over entries [begin, end); adds |h| to *l1. */
static int64_t down_entries(const ffn_run *run, float *sum, double *l1, int64_t begin, int64_t end, int64_t column, int64_t n_columns) {
    const float *rows[FFN_LIST];
    float h[FFN_LIST];
    int64_t done = 0;
    for (int64_t k = begin; k < end; k += FFN_LIST) {
        const int64_t n = ember_min64(FFN_LIST, end - k);
        for (int64_t i = 0; i < n; i++) {
            rows[i] = run->a->down + (int64_t)run->saved.neurons[k + i] * run->d + column;
            h[i] = h_of(run, k + i);
            *l1 += (double)fabsf(h[i]);
        }
        done += run->simd->add_rows(sum, h, rows, n, n_columns);
    }
    return done;
}

static void write_y(const ember_ffn_args *a, int64_t at, const float *sum, int64_t n) {
    if (!a->accumulate) {
        memcpy(a->y + at, sum, (size_t)n * sizeof(float));
        return;
    }
    for (int64_t j = 0; j < n; j++)
        a->y[at + j] += sum[j];
}

/* ---- blocks of tokens */

/* Neurons of a slice: as many as the cache holds, but so many that a token has some entries in it. */
static int64_t slice_of(const ffn_run *run) {
    const int64_t nnz = run->saved.row_start[run->m];
    const int64_t cached = FFN_SLICE_BYTES / (run->d * (int64_t)sizeof(float) * (run->gated ? 2 : 1));
    const int64_t dense_enough = FFN_SLICE_ENTRIES * run->m * run->h / ember_max64(nnz, 1);
    return ember_max64(ember_max64(cached, dense_enough), 1);
}

static void consume_block(ffn_run *run, int64_t first, int64_t n_tokens, int64_t slice) {
    float *sums = ffn_thread_block(run, omp_get_thread_num());
    int64_t next[FFN_TOKEN_BLOCK];
    double l1[FFN_TOKEN_BLOCK] = {0.0};
    int64_t n_up = 0;
    int64_t n_down = 0;
    for (int64_t i = 0; i < n_tokens; i++) {
        ffn_convert_row(run, first + i);
        count_row(run, first + i);
        next[i] = run->saved.row_start[first + i];
    }
    memset(sums, 0, (size_t)(n_tokens * run->d) * sizeof(float));
    for (int64_t bound = slice; bound - slice < run->h; bound += slice) {
        for (int64_t i = 0; i < n_tokens; i++) {
            const int64_t last = run->saved.row_start[first + i + 1];
            int64_t end = bound >= run->h ? last : next[i];
            while (end < last && run->saved.neurons[end] < bound)
                end++;
            n_up += up_entries(run, first + i, next[i], end);
            n_down += down_entries(run, sums + i * run->d, &l1[i], next[i], end, 0, run->d);
            next[i] = end;
        }
    }
    for (int64_t i = 0; i < n_tokens; i++) {
        run->scratch.token_l1[first + i] = l1[i];
        write_y(run->a, (first + i) * run->d, sums + i * run->d, run->d);
    }
#pragma omp atomic
    run->n_up += n_up;
#pragma omp atomic
    run->n_down += n_down;
}

/* ---- few tokens: all threads on one token */

static void consume_token(ffn_run *run, int64_t t) {
    enum { ENTRIES = 32, COLUMNS = 64 };
    const int64_t start = run->saved.row_start[t];
    const int64_t end = run->saved.row_start[t + 1];
#pragma omp single
    {
        ffn_convert_row(run, t);
        count_row(run, t);
    }
    int64_t n_up = 0;
#pragma omp for schedule(static)
    for (int64_t k = start; k < end; k += ENTRIES)
        n_up += up_entries(run, t, k, ember_min64(k + ENTRIES, end));
    if (n_up > 0) {
#pragma omp atomic
        run->n_up += n_up;
    }
#pragma omp for schedule(static)
    for (int64_t column = 0; column < run->d; column += COLUMNS) {
        float sum[COLUMNS] = {0.0F};
        double l1 = 0.0;
        const int64_t n = ember_min64(COLUMNS, run->d - column);
        const int64_t done = down_entries(run, sum, &l1, start, end, column, n);
        write_y(run->a, t * run->d + column, sum, n);
        if (column == 0) {
            run->scratch.token_l1[t] = l1;
#pragma omp atomic
            run->n_down += done;
        }
    }
}

void ffn_consume(ffn_run *run) {
    const int n_threads = omp_get_num_threads();
    ffn_clear_counts(run);
    if (n_threads > 1 && run->m < 2 * n_threads) {
#pragma omp barrier
        for (int64_t t = 0; t < run->m; t++)
            consume_token(run, t);
    } else {
        const int64_t tokens = ember_max64(1, ember_min64(FFN_TOKEN_BLOCK, run->m / (4 * n_threads)));
        const int64_t slice = slice_of(run);
#pragma omp for schedule(dynamic, 1)
        for (int64_t t = 0; t < run->m; t += tokens)
            consume_block(run, t, ember_min64(tokens, run->m - t), slice);
    }
    ffn_merge_counts(run);
}

/* ---- the pass */

static void prepare_run(ffn_run *run, ember_backend *backend, const ember_ffn_args *a) {
    size_t bytes = 0;
    const int64_t spill_capacity = a->saved->spill_capacity;
    *run = (ffn_run){.backend = backend,
                     .a = a,
                     .simd = ember_simd_table(ember_cpu_isa_of(backend)),
                     .m = a->shape.n_tokens,
                     .d = a->shape.hidden,
                     .h = a->shape.n_neurons,
                     .n_tiles = ember_twell_tiles(a->shape.n_neurons),
                     .slots = ember_twell_words_per_tile(a->shape.compression) - 1,
                     .gated = a->shape.kind == EMBER_FFN_GATED,
                     .squared = a->shape.activation == EMBER_RELU2,
                     .n_threads = ffn_threads(backend, &a->shape)};
    run->saved = ffn_sparse_saved_view(a->saved->block, &a->shape, spill_capacity, &bytes);
    run->scratch = ffn_sparse_scratch_view(ember_cpu_shared_scratch(backend), &a->shape, spill_capacity, &bytes);
    run->transpose = ffn_transpose_scratch_view(ember_cpu_shared_scratch(backend), &a->shape, spill_capacity, &bytes);
    const int64_t wanted = ember_max64(run->m / FFN_TOKEN_BLOCK, 4 * (int64_t)run->n_threads);
    run->transpose.n_blocks = ember_min64(run->transpose.n_blocks, wanted);
}

ember_status ffn_sparse_forward(ember_backend *backend, const ember_ffn_args *a) {
    ffn_run run;
    prepare_run(&run, backend, a);
    ember_ffn_saved *saved = a->saved;
#pragma omp parallel num_threads(run.n_threads)
    {
        ffn_gate_pack(&run);
        ffn_count_rows(&run);
        if (run.spill_used <= saved->spill_capacity) ffn_consume(&run);
    }
    saved->spill_count = run.spill_used;
    saved->nnz = run.saved.row_start[run.m];
    if (saved->spill_count > saved->spill_capacity) {
        return ember_fail(EMBER_E_CAPACITY, "FFN: %lld neurons overflow their tiles, the layer's spill array holds %lld; enlarge it",
                          (long long)saved->spill_count, (long long)saved->spill_capacity);
    }
    saved->entries[EMBER_PASS_UP] = run.n_up;
    saved->entries[EMBER_PASS_DOWN] = run.n_down;
    ffn_sum_stats(a, run.saved.row_start, run.scratch.token_l1);
    return EMBER_OK;
}

ember_status ffn_sparse_backward(ember_backend *backend, const ember_ffn_args *a) {
    ffn_run run;
    prepare_run(&run, backend, a);
#pragma omp parallel num_threads(run.n_threads)
    {
        ffn_transpose_count(&run);
        ffn_input_gradients(&run);
        ffn_weight_gradients(&run);
    }
    a->saved->entries[EMBER_PASS_DH] = run.n_dh;
    a->saved->entries[EMBER_PASS_DX] = run.n_dx;
    a->saved->entries[EMBER_PASS_DU_DG] = run.n_du_dg;
    a->saved->entries[EMBER_PASS_DD] = run.n_dd;
    return EMBER_OK;
}
