/* twell_cpu.h - one tile of one row of TwELL on the CPU; shared by pack and by the FFN's gate pass. */
#ifndef EMBER_TWELL_CPU_H
#define EMBER_TWELL_CPU_H

#include "kernels/cpu/simd_cpu.h"
#include "kernels/twell.h"

/* The firing neurons of a tile, all of them, before they are split into words and spill. */
typedef struct ember_twell_tile {
    int64_t count;
    uint32_t neurons[EMBER_TWELL_TILE + EMBER_SIMD_PAD];
    float values[EMBER_TWELL_TILE + EMBER_SIMD_PAD];
} ember_twell_tile;

static inline int64_t ember_twell_tile_width(int64_t n_neurons, int64_t tile) {
    const int64_t left = n_neurons - tile * EMBER_TWELL_TILE;
    return left < EMBER_TWELL_TILE ? left : EMBER_TWELL_TILE;
}

/* Finds what fires in tile `tile` of the row g [n_neurons] and writes the tile's `slots` = S - 1 first
 * ones as words with values; words past the last one are left as they are. */
static inline void ember_twell_pack_tile(uint32_t *words, float *values, ember_twell_tile *found, const ember_simd *simd, const float *g,
                                         int64_t width, uint32_t first, int64_t slots) {
    found->count = simd->firing(found->neurons, found->values, g, width, first);
    const int64_t kept = found->count < slots ? found->count : slots;
    words[0] = (uint32_t)found->count;
    for (int64_t k = 0; k < kept; k++) {
        words[1 + k] = found->neurons[k];
        values[1 + k] = found->values[k];
    }
}

/* Legal shape, C and threads. */
EMBER_CHECKED ember_status ember_twell_check(int64_t n_tokens, int64_t n_neurons, int64_t compression);

#endif
