#include "lib/model/ffn_auto.h"

#include "lib/base/status.h"
#include "lib/model/ffn_costs.h"

/* Leave dense below the first share of the dense cost, leave twell above the second. */
static const double enter_twell = 0.90;
static const double leave_twell = 1.00;

enum { STATE_TWELL = 1, STATE_PINNED = 2, MAX_MEASURED_TOKENS = 1024 };

typedef struct layer_choice {
    int64_t n_neurons;
    int64_t entry; /* index in costs */
    ember_ffn_mode mode;
    bool pinned;
} layer_choice;

struct ember_ffn_auto {
    int64_t n_layers;
    layer_choice *layers;
    ember_ffn_costs costs;
};

static int64_t entry_of(ember_ffn_costs *costs, const ember_ffn_shape *shape) {
    for (int64_t i = 0; i < costs->n; i++) {
        if (ember_ffn_costs_same_shape(&costs->entry[i].shape, shape)) return i;
    }
    costs->entry[costs->n].shape = *shape;
    return costs->n++;
}

ember_status ember_ffn_auto_create(ember_ffn_auto **out, const ember_hparams *hparams, const ember_ffn_auto_options *options) {
    *out = NULL;
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_ffn_auto), "FFN mode chooser"));
    ember_ffn_auto *chooser = block;
    const size_t n_layers = (size_t)hparams->num_hidden_layers;
    ember_status status = ember_allocate(&block, n_layers, sizeof(layer_choice), "FFN mode chooser");
    if (status == EMBER_OK) {
        chooser->layers = block;
        status = ember_allocate(&block, n_layers, sizeof(ember_ffn_cost), "FFN cost table");
    }
    if (status != EMBER_OK) {
        ember_ffn_auto_free(chooser);
        return status;
    }
    chooser->costs.entry = block;
    chooser->n_layers = hparams->num_hidden_layers;
    const int64_t tokens = options->n_tokens < MAX_MEASURED_TOKENS ? options->n_tokens : MAX_MEASURED_TOKENS;
    for (int64_t i = 0; i < chooser->n_layers; i++) {
        const ember_ffn_shape shape = {.n_tokens = tokens,
                                       .hidden = hparams->hidden_size,
                                       .n_neurons = hparams->neurons[i],
                                       .kind = hparams->ffn_kind,
                                       .activation = hparams->activation,
                                       .compression = options->compression};
        chooser->layers[i] = (layer_choice){.n_neurons = hparams->neurons[i], .entry = entry_of(&chooser->costs, &shape)};
    }
    *out = chooser;
    return EMBER_OK;
}

void ember_ffn_auto_free(ember_ffn_auto *chooser) {
    if (!chooser) return;
    ember_release(chooser->layers);
    ember_release(chooser->costs.entry);
    ember_release(chooser);
}

ember_status ember_ffn_auto_load(ember_ffn_auto *chooser, const char *json, size_t n, const char *name) {
    return ember_ffn_costs_from_json(&chooser->costs, json, n, name);
}

ember_status ember_ffn_auto_to_json(const ember_ffn_auto *chooser, ember_bytes *out) {
    return ember_ffn_costs_to_json(&chooser->costs, out);
}

/* Every silu neuron fires, so there is nothing to choose and nothing to measure. */
static bool has_choice(const ember_ffn_cost *cost) { return cost->shape.activation != EMBER_SILU; }

bool ember_ffn_auto_ready(const ember_ffn_auto *chooser) {
    for (int64_t i = 0; i < chooser->costs.n; i++) {
        if (has_choice(&chooser->costs.entry[i]) && !chooser->costs.entry[i].measured) return false;
    }
    return true;
}

ember_status ember_ffn_auto_calibrate(ember_ffn_auto *chooser, ember_backend *backend, bool (*should_stop)(void *user), void *user) {
    for (int64_t i = 0; i < chooser->costs.n; i++)
        EMBER_TRY(ember_ffn_cost_measure(&chooser->costs.entry[i], backend, should_stop, user));
    return EMBER_OK;
}

static double density_of(const layer_choice *layer, int64_t nnz, int64_t n_tokens) {
    return n_tokens > 0 ? (double)nnz / ((double)n_tokens * (double)layer->n_neurons) : 1.0;
}

/* Densest at which a layer may leave dense: three quarters of what its tiles and a spill array of M h / 8
 * hold when every token fires alike. A layer that overflows is dense for good, so one whose density is still
 * falling must not come in too early, however cheap the table says it is. */
