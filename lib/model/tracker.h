/* tracker.h - which neuron fired how often and when (DESIGN section 3, definitions). */
#ifndef EMBER_TRACKER_H
#define EMBER_TRACKER_H

#include "lib/base/hparams.h"

enum { EMBER_TRACKER_BLOCKS = 16 };

typedef struct ember_tracker_options {
    int64_t dead_after_tokens;
    int64_t window_tokens;
    int64_t tokens_per_step; /* batch * sequence: fixes the window's steps, ceil(window / this) */
} ember_tracker_options;

/* One layer; arrays of `n_neurons`, original neuron order. */
typedef struct ember_tracker_layer {
    int64_t n_neurons;
    uint64_t *step_count; /* of the step in progress: forward adds, commit or drop clears */
    uint64_t *fire_count; /* since start */
    uint64_t *ring;       /* [EMBER_TRACKER_BLOCKS, n_neurons] */
    int64_t *last_fired;  /* tokens_seen at the end of the last step in which it fired */
} ember_tracker_layer;

typedef struct ember_tracker {
    ember_tracker_options options;
    int64_t n_layers;
    ember_tracker_layer *layers;
    int64_t tokens_seen;
    int64_t steps_per_block;
    int64_t n_blocks; /* used blocks in the ring's rotation, 1..16 */
    int64_t block_tokens[EMBER_TRACKER_BLOCKS];
    int64_t block_steps[EMBER_TRACKER_BLOCKS];
    int64_t head; /* block that the current step is added to */
} ember_tracker;

EMBER_CHECKED ember_status ember_tracker_create(ember_tracker **out, const ember_hparams *hparams, const ember_tracker_options *options);
void ember_tracker_free(ember_tracker *tracker);
size_t ember_tracker_bytes(const ember_hparams *hparams);
/* Forgets the step in progress. */
void ember_tracker_drop_step(ember_tracker *tracker);
/* Adds the step in progress: `n_tokens` non-padding input tokens. */
void ember_tracker_commit_step(ember_tracker *tracker, int64_t n_tokens);
/* Sum of the ring over its blocks, [n_neurons]; returns the tokens that it covers. */
int64_t ember_tracker_window(const ember_tracker *tracker, int64_t layer, uint64_t *window_count);
int64_t ember_tracker_age(const ember_tracker *tracker, int64_t layer, int64_t neuron);
bool ember_tracker_is_dead(const ember_tracker *tracker, int64_t layer, int64_t neuron);
int64_t ember_tracker_n_dead(const ember_tracker *tracker, int64_t layer);
/* A revived neuron is alive again: last_fired = tokens_seen. */
void ember_tracker_revive(ember_tracker *tracker, int64_t layer, int64_t neuron);

#endif
