/* model_fixture.h - tiny models with random parameters, and one step of them, for the model tests. */
#ifndef EMBER_MODEL_FIXTURE_H
#define EMBER_MODEL_FIXTURE_H

#include <math.h>

#include "lib/base/philox.h"
#include "lib/model/model.h"
#include "tests/check.h"

enum { FIXTURE_LAYERS = 4 };

/* Two layers of unequal width, grouped heads; tests change what they are about. */
static inline ember_hparams fixture_hparams(void) {
    return (ember_hparams){.vocab_size = 11,
                           .hidden_size = 8,
                           .num_hidden_layers = 2,
                           .num_attention_heads = 4,
                           .num_key_value_heads = 2,
                           .head_dim = 4,
                           .max_position_embeddings = 64,
                           .neurons = {13, 6},
                           .ffn_kind = EMBER_FFN_GATED,
                           .activation = EMBER_RELU,
                           .rms_norm_eps = 1e-5,
                           .rope_theta = 10000.0,
                           .tie_word_embeddings = true,
                           .bos_token_id = -1};
}

/* Matrices and biases N(0, 0.5), norms around 1: everything matters. */
static inline float fixture_value(const ember_param_spec *spec, int64_t index, int64_t element) {
    const float z = ember_philox_normal(77, (uint64_t)(1000 + index), (uint64_t)element);
    const bool norm =
        spec->n_dims == 1 && spec->role != EMBER_PARAM_Q_BIAS && spec->role != EMBER_PARAM_K_BIAS && spec->role != EMBER_PARAM_V_BIAS;
    return norm ? 1.0f + 0.2f * z : 0.5f * z;
}

static inline void fixture_fill(ember_model *model) {
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        const ember_param *param = ember_model_param(model, i);
        for (int64_t k = 0; k < ember_tensor_count(param->value); k++)
            ((float *)param->value.data)[k] = fixture_value(&param->spec, i, k);
    }
}

static inline void fixture_set_column(ember_model *model, const char *name, bool row, float value) {
    const int64_t index = ember_hparams_find(ember_model_hparams(model), name);
    assert_true(index >= 0);
    const ember_tensor tensor = ember_model_param(model, index)->value;
    float *data = tensor.data;
    for (int64_t k = 0; k < tensor.dims[row ? 1 : 0]; k++)
        data[row ? k : k * tensor.dims[1]] = value;
}

/* Makes inputs `id` silent: no gate of theirs opens in any layer. Dimension 0 of the residual stream is theirs
 * alone, since nothing else writes into it, and every gate is closed by it. Other inputs do not notice. */
static inline void fixture_silence(ember_model *model, int64_t id) {
    const ember_hparams *p = ember_model_hparams(model);
    char name[80];
    fixture_set_column(model, "model.embed_tokens.weight", false, 0.0f);
    float *row = (float *)ember_model_param(model, ember_hparams_find(p, "model.embed_tokens.weight"))->value.data + id * p->hidden_size;
    for (int64_t k = 0; k < p->hidden_size; k++)
        row[k] = k == 0 ? 8.0f : 0.0f;
    for (int layer = 0; layer < (int)p->num_hidden_layers; layer++) {
        (void)snprintf(name, sizeof name, "model.layers.%d.self_attn.o_proj.weight", layer);
        fixture_set_column(model, name, true, 0.0f);
        (void)snprintf(name, sizeof name, "model.layers.%d.mlp.gate_proj.weight", layer);
        fixture_set_column(model, name, false, -20.0f);
        (void)snprintf(name, sizeof name, "model.layers.%d.mlp.down_proj.weight", layer);
        fixture_set_column(model, name, false, 0.0f);
    }
}

static inline void check_close(double value, double wanted, double margin) {
    if (!(fabs(value - wanted) <= margin)) fail_msg("%.17g is not within %g of %.17g", value, margin, wanted);
}

typedef struct fixture_batch {
    int64_t n_sequences, sequence_length;
    int32_t *input_ids, *target_ids, *document_start;
    uint8_t *mask;
} fixture_batch;

/* Random ids; with padding every other sequence ends in some; with documents each sequence has a
 * boundary. */
