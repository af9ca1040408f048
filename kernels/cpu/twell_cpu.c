/* twell_cpu.c
 * Math   packed[t, tile] = the neurons of the tile with !(g <= 0), ascending; twell.h has the format.
 * Shapes g [M, h]; words and values [M, tiles * S]; spill, CSR columns and values by count.
 * Map    tokens are cut into at most 64 blocks; a thread takes a block. Spill and rows are placed by
 *        counting first and a scan over blocks, then a second pass over the tiles that overflow.
 * Cost   reads g once (overflowing tiles twice), writes 8 / C bytes an element: memory-bound.
 * Order  positions follow from counts alone, so the number of threads changes nothing.
 * Limits h <= 65536, C of 2, 4, 8, 16, M < 2^32; checked. */
#include "kernels/cpu/twell_cpu.h"

#include <string.h>

#include "lib/base/hparams.h"
#include "lib/base/status.h"

enum { MAX_BLOCKS = 64 };

typedef struct layout {
    int64_t n_tiles;
    int64_t words; /* S */
    int64_t row;   /* tiles * S */
    int64_t n_blocks;
    int64_t n_tokens;
} layout;

ember_status ember_twell_check(int64_t n_tokens, int64_t n_neurons, int64_t compression) {
    if (n_neurons < 1 || n_neurons > EMBER_MAX_NEURONS) {
        return ember_fail(EMBER_E_SHAPE, "TwELL: %lld neurons; a packed index has 16 bits, so 1 to %d work", (long long)n_neurons,
                          EMBER_MAX_NEURONS);
    }
    if (compression != 2 && compression != 4 && compression != 8 && compression != 16) {
        return ember_fail(EMBER_E_ARGUMENT, "TwELL: compression C = %lld; use 2, 4, 8 or 16", (long long)compression);
    }
    if (n_tokens < 1 || n_tokens > UINT32_MAX) {
        return ember_fail(EMBER_E_SHAPE, "TwELL: %lld tokens; 1 to %lld work", (long long)n_tokens, (long long)UINT32_MAX);
    }
    return EMBER_OK;
}

static layout layout_of(const ember_twell *packed) {
    layout l = {.n_tiles = ember_twell_tiles(packed->n_neurons),
                .words = ember_twell_words_per_tile(packed->compression),
                .row = ember_twell_words_per_row(packed->n_neurons, packed->compression),
                .n_blocks = packed->n_tokens < MAX_BLOCKS ? packed->n_tokens : MAX_BLOCKS,
                .n_tokens = packed->n_tokens};
    return l;
}

static int64_t block_start(const layout *l, int64_t block) { return l->n_tokens * block / l->n_blocks; }

/* One row; returns how many of its neurons do not fit. */
static int64_t pack_row(uint32_t *words, float *values, const layout *l, const ember_simd *simd, const float *g, int64_t n_neurons) {
    ember_twell_tile found;
    int64_t n_spill = 0;
    for (int64_t tile = 0; tile < l->n_tiles; tile++) {
        uint32_t *w = words + tile * l->words;
        float *v = values + tile * l->words;
        const int64_t first = tile * EMBER_TWELL_TILE;
        memset(w, 0, (size_t)l->words * sizeof *w);
        memset(v, 0, (size_t)l->words * sizeof *v);
        ember_twell_pack_tile(w, v, &found, simd, g + first, ember_twell_tile_width(n_neurons, tile), (uint32_t)first, l->words - 1);
        if (found.count > l->words - 1) n_spill += found.count - (l->words - 1);
    }
    return n_spill;
}

/* Writes what pack_row left over; returns the next free place. */
static ember_twell_spill *spill_row(ember_twell_spill *to, const uint32_t *words, const layout *l, const ember_simd *simd, const float *g,
                                    int64_t n_neurons, uint32_t token) {
    ember_twell_tile found;
    for (int64_t tile = 0; tile < l->n_tiles; tile++) {
        if (words[tile * l->words] <= l->words - 1) continue;
        const int64_t first = tile * EMBER_TWELL_TILE;
        found.count = simd->firing(found.neurons, found.values, g + first, ember_twell_tile_width(n_neurons, tile), (uint32_t)first);
        for (int64_t k = l->words - 1; k < found.count; k++) {
            *to++ = (ember_twell_spill){.token = token, .neuron = found.neurons[k], .value = found.values[k]};
        }
    }
    return to;
}

ember_status ember_twell_pack(ember_twell *out, const float *g, int n_threads) {
    EMBER_TRY(ember_twell_check(out->n_tokens, out->n_neurons, out->compression));
    ember_cpu_isa isa = EMBER_ISA_PLAIN;
    EMBER_TRY(ember_cpu_isa_choose(&isa));
    const ember_simd *simd = ember_simd_table(isa);
    const layout l = layout_of(out);
    const int64_t h = out->n_neurons;
    int64_t block_spill[MAX_BLOCKS + 1] = {0};
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 1) if (n_threads > 1)
    for (int64_t b = 0; b < l.n_blocks; b++) {
        int64_t n_spill = 0;
        for (int64_t t = block_start(&l, b); t < block_start(&l, b + 1); t++) {
            n_spill += pack_row(out->words + t * l.row, out->values + t * l.row, &l, simd, g + t * h, h);
        }
        block_spill[b + 1] = n_spill;
    }
    for (int64_t b = 0; b < l.n_blocks; b++)
        block_spill[b + 1] += block_spill[b];
    out->spill_count = block_spill[l.n_blocks];
    if (out->spill_count > out->spill_capacity) {
        return ember_fail(EMBER_E_CAPACITY, "TwELL: %lld neurons overflow their tiles, the spill array holds %lld; enlarge it",
                          (long long)out->spill_count, (long long)out->spill_capacity);
    }
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 1) if (n_threads > 1)
    for (int64_t b = 0; b < l.n_blocks; b++) {
        if (block_spill[b + 1] == block_spill[b]) continue;
        ember_twell_spill *to = out->spill + block_spill[b];
        for (int64_t t = block_start(&l, b); t < block_start(&l, b + 1); t++) {
            to = spill_row(to, out->words + t * l.row, &l, simd, g + t * h, h, (uint32_t)t);
        }
    }
    return EMBER_OK;
}

