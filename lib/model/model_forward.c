/* model_forward.c - one micro-batch through the layers, and the loss. */
#include "lib/base/status.h"
#include "lib/model/model_internal.h"

ember_attention_args model_attention_args(const ember_model *model, int64_t layer, const model_pass *pass) {
    const ember_hparams *p = &model->hparams;
    const layer_arrays *a = &model->layers[layer].arrays;
    return (ember_attention_args){.n_sequences = pass->n_sequences,
                                  .sequence_length = pass->sequence_length,
                                  .n_heads = p->num_attention_heads,
                                  .n_kv_heads = p->num_key_value_heads,
                                  .head_dim = p->head_dim,
                                  .qkv = a->qkv,
                                  .document_start = pass->document_start,
                                  .out = a->heads_out,
                                  .lse = a->lse};
}

ember_qknorm_args model_qknorm_args(const ember_model *model, int64_t layer, const model_pass *pass) {
    const ember_hparams *p = &model->hparams;
    const layer_params *w = &model->layers[layer].params;
    const layer_arrays *a = &model->layers[layer].arrays;
    return (ember_qknorm_args){.n_tokens = pass->n_tokens,
                               .n_heads = p->num_attention_heads,
                               .n_kv_heads = p->num_key_value_heads,
                               .head_dim = p->head_dim,
                               .eps = p->rms_norm_eps,
                               .qkv = a->qkv,
                               .x_qk = a->x_qk,
                               .rstd = a->rstd_qk,
                               .q_weight = w->q_norm->value.data,
                               .k_weight = w->k_norm->value.data};
}

ember_rope_args model_rope_args(const ember_model *model, const model_pass *pass, float *qkv) {
    const ember_hparams *p = &model->hparams;
    return (ember_rope_args){.n_tokens = pass->n_tokens,
                             .n_heads = p->num_attention_heads,
                             .n_kv_heads = p->num_key_value_heads,
                             .head_dim = p->head_dim,
                             .qkv = qkv,
                             .positions = model->positions,
                             .cos_table = pass->cos_table,
                             .sin_table = pass->sin_table};
}

static ember_status attention(ember_model *model, int64_t layer, const model_pass *pass) {
    const ember_hparams *p = &model->hparams;
    const ember_ops *ops = model->backend->ops;
    const layer_params *w = &model->layers[layer].params;
    const layer_arrays *a = &model->layers[layer].arrays;
    const int64_t n = pass->n_tokens;
    const int64_t d = p->hidden_size;
    const int64_t qkv_columns = model_qkv_columns(p);
    const ember_rmsnorm_args norm = {.n_rows = n,
                                     .n_columns = d,
                                     .eps = p->rms_norm_eps,
                                     .y = a->normed_in,
                                     .rstd = a->rstd_in,
                                     .x = a->x_in,
                                     .weight = w->attention_norm->value.data};
    EMBER_TRY(ops->rmsnorm_forward(model->backend, &norm));
    EMBER_TRY(ops->linear_forward(model->backend, model_matrix(a->qkv, n, qkv_columns), model_matrix(a->normed_in, n, d),
                                  model_qkv_matrix(model, layer, false), w->q_bias ? w->q_bias->value.data : NULL, 0.0f));
    if (p->qk_norm) {
        const ember_qknorm_args qknorm = model_qknorm_args(model, layer, pass);
        EMBER_TRY(ops->qknorm_forward(model->backend, &qknorm));
    }
    const ember_rope_args rope = model_rope_args(model, pass, a->qkv);
    EMBER_TRY(ops->rope(model->backend, &rope));
    if (pass->k_cache) {
        const ember_attention_cached_args cached = {.n_new = n,
                                                    .n_past = pass->n_past,
                                                    .capacity = pass->cache_capacity,
                                                    .n_heads = p->num_attention_heads,
                                                    .n_kv_heads = p->num_key_value_heads,
                                                    .head_dim = p->head_dim,
                                                    .qkv = a->qkv,
                                                    .k_cache = pass->k_cache + layer * pass->cache_stride,
                                                    .v_cache = pass->v_cache + layer * pass->cache_stride,
                                                    .out = a->heads_out};
        EMBER_TRY(ops->attention_cached(model->backend, &cached));
    } else {
        const ember_attention_args full = model_attention_args(model, layer, pass);
        EMBER_TRY(ops->attention_forward(model->backend, &full));
    }
    EMBER_TRY(ops->linear_forward(model->backend, model_matrix(a->x_mid, n, d), model_matrix(a->heads_out, n, model_q_columns(p)),
                                  w->o->value, NULL, 0.0f));
    return ops->add(model->backend, a->x_mid, a->x_in, n * d);
}

