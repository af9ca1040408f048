/* shuffle.h - the order of a pass: a permutation of [0, n) computed from (seed, source, pass, index),
 * with no table and no state. */
#ifndef EMBER_SHUFFLE_H
#define EMBER_SHUFFLE_H

#include <stdint.h>

typedef struct ember_shuffle {
    uint64_t n;
    uint64_t key;
    uint32_t half_bits; /* the network permutes [0, 4^half_bits) */
} ember_shuffle;

/* n >= 1, up to 2^62. The same (seed, source, pass, n) give the same permutation on every machine. */
ember_shuffle ember_shuffle_make(uint64_t seed, uint64_t source, uint64_t pass, uint64_t n);
/* Image of `index` < n: a bijection of [0, n). */
uint64_t ember_shuffle_at(const ember_shuffle *shuffle, uint64_t index);

#endif
