#include "lib/model/tracker.h"

#include <string.h>

#include "lib/base/status.h"

static size_t layer_bytes(int64_t n_neurons) {
    /* step, since start, last fired: one array each; the ring: one a block */
    return (size_t)n_neurons * sizeof(uint64_t) * (3 + EMBER_TRACKER_BLOCKS);
}

size_t ember_tracker_bytes(const ember_hparams *hparams) {
    size_t total = 0;
    for (int64_t i = 0; i < hparams->num_hidden_layers; i++)
        total += layer_bytes(hparams->neurons[i]);
    return total;
}

static ember_status check_options(const ember_tracker_options *o) {
    if (o->dead_after_tokens < 1)
        return ember_fail(EMBER_E_ARGUMENT, "sparsity.dead_after_tokens is %lld; it must be 1 or more", (long long)o->dead_after_tokens);
    if (o->window_tokens < 1)
        return ember_fail(EMBER_E_ARGUMENT, "sparsity.window_tokens is %lld; it must be 1 or more", (long long)o->window_tokens);
    if (o->tokens_per_step < 1)
        return ember_fail(EMBER_E_ARGUMENT, "tokens per step are %lld; they must be 1 or more", (long long)o->tokens_per_step);
    return EMBER_OK;
}

/* Cuts the window of ceil(window_tokens / tokens_per_step) steps into at most 16 blocks of whole steps. */
static void plan_ring(ember_tracker *tracker) {
    const ember_tracker_options *o = &tracker->options;
    const int64_t steps = o->window_tokens / o->tokens_per_step + (o->window_tokens % o->tokens_per_step != 0);
    tracker->steps_per_block = (steps + EMBER_TRACKER_BLOCKS - 1) / EMBER_TRACKER_BLOCKS;
    tracker->n_blocks = (steps + tracker->steps_per_block - 1) / tracker->steps_per_block;
}

ember_status ember_tracker_create(ember_tracker **out, const ember_hparams *hparams, const ember_tracker_options *options) {
    *out = NULL;
    EMBER_TRY(check_options(options));
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_tracker), "sparsity tracker"));
    ember_tracker *tracker = block;
    tracker->options = *options;
    tracker->n_layers = hparams->num_hidden_layers;
    plan_ring(tracker);
    ember_status status = ember_allocate(&block, (size_t)tracker->n_layers, sizeof(ember_tracker_layer), "sparsity tracker layers");
    if (status == EMBER_OK) tracker->layers = block;
    for (int64_t i = 0; status == EMBER_OK && i < tracker->n_layers; i++) {
        const int64_t n = hparams->neurons[i];
        status = ember_allocate(&block, 1, layer_bytes(n), "sparsity counters of a layer");
        if (status != EMBER_OK) break;
        uint64_t *counts = block;
        tracker->layers[i] = (ember_tracker_layer){.n_neurons = n,
                                                   .step_count = counts,
                                                   .fire_count = counts + n,
                                                   .last_fired = (int64_t *)(counts + 2 * n),
                                                   .ring = counts + 3 * n};
    }
    if (status != EMBER_OK) {
        ember_tracker_free(tracker);
        return status;
    }
    *out = tracker;
    return EMBER_OK;
}

void ember_tracker_free(ember_tracker *tracker) {
    if (!tracker) return;
    for (int64_t i = 0; tracker->layers && i < tracker->n_layers; i++)
        ember_release(tracker->layers[i].step_count);
    ember_release(tracker->layers);
    ember_release(tracker);
}

void ember_tracker_drop_step(ember_tracker *tracker) {
    for (int64_t i = 0; i < tracker->n_layers; i++) {
        ember_tracker_layer *layer = &tracker->layers[i];
        memset(layer->step_count, 0, (size_t)layer->n_neurons * sizeof(uint64_t));
    }
}

/* The head block is full: the oldest becomes the new head, dropped whole. */
static void rotate(ember_tracker *tracker) {
    tracker->head = (tracker->head + 1) % tracker->n_blocks;
    tracker->block_steps[tracker->head] = 0;
    tracker->block_tokens[tracker->head] = 0;
    for (int64_t i = 0; i < tracker->n_layers; i++) {
        ember_tracker_layer *layer = &tracker->layers[i];
        memset(layer->ring + tracker->head * layer->n_neurons, 0, (size_t)layer->n_neurons * sizeof(uint64_t));
    }
}

void ember_tracker_commit_step(ember_tracker *tracker, int64_t n_tokens) {
    if (tracker->block_steps[tracker->head] == tracker->steps_per_block) rotate(tracker);
    tracker->tokens_seen += n_tokens;
    tracker->block_steps[tracker->head] += 1;
    tracker->block_tokens[tracker->head] += n_tokens;
    for (int64_t i = 0; i < tracker->n_layers; i++) {
        ember_tracker_layer *layer = &tracker->layers[i];
        uint64_t *block = layer->ring + tracker->head * layer->n_neurons;
        for (int64_t j = 0; j < layer->n_neurons; j++) {
            const uint64_t fired = layer->step_count[j];
            if (fired == 0) continue;
            layer->fire_count[j] += fired;
            block[j] += fired;
            layer->last_fired[j] = tracker->tokens_seen;
            layer->step_count[j] = 0;
        }
    }
}

int64_t ember_tracker_window(const ember_tracker *tracker, int64_t layer_index, uint64_t *window_count) {
    const ember_tracker_layer *layer = &tracker->layers[layer_index];
    memset(window_count, 0, (size_t)layer->n_neurons * sizeof(uint64_t));
    int64_t tokens = 0;
    for (int64_t b = 0; b < tracker->n_blocks; b++) {
        const uint64_t *block = layer->ring + b * layer->n_neurons;
        for (int64_t j = 0; j < layer->n_neurons; j++)
            window_count[j] += block[j];
        tokens += tracker->block_tokens[b];
    }
    return tokens;
}

int64_t ember_tracker_age(const ember_tracker *tracker, int64_t layer, int64_t neuron) {
    return tracker->tokens_seen - tracker->layers[layer].last_fired[neuron];
}

bool ember_tracker_is_dead(const ember_tracker *tracker, int64_t layer, int64_t neuron) {
    return ember_tracker_age(tracker, layer, neuron) >= tracker->options.dead_after_tokens;
}

int64_t ember_tracker_n_dead(const ember_tracker *tracker, int64_t layer) {
    int64_t dead = 0;
    for (int64_t j = 0; j < tracker->layers[layer].n_neurons; j++)
        dead += ember_tracker_is_dead(tracker, layer, j) ? 1 : 0;
    return dead;
}

void ember_tracker_revive(ember_tracker *tracker, int64_t layer, int64_t neuron) {
    tracker->layers[layer].last_fired[neuron] = tracker->tokens_seen;
}