/* ---- reading. Buffers may come from elsewhere, so counts and indices are checked as they are read. */

static int64_t spill_first(const ember_twell *packed, int64_t token) {
    int64_t low = 0;
    int64_t high = packed->spill_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)packed->spill[middle].token < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t row_count(const ember_twell *packed, const layout *l, int64_t token) {
    int64_t count = 0;
    for (int64_t tile = 0; tile < l->n_tiles; tile++)
        count += packed->words[token * l->row + tile * l->words];
    return count;
}

/* Entry k of a tile, from its words or from *spill (advanced). False when there is none of this tile. */
static bool read_entry(uint32_t *neuron, float *value, const ember_twell *packed, const layout *l, int64_t token, int64_t tile, int64_t k,
                       int64_t *spill) {
    if (k < l->words - 1) {
        const int64_t at = token * l->row + tile * l->words + 1 + k;
        *neuron = packed->words[at] & 0xffffU;
        *value = packed->values[at];
    } else {
        if (*spill >= packed->spill_count || (int64_t)packed->spill[*spill].token != token) return false;
        *neuron = packed->spill[*spill].neuron;
        *value = packed->spill[*spill].value;
        ++*spill;
    }
    return (int64_t)*neuron / EMBER_TWELL_TILE == tile && (int64_t)*neuron < packed->n_neurons;
}

/* All entries of a row, ascending, as a row of a CSR (columns given) or scattered into dense `values`. */
static bool read_row(uint32_t *columns, float *values, const ember_twell *packed, const layout *l, int64_t token) {
    int64_t spill = spill_first(packed, token);
    int64_t n = 0;
    for (int64_t tile = 0; tile < l->n_tiles; tile++) {
        const int64_t count = packed->words[token * l->row + tile * l->words];
        if (count > ember_twell_tile_width(packed->n_neurons, tile)) return false;
        for (int64_t k = 0; k < count; k++) {
            uint32_t neuron = 0;
            float value = 0.0F;
            if (!read_entry(&neuron, &value, packed, l, token, tile, k, &spill)) return false;
            if (columns) columns[n] = neuron;
            values[columns ? n : (int64_t)neuron] = value;
            n++;
        }
    }
    return true;
}

static ember_status check_packed(const ember_twell *packed) {
    EMBER_TRY(ember_twell_check(packed->n_tokens, packed->n_neurons, packed->compression));
    if (packed->spill_count < 0 || packed->spill_count > packed->spill_capacity) {
        return ember_fail(EMBER_E_STATE, "TwELL: %lld spilled neurons in an array of %lld; the pack that made it failed",
                          (long long)packed->spill_count, (long long)packed->spill_capacity);
    }
    return EMBER_OK;
}

static ember_status bad_row(int64_t token) {
    return ember_fail(EMBER_E_FORMAT, "TwELL: the row of token %lld is malformed (a count, an index or the spill array)", (long long)token);
}

ember_status ember_twell_unpack(float *g, const ember_twell *packed, int n_threads) {
    EMBER_TRY(check_packed(packed));
    const layout l = layout_of(packed);
    int64_t bad = packed->n_tokens;
#pragma omp parallel for num_threads(n_threads) schedule(static) reduction(min : bad) if (n_threads > 1)
    for (int64_t t = 0; t < l.n_tokens; t++) {
        float *row = g + t * packed->n_neurons;
        memset(row, 0, (size_t)packed->n_neurons * sizeof *row);
        if (!read_row(NULL, row, packed, &l, t) && t < bad) bad = t;
    }
    return bad < packed->n_tokens ? bad_row(bad) : EMBER_OK;
}

ember_status ember_twell_to_csr(ember_csr *out, const ember_twell *packed, int n_threads) {
    EMBER_TRY(check_packed(packed));
    const layout l = layout_of(packed);
    if (out->n_rows != packed->n_tokens) {
        return ember_fail(EMBER_E_SHAPE, "TwELL to CSR: %lld rows for %lld tokens", (long long)out->n_rows, (long long)packed->n_tokens);
    }
    out->row_start[0] = 0;
    for (int64_t t = 0; t < l.n_tokens; t++)
        out->row_start[t + 1] = out->row_start[t] + row_count(packed, &l, t);
    const int64_t nnz = out->row_start[l.n_tokens];
    if (nnz > out->capacity) {
        return ember_fail(EMBER_E_CAPACITY, "TwELL to CSR: %lld firing neurons, room for %lld; enlarge it", (long long)nnz,
                          (long long)out->capacity);
    }
    int64_t bad = packed->n_tokens;
#pragma omp parallel for num_threads(n_threads) schedule(static) reduction(min : bad) if (n_threads > 1)
    for (int64_t t = 0; t < l.n_tokens; t++) {
        const int64_t start = out->row_start[t];
        if (!read_row(out->columns + start, out->values + start, packed, &l, t) && t < bad) bad = t;
    }
    return bad < packed->n_tokens ? bad_row(bad) : EMBER_OK;
}