/* One token of a model with real zeros is decoded on its support, whatever the layer's mode: its
 * up and down rows are then the only ones read. */
static ember_ffn_mode mode_of(const ember_model *model, int64_t layer, const model_pass *pass) {
    if (pass->k_cache && pass->n_tokens == 1 && model->options.may_run_twell) return EMBER_MODE_TWELL;
    return model->layers[layer].mode;
}

/* A full spill array. When a backward pass or fire counts depend on this forward, the caller has to
 * drop the step. Otherwise only this layer is redone: dense where a model without training may run so, else
 * after growing. Sets *redo. */
static ember_status handle_full_spill(ember_model *model, int64_t layer, model_pass *pass, ember_ffn_mode *mode, bool *redo) {
    *redo = false;
    pass->full_layer = layer;
    if (pass->keep) return EMBER_E_CAPACITY;
    if (!model->options.training && model->options.may_run_dense) {
        *mode = EMBER_MODE_DENSE;
    } else {
        int64_t entries = 0;
        EMBER_TRY(ember_model_grow_spill(model, layer, &entries));
    }
    *redo = true;
    return EMBER_OK;
}

static ember_status feed_forward(ember_model *model, int64_t layer, model_pass *pass) {
    const ember_hparams *p = &model->hparams;
    const ember_ops *ops = model->backend->ops;
    model_layer *m = &model->layers[layer];
    const layer_arrays *a = &m->arrays;
    const int64_t n = pass->n_tokens;
    const ember_rmsnorm_args norm = {.n_rows = n,
                                     .n_columns = p->hidden_size,
                                     .eps = p->rms_norm_eps,
                                     .y = a->normed_mid,
                                     .rstd = a->rstd_mid,
                                     .x = a->x_mid,
                                     .weight = m->params.ffn_norm->value.data};
    EMBER_TRY(ops->rmsnorm_forward(model->backend, &norm));
    ember_ffn_mode mode = mode_of(model, layer, pass);
    for (;;) {
        uint64_t l0 = 0;
        double l1 = 0.0;
        const ember_ffn_args args = {.shape = model_ffn_shape(model, layer, n),
                                     .mode = mode,
                                     .saved = &m->saved,
                                     .x = a->normed_mid,
                                     .gate = m->params.gate ? m->params.gate->value.data : NULL,
                                     .up = m->params.up->value.data,
                                     .down = m->params.down->value.data,
                                     .mask = pass->mask,
                                     .y = a->x_out,
                                     .fire_count = pass->tracker ? pass->tracker->layers[layer].step_count : NULL,
                                     .l0_sum = pass->stats ? &l0 : NULL,
                                     .l1_sum = pass->stats ? &l1 : NULL};
        ember_status status = ops->ffn_forward(model->backend, &args);
        bool redo = false;
        if (status == EMBER_E_CAPACITY) status = handle_full_spill(model, layer, pass, &mode, &redo);
        EMBER_TRY(status);
        if (redo) continue;
        if (pass->stats) {
            pass->stats->l0_sum[layer] += l0;
            pass->stats->l1_sum[layer] += l1;
            pass->stats->spill[layer] += m->saved.spill_count;
            pass->stats->nnz[layer] += m->saved.nnz;
        }
        return ops->add(model->backend, a->x_out, a->x_mid, n * p->hidden_size);
    }
}

