/* revive.h - dead neurons get a new gate row. */
#ifndef EMBER_REVIVE_H
#define EMBER_REVIVE_H

#include "lib/model/model.h"

typedef struct ember_revive_options {
    uint64_t seed;
    double std;   /* of the new row: init.std */
    int64_t step; /* finished steps; part of the random key, so every revival draws anew */
} ember_revive_options;

/* For every dead neuron: its gate row (plain: up row) is drawn from Normal(0, std), the row's two moments are
 * zeroed and it counts as just fired. Its other vectors stay, so the first firings are small.
 * Random numbers: Philox stream = step * 2^32 + EMBER_STREAM_REVIVE + layer, element = neuron * d + column.
 * *n_revived = neurons over all layers. `row` is scratch of hidden floats. */
EMBER_CHECKED ember_status ember_revive(ember_model *model, ember_tracker *tracker, const ember_revive_options *options, float *row,
                                        int64_t *n_revived);

#endif
