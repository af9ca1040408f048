/* ffn_run.h - what the files of the CPU's feed-forward share: one call's state and its memory. */
#ifndef EMBER_FFN_RUN_H
#define EMBER_FFN_RUN_H

#include <math.h>

#include "kernels/cpu/backend_cpu.h"
#include "kernels/cpu/ffn_cpu.h"
#include "kernels/cpu/twell_cpu.h"

enum {
    FFN_LIST = 256,               /* rows handed to a vector routine at once */
    FFN_TOKEN_BLOCK = 128,        /* most tokens whose sums one thread holds: each row of a slice serves them all */
    FFN_NEURON_BLOCK = 16,        /* neurons whose gradient sums one thread holds */
    FFN_MAX_BLOCKS = 64,          /* token blocks of the transpose */
    FFN_SLICE_BYTES = 384 * 1024, /* rows that should stay in the second-level cache of a core ... */
    FFN_SLICE_ENTRIES = 8,        /* ... but a list is not cut shorter than this on average */
    FFN_GATE_TOKENS = 512,        /* largest panel of the gate product: 76 GFLOP/s a core (Zen 3, BLIS), 69 at 256 */
    FFN_GATE_TILES = 1,           /* its width in tiles of 256 neurons */
    FFN_SERIAL_PRODUCTS = 1 << 17,
    FFN_DECODE_TOKENS = 8 /* up to here the gate product is dot products, without packing */
};

/* Walks a block of memory, or only counts when base is NULL. */
typedef struct ffn_cursor {
    unsigned char *base;
    size_t used;
} ffn_cursor;

static inline void *ffn_take(ffn_cursor *cursor, int64_t n, size_t size) {
    void *at = cursor->base ? cursor->base + cursor->used : NULL;
    cursor->used += ember_cpu_round((size_t)n * size);
    return at;
}

/* ---- saved->block */
typedef struct ffn_dense_saved {
    float *g;  /* [M, h] */
    float *up; /* [M, h]; NULL for plain */
} ffn_dense_saved;

typedef struct ffn_sparse_saved {
    int64_t capacity;   /* entries */
    int64_t *row_start; /* [M + 1] */
    uint16_t *neurons;  /* [capacity] */
    float *g;           /* [capacity] */
    float *up;          /* [capacity]; NULL for plain */
} ffn_sparse_saved;

/* ---- shared scratch */
typedef struct ffn_dense_scratch {
    int64_t chunk;    /* tokens worked on at once */
    float *h;         /* [chunk, h] */
    double *token_l1; /* [M] forward */
    float *dh;        /* [chunk, h] backward: dH, then dUp (plain: the gradient of the pre-activation) */
    float *dgate;     /* [chunk, h] backward, gated */
} ffn_dense_scratch;

typedef struct ffn_sparse_scratch {
    /* forward: TwELL of the whole call, alive from the gate product to the rows */
    uint32_t *words;      /* [M, tiles * S] */
    float *values;        /* [M, tiles * S] */
    int64_t *spill_start; /* [M, tiles] place of a tile's overflow in the spill array */
    uint32_t *spill_neurons;
    float *spill_values;
    double *token_l1; /* [M] */
} ffn_sparse_scratch;

/* One firing of a neuron, in the order of neurons, then tokens. */
typedef struct ffn_slot {
    uint32_t token;
    float h;
    float d_up;   /* plain: gradient of the pre-activation */
    float d_gate; /* gated */
} ffn_slot;

typedef struct ffn_transpose_scratch {
    int64_t n_blocks;      /* in use: at most what `offset` has room for */
    int64_t *neuron_start; /* [h + 1] */
    uint32_t *offset;      /* [blocks, h] next free slot of a block within its neuron */
    ffn_slot *slots;       /* [capacity] */
} ffn_transpose_scratch;

/* ---- one call */
typedef struct ffn_run {
    ember_backend *backend;
    const ember_ffn_args *a;
    const ember_simd *simd;
    int64_t m; /* tokens */
    int64_t d;
    int64_t h;
    int64_t n_tiles;
    int64_t slots; /* S - 1 */
    bool gated;
    bool squared; /* relu2 */
    int n_threads;
    ffn_sparse_saved saved;
    ffn_sparse_scratch scratch;
    ffn_transpose_scratch transpose;
    int64_t spill_used; /* places taken in the spill array, also past its end */
    int64_t n_up;       /* entries multiplied, by pass */
    int64_t n_down;
    int64_t n_dh;
    int64_t n_dx;
    int64_t n_du_dg;
    int64_t n_dd;
} ffn_run;

static inline float ffn_sign(float h) { return (float)(h > 0.0F) - (float)(h < 0.0F); }
static inline bool ffn_is_input(const ember_ffn_args *a, int64_t token) { return !a->mask || a->mask[token] != 0; }

/* One thread where starting the others would take longer than the work; no result depends on it. */
static inline int ffn_threads(const ember_backend *backend, const ember_ffn_shape *shape) {
    const double n_products = (double)shape->n_tokens * (double)shape->hidden * (double)shape->n_neurons;
    return n_products < (double)FFN_SERIAL_PRODUCTS ? 1 : backend->n_threads;
}

/* Thread scratch: counters of firings, then what the phase at hand needs. */
static inline uint32_t *ffn_thread_counts(const ffn_run *run, int thread) { return ember_cpu_scratch(run->backend, thread); }
static inline float *ffn_thread_block(const ffn_run *run, int thread) {
    return (float *)(void *)((unsigned char *)ember_cpu_scratch(run->backend, thread) + ember_cpu_round((size_t)run->h * sizeof(uint32_t)));
}

ffn_dense_saved ffn_dense_saved_view(void *block, const ember_ffn_shape *shape, size_t *bytes);
ffn_sparse_saved ffn_sparse_saved_view(void *block, const ember_ffn_shape *shape, int64_t spill_capacity, size_t *bytes);
ffn_dense_scratch ffn_dense_scratch_view(void *block, const ember_ffn_shape *shape, bool backward, size_t *bytes);
ffn_sparse_scratch ffn_sparse_scratch_view(void *block, const ember_ffn_shape *shape, int64_t spill_capacity, size_t *bytes);
ffn_transpose_scratch ffn_transpose_scratch_view(void *block, const ember_ffn_shape *shape, int64_t spill_capacity, size_t *bytes);
size_t ffn_thread_bytes(const ember_ffn_shape *shape);

/* The phases. Those of the sparse path are called by all threads of one parallel region. */
void ffn_gate_pack(ffn_run *run);
void ffn_count_rows(ffn_run *run);
void ffn_convert_row(const ffn_run *run, int64_t token);
void ffn_consume(ffn_run *run);
ember_status ffn_sparse_forward(ember_backend *backend, const ember_ffn_args *a);
ember_status ffn_sparse_backward(ember_backend *backend, const ember_ffn_args *a);
void ffn_transpose_count(ffn_run *run);
void ffn_input_gradients(ffn_run *run);
void ffn_weight_gradients(ffn_run *run);
ember_status ffn_dense_forward(ember_backend *backend, const ember_ffn_args *a);
ember_status ffn_dense_backward(ember_backend *backend, const ember_ffn_args *a);

/* Adds the threads' counters to fire_count; zeroes them before. Both inside a parallel region. */
void ffn_clear_counts(const ffn_run *run);
void ffn_merge_counts(const ffn_run *run);
/* l1_sum, and l0_sum from row_start (NULL: not), over non-padding tokens, in token order. */
void ffn_sum_stats(const ember_ffn_args *a, const int64_t *row_start, const double *token_l1);

#endif