ember_status model_forward(ember_model *model, model_pass *pass) {
    const ember_hparams *p = &model->hparams;
    const ember_ops *ops = model->backend->ops;
    const int64_t n = pass->n_tokens;
    EMBER_TRY(ops->embedding_forward(model->backend, model_matrix(model->layers[0].arrays.x_in, n, p->hidden_size), model->params[0].value,
                                     model->input_ids));
    for (int64_t layer = 0; layer < p->num_hidden_layers; layer++) {
        EMBER_TRY(attention(model, layer, pass));
        EMBER_TRY(feed_forward(model, layer, pass));
    }
    const ember_param *final_norm = &model->params[model->n_params - (p->tie_word_embeddings ? 1 : 2)];
    const ember_rmsnorm_args norm = {.n_rows = n,
                                     .n_columns = p->hidden_size,
                                     .eps = p->rms_norm_eps,
                                     .y = model->normed_final,
                                     .rstd = model->rstd_final,
                                     .x = model->x_final,
                                     .weight = final_norm->value.data};
    return ops->rmsnorm_forward(model->backend, &norm);
}

ember_status model_check_ids(const ember_model *model, const char *what, const int32_t *ids, int64_t n, int32_t lowest) {
    const int64_t vocab_size = model->hparams.vocab_size;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < lowest || ids[i] >= vocab_size) {
            return ember_fail(EMBER_E_ARGUMENT, "%s id %d at position %lld; this model's vocabulary has ids 0 to %lld", what, ids[i],
                              (long long)i, (long long)vocab_size - 1);
        }
    }
    return EMBER_OK;
}

static ember_status check_batch(const ember_model *model, const ember_micro_batch *batch) {
    const int64_t length = batch->sequence_length;
    if (length < 1 || length > model->options.sequence_length || batch->n_sequences < 1 ||
        batch->n_sequences > model->max_tokens / length) {
        return ember_fail(EMBER_E_SHAPE, "a micro-batch of %lld sequences of %lld tokens; this model was planned for %lld of %lld",
                          (long long)batch->n_sequences, (long long)length, (long long)model->options.n_sequences,
                          (long long)model->options.sequence_length);
    }
    const int64_t n = batch->n_sequences * length;
    EMBER_TRY(model_check_ids(model, "input", batch->input_ids, n, 0));
    if (batch->target_ids) EMBER_TRY(model_check_ids(model, "target", batch->target_ids, n, -1));
    for (int64_t i = 0; i < n; i++) {
        if (batch->mask && !batch->mask[i] && batch->target_ids && batch->target_ids[i] >= 0) {
            return ember_fail(EMBER_E_ARGUMENT, "position %lld is padding and has target %d; padding has no target (-1)", (long long)i,
                              batch->target_ids[i]);
        }
        if (batch->document_start && (batch->document_start[i] < 0 || batch->document_start[i] > i % length)) {
            return ember_fail(EMBER_E_ARGUMENT, "document start %d of position %lld; it lies between 0 and the position itself",
                              batch->document_start[i], (long long)(i % length));
        }
    }
    return EMBER_OK;
}

ember_status model_load_batch(ember_model *model, const ember_micro_batch *batch, model_pass *pass) {
    EMBER_TRY(check_batch(model, batch));
    const ember_ops *ops = model->backend->ops;
    const int64_t n = batch->n_sequences * batch->sequence_length;
    const size_t bytes = (size_t)n * sizeof(int32_t);
    for (int64_t i = 0; i < n; i++)
        model->host_positions[i] = (int32_t)(i % batch->sequence_length);
    EMBER_TRY(ops->upload(model->backend, model->positions, model->host_positions, bytes));
    EMBER_TRY(ops->upload(model->backend, model->input_ids, batch->input_ids, bytes));
    if (batch->target_ids) EMBER_TRY(ops->upload(model->backend, model->target_ids, batch->target_ids, bytes));
    if (batch->mask) EMBER_TRY(ops->upload(model->backend, model->mask, batch->mask, (size_t)n));
    if (batch->document_start) EMBER_TRY(ops->upload(model->backend, model->document_start, batch->document_start, bytes));
    pass->n_tokens = n;
    pass->n_sequences = batch->n_sequences;
    pass->sequence_length = batch->sequence_length;
    pass->mask = batch->mask ? model->mask : NULL;
    pass->document_start = batch->document_start ? model->document_start : NULL;
    pass->cos_table = model->cos_table;
    pass->sin_table = model->sin_table;
    return EMBER_OK;
}