static double densest_start(const ember_ffn_shape *shape) {
    const double words = (double)(ember_twell_words_per_tile(shape->compression) - 1);
    const double tile = (double)(shape->n_neurons < EMBER_TWELL_TILE ? shape->n_neurons : EMBER_TWELL_TILE);
    const double in_tiles = words < tile ? words / tile : 1.0;
    return 0.75 * (in_tiles + 0.125);
}

ember_ffn_mode ember_ffn_auto_decide(ember_ffn_auto *chooser, int64_t layer_index, int64_t nnz, int64_t n_tokens) {
    layer_choice *layer = &chooser->layers[layer_index];
    const ember_ffn_cost *cost = &chooser->costs.entry[layer->entry];
    if (layer->pinned || !cost->measured || n_tokens <= 0) return layer->mode;
    const double density = density_of(layer, nnz, n_tokens);
    if (layer->mode == EMBER_MODE_DENSE && density > densest_start(&cost->shape)) return layer->mode;
    const double sparse = ember_ffn_cost_sparse(cost, EMBER_COST_TRAIN, density);
    const double limit = layer->mode == EMBER_MODE_DENSE ? enter_twell : leave_twell;
    layer->mode = sparse < limit * cost->dense_ms[EMBER_COST_TRAIN] ? EMBER_MODE_TWELL : EMBER_MODE_DENSE;
    return layer->mode;
}

ember_ffn_mode ember_ffn_auto_decide_forward(const ember_ffn_auto *chooser, int64_t layer_index, int64_t nnz, int64_t n_tokens) {
    const layer_choice *layer = &chooser->layers[layer_index];
    const ember_ffn_cost *cost = &chooser->costs.entry[layer->entry];
    if (!cost->measured || n_tokens <= 0) return EMBER_MODE_DENSE;
    const double sparse = ember_ffn_cost_sparse(cost, EMBER_COST_FORWARD, density_of(layer, nnz, n_tokens));
    return sparse < cost->dense_ms[EMBER_COST_FORWARD] ? EMBER_MODE_TWELL : EMBER_MODE_DENSE;
}

void ember_ffn_auto_pin_dense(ember_ffn_auto *chooser, int64_t layer) {
    chooser->layers[layer].mode = EMBER_MODE_DENSE;
    chooser->layers[layer].pinned = true;
}

double ember_ffn_auto_cost_ms(const ember_ffn_auto *chooser, int64_t layer_index, ember_ffn_mode mode, int64_t nnz, int64_t n_tokens) {
    const layer_choice *layer = &chooser->layers[layer_index];
    const ember_ffn_cost *cost = &chooser->costs.entry[layer->entry];
    const double scale = cost->shape.n_tokens > 0 ? (double)n_tokens / (double)cost->shape.n_tokens : 0;
    const double ms = mode == EMBER_MODE_DENSE ? cost->dense_ms[EMBER_COST_TRAIN]
                                               : ember_ffn_cost_sparse(cost, EMBER_COST_TRAIN, density_of(layer, nnz, n_tokens));
    return ms * scale;
}

void ember_ffn_auto_state(const ember_ffn_auto *chooser, int64_t *out) {
    for (int64_t i = 0; i < chooser->n_layers; i++) {
        const layer_choice *layer = &chooser->layers[i];
        out[i] = (layer->mode == EMBER_MODE_TWELL ? STATE_TWELL : 0) | (layer->pinned ? STATE_PINNED : 0);
    }
}

ember_status ember_ffn_auto_restore(ember_ffn_auto *chooser, const int64_t *state) {
    for (int64_t i = 0; i < chooser->n_layers; i++) {
        if (state[i] < 0 || state[i] > (STATE_TWELL | STATE_PINNED) || state[i] == (STATE_TWELL | STATE_PINNED)) {
            return ember_fail(EMBER_E_CORRUPT, "FFN mode of layer %lld is %lld; it must be 0 (dense), 1 (twell) or 2 (dense for good)",
                              (long long)i, (long long)state[i]);
        }
    }
    for (int64_t i = 0; i < chooser->n_layers; i++) {
        chooser->layers[i].mode = state[i] & STATE_TWELL ? EMBER_MODE_TWELL : EMBER_MODE_DENSE;
        chooser->layers[i].pinned = (state[i] & STATE_PINNED) != 0;
    }
    return EMBER_OK;
}
