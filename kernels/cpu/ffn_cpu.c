/* ffn_cpu.c
 * Math   gated: h = act(x G^T) o (x U^T), y = h D; plain: h = act(x U^T), y = h D; and the gradients (DESIGN section 4).
 * Shapes x, y [M, d]; G, U, D [h, d] neuron-major.
 * Map    legality, memory layout and dispatch; the work is in ffn_dense.c, ffn_gate.c, ffn_forward.c, ffn_backward.c.
 * Cost   dense: 3 + 6 products of 2 M d h FLOP (plain 2 + 4); twell: one, the rest by non-zeros.
 * Order  see those files: the same bits for any number of threads.
 * Limits h <= 65536, M < 2^32; twell: relu or relu2; checked here. */
#include "kernels/cpu/ffn_cpu.h"

#include "kernels/cpu/ffn_run.h"
#include "lib/base/status.h"

/* ---- memory */

enum { DENSE_CHUNK = 1024, DENSE_ELEMENTS = 16 * 1024 * 1024 };

static int64_t words_per_tile(const ember_ffn_shape *shape) {
    return ember_twell_words_per_tile(shape->compression > 0 ? shape->compression : 2);
}

ffn_dense_saved ffn_dense_saved_view(void *block, const ember_ffn_shape *shape, size_t *bytes) {
    ffn_cursor cursor = {.base = block};
    const int64_t n = shape->n_tokens * shape->n_neurons;
    ffn_dense_saved saved = {.g = ffn_take(&cursor, n, sizeof(float))};
    if (shape->kind == EMBER_FFN_GATED) saved.up = ffn_take(&cursor, n, sizeof(float));
    *bytes = cursor.used;
    return saved;
}

/* Everything that fits its tile, and the spill array; never more than all pairs. */
static int64_t entry_capacity(const ember_ffn_shape *shape, int64_t spill_capacity) {
    const int64_t slots = words_per_tile(shape) - 1;
    const int64_t n_full = shape->n_neurons / EMBER_TWELL_TILE;
    const int64_t kept = n_full * slots + ember_min64(shape->n_neurons % EMBER_TWELL_TILE, slots);
    return ember_min64(shape->n_tokens * shape->n_neurons, shape->n_tokens * kept + ember_max64(spill_capacity, 0));
}

ffn_sparse_saved ffn_sparse_saved_view(void *block, const ember_ffn_shape *shape, int64_t spill_capacity, size_t *bytes) {
    ffn_cursor cursor = {.base = block};
    ffn_sparse_saved saved = {.capacity = entry_capacity(shape, spill_capacity)};
    saved.row_start = ffn_take(&cursor, shape->n_tokens + 1, sizeof(int64_t));
    saved.neurons = ffn_take(&cursor, saved.capacity, sizeof(uint16_t));
    saved.g = ffn_take(&cursor, saved.capacity, sizeof(float));
    if (shape->kind == EMBER_FFN_GATED) saved.up = ffn_take(&cursor, saved.capacity, sizeof(float));
    *bytes = cursor.used;
    return saved;
}

ffn_dense_scratch ffn_dense_scratch_view(void *block, const ember_ffn_shape *shape, bool backward, size_t *bytes) {
    ffn_cursor cursor = {.base = block};
    const int64_t wanted = ember_min64(shape->n_tokens, DENSE_CHUNK) * shape->n_neurons;
    const int64_t n = ember_min64(wanted, DENSE_ELEMENTS);
    ffn_dense_scratch scratch = {.chunk = n / ember_max64(shape->n_neurons, 1)};
    scratch.h = ffn_take(&cursor, n, sizeof(float));
    scratch.token_l1 = ffn_take(&cursor, shape->n_tokens, sizeof(double));
    if (backward) {
        scratch.dh = ffn_take(&cursor, n, sizeof(float));
        if (shape->kind == EMBER_FFN_GATED) scratch.dgate = ffn_take(&cursor, n, sizeof(float));
    }
    *bytes = cursor.used;
    return scratch;
}

