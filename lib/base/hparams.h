/* hparams.h - the hyper-parameters of a model and the list of its parameters, as plain data:
 * what a config describes, a checkpoint stores, `plan` counts and the model allocates. */
#ifndef EMBER_BASE_HPARAMS_H
#define EMBER_BASE_HPARAMS_H

#include "lib/base/memory.h"
#include "lib/base/tensor.h"

enum {
    EMBER_MAX_LAYERS = 512,
    EMBER_MAX_NEURONS = 65536, /* a packed index has 16 bits */
    EMBER_MAX_HEAD_DIM = 256,
    EMBER_MAX_EOS = 16,
    EMBER_NAME_BYTES = 128
};

typedef enum ember_ffn_kind { EMBER_FFN_GATED = 0, EMBER_FFN_PLAIN = 1 } ember_ffn_kind;
typedef enum ember_activation { EMBER_RELU = 0, EMBER_RELU2 = 1, EMBER_SILU = 2 } ember_activation;
typedef enum ember_rope_scaling { EMBER_ROPE_NONE = 0, EMBER_ROPE_LINEAR = 1, EMBER_ROPE_LLAMA3 = 2 } ember_rope_scaling;

typedef struct ember_hparams {
    int64_t vocab_size;                /* V, rows of the embedding */
    int64_t hidden_size;               /* d */
    int64_t num_hidden_layers;         /* L */
    int64_t num_attention_heads;       /* H */
    int64_t num_key_value_heads;       /* H is a multiple of it */
    int64_t head_dim;                  /* even, 2..256 */
    int64_t max_position_embeddings;   /* longest sequence, tokens */
    int64_t neurons[EMBER_MAX_LAYERS]; /* h of each layer, 1..65536 */
    ember_ffn_kind ffn_kind;
    ember_activation activation;
    double rms_norm_eps;
    double rope_theta;
    ember_rope_scaling rope_scaling;
    double rope_factor;                            /* linear, llama3 */
    double rope_low_freq_factor;                   /* llama3 */
    double rope_high_freq_factor;                  /* llama3 */
    int64_t rope_original_max_position_embeddings; /* llama3 */
    bool tie_word_embeddings;
    bool qkv_bias;
    bool qk_norm;
    int64_t bos_token_id; /* -1: none */
    int64_t n_eos;
    int64_t eos_token_ids[EMBER_MAX_EOS];
} ember_hparams;

typedef enum ember_param_role {
    EMBER_PARAM_EMBEDDING = 0,  /* [V, d] */
    EMBER_PARAM_ATTENTION_NORM, /* [d] */
    EMBER_PARAM_Q,              /* [H * head_dim, d] */
    EMBER_PARAM_K,              /* [KV * head_dim, d] */
    EMBER_PARAM_V,              /* [KV * head_dim, d] */
    EMBER_PARAM_Q_BIAS,         /* [H * head_dim] */
    EMBER_PARAM_K_BIAS,
    EMBER_PARAM_V_BIAS,
    EMBER_PARAM_Q_NORM, /* [head_dim] */
    EMBER_PARAM_K_NORM, /* [head_dim] */
    EMBER_PARAM_O,      /* [d, H * head_dim] */
    EMBER_PARAM_FFN_NORM,
    EMBER_PARAM_GATE, /* [h, d]; absent for plain */
    EMBER_PARAM_UP,   /* [h, d] */
    EMBER_PARAM_DOWN, /* [h, d] neuron-major; Hugging Face: [d, h] */
    EMBER_PARAM_FINAL_NORM,
    EMBER_PARAM_HEAD /* [V, d]; absent when tied */
} ember_param_role;

typedef struct ember_param_spec {
    char name[EMBER_NAME_BYTES]; /* Hugging Face name, "model.layers.0.mlp.gate_proj.weight" */
    ember_param_role role;
    int layer;  /* -1 outside the layers */
    int n_dims; /* 1 or 2 */
    int64_t dims[2];
    bool decay;        /* weight decay applies: matrices (embedding and head included) */
    bool neuron_major; /* FFN matrix; checkpoint attribute layout = neuron_major */
} ember_param_spec;

/* All fields within bounds and consistent. Errors: EMBER_E_ARGUMENT; the message names the field,
 * its value and the limit. */
EMBER_CHECKED ember_status ember_hparams_check(const ember_hparams *hparams);

/* Parameters in their fixed order: embedding; per layer attention norm, q, k, v, (biases),
 * (q/k norm), o, FFN norm, (gate), up, down; final norm; (head). The index in this list is the
 * Philox stream of the parameter (EMBER_STREAM_TENSOR + index). */
int64_t ember_hparams_n_params(const ember_hparams *hparams);
ember_param_spec ember_hparams_param(const ember_hparams *hparams, int64_t index);
/* Index of a name, or -1. */
int64_t ember_hparams_find(const ember_hparams *hparams, const char *name);
/* Elements of all parameters. */
int64_t ember_hparams_n_elements(const ember_hparams *hparams);
int64_t ember_hparams_max_neurons(const ember_hparams *hparams);

const char *ember_ffn_kind_name(ember_ffn_kind kind);            /* "gated", "plain" */
const char *ember_activation_name(ember_activation activation);  /* "relu", "relu2", "silu" */
const char *ember_rope_scaling_name(ember_rope_scaling scaling); /* "none", "linear", "llama3" */
/* Return false when the name is unknown. */
bool ember_ffn_kind_parse(const char *name, ember_ffn_kind *out);
bool ember_activation_parse(const char *name, ember_activation *out);
bool ember_rope_scaling_parse(const char *name, ember_rope_scaling *out);

#endif
