/* model_internal.h - what the files model_*.c share; nobody else includes it.
 *
 * Memory: one allocation a family (weights, gradients, two moments, activations), one FFN block a
 * layer when training (each may grow), one for all layers otherwise. The same layout functions
 * run without a base address to plan and with one to place. */
#ifndef EMBER_MODEL_INTERNAL_H
#define EMBER_MODEL_INTERNAL_H

#include "lib/model/model.h"

/* Places arrays one after the other, each 64-byte aligned; without a base it only counts. */
typedef struct placement {
    char *base;
    size_t bytes;
} placement;
void *model_place(placement *place, int64_t n, size_t size);

/* The parameters of one layer; NULL where the model has none. q, k, v lie back to back in every
 * family, and so do their biases: one matrix [(H + 2 KV) D, d]. */
typedef struct layer_params {
    ember_param *attention_norm;
    ember_param *q, *k, *v;
    ember_param *q_bias, *k_bias, *v_bias;
    ember_param *q_norm, *k_norm;
    ember_param *o;
    ember_param *ffn_norm;
    ember_param *gate, *up, *down;
} layer_params;

/* What the forward pass leaves for backward. Without training all layers share one set. */
typedef struct layer_arrays {
    float *x_in;       /* [M, d] residual before attention */
    float *rstd_in;    /* [M] */
    float *normed_in;  /* [M, d] */
    float *qkv;        /* [M, (H + 2 KV) D] after norm and rotation */
    float *x_qk;       /* [M, (H + KV) D] before the q/k norm; NULL without */
    float *rstd_qk;    /* [M, H + KV]; NULL without */
    float *heads_out;  /* [M, H D] */
    float *lse;        /* [B, H, T]; NULL without training */
    float *x_mid;      /* [M, d] residual before the FFN */
    float *rstd_mid;   /* [M] */
    float *normed_mid; /* [M, d] */
    float *x_out;      /* [M, d]; the next layer's x_in */
} layer_arrays;

typedef struct model_layer {
    layer_params params;
    layer_arrays arrays;
    ember_ffn_saved saved;
    ember_ffn_mode mode;
} model_layer;

struct ember_model {
    ember_backend *backend;
    ember_hparams hparams;
    ember_model_options options;
    int64_t max_tokens; /* M = n_sequences * sequence_length */

    int64_t n_params;
    ember_param *params;
    int64_t family_elements; /* floats of one family, alignment gaps included */
    float *values;
    float *grads;
    float *exp_avg;
    float *exp_avg_sq;

    model_layer *layers;
    void *ffn_shared; /* the one FFN block without training */
    void *activations;
    /* inside `activations` */
    int32_t *input_ids;      /* [M] */
    int32_t *target_ids;     /* [M] */
    int32_t *positions;      /* [M] */
    int32_t *document_start; /* [M] */
    uint8_t *mask;           /* [M] */
    float *cos_table;        /* [sequence_length, D / 2] */
    float *sin_table;
    float *x_final; /* [M, d] the last layer's x_out */
    float *rstd_final;
    float *normed_final; /* [M, d] */
    float *loss;         /* [M] */
    float *d_residual;   /* [M, d]; these four only with training */
    float *d_normed;     /* [M, d] */
    float *d_qkv;        /* [M, (H + 2 KV) D] */
    float *d_heads;      /* [M, H D] */

    int32_t *host_positions; /* [M] on the host, to fill `positions` */
};

/* The shape and the sources of one pass through the layers. */
typedef struct model_pass {
    int64_t n_tokens;
    int64_t n_sequences;
    int64_t sequence_length;
    const uint8_t *mask;           /* backend, or NULL */
    const int32_t *document_start; /* backend, or NULL */
    const float *cos_table;
    const float *sin_table;
    bool keep; /* a backward follows: a full spill array ends the pass */
    ember_step_stats *stats;
    ember_tracker *tracker;
    int64_t full_layer;
    /* cached decoding: tokens in the cache, caches of layer 0, elements from one layer's to the next */
    int64_t n_past;
    int64_t cache_capacity;
    int64_t cache_stride;
    float *k_cache; /* NULL: no cache */
    float *v_cache;
} model_pass;

static inline int64_t model_q_columns(const ember_hparams *p) { return p->num_attention_heads * p->head_dim; }
static inline int64_t model_qkv_columns(const ember_hparams *p) {
    return (p->num_attention_heads + 2 * p->num_key_value_heads) * p->head_dim;
}
static inline ember_tensor model_matrix(float *data, int64_t rows, int64_t columns) {
    return ember_tensor_2d(data, EMBER_F32, rows, columns);
}
ember_ffn_shape model_ffn_shape(const ember_model *model, int64_t layer, int64_t n_tokens);
ember_workspace_shape model_workspace_shape(const ember_model *model);
/* Embedding or head: the matrix that makes the logits. */
ember_param *model_head(ember_model *model);
/* The fused q, k, v weights (or gradients) of a layer, [(H + 2 KV) D, d]. */
ember_tensor model_qkv_matrix(const ember_model *model, int64_t layer, bool gradient);

/* Embedding, all layers, final norm: normed_final holds the result. */
EMBER_CHECKED ember_status model_forward(ember_model *model, model_pass *pass);
/* From d_normed (gradient of normed_final) to every parameter. */
EMBER_CHECKED ember_status model_backward(ember_model *model, const model_pass *pass, const double *l1_scale);
/* Takes a micro-batch into the backend's memory, after checking it. */
EMBER_CHECKED ember_status model_load_batch(ember_model *model, const ember_micro_batch *batch, model_pass *pass);
EMBER_CHECKED ember_status model_check_ids(const ember_model *model, const char *what, const int32_t *ids, int64_t n, int32_t lowest);

/* What forward and backward of a layer tell an operation alike; the caller adds the gradients. */
ember_attention_args model_attention_args(const ember_model *model, int64_t layer, const model_pass *pass);
ember_qknorm_args model_qknorm_args(const ember_model *model, int64_t layer, const model_pass *pass);
/* `qkv`: the values (forward) or their gradient (backward). */
ember_rope_args model_rope_args(const ember_model *model, const model_pass *pass, float *qkv);

#endif
