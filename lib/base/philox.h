/* philox.h - Philox4x32-10, the counter-based generator behind every random number of Ember.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 * key = seed, counter = (stream, element): value i of stream s is a pure function of (seed, s, i),
 * so it is the same on every thread and device. */
#ifndef EMBER_BASE_PHILOX_H
#define EMBER_BASE_PHILOX_H

#include <stdint.h>

/* Streams; tensors use EMBER_STREAM_TENSOR + their index in the parameter list. */
enum {
    EMBER_STREAM_SHUFFLE = 1,
    EMBER_STREAM_SYNTHETIC = 2,
    EMBER_STREAM_SAMPLER = 3,
    EMBER_STREAM_MIXTURE = 4,
    EMBER_STREAM_REVIVE = 1 << 16,
    EMBER_STREAM_TENSOR = 1 << 24
};

typedef struct ember_philox_block {
    uint32_t word[4];
} ember_philox_block;

/* The four words of counter (stream, block). */
ember_philox_block ember_philox(uint64_t seed, uint64_t stream, uint64_t block);
/* Word (element & 3) of block element >> 2. */
uint32_t ember_philox_u32(uint64_t seed, uint64_t stream, uint64_t element);
/* In (0, 1): (word + 0.5) * 2^-32 computed in double; bitwise equal everywhere. */
double ember_philox_uniform(uint64_t seed, uint64_t stream, uint64_t element);
/* Standard normal, Box-Muller in float32 over the pair (2k, 2k+1) that holds `element`. */
float ember_philox_normal(uint64_t seed, uint64_t stream, uint64_t element);

#endif
