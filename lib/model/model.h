/* model.h - the transformer: parameters, one micro-batch forward and backward, cached decoding. */
#ifndef EMBER_MODEL_H
#define EMBER_MODEL_H

#include "kernels/ops.h"
#include "lib/model/tracker.h"

typedef struct ember_model ember_model;

typedef struct ember_param {
    ember_param_spec spec;
    ember_tensor value;      /* backend memory, all four of the spec's shape */
    ember_tensor grad;       /* data NULL without training */
    ember_tensor exp_avg;    /* data NULL without training */
    ember_tensor exp_avg_sq; /* data NULL without training */
} ember_param;

typedef struct ember_model_options {
    bool training;
    int64_t n_sequences;     /* largest micro-batch */
    int64_t sequence_length; /* longest sequence, at most max_position_embeddings */
    int64_t compression;     /* C of TwELL */
    bool may_run_dense;      /* which modes the saved blocks are planned for */
    bool may_run_twell;
} ember_model_options;

/* Bytes by class; `ember plan` prints it, create allocates exactly it. */
typedef struct ember_memory_plan {
    size_t weight_bytes;
    size_t gradient_bytes;
    size_t optimizer_bytes;
    size_t activation_bytes; /* kept for backward, FFN excluded */
    size_t ffn_bytes;        /* kept FFN state of all layers */
    size_t workspace_bytes;  /* the backend's scratch */
    size_t tracker_bytes;
    size_t total_bytes;
    double flop_per_token; /* forward + backward (training) or forward, dense */
} ember_memory_plan;

EMBER_CHECKED ember_status ember_model_plan(ember_memory_plan *out, const ember_backend *backend, const ember_hparams *hparams,
                                            const ember_model_options *options);
/* `backend` is borrowed. Weights are zero until _init or loading. */
EMBER_CHECKED ember_status ember_model_create(ember_model **out, ember_backend *backend, const ember_hparams *hparams,
                                              const ember_model_options *options);
void ember_model_free(ember_model *model);
/* Normal(0, std) for matrices (residual outputs o_proj and down_proj with std / sqrt(2 L) when
 * `residual_scaling`), 1 for norms, 0 for biases; Philox stream = parameter index. */
EMBER_CHECKED ember_status ember_model_init(ember_model *model, uint64_t seed, double std, bool residual_scaling);
const ember_hparams *ember_model_hparams(const ember_model *model);
ember_backend *ember_model_backend(const ember_model *model);
int64_t ember_model_n_params(const ember_model *model);
ember_param *ember_model_param(ember_model *model, int64_t index);
EMBER_CHECKED ember_status ember_model_zero_grad(ember_model *model);

/* FFN mode of each layer; starts dense where allowed. silu refuses twell (EMBER_E_UNSUPPORTED). */
EMBER_CHECKED ember_status ember_model_set_mode(ember_model *model, int64_t layer, ember_ffn_mode mode);
ember_ffn_mode ember_model_mode(const ember_model *model, int64_t layer);

typedef struct ember_micro_batch {
    int64_t n_sequences;
    int64_t sequence_length;
    const int32_t *input_ids;      /* [B, T] */
    const int32_t *target_ids;     /* [B, T], -1 none; NULL: logits only */
    const uint8_t *mask;           /* [B, T] or NULL */
    const int32_t *document_start; /* [B, T] or NULL */
} ember_micro_batch;

/* Sums over micro-batches; zero-initialise per step. Arrays of n_layers are the caller's. */
typedef struct ember_step_stats {
    double ce_sum; /* over targets, nats */
    int64_t n_targets;
    int64_t n_inputs; /* non-padding */
    uint64_t *l0_sum; /* [L] */
    double *l1_sum;   /* [L] */
    int64_t *spill;   /* [L] entries that needed the spill array */
    int64_t *nnz;     /* [L] firing pairs, padding included: what the kernels worked on */
} ember_step_stats;

/* What a backward needs beside the batch. */
typedef struct ember_loss_scale {
    double ce;        /* 1 / targets of the optimizer step */
    const double *l1; /* [L] lambda / (L * non-padding inputs of the step) */
} ember_loss_scale;

/* Forward, and with `scale` backward (gradients accumulate). `tracker` (may be NULL) gets the
 * fire counts in its step_count. EMBER_E_CAPACITY: *full_layer is the layer whose spill array is too small;
 * call ember_model_grow_spill, drop gradients, stats and tracker step, and repeat the step. */
EMBER_CHECKED ember_status ember_model_run(ember_model *model, const ember_micro_batch *batch, const ember_loss_scale *scale,
                                           ember_step_stats *stats, ember_tracker *tracker, int64_t *full_layer);
/* Logits of every position, [B * T, V] into host memory (tests, golden_check). */
EMBER_CHECKED ember_status ember_model_logits(ember_model *model, const ember_micro_batch *batch, float *logits, int64_t *full_layer);
/* Enlarges the layer's spill plan to what the last run needed, at most all pairs. *entries = new capacity.
 * A forward pass alone (a run without scale and tracker, logits, decoding) does it by itself, except that a
 * model without training that may run dense redoes the layer dense. */
EMBER_CHECKED ember_status ember_model_grow_spill(ember_model *model, int64_t layer, int64_t *entries);
/* Entries that the layer's last forward needed (also after EMBER_E_CAPACITY); 0 in dense mode. */
int64_t ember_model_spill_needed(const ember_model *model, int64_t layer);
/* First parameter whose value (or gradient) holds NaN or infinity: its index, or -1. */
EMBER_CHECKED ember_status ember_model_find_nonfinite(ember_model *model, bool gradients, int64_t *index);

/* ---- decoding with a KV cache, one sequence */
typedef struct ember_kv_cache ember_kv_cache;
EMBER_CHECKED ember_status ember_kv_cache_create(ember_kv_cache **out, ember_model *model, int64_t capacity);
void ember_kv_cache_free(ember_kv_cache *cache);
void ember_kv_cache_reset(ember_kv_cache *cache);
int64_t ember_kv_cache_length(const ember_kv_cache *cache);
/* Runs `n` tokens after those in the cache; logits [V] of the last one into host memory (NULL:
 * not wanted). More tokens than fit are EMBER_E_ARGUMENT and change nothing. The result does not
 * depend on how a prompt is cut into calls beyond float32 rounding. */
EMBER_CHECKED ember_status ember_model_decode(ember_model *model, ember_kv_cache *cache, const int32_t *ids, int64_t n, float *logits);

#endif
