/* synthetic.h - an endless source of token ids with Zipf frequencies, for benchmarks: id i has
 * probability proportional to 1 / (i + 1)^exponent, drawn from Philox, so sequence k is a pure
 * function of (seed, k). */
#ifndef EMBER_SYNTHETIC_H
#define EMBER_SYNTHETIC_H

#include "lib/base/memory.h"

typedef struct ember_synthetic ember_synthetic;

enum { EMBER_SYNTHETIC_MAX_LENGTH = 1 << 24 };

/* Errors: EMBER_E_ARGUMENT for a vocabulary outside 1..2^31-1 or an exponent outside 0..100. */
EMBER_CHECKED ember_status ember_synthetic_create(ember_synthetic **out, uint64_t seed, int64_t vocab_size, double exponent);
void ember_synthetic_free(ember_synthetic *synthetic);
/* Tokens 0 .. n-1 of sequence k; n up to 2^24, k below 2^40. */
void ember_synthetic_read(const ember_synthetic *synthetic, uint64_t k, int64_t n, uint32_t *out);

#endif