ffn_sparse_scratch ffn_sparse_scratch_view(void *block, const ember_ffn_shape *shape, int64_t spill_capacity, size_t *bytes) {
    ffn_cursor cursor = {.base = block};
    const int64_t tiles = ember_twell_tiles(shape->n_neurons);
    const int64_t row = tiles * words_per_tile(shape);
    ffn_sparse_scratch scratch = {.words = ffn_take(&cursor, shape->n_tokens * row, sizeof(uint32_t))};
    scratch.values = ffn_take(&cursor, shape->n_tokens * row, sizeof(float));
    scratch.spill_start = ffn_take(&cursor, shape->n_tokens * tiles, sizeof(int64_t));
    scratch.spill_neurons = ffn_take(&cursor, ember_max64(spill_capacity, 0), sizeof(uint32_t));
    scratch.spill_values = ffn_take(&cursor, ember_max64(spill_capacity, 0), sizeof(float));
    scratch.token_l1 = ffn_take(&cursor, shape->n_tokens, sizeof(double));
    *bytes = cursor.used;
    return scratch;
}

ffn_transpose_scratch ffn_transpose_scratch_view(void *block, const ember_ffn_shape *shape, int64_t spill_capacity, size_t *bytes) {
    ffn_cursor cursor = {.base = block};
    ffn_transpose_scratch scratch = {.n_blocks = ember_min64(shape->n_tokens, FFN_MAX_BLOCKS)};
    scratch.neuron_start = ffn_take(&cursor, shape->n_neurons + 1, sizeof(int64_t));
    scratch.offset = ffn_take(&cursor, scratch.n_blocks * shape->n_neurons, sizeof(uint32_t));
    scratch.slots = ffn_take(&cursor, entry_capacity(shape, spill_capacity), sizeof(ffn_slot));
    *bytes = cursor.used;
    return scratch;
}

size_t ffn_thread_bytes(const ember_ffn_shape *shape) {
    const int64_t panel = ember_min64(shape->n_tokens, FFN_GATE_TOKENS) * FFN_GATE_TILES * EMBER_TWELL_TILE;
    const int64_t tokens = ember_min64(shape->n_tokens, FFN_TOKEN_BLOCK);
    const int64_t sums = ember_max64(tokens, 3 * FFN_NEURON_BLOCK) * shape->hidden;
    return ember_cpu_round((size_t)shape->n_neurons * sizeof(uint32_t)) + ember_cpu_round((size_t)ember_max64(panel, sums) * sizeof(float));
}

size_t ember_ffn_saved_bytes_cpu(const ember_ffn_shape *shape, ember_ffn_mode mode, int64_t spill_capacity) {
    size_t bytes = 0;
    if (mode == EMBER_MODE_DENSE) {
        (void)ffn_dense_saved_view(NULL, shape, &bytes);
    } else {
        (void)ffn_sparse_saved_view(NULL, shape, spill_capacity, &bytes);
    }
    return bytes;
}

ember_ffn_support ember_ffn_saved_support(const ember_ffn_saved *saved, const ember_ffn_shape *shape) {
    size_t bytes = 0;
    const ffn_sparse_saved view = ffn_sparse_saved_view(saved->block, shape, saved->spill_capacity, &bytes);
    return (ember_ffn_support){.row_start = view.row_start, .neurons = view.neurons, .g = view.g, .up = view.up};
}

static ember_ffn_shape shape_of(const ember_workspace_shape *shape) {
    return (ember_ffn_shape){.n_tokens = shape->n_tokens,
                             .hidden = shape->hidden,
                             .n_neurons = shape->n_neurons,
                             .kind = shape->ffn_kind,
                             .activation = EMBER_RELU,
                             .compression = shape->compression};
}

static size_t shared_bytes(const ember_ffn_shape *shape, ember_ffn_mode mode, int64_t spill_capacity, bool backward) {
    size_t forward_bytes = 0;
    size_t backward_bytes = 0;
    if (mode == EMBER_MODE_DENSE) {
        (void)ffn_dense_scratch_view(NULL, shape, backward, &forward_bytes);
    } else {
        (void)ffn_sparse_scratch_view(NULL, shape, spill_capacity, &forward_bytes);
        if (backward) (void)ffn_transpose_scratch_view(NULL, shape, spill_capacity, &backward_bytes);
    }
    return forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
}

