/* model_backward.c - gradients of one micro-batch, accumulated into the parameters' grads. The
 * residual's gradient lives in d_residual and walks from the last layer to the embedding. */
#include "lib/base/status.h"
#include "lib/model/model_internal.h"

/* d_normed (gradient of a norm's result) to d_residual. */
static ember_status norm_backward(ember_model *model, const model_pass *pass, const float *x, float *rstd, const ember_param *weight,
                                  bool accumulate) {
    const ember_rmsnorm_args args = {.n_rows = pass->n_tokens,
                                     .n_columns = model->hparams.hidden_size,
                                     .eps = model->hparams.rms_norm_eps,
                                     .rstd = rstd,
                                     .x = x,
                                     .weight = weight->value.data,
                                     .dy = model->d_normed,
                                     .dx = model->d_residual,
                                     .accumulate = accumulate,
                                     .d_weight = weight->grad.data};
    return model->backend->ops->rmsnorm_backward(model->backend, &args);
}

static ember_status feed_forward_backward(ember_model *model, int64_t layer, const model_pass *pass, double l1_scale) {
    model_layer *m = &model->layers[layer];
    const layer_params *w = &m->params;
    const ember_ffn_args args = {.shape = model_ffn_shape(model, layer, pass->n_tokens),
                                 .mode = m->saved.mode,
                                 .saved = &m->saved,
                                 .x = m->arrays.normed_mid,
                                 .gate = w->gate ? w->gate->value.data : NULL,
                                 .up = w->up->value.data,
                                 .down = w->down->value.data,
                                 .mask = pass->mask,
                                 .dy = model->d_residual,
                                 .dx = model->d_normed,
                                 .d_gate = w->gate ? w->gate->grad.data : NULL,
                                 .d_up = w->up->grad.data,
                                 .d_down = w->down->grad.data,
                                 .l1_scale = (float)l1_scale};
    EMBER_TRY(model->backend->ops->ffn_backward(model->backend, &args));
    return norm_backward(model, pass, m->arrays.x_mid, m->arrays.rstd_mid, w->ffn_norm, true);
}

/* d_qkv from the rotated, normalised values back to what the product made. */
static ember_status position_backward(ember_model *model, int64_t layer, const model_pass *pass) {
    const ember_hparams *p = &model->hparams;
    const layer_params *w = &model->layers[layer].params;
    ember_rope_args rope = model_rope_args(model, pass, model->d_qkv);
    rope.backward = true;
    EMBER_TRY(model->backend->ops->rope(model->backend, &rope));
    if (!p->qk_norm) return EMBER_OK;
    ember_qknorm_args qknorm = model_qknorm_args(model, layer, pass);
    qknorm.d_qkv = model->d_qkv;
    qknorm.d_q_weight = w->q_norm->grad.data;
    qknorm.d_k_weight = w->k_norm->grad.data;
    return model->backend->ops->qknorm_backward(model->backend, &qknorm);
}

static ember_status attention_backward(ember_model *model, int64_t layer, const model_pass *pass) {
    const ember_hparams *p = &model->hparams;
    const ember_ops *ops = model->backend->ops;
    const layer_params *w = &model->layers[layer].params;
    const layer_arrays *a = &model->layers[layer].arrays;
    const int64_t n = pass->n_tokens;
    const int64_t d = p->hidden_size;
    const ember_tensor d_residual = model_matrix(model->d_residual, n, d);
    const ember_tensor d_qkv = model_matrix(model->d_qkv, n, model_qkv_columns(p));
    const int64_t q_columns = model_q_columns(p);
    EMBER_TRY(ops->linear_backward_weight(model->backend, w->o->grad, NULL, d_residual, model_matrix(a->heads_out, n, q_columns)));
    EMBER_TRY(ops->linear_backward_input(model->backend, model_matrix(model->d_heads, n, q_columns), d_residual, w->o->value, 0.0f));
    ember_attention_args args = model_attention_args(model, layer, pass);
    args.d_out = model->d_heads;
    args.d_qkv = model->d_qkv;
    EMBER_TRY(ops->attention_backward(model->backend, &args));
    EMBER_TRY(position_backward(model, layer, pass));
    EMBER_TRY(ops->linear_backward_weight(model->backend, model_qkv_matrix(model, layer, true), w->q_bias ? w->q_bias->grad.data : NULL,
                                          d_qkv, model_matrix(a->normed_in, n, d)));
    EMBER_TRY(ops->linear_backward_input(model->backend, model_matrix(model->d_normed, n, d), d_qkv, model_qkv_matrix(model, layer, false),
                                         0.0f));
    return norm_backward(model, pass, a->x_in, a->rstd_in, w->attention_norm, true);
}

ember_status model_backward(ember_model *model, const model_pass *pass, const double *l1_scale) {
    const ember_hparams *p = &model->hparams;
    const ember_param *final_norm = &model->params[model->n_params - (p->tie_word_embeddings ? 1 : 2)];
    EMBER_TRY(norm_backward(model, pass, model->x_final, model->rstd_final, final_norm, false));
    for (int64_t layer = p->num_hidden_layers - 1; layer >= 0; layer--) {
        EMBER_TRY(feed_forward_backward(model, layer, pass, l1_scale ? l1_scale[layer] : 0.0));
        EMBER_TRY(attention_backward(model, layer, pass));
    }
    return model->backend->ops->embedding_backward(model->backend, model->params[0].grad,
                                                   model_matrix(model->d_residual, pass->n_tokens, p->hidden_size), model->input_ids);
}
