#include "train/sparsity_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

const double ember_hottest_shares[EMBER_HOTTEST] = {0.01, 0.05, 0.10};

/* A neuron below this rate in the window is nearly dead. */
static const double nearly_dead_rate = 1e-5;

double ember_report_fraction(double l0, int64_t n_neurons) { return n_neurons > 0 ? l0 / (double)n_neurons : 0; }

static int descending(const void *a, const void *b) {
    uint64_t x;
    uint64_t y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x > y ? -1 : x < y;
}

/* Shares of the hottest neurons; 0 when nothing fired. At least one neuron is in every share. */
static ember_status fill_hottest(ember_layer_report *layer) {
    void *block = NULL;
    const size_t n = (size_t)layer->n_neurons;
    EMBER_TRY(ember_allocate(&block, n, sizeof(uint64_t), "sorted firing counts"));
    uint64_t *sorted = block;
    memcpy(sorted, layer->window_count, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, descending);
    double all = 0;
    for (size_t i = 0; i < n; i++)
        all += (double)sorted[i];
    for (int s = 0; s < EMBER_HOTTEST; s++) {
        const size_t hottest = (size_t)ceil(ember_hottest_shares[s] * (double)n);
        double sum = 0;
        for (size_t i = 0; i < hottest && i < n; i++)
            sum += (double)sorted[i];
        layer->hottest[s] = all > 0 ? sum / all : 0;
    }
    ember_release(block);
    return EMBER_OK;
}

static void fill_counts(const ember_sparsity_report *report, ember_layer_report *layer) {
    double fired = 0;
    const double tokens = (double)report->window_tokens;
    for (int64_t j = 0; j < layer->n_neurons; j++) {
        fired += (double)layer->window_count[j];
        const bool dead = report->tokens_seen - layer->last_fired[j] >= report->dead_after_tokens;
        if (dead) layer->n_dead++;
        if (!dead && tokens > 0 && (double)layer->window_count[j] < nearly_dead_rate * tokens) layer->n_nearly_dead++;
    }
    layer->l0_window = tokens > 0 ? fired / tokens : (double)NAN;
}

static ember_status get_optional(const ember_checkpoint *checkpoint, const char *group, const char *name, double *out) {
    *out = (double)NAN;
    if (!ember_checkpoint_has(checkpoint, group, name)) return EMBER_OK;
    return ember_checkpoint_get(checkpoint, group, name, ember_tensor_1d(out, EMBER_F64, 1));
}

static ember_status read_layer(ember_sparsity_report *report, const ember_checkpoint *checkpoint, int64_t index) {
    ember_layer_report *layer = &report->layers[index];
    char group[64];
    void *block = NULL;
    (void)snprintf(group, sizeof group, "sparsity/layer_%lld", (long long)index);
    layer->n_neurons = ember_checkpoint_hparams(checkpoint)->neurons[index];
    const int64_t h = layer->n_neurons;
    EMBER_TRY(ember_allocate(&block, 3 * (size_t)h, sizeof(uint64_t), "firing counts"));
    layer->fire_count = block;
    layer->window_count = layer->fire_count + h;
    layer->last_fired = (int64_t *)(layer->window_count + h);
    EMBER_TRY(ember_checkpoint_get(checkpoint, group, "fire_count", ember_tensor_1d(layer->fire_count, EMBER_U64, h)));
    EMBER_TRY(ember_checkpoint_get(checkpoint, group, "window_count", ember_tensor_1d(layer->window_count, EMBER_U64, h)));
    EMBER_TRY(ember_checkpoint_get(checkpoint, group, "last_fired", ember_tensor_1d(layer->last_fired, EMBER_I64, h)));
    EMBER_TRY(get_optional(checkpoint, group, "l0", &layer->l0));
    EMBER_TRY(get_optional(checkpoint, group, "l1", &layer->l1));
    fill_counts(report, layer);
    return fill_hottest(layer);
}

static ember_status read_state(ember_sparsity_report *report, const ember_checkpoint *checkpoint) {
    EMBER_TRY(ember_checkpoint_get(checkpoint, "state", "window_tokens", ember_tensor_1d(&report->window_tokens, EMBER_I64, 1)));
    return ember_checkpoint_get(checkpoint, "state", "dead_after_tokens", ember_tensor_1d(&report->dead_after_tokens, EMBER_I64, 1));
}

ember_status ember_sparsity_report_create(ember_sparsity_report **out, const ember_checkpoint *checkpoint) {
    *out = NULL;
    const char *path = ember_h5_path(ember_checkpoint_file(checkpoint));
    const ember_checkpoint_meta *meta = ember_checkpoint_get_meta(checkpoint);
    if (!ember_checkpoint_has(checkpoint, "sparsity/layer_0", "fire_count") || !ember_checkpoint_has(checkpoint, "state", "window_tokens"))
        return ember_fail(EMBER_E_NOT_FOUND,
                          "%s holds no firing counts (kind %s); they come with the checkpoints that `ember train` writes", path,
                          meta->full ? "full" : "weights");
    void *block = NULL;
    ember_status status;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_sparsity_report), "sparsity report"));
    ember_sparsity_report *report = block;
    report->step = meta->step;
    report->tokens_seen = meta->tokens_seen;
    EMBER_TRY_GOTO(ember_allocate(&block, strlen(path) + 1, 1, "sparsity report"), fail);
    report->path = block;
    memcpy(report->path, path, strlen(path) + 1);
    EMBER_TRY_GOTO(read_state(report, checkpoint), fail);
    const int64_t n_layers = ember_checkpoint_hparams(checkpoint)->num_hidden_layers;
    EMBER_TRY_GOTO(ember_allocate(&block, (size_t)n_layers, sizeof(ember_layer_report), "sparsity report"), fail);
    report->layers = block;
    report->n_layers = n_layers;
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY_GOTO(read_layer(report, checkpoint, i), fail);
    *out = report;
    return EMBER_OK;
fail:
    ember_sparsity_report_free(report);
    return status;
}

void ember_sparsity_report_free(ember_sparsity_report *report) {
    if (!report) return;
    for (int64_t i = 0; report->layers && i < report->n_layers; i++)
        ember_release(report->layers[i].fire_count);
    ember_release(report->layers);
    ember_release(report->path);
    ember_release(report);
}
