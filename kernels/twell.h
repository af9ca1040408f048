/* twell.h - the TwELL format (tile-wise ELLPACK, DESIGN section 4): what the gate product leaves
 * behind instead of a dense [tokens, neurons] array.
 *
 * Columns are cut into ceil(h / 256) tiles; a tile of a row owns S = 256 / C words. Word 0 is the
 * true number of firing neurons of the tile; words 1..S-1 hold one firing neuron each, ascending:
 * low 16 bits its index in the layer, high 16 bits its value as bf16 (0 on the CPU, where a float32
 * array of the same shape holds word k's value at k). What does not fit goes, ascending, to the
 * layer's spill array, sorted by (token, neuron). */
#ifndef EMBER_TWELL_H
#define EMBER_TWELL_H

#include "lib/base/memory.h"

enum { EMBER_TWELL_TILE = 256 };

typedef struct ember_twell_spill {
    uint32_t token;
    uint32_t neuron;
    float value;
} ember_twell_spill;

typedef struct ember_twell {
    int64_t n_tokens;
    int64_t n_neurons;   /* 1..65536 */
    int64_t compression; /* C: 2, 4, 8, 16 */
    uint32_t *words;     /* [n_tokens, n_tiles * S] */
    float *values;       /* [n_tokens, n_tiles * S] */
    ember_twell_spill *spill;
    int64_t spill_capacity;
    int64_t spill_count; /* needed entries; above spill_capacity only after EMBER_E_CAPACITY */
} ember_twell;

/* Compressed sparse rows of the same values. */
typedef struct ember_csr {
    int64_t n_rows;
    int64_t capacity;   /* of columns and values */
    int64_t *row_start; /* [n_rows + 1] */
    uint32_t *columns;  /* ascending in each row */
    float *values;
} ember_csr;

static inline int64_t ember_twell_tiles(int64_t n_neurons) { return (n_neurons + EMBER_TWELL_TILE - 1) / EMBER_TWELL_TILE; }
static inline int64_t ember_twell_words_per_tile(int64_t compression) { return EMBER_TWELL_TILE / compression; }
static inline int64_t ember_twell_words_per_row(int64_t n_neurons, int64_t compression) {
    return ember_twell_tiles(n_neurons) * ember_twell_words_per_tile(compression);
}

/* g [n_tokens, n_neurons] -> packed. A neuron fires unless g <= 0 (NaN fires). EMBER_E_CAPACITY
 * when the spill array is too small; spill_count is then what it needs. */
EMBER_CHECKED ember_status ember_twell_pack(ember_twell *out, const float *g, int n_threads);
/* packed -> dense, zeros where nothing fired. */
EMBER_CHECKED ember_status ember_twell_unpack(float *g, const ember_twell *packed, int n_threads);
/* packed + spill -> rows in ascending order. EMBER_E_CAPACITY when out->capacity is too small. */
EMBER_CHECKED ember_status ember_twell_to_csr(ember_csr *out, const ember_twell *packed, int n_threads);

#endif
