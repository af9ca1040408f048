/* mixture.h - which source gives the k-th sequence, and the how-manieth of that source it is, as a pure
 * function of k: shares are rounded to 1/65536, and a table of one period holds a schedule in which no
 * source is ever a whole sequence ahead of or behind its share. */
#ifndef EMBER_MIXTURE_H
#define EMBER_MIXTURE_H

#include "lib/base/memory.h"

enum { EMBER_MIXTURE_PERIOD = 65536, EMBER_MIXTURE_MAX_SOURCES = 1024 };

typedef struct ember_mixture ember_mixture;

/* Weights are positive and need not sum to 1. Errors: EMBER_E_ARGUMENT for a weight that is not
 * positive and finite, or below 1/65536 of the sum, or more than 1024 sources. */
EMBER_CHECKED ember_status ember_mixture_create(ember_mixture **out, const double *weights, int64_t n_sources);
void ember_mixture_free(ember_mixture *mixture);
/* Sequence k is sequence *position of source *source. */
void ember_mixture_at(const ember_mixture *mixture, uint64_t k, int64_t *source, uint64_t *position);
/* Sequences of `source` among the first k. */
uint64_t ember_mixture_count(const ember_mixture *mixture, uint64_t k, int64_t source);
/* Slots of `source` in a period of 65536. */
uint32_t ember_mixture_share(const ember_mixture *mixture, int64_t source);

#endif