size_t ember_ffn_thread_scratch_bytes(const ember_workspace_shape *workspace) {
    const ember_ffn_shape shape = shape_of(workspace);
    return ffn_thread_bytes(&shape);
}

size_t ember_ffn_shared_scratch_bytes(const ember_workspace_shape *workspace) {
    const ember_ffn_shape shape = shape_of(workspace);
    const size_t dense = shared_bytes(&shape, EMBER_MODE_DENSE, 0, workspace->training);
    const size_t sparse = shared_bytes(&shape, EMBER_MODE_TWELL, workspace->spill_capacity, workspace->training);
    return dense > sparse ? dense : sparse;
}

/* ---- legality */

static ember_status check_shape(const ember_ffn_args *a) {
    const ember_ffn_shape *shape = &a->shape;
    if (shape->hidden < 1 || shape->hidden > INT32_MAX) {
        return ember_fail(EMBER_E_SHAPE, "FFN: hidden size %lld; 1 to %d work", (long long)shape->hidden, INT32_MAX);
    }
    if (a->mode != EMBER_MODE_DENSE && a->mode != EMBER_MODE_TWELL) {
        return ember_fail(EMBER_E_ARGUMENT, "FFN: mode %d is neither dense nor twell", (int)a->mode);
    }
    if (a->mode == EMBER_MODE_TWELL && shape->activation == EMBER_SILU) {
        return ember_fail(EMBER_E_UNSUPPORTED, "FFN: with silu every neuron fires, so twell has nothing to leave out; use dense, or relu");
    }
    return ember_twell_check(shape->n_tokens, shape->n_neurons, a->mode == EMBER_MODE_TWELL ? shape->compression : 8);
}

static ember_status check_saved(const ember_ffn_args *a, bool backward) {
    const ember_ffn_saved *saved = a->saved;
    const size_t bytes = ember_ffn_saved_bytes_cpu(&a->shape, a->mode, saved->spill_capacity);
    if (saved->spill_capacity < 0 || saved->block_bytes < bytes) {
        return ember_fail(EMBER_E_STATE, "FFN: the saved block has %zu bytes, this shape and a spill array of %lld need %zu",
                          saved->block_bytes, (long long)saved->spill_capacity, bytes);
    }
    if (backward && saved->mode != a->mode) {
        return ember_fail(EMBER_E_STATE, "FFN: backward in mode %d after a forward in mode %d", (int)a->mode, (int)saved->mode);
    }
    return EMBER_OK;
}

static ember_status check(ember_backend *backend, const ember_ffn_args *a, bool backward) {
    EMBER_TRY(check_shape(a));
    EMBER_TRY(check_saved(a, backward));
    return ember_cpu_need(backend, "FFN", ffn_thread_bytes(&a->shape),
                          shared_bytes(&a->shape, a->mode, a->saved->spill_capacity, backward));
}

/* ---- dispatch */

ember_status ember_ffn_forward_cpu(ember_backend *backend, const ember_ffn_args *a) {
    EMBER_TRY(check(backend, a, false));
    ember_ffn_saved *saved = a->saved;
    saved->mode = a->mode;
    saved->nnz = 0;
    saved->spill_count = 0;
    for (int i = 0; i < EMBER_N_PASSES; i++)
        saved->entries[i] = 0;
    return a->mode == EMBER_MODE_DENSE ? ffn_dense_forward(backend, a) : ffn_sparse_forward(backend, a);
}

ember_status ember_ffn_backward_cpu(ember_backend *backend, const ember_ffn_args *a) {
    EMBER_TRY(check(backend, a, true));
    return a->mode == EMBER_MODE_DENSE ? ffn_dense_backward(backend, a) : ffn_sparse_backward(backend, a);
}
