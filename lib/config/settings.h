/* settings.h - the values of a config, one field a key. lib/config/schema.c has one row a field:
 * name, type, default, bounds, unit, help. A key comes with the feature that reads it. */
#ifndef EMBER_SETTINGS_H
#define EMBER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/hparams.h"

enum { EMBER_MAX_LIST = 64 };

typedef struct ember_text_list {
    int64_t n;
    const char *item[EMBER_MAX_LIST]; /* owned by the ember_config */
} ember_text_list;

typedef struct ember_number_list {
    int64_t n;
    double item[EMBER_MAX_LAYERS];
} ember_number_list;

typedef enum ember_device_kind { EMBER_DEVICE_AUTO = 0, EMBER_DEVICE_CPU = 1, EMBER_DEVICE_CUDA = 2 } ember_device_kind;
typedef enum ember_ffn_setting { EMBER_FFN_AUTO = 0, EMBER_FFN_DENSE = 1, EMBER_FFN_TWELL = 2 } ember_ffn_setting;
typedef enum ember_schedule_kind {
    EMBER_SCHEDULE_CONSTANT = 0,
    EMBER_SCHEDULE_LINEAR = 1,
    EMBER_SCHEDULE_COSINE = 2,
    EMBER_SCHEDULE_WSD = 3
} ember_schedule_kind;

typedef struct ember_settings {
    struct {
        const char *name;   /* default: the config file's stem */
        const char *output; /* folder; default runs/<name> */
        uint64_t seed;      /* 0 .. 2^64-1 */
        ember_device_kind device;
        int64_t threads; /* 0: all available */
    } run;
    struct {
        int64_t vocab_size; /* 0: that of the shards */
        int64_t hidden_size;
        int64_t intermediate_size;
        ember_number_list neurons_per_layer; /* empty: intermediate_size everywhere */
        int64_t num_hidden_layers;
        int64_t num_attention_heads;
        int64_t num_key_value_heads;     /* 0: as num_attention_heads */
        int64_t head_dim;                /* 0: hidden_size / num_attention_heads */
        int64_t max_position_embeddings; /* 0: train.sequence_length */
        double rms_norm_eps;
        double rope_theta;
        struct {
            ember_rope_scaling type;
            double factor;
            double low_freq_factor;
            double high_freq_factor;
            int64_t original_max_position_embeddings;
        } rope_scaling;
        bool tie_word_embeddings;
        bool qkv_bias;
        bool qk_norm;
    } model;
    struct {
        ember_text_list train;     /* globs of shards, or the single word synthetic */
        ember_number_list weights; /* mixture weight of each entry of train; empty: by tokens */
        ember_text_list valid;     /* globs of shards; may be empty */
        bool mask_documents;
        bool shuffle;
        bool verify;          /* hash shards when opened */
        double zipf_exponent; /* of the synthetic source */
    } data;
    struct {
        int64_t steps;
        int64_t stop_after;       /* 0: off */
        int64_t batch_size;       /* sequences per optimizer step */
        int64_t micro_batch_size; /* sequences per forward; 0: batch_size */
        int64_t sequence_length;  /* tokens */
        double lr;
        ember_schedule_kind schedule;
        int64_t warmup_steps;
        int64_t decay_steps;      /* wsd */
        double final_lr_fraction; /* linear, cosine, wsd */
        double beta1;
        double beta2;
        double eps;
        double weight_decay;
        double clip; /* global norm; 0: off */
    } train;
    struct {
        ember_number_list l1; /* lambda, one value or one a layer */
        int64_t l1_start_step;
        int64_t l1_warmup_steps;
        double target;      /* non-zero fraction; 0: no controller */
        double target_rate; /* controller gain per step */
        int64_t dead_after_tokens;
        int64_t window_tokens;
        int64_t revive_every; /* steps; 0: off */
    } sparsity;
    struct {
        ember_ffn_kind kind;
        ember_activation activation;
        ember_ffn_setting mode;
        int64_t compression; /* C: 2, 4, 8, 16 */
        const char *costs;   /* file of the cost table; "": <output>/ffn_costs.json */
    } ffn;
    struct {
        int64_t every; /* steps; 0: only at the end */
        int64_t keep_last;
        bool keep_best;
    } checkpoint;
    struct {
        int64_t every;     /* steps; 0: only at the end */
        int64_t sequences; /* 0: the whole validation set */
    } eval;
    struct {
        double std;
        bool residual_scaling; /* o_proj and down_proj drawn with std / sqrt(2 L) */
        const char *from;      /* "": fresh; a checkpoint: its weights, everything else starts anew */
    } init;
    struct {
        int64_t every; /* steps between printed lines */
    } log;
} ember_settings;

#endif