static inline fixture_batch fixture_batch_create(int64_t n_sequences, int64_t length, int64_t vocab_size, bool padding, bool documents) {
    const size_t n = (size_t)(n_sequences * length);
    fixture_batch batch = {.n_sequences = n_sequences,
                           .sequence_length = length,
                           .input_ids = calloc(n, sizeof(int32_t)),
                           .target_ids = calloc(n, sizeof(int32_t)),
                           .document_start = documents ? calloc(n, sizeof(int32_t)) : NULL,
                           .mask = padding ? calloc(n, 1) : NULL};
    assert_non_null(batch.input_ids);
    assert_non_null(batch.target_ids);
    for (int64_t i = 0; i < (int64_t)n; i++) {
        const int64_t sequence = i / length, t = i % length;
        const int64_t n_real = padding && sequence % 2 == 1 ? length - 1 - sequence % (length > 1 ? length - 1 : 1) : length;
        const bool real = t < (n_real > 0 ? n_real : 1);
        batch.input_ids[i] = real ? (int32_t)(ember_philox_u32(5, 1, (uint64_t)i) % (uint32_t)vocab_size) : 0;
        batch.target_ids[i] = real && ember_philox_u32(5, 3, (uint64_t)i) % 7 != 0
                                  ? (int32_t)(ember_philox_u32(5, 2, (uint64_t)i) % (uint32_t)vocab_size)
                                  : -1;
        if (batch.mask) batch.mask[i] = real ? 1 : 0;
        if (batch.document_start) batch.document_start[i] = t >= (length + sequence % 3) / 2 ? (int32_t)((length + sequence % 3) / 2) : 0;
    }
    return batch;
}

static inline void fixture_batch_free(fixture_batch *batch) {
    free(batch->input_ids);
    free(batch->target_ids);
    free(batch->document_start);
    free(batch->mask);
}

/* Sequences [first, first + n) as a micro-batch. */
static inline ember_micro_batch fixture_micro(const fixture_batch *batch, int64_t first, int64_t n) {
    const int64_t offset = first * batch->sequence_length;
    return (ember_micro_batch){.n_sequences = n,
                               .sequence_length = batch->sequence_length,
                               .input_ids = batch->input_ids + offset,
                               .target_ids = batch->target_ids + offset,
                               .mask = batch->mask ? batch->mask + offset : NULL,
                               .document_start = batch->document_start ? batch->document_start + offset : NULL};
}

typedef struct fixture_stats {
    ember_step_stats stats;
    uint64_t l0_sum[FIXTURE_LAYERS];
    double l1_sum[FIXTURE_LAYERS];
    int64_t spill[FIXTURE_LAYERS];
    int64_t nnz[FIXTURE_LAYERS];
    int64_t full_micro[2]; /* of fixture_step: first and last micro-batch (0, 1, ...) that found a spill array full; -1: none */
} fixture_stats;

static inline void fixture_stats_clear(fixture_stats *s) {
    memset(s, 0, sizeof *s);
    s->stats = (ember_step_stats){.l0_sum = s->l0_sum, .l1_sum = s->l1_sum, .spill = s->spill, .nnz = s->nnz};
}

/* A whole step in micro-batches of `micro` sequences with `lambda` a layer; grows spill arrays and
 * starts again as often as needed, and returns how often. */
static inline int fixture_step(ember_model *model, const fixture_batch *batch, int64_t micro, const double *lambda, fixture_stats *s,
                               ember_tracker *tracker) {
    const int64_t n_layers = ember_model_hparams(model)->num_hidden_layers;
    int64_t n_inputs = 0, n_targets = 0;
    for (int64_t i = 0; i < batch->n_sequences * batch->sequence_length; i++) {
        n_inputs += !batch->mask || batch->mask[i] ? 1 : 0;
        n_targets += batch->target_ids[i] >= 0 ? 1 : 0;
    }
    double l1[FIXTURE_LAYERS] = {0};
    for (int64_t layer = 0; layer < n_layers; layer++)
        l1[layer] = lambda[layer] / (double)(n_layers * n_inputs);
    const ember_loss_scale scale = {.ce = 1.0 / (double)n_targets, .l1 = l1};
    int64_t full_micro[2] = {-1, -1};
    for (int repeats = 0;; repeats++) {
        fixture_stats_clear(s);
        if (tracker) ember_tracker_drop_step(tracker);
        check_ok(ember_model_zero_grad(model));
        ember_status status = EMBER_OK;
        int64_t full_layer = -1;
        int64_t first = 0;
        for (; status == EMBER_OK && first < batch->n_sequences; first += micro) {
            const ember_micro_batch part = fixture_micro(batch, first, micro);
            status = ember_model_run(model, &part, &scale, &s->stats, tracker, &full_layer);
        }
        if (status != EMBER_E_CAPACITY) {
            check_ok(status);
            assert_int_equal(s->stats.n_inputs, n_inputs);
            assert_int_equal(s->stats.n_targets, n_targets);
            memcpy(s->full_micro, full_micro, sizeof full_micro);
            return repeats;
        }
        full_micro[1] = first / micro - 1;
        if (repeats == 0) full_micro[0] = full_micro[1];
        int64_t entries = 0;
        check_ok(ember_model_grow_spill(model, full_layer, &entries));
        assert_true(entries > 0);
    }
}

#endif
