/* sampler.h - the next token from logits. */
#ifndef EMBER_SAMPLER_H
#define EMBER_SAMPLER_H

#include "lib/base/memory.h"

typedef struct ember_sampler {
    double temperature; /* >= 0; 0: greedy */
    int64_t top_k;      /* >= 0; 0 or >= n: off */
    double top_p;       /* 0..1; 1: off */
    uint64_t seed;
    uint64_t index; /* tokens drawn so far: the Philox counter */
} ember_sampler;

/* EMBER_E_ARGUMENT naming the option, its value and its range. */
EMBER_CHECKED ember_status ember_sampler_check(const ember_sampler *sampler);
/* `n` logits (read only; rows beyond the tokenizer are cut off by a smaller n); `scratch` holds n
 * (float, int32) pairs, 8 n bytes. Advances index. Non-finite logits: EMBER_E_NUMERIC. */
EMBER_CHECKED ember_status ember_sample(ember_sampler *sampler, const float *logits, int64_t n, void *scratch, int32_t *token);

#endif