/* Cross-entropy of the micro-batch; with `scale` also d_normed and the head's gradient. */
static ember_status head_loss(ember_model *model, const model_pass *pass, const ember_loss_scale *scale, ember_step_stats *stats) {
    ember_param *head = model_head(model);
    const ember_cross_entropy_args args = {.n_tokens = pass->n_tokens,
                                           .hidden = model->hparams.hidden_size,
                                           .vocab_size = model->hparams.vocab_size,
                                           .x = model->normed_final,
                                           .weight = head->value.data,
                                           .targets = model->target_ids,
                                           .loss = model->loss,
                                           .loss_sum = &stats->ce_sum,
                                           .scale = scale ? (float)scale->ce : 0.0f,
                                           .dx = scale ? model->d_normed : NULL,
                                           .d_weight = scale ? head->grad.data : NULL};
    return model->backend->ops->cross_entropy(model->backend, &args);
}

static void count_batch(const ember_micro_batch *batch, ember_step_stats *stats) {
    const int64_t n = batch->n_sequences * batch->sequence_length;
    for (int64_t i = 0; i < n; i++) {
        if (!batch->mask || batch->mask[i]) stats->n_inputs++;
        if (batch->target_ids && batch->target_ids[i] >= 0) stats->n_targets++;
    }
}

ember_status ember_model_run(ember_model *model, const ember_micro_batch *batch, const ember_loss_scale *scale, ember_step_stats *stats,
                             ember_tracker *tracker, int64_t *full_layer) {
    *full_layer = -1;
    if (scale && !model->grads) return ember_fail(EMBER_E_STATE, "this model was made without training: it has no backward pass");
    if (scale && !batch->target_ids) return ember_fail(EMBER_E_ARGUMENT, "a backward pass needs target ids");
    model_pass pass = {.keep = scale || tracker, .stats = stats, .tracker = tracker, .full_layer = -1};
    EMBER_TRY(model_load_batch(model, batch, &pass));
    const ember_status status = model_forward(model, &pass);
    if (status != EMBER_OK) {
        *full_layer = status == EMBER_E_CAPACITY ? pass.full_layer : -1;
        return status;
    }
    count_batch(batch, stats);
    if (batch->target_ids) EMBER_TRY(head_loss(model, &pass, scale, stats));
    return scale ? model_backward(model, &pass, scale->l1) : EMBER_OK;
}

ember_status ember_model_logits(ember_model *model, const ember_micro_batch *batch, float *logits, int64_t *full_layer) {
    *full_layer = -1;
    enum { ROWS = 64 };
    const int64_t d = model->hparams.hidden_size;
    const int64_t vocab_size = model->hparams.vocab_size;
    const ember_ops *ops = model->backend->ops;
    model_pass pass = {.full_layer = -1};
    EMBER_TRY(model_load_batch(model, batch, &pass));
    EMBER_TRY(model_forward(model, &pass));
    float *rows = NULL;
    EMBER_TRY(ops->allocate(model->backend, (void **)&rows, (size_t)(ROWS * vocab_size) * sizeof(float), "logits"));
    ember_status status = EMBER_OK;
    for (int64_t first = 0; status == EMBER_OK && first < pass.n_tokens; first += ROWS) {
        const int64_t n = pass.n_tokens - first < ROWS ? pass.n_tokens - first : ROWS;
        status = ops->linear_forward(model->backend, model_matrix(rows, n, vocab_size), model_matrix(model->normed_final + first * d, n, d),
                                     model_head(model)->value, NULL, 0.0f);
        if (status == EMBER_OK) {
            status = ops->download(model->backend, logits + first * vocab_size, rows, (size_t)(n * vocab_size) * sizeof(float));
        }
    }
    ops->release(model->backend, rows);
    return status;
}
