#include "train/revive.h"

#include "lib/base/philox.h"
#include "lib/base/status.h"

/* The parameter whose product decides which neurons of a layer fire. */
static ember_param *deciding_param(ember_model *model, int64_t layer) {
    const bool gated = ember_model_hparams(model)->ffn_kind == EMBER_FFN_GATED;
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        ember_param *param = ember_model_param(model, i);
        if (param->spec.layer == layer && param->spec.role == (gated ? EMBER_PARAM_GATE : EMBER_PARAM_UP)) return param;
    }
    return NULL;
}

static ember_status redraw(ember_model *model, const ember_param *param, int64_t layer, int64_t neuron, const ember_revive_options *options,
                           float *row) {
    ember_backend *backend = ember_model_backend(model);
    const int64_t d = param->spec.dims[1];
    const uint64_t stream = ((uint64_t)options->step << 32) + (uint64_t)EMBER_STREAM_REVIVE + (uint64_t)layer;
    for (int64_t c = 0; c < d; c++)
        row[c] = (float)options->std * ember_philox_normal(options->seed, stream, (uint64_t)(neuron * d + c));
    const size_t bytes = (size_t)d * sizeof(float);
    EMBER_TRY(backend->ops->upload(backend, (float *)param->value.data + neuron * d, row, bytes));
    EMBER_TRY(backend->ops->clear(backend, (float *)param->exp_avg.data + neuron * d, bytes));
    return backend->ops->clear(backend, (float *)param->exp_avg_sq.data + neuron * d, bytes);
}

ember_status ember_revive(ember_model *model, ember_tracker *tracker, const ember_revive_options *options, float *row, int64_t *n_revived) {
    *n_revived = 0;
    for (int64_t layer = 0; layer < tracker->n_layers; layer++) {
        const ember_param *param = deciding_param(model, layer);
        if (!param) return ember_fail(EMBER_E_STATE, "layer %lld has no gate or up matrix", (long long)layer);
        for (int64_t neuron = 0; neuron < tracker->layers[layer].n_neurons; neuron++) {
            if (!ember_tracker_is_dead(tracker, layer, neuron)) continue;
            EMBER_TRY(redraw(model, param, layer, neuron, options, row));
            ember_tracker_revive(tracker, layer, neuron);
            ++*n_revived;
        }
    }
    return EMBER_OK;
}
