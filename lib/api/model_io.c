#include "lib/api/model_io.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/status.h"
#include "lib/model/ffn_auto.h"

ember_status ember_model_load_params(ember_model *model, const ember_checkpoint *checkpoint) {
    ember_backend *backend = ember_model_backend(model);
    const int64_t n = ember_model_n_params(model);
    size_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const size_t count = (size_t)ember_tensor_count(ember_model_param(model, i)->value);
        largest = count > largest ? count : largest;
    }
    float *host = NULL;
    EMBER_TRY(ember_allocate((void **)&host, largest, sizeof(float), "loading buffer"));
    ember_status status = EMBER_OK;
    for (int64_t i = 0; status == EMBER_OK && i < n; i++) {
        const ember_param *param = ember_model_param(model, i);
        ember_tensor in_host = param->value;
        in_host.data = host;
        status = ember_checkpoint_get_param(checkpoint, &param->spec, in_host);
        if (status == EMBER_OK) {
            status = backend->ops->upload(backend, param->value.data, host, (size_t)ember_tensor_count(param->value) * sizeof(float));
        }
    }
    ember_release(host);
    return status;
}

ember_status ember_checkpoint_window(const ember_checkpoint *checkpoint, int64_t layer, int64_t *nnz, int64_t *n_tokens) {
    *nnz = 0;
    *n_tokens = 0;
    char group[64];
    (void)snprintf(group, sizeof group, "sparsity/layer_%lld", (long long)layer);
    if (!ember_checkpoint_has(checkpoint, group, "window_count") || !ember_checkpoint_has(checkpoint, "state", "window_tokens")) {
        return EMBER_OK;
    }
    const int64_t n_neurons = ember_checkpoint_hparams(checkpoint)->neurons[layer];
    uint64_t *counts = NULL;
    EMBER_TRY(ember_allocate((void **)&counts, (size_t)n_neurons, sizeof *counts, "firing counts"));
    ember_status status = ember_checkpoint_get(checkpoint, group, "window_count", ember_tensor_1d(counts, EMBER_U64, n_neurons));
    if (status == EMBER_OK) {
        status = ember_checkpoint_get(checkpoint, "state", "window_tokens", ember_tensor_1d(n_tokens, EMBER_I64, 1));
    }
    uint64_t sum = 0;
    for (int64_t i = 0; status == EMBER_OK && i < n_neurons; i++)
        sum += counts[i];
    ember_release(counts);
    *nnz = (int64_t)sum;
    return status;
}

static ember_status choose_auto(ember_model *model, const ember_checkpoint *checkpoint, int64_t n_tokens, int64_t compression) {
    if (ember_model_hparams(model)->activation == EMBER_SILU || !ember_checkpoint_has(checkpoint, "state", "ffn_costs")) return EMBER_OK;
    ember_ffn_auto *chooser = NULL;
    ember_bytes costs = {0};
    const ember_ffn_auto_options options = {.n_tokens = n_tokens, .compression = compression};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_ffn_auto_create(&chooser, ember_model_hparams(model), &options), done);
    EMBER_TRY_GOTO(ember_checkpoint_get_text(checkpoint, "state", "ffn_costs", &costs), done);
    if (costs.n == 0) goto done;
    status = ember_ffn_auto_load(chooser, costs.data, costs.n, "/state/ffn_costs");
    if (status == EMBER_E_NOT_FOUND) { /* measured for other shapes: nothing to choose by */
        status = EMBER_OK;
        goto done;
    }
    if (status != EMBER_OK) goto done;
    for (int64_t layer = 0; layer < ember_model_hparams(model)->num_hidden_layers; layer++) {
        int64_t nnz = 0, window_tokens = 0;
        EMBER_TRY_GOTO(ember_checkpoint_window(checkpoint, layer, &nnz, &window_tokens), done);
        EMBER_TRY_GOTO(ember_model_set_mode(model, layer, ember_ffn_auto_decide_forward(chooser, layer, nnz, window_tokens)), done);
    }
done:
    ember_bytes_free(&costs);
    ember_ffn_auto_free(chooser);
    return status;
}

ember_status ember_model_choose_modes(ember_model *model, const ember_checkpoint *checkpoint, const char *ffn_mode, int64_t n_tokens,
                                      int64_t compression) {
    if (strcmp(ffn_mode, "auto") == 0) return choose_auto(model, checkpoint, n_tokens, compression);
    const bool twell = strcmp(ffn_mode, "twell") == 0;
    if (!twell && strcmp(ffn_mode, "dense") != 0) {
        return ember_fail(EMBER_E_ARGUMENT, "FFN mode \"%s\"; it must be auto, dense or twell", ffn_mode);
    }
    for (int64_t layer = 0; layer < ember_model_hparams(model)->num_hidden_layers; layer++)
        EMBER_TRY(ember_model_set_mode(model, layer, twell ? EMBER_MODE_TWELL : EMBER_MODE_DENSE));
    return EMBER_OK;
}
