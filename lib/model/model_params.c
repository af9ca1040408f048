/* model_params.c - access to the parameters: drawing, clearing, looking for NaN. */
#include <math.h>

#include "lib/base/philox.h"
#include "lib/base/status.h"
#include "lib/model/model_internal.h"

enum { DRAW_CHUNK = 65536 };

const ember_hparams *ember_model_hparams(const ember_model *model) { return &model->hparams; }
ember_backend *ember_model_backend(const ember_model *model) { return model->backend; }
int64_t ember_model_n_params(const ember_model *model) { return model->n_params; }
ember_param *ember_model_param(ember_model *model, int64_t index) { return &model->params[index]; }

ember_param *model_head(ember_model *model) {
    return model->hparams.tie_word_embeddings ? &model->params[0] : &model->params[model->n_params - 1];
}

ember_tensor model_qkv_matrix(const ember_model *model, int64_t layer, bool gradient) {
    const ember_param *q = model->layers[layer].params.q;
    return model_matrix(gradient ? q->grad.data : q->value.data, model_qkv_columns(&model->hparams), model->hparams.hidden_size);
}

/* Standard deviation of a parameter's draw; norms are ones and biases zeros. */
static double std_of(const ember_model *model, const ember_param_spec *spec, double std, bool residual_scaling) {
    if (spec->n_dims != 2) return 0.0;
    const bool residual = spec->role == EMBER_PARAM_O || spec->role == EMBER_PARAM_DOWN;
    return residual && residual_scaling ? std / sqrt(2.0 * (double)model->hparams.num_hidden_layers) : std;
}

static bool is_bias(ember_param_role role) {
    return role == EMBER_PARAM_Q_BIAS || role == EMBER_PARAM_K_BIAS || role == EMBER_PARAM_V_BIAS;
}

static ember_status draw(ember_model *model, int64_t index, uint64_t seed, double std, float *chunk) {
    const ember_param *param = &model->params[index];
    const int64_t n = ember_tensor_count(param->value);
    const float constant = is_bias(param->spec.role) ? 0.0f : 1.0f;
    for (int64_t first = 0; first < n; first += DRAW_CHUNK) {
        const int64_t count = n - first < DRAW_CHUNK ? n - first : DRAW_CHUNK;
        for (int64_t i = 0; i < count; i++) {
            chunk[i] = param->spec.n_dims == 2
                           ? (float)std * ember_philox_normal(seed, (uint64_t)EMBER_STREAM_TENSOR + (uint64_t)index, (uint64_t)(first + i))
                           : constant;
        }
        EMBER_TRY(model->backend->ops->upload(model->backend, (float *)param->value.data + first, chunk, (size_t)count * sizeof(float)));
    }
    return EMBER_OK;
}

ember_status ember_model_init(ember_model *model, uint64_t seed, double std, bool residual_scaling) {
    if (!isfinite(std) || std < 0) return ember_fail(EMBER_E_ARGUMENT, "init std is %g; it must be finite and not negative", std);
    float *chunk = NULL;
    EMBER_TRY(ember_allocate((void **)&chunk, DRAW_CHUNK, sizeof(float), "initial values"));
    ember_status status = EMBER_OK;
    for (int64_t i = 0; status == EMBER_OK && i < model->n_params; i++)
        status = draw(model, i, seed, std_of(model, &model->params[i].spec, std, residual_scaling), chunk);
    ember_release(chunk);
    return status;
}

ember_status ember_model_zero_grad(ember_model *model) {
    if (!model->grads) return ember_fail(EMBER_E_STATE, "this model was made without training: it has no gradients");
    return model->backend->ops->clear(model->backend, model->grads, (size_t)model->family_elements * sizeof(float));
}

ember_status ember_model_set_mode(ember_model *model, int64_t layer, ember_ffn_mode mode) {
    if (layer < 0 || layer >= model->hparams.num_hidden_layers) {
        return ember_fail(EMBER_E_ARGUMENT, "layer %lld; this model has layers 0 to %lld", (long long)layer,
                          (long long)model->hparams.num_hidden_layers - 1);
    }
    if (mode == EMBER_MODE_TWELL && model->hparams.activation == EMBER_SILU) {
        return ember_fail(EMBER_E_UNSUPPORTED, "FFN mode twell with activation silu: every neuron fires, so silu runs dense only; relu and "
                                               "relu2 run sparse");
    }
    if (mode == EMBER_MODE_TWELL ? !model->options.may_run_twell : !model->options.may_run_dense) {
        return ember_fail(EMBER_E_STATE, "layer %lld: this model was planned without FFN mode %s", (long long)layer,
                          mode == EMBER_MODE_TWELL ? "twell" : "dense");
    }
    model->layers[layer].mode = mode;
    return EMBER_OK;
}

ember_ffn_mode ember_model_mode(const ember_model *model, int64_t layer) { return model->layers[layer].mode; }

ember_status ember_model_find_nonfinite(ember_model *model, bool gradients, int64_t *index) {
    *index = -1;
    if (gradients && !model->grads) return ember_fail(EMBER_E_STATE, "this model was made without training: it has no gradients");
    for (int64_t i = 0; i < model->n_params; i++) {
        const ember_tensor tensor = gradients ? model->params[i].grad : model->params[i].value;
        double sum = 0.0;
        EMBER_TRY(model->backend->ops->sum_squares(model->backend, &sum, tensor.data, ember_tensor_count(tensor)));
        if (!isfinite(sum)) {
            *index = i;
            return EMBER_OK;
        }
    }
    return EMBER_OK;
}
