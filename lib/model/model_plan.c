/* model_plan.c - how much memory a model takes, where everything lies in it, and making one. */
#include <string.h>

#include "lib/base/status.h"
#include "lib/model/model_internal.h"
#include "lib/model/rope_table.h"

enum { FLOATS_PER_LINE = EMBER_ALIGNMENT / (int)sizeof(float) };

void *model_place(placement *place, int64_t n, size_t size) {
    void *at = place->base ? place->base + place->bytes : NULL;
    const size_t bytes = (size_t)n * size;
    place->bytes += (bytes + EMBER_ALIGNMENT - 1) / EMBER_ALIGNMENT * EMBER_ALIGNMENT;
    return at;
}

/* k and v follow q without a gap, and the biases likewise: one product makes q, k and v. */
static bool follows_closely(ember_param_role role) {
    return role == EMBER_PARAM_K || role == EMBER_PARAM_V || role == EMBER_PARAM_K_BIAS || role == EMBER_PARAM_V_BIAS;
}

/* Offsets of the parameters in a family, in floats; returns the floats of a family. */
static int64_t place_params(const ember_hparams *hparams, int64_t *offsets) {
    const int64_t n = ember_hparams_n_params(hparams);
    int64_t end = 0;
    for (int64_t i = 0; i < n; i++) {
        const ember_param_spec spec = ember_hparams_param(hparams, i);
        if (!follows_closely(spec.role)) end = (end + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE * FLOATS_PER_LINE;
        if (offsets) offsets[i] = end;
        end += spec.dims[0] * spec.dims[1];
    }
    return end;
}

static layer_arrays place_layer(const ember_model *model, placement *place) {
    const ember_hparams *p = &model->hparams;
    const int64_t n = model->max_tokens;
    const int64_t d = p->hidden_size;
    const int64_t heads = p->num_attention_heads + p->num_key_value_heads;
    return (layer_arrays){
        .rstd_in = model_place(place, n, sizeof(float)),
        .normed_in = model_place(place, n * d, sizeof(float)),
        .qkv = model_place(place, n * model_qkv_columns(p), sizeof(float)),
        .x_qk = p->qk_norm ? model_place(place, n * heads * p->head_dim, sizeof(float)) : NULL,
        .rstd_qk = p->qk_norm ? model_place(place, n * heads, sizeof(float)) : NULL,
        .heads_out = model_place(place, n * model_q_columns(p), sizeof(float)),
        .lse = model->options.training ? model_place(place, n * p->num_attention_heads, sizeof(float)) : NULL,
        .x_mid = model_place(place, n * d, sizeof(float)),
        .rstd_mid = model_place(place, n, sizeof(float)),
        .normed_mid = model_place(place, n * d, sizeof(float)),
        .x_out = model_place(place, n * d, sizeof(float)),
    };
}

/* Everything in `activations`; `model->layers` may be NULL while planning. */
static void place_activations(ember_model *model, placement *place) {
    const ember_hparams *p = &model->hparams;
    const int64_t n = model->max_tokens;
    const int64_t d = p->hidden_size;
    const bool training = model->options.training;
    model->input_ids = model_place(place, n, sizeof(int32_t));
    model->target_ids = model_place(place, n, sizeof(int32_t));
    model->positions = model_place(place, n, sizeof(int32_t));
    model->document_start = model_place(place, n, sizeof(int32_t));
    model->mask = model_place(place, n, sizeof(uint8_t));
    model->cos_table = model_place(place, model->options.sequence_length * (p->head_dim / 2), sizeof(float));
    model->sin_table = model_place(place, model->options.sequence_length * (p->head_dim / 2), sizeof(float));
    float *x_in = model_place(place, n * d, sizeof(float));
    layer_arrays arrays = {0};
    for (int64_t layer = 0; layer < p->num_hidden_layers; layer++) {
        /* Without training one set serves all layers, and a layer's result replaces its input. */
        if (training || layer == 0) arrays = place_layer(model, place);
        arrays.x_in = x_in;
        if (!training) arrays.x_out = x_in;
        x_in = arrays.x_out;
        if (model->layers) model->layers[layer].arrays = arrays;
    }
    model->x_final = x_in;
    model->rstd_final = model_place(place, n, sizeof(float));
    model->normed_final = model_place(place, n * d, sizeof(float));
    model->loss = model_place(place, n, sizeof(float));
    if (!training) return;
    model->d_residual = model_place(place, n * d, sizeof(float));
    model->d_normed = model_place(place, n * d, sizeof(float));
    model->d_qkv = model_place(place, n * model_qkv_columns(p), sizeof(float));
    model->d_heads = model_place(place, n * model_q_columns(p), sizeof(float));
}

ember_ffn_shape model_ffn_shape(const ember_model *model, int64_t layer, int64_t n_tokens) {
    const ember_hparams *p = &model->hparams;
    return (ember_ffn_shape){.n_tokens = n_tokens,
                             .hidden = p->hidden_size,
                             .n_neurons = p->neurons[layer],
                             .kind = p->ffn_kind,
                             .activation = p->activation,
                             .compression = model->options.compression};
}

/* Entries of a layer's spill array before any growth. Training starts small, because what it keeps is kept
 * a layer; inference takes the limit beyond which a dense product is the better choice. */
static int64_t planned_spill(const ember_model *model, int64_t layer) {
    if (!model->options.may_run_twell) return 0;
    const int64_t all = model->max_tokens * model->hparams.neurons[layer];
    const int64_t wanted = model->options.training ? (all + 63) / 64 + 1024 : (all + 7) / 8;
    return wanted < all ? wanted : all;
}

static size_t ffn_block_bytes(const ember_model *model, int64_t layer, int64_t spill_capacity) {
    const ember_ffn_shape shape = model_ffn_shape(model, layer, model->max_tokens);
    const ember_ops *ops = model->backend->ops;
    size_t bytes = 0;
    if (model->options.may_run_dense) bytes = ops->ffn_saved_bytes(&shape, EMBER_MODE_DENSE, 0);
    if (model->options.may_run_twell) {
        const size_t sparse = ops->ffn_saved_bytes(&shape, EMBER_MODE_TWELL, spill_capacity);
        bytes = sparse > bytes ? sparse : bytes;
    }
    return bytes;
}

ember_workspace_shape model_workspace_shape(const ember_model *model) {
    const ember_hparams *p = &model->hparams;
    ember_workspace_shape shape = {.n_tokens = model->max_tokens,
                                   .sequence_length = model->options.sequence_length,
                                   .hidden = p->hidden_size,
                                   .n_neurons = ember_hparams_max_neurons(p),
                                   .vocab_size = p->vocab_size,
                                   .n_heads = p->num_attention_heads,
                                   .n_kv_heads = p->num_key_value_heads,
                                   .head_dim = p->head_dim,
                                   .ffn_kind = p->ffn_kind,
                                   .compression = model->options.compression,
                                   .training = model->options.training};
    for (int64_t layer = 0; layer < p->num_hidden_layers; layer++) {
        const int64_t entries = model->layers ? model->layers[layer].saved.spill_capacity : planned_spill(model, layer);
        shape.spill_capacity = entries > shape.spill_capacity ? entries : shape.spill_capacity;
    }
    return shape;
}

/* Checks the options and sets what every layout function reads. */
static ember_status describe(ember_model *out, ember_backend *backend, const ember_hparams *hparams, const ember_model_options *options) {
    EMBER_TRY(ember_hparams_check(hparams));
    *out = (ember_model){.backend = backend, .hparams = *hparams, .options = *options};
    const int64_t length = options->sequence_length;
    if (length < 1 || length > hparams->max_position_embeddings) {
        return ember_fail(EMBER_E_ARGUMENT, "sequence length %lld; this model takes 1 to %lld (max_position_embeddings)", (long long)length,
                          (long long)hparams->max_position_embeddings);
    }
    if (options->n_sequences < 1 || options->n_sequences > INT32_MAX / length) {
        return ember_fail(EMBER_E_ARGUMENT, "%lld sequences of %lld tokens; a micro-batch holds 1 to %lld sequences of that length",
                          (long long)options->n_sequences, (long long)length, (long long)(INT32_MAX / length));
    }
    const int64_t c = options->compression;
    if (c != 2 && c != 4 && c != 8 && c != 16) {
        return ember_fail(EMBER_E_ARGUMENT, "compression is %lld; it must be 2, 4, 8 or 16", (long long)c);
    }
    if (hparams->activation == EMBER_SILU) out->options.may_run_twell = false;
    if (!out->options.may_run_dense && !out->options.may_run_twell) {
        return ember_fail(options->may_run_twell ? EMBER_E_UNSUPPORTED : EMBER_E_ARGUMENT,
                          "no FFN mode is left: activation %s; silu runs dense only, and a model needs at least one mode",
                          ember_activation_name(hparams->activation));
    }
    out->max_tokens = options->n_sequences * length;
    out->n_params = ember_hparams_n_params(hparams);
    out->family_elements = place_params(hparams, NULL);
    return EMBER_OK;
}

static size_t ffn_bytes(const ember_model *model) {
    size_t total = 0;
    for (int64_t layer = 0; layer < model->hparams.num_hidden_layers; layer++) {
        const size_t bytes = ffn_block_bytes(model, layer, planned_spill(model, layer));
        if (model->options.training) {
            total += bytes;
        } else if (bytes > total) {
            total = bytes;
        }
    }
    return total;
}

/* Multiply-adds count two. Causal attention sees (T + 1) / 2 keys on average, in two products;
 * backward costs twice the forward. The embedding lookup is free, the head is not. */
static double flop_per_token(const ember_model *model) {
    const ember_hparams *p = &model->hparams;
    double matrix = (double)p->vocab_size * (double)p->hidden_size;
    for (int64_t i = 1; i < model->n_params; i++) {
        const ember_param_spec spec = ember_hparams_param(p, i);
        if (spec.n_dims == 2 && spec.role != EMBER_PARAM_HEAD) matrix += (double)spec.dims[0] * (double)spec.dims[1];
    }
    const double attention = (double)p->num_hidden_layers * 2.0 * (double)model_q_columns(p) * (double)(model->options.sequence_length + 1);
    return (2.0 * matrix + attention) * (model->options.training ? 3.0 : 1.0);
}

ember_status ember_model_plan(ember_memory_plan *out, const ember_backend *backend, const ember_hparams *hparams,
                              const ember_model_options *options) {
    *out = (ember_memory_plan){0};
    /* Planning reads the backend's size functions only. */
    ember_backend view = {.ops = backend->ops, .n_threads = backend->n_threads};
    ember_model model;
    EMBER_TRY(describe(&model, &view, hparams, options));
    placement place = {0};
    place_activations(&model, &place);
    const ember_workspace_shape shape = model_workspace_shape(&model);
    out->weight_bytes = (size_t)model.family_elements * sizeof(float);
    out->gradient_bytes = options->training ? out->weight_bytes : 0;
    out->optimizer_bytes = options->training ? 2 * out->weight_bytes : 0;
    out->activation_bytes = place.bytes;
    out->ffn_bytes = ffn_bytes(&model);
    out->workspace_bytes = backend->ops->workspace_bytes(backend, &shape);
    out->tracker_bytes = options->training ? ember_tracker_bytes(hparams) : 0;
    out->total_bytes = out->weight_bytes + out->gradient_bytes + out->optimizer_bytes + out->activation_bytes + out->ffn_bytes +
                       out->workspace_bytes + out->tracker_bytes;
    out->flop_per_token = flop_per_token(&model);
    return EMBER_OK;
}

static ember_param **slot_of(layer_params *params, ember_param_role role) {
    switch (role) {
    case EMBER_PARAM_ATTENTION_NORM: return &params->attention_norm;
    case EMBER_PARAM_Q: return &params->q;
    case EMBER_PARAM_K: return &params->k;
    case EMBER_PARAM_V: return &params->v;
    case EMBER_PARAM_Q_BIAS: return &params->q_bias;
    case EMBER_PARAM_K_BIAS: return &params->k_bias;
    case EMBER_PARAM_V_BIAS: return &params->v_bias;
    case EMBER_PARAM_Q_NORM: return &params->q_norm;
    case EMBER_PARAM_K_NORM: return &params->k_norm;
    case EMBER_PARAM_O: return &params->o;
    case EMBER_PARAM_FFN_NORM: return &params->ffn_norm;
    case EMBER_PARAM_GATE: return &params->gate;
    case EMBER_PARAM_UP: return &params->up;
    case EMBER_PARAM_DOWN: return &params->down;
    case EMBER_PARAM_EMBEDDING:
    case EMBER_PARAM_FINAL_NORM:
    case EMBER_PARAM_HEAD: break;
    }
    return NULL;
}

static ember_tensor view(float *family, int64_t offset, const ember_param_spec *spec) {
    ember_tensor tensor = {.data = family ? family + offset : NULL, .dtype = EMBER_F32, .n_dims = spec->n_dims, .dims = {spec->dims[0]}};
    if (spec->n_dims == 2) tensor.dims[1] = spec->dims[1];
    return tensor;
}

static ember_status allocate_params(ember_model *model) {
    const ember_ops *ops = model->backend->ops;
    const size_t bytes = (size_t)model->family_elements * sizeof(float);
    EMBER_TRY(ops->allocate(model->backend, (void **)&model->values, bytes, "weights"));
    EMBER_TRY(ops->clear(model->backend, model->values, bytes));
    if (model->options.training) {
        EMBER_TRY(ops->allocate(model->backend, (void **)&model->grads, bytes, "gradients"));
        EMBER_TRY(ops->allocate(model->backend, (void **)&model->exp_avg, bytes, "first moments"));
        EMBER_TRY(ops->allocate(model->backend, (void **)&model->exp_avg_sq, bytes, "second moments"));
        EMBER_TRY(ops->clear(model->backend, model->grads, bytes));
        EMBER_TRY(ops->clear(model->backend, model->exp_avg, bytes));
        EMBER_TRY(ops->clear(model->backend, model->exp_avg_sq, bytes));
    }
    EMBER_TRY(ember_allocate((void **)&model->params, (size_t)model->n_params, sizeof *model->params, "parameter list"));
    int64_t *offsets = NULL;
    EMBER_TRY(ember_allocate((void **)&offsets, (size_t)model->n_params, sizeof *offsets, "parameter offsets"));
    (void)place_params(&model->hparams, offsets);
    for (int64_t i = 0; i < model->n_params; i++) {
        ember_param *param = &model->params[i];
        param->spec = ember_hparams_param(&model->hparams, i);
        param->value = view(model->values, offsets[i], &param->spec);
        param->grad = view(model->grads, offsets[i], &param->spec);
        param->exp_avg = view(model->exp_avg, offsets[i], &param->spec);
        param->exp_avg_sq = view(model->exp_avg_sq, offsets[i], &param->spec);
        ember_param **slot = param->spec.layer >= 0 ? slot_of(&model->layers[param->spec.layer].params, param->spec.role) : NULL;
        if (slot) *slot = param;
    }
    ember_release(offsets);
    return EMBER_OK;
}

static ember_status allocate_ffn(ember_model *model) {
    const ember_ops *ops = model->backend->ops;
    size_t shared_bytes = 0;
    for (int64_t layer = 0; layer < model->hparams.num_hidden_layers; layer++) {
        ember_ffn_saved *saved = &model->layers[layer].saved;
        saved->spill_capacity = planned_spill(model, layer);
        saved->block_bytes = ffn_block_bytes(model, layer, saved->spill_capacity);
        model->layers[layer].mode = model->options.may_run_dense ? EMBER_MODE_DENSE : EMBER_MODE_TWELL;
        if (saved->block_bytes > shared_bytes) shared_bytes = saved->block_bytes;
        if (model->options.training) EMBER_TRY(ops->allocate(model->backend, &saved->block, saved->block_bytes, "kept FFN state"));
    }
    if (model->options.training) return EMBER_OK;
    EMBER_TRY(ops->allocate(model->backend, &model->ffn_shared, shared_bytes, "FFN state"));
    for (int64_t layer = 0; layer < model->hparams.num_hidden_layers; layer++) {
        model->layers[layer].saved.block = model->ffn_shared;
        model->layers[layer].saved.block_bytes = shared_bytes;
    }
    return EMBER_OK;
}

static ember_status fill_rope_tables(ember_model *model) {
    const int64_t n = model->options.sequence_length * (model->hparams.head_dim / 2);
    float *tables = NULL;
    EMBER_TRY(ember_allocate((void **)&tables, (size_t)n, 2 * sizeof(float), "rotary tables"));
    ember_rope_table_fill(tables, tables + n, &model->hparams, model->options.sequence_length);
    const ember_ops *ops = model->backend->ops;
    ember_status status = ops->upload(model->backend, model->cos_table, tables, (size_t)n * sizeof(float));
    if (status == EMBER_OK) status = ops->upload(model->backend, model->sin_table, tables + n, (size_t)n * sizeof(float));
    ember_release(tables);
    return status;
}

static ember_status allocate_all(ember_model *model) {
    const ember_ops *ops = model->backend->ops;
    EMBER_TRY(ember_allocate((void **)&model->layers, (size_t)model->hparams.num_hidden_layers, sizeof *model->layers, "layer list"));
    EMBER_TRY(ember_allocate((void **)&model->host_positions, (size_t)model->max_tokens, sizeof(int32_t), "positions"));
    EMBER_TRY(allocate_params(model));
    EMBER_TRY(allocate_ffn(model));
    placement place = {0};
    place_activations(model, &place);
    EMBER_TRY(ops->allocate(model->backend, &model->activations, place.bytes, "activations"));
    place = (placement){.base = model->activations};
    place_activations(model, &place);
    EMBER_TRY(fill_rope_tables(model));
    const ember_workspace_shape shape = model_workspace_shape(model);
    return ops->prepare(model->backend, &shape);
}

ember_status ember_model_create(ember_model **out, ember_backend *backend, const ember_hparams *hparams,
                                const ember_model_options *options) {
    *out = NULL;
    ember_model *model = NULL;
    EMBER_TRY(ember_allocate((void **)&model, 1, sizeof *model, "model"));
    ember_status status = describe(model, backend, hparams, options);
    if (status == EMBER_OK) status = allocate_all(model);
    if (status != EMBER_OK) {
        ember_model_free(model);
        return status;
    }
    *out = model;
    return EMBER_OK;
}

void ember_model_free(ember_model *model) {
    if (!model) return;
    const ember_ops *ops = model->backend ? model->backend->ops : NULL;
    if (ops) {
        if (model->layers && model->options.training) {
            for (int64_t layer = 0; layer < model->hparams.num_hidden_layers; layer++)
                ops->release(model->backend, model->layers[layer].saved.block);
        }
        ops->release(model->backend, model->ffn_shared);
        ops->release(model->backend, model->activations);
        ops->release(model->backend, model->exp_avg_sq);
        ops->release(model->backend, model->exp_avg);
        ops->release(model->backend, model->grads);
        ops->release(model->backend, model->values);
    }
    ember_release(model->host_positions);
    ember_release(model->params);
    ember_release(model->layers);
    ember_release(model);
}

int64_t ember_model_spill_needed(const ember_model *model, int64_t layer) { return model->layers[layer].saved.spill_count; }

/* A larger block for the layer; without training it is the one of all layers. What it held is lost. */
static ember_status replace_block(ember_model *model, int64_t layer, size_t bytes) {
    const ember_ops *ops = model->backend->ops;
    ember_ffn_saved *saved = &model->layers[layer].saved;
    void *block = NULL;
    EMBER_TRY(ops->allocate(model->backend, &block, bytes, "enlarged FFN state"));
    ops->release(model->backend, saved->block);
    saved->block = block;
    saved->block_bytes = bytes;
    if (model->options.training) return EMBER_OK;
    model->ffn_shared = block;
    for (int64_t other = 0; other < model->hparams.num_hidden_layers; other++) {
        model->layers[other].saved.block = block;
        model->layers[other].saved.block_bytes = bytes;
    }
    return EMBER_OK;
}

ember_status ember_model_grow_spill(ember_model *model, int64_t layer, int64_t *entries) {
    ember_ffn_saved *saved = &model->layers[layer].saved;
    *entries = saved->spill_capacity;
    const int64_t needed = saved->spill_count;
    if (needed <= saved->spill_capacity) return EMBER_OK;
    /* A quarter more than asked for, so that slow drift does not repeat a step again and again. */
    const int64_t all = model->max_tokens * model->hparams.neurons[layer];
    const int64_t wanted = needed + needed / 4;
    const int64_t capacity = wanted < all ? wanted : all;
    const size_t bytes = ffn_block_bytes(model, layer, capacity);
    if (model->options.training || bytes > saved->block_bytes) EMBER_TRY(replace_block(model, layer, bytes));
    saved->spill_capacity = capacity;
    *entries = capacity;
    const ember_workspace_shape shape = model_workspace_shape(model);
    return model->backend->ops->prepare(model->backend, &shape);
}
