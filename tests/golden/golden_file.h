/* golden_file.h - one file of reference vectors, read whole. Layout: config.json and
 * model.safetensors (a Hugging Face folder), a batch, and what a double-precision model says about it. */
#ifndef EMBER_GOLDEN_FILE_H
#define EMBER_GOLDEN_FILE_H

#include "checkpoints/safetensors.h"
#include "lib/base/hparams.h"
#include "lib/h5/h5.h"

enum { GOLDEN_STEPS = 3 };

typedef struct golden_file {
    ember_h5_reader *file;
    ember_hparams hparams;
    ember_bytes safetensors_bytes;
    ember_safetensors *weights;
    int64_t n_sequences;
    int64_t sequence_length;
    int32_t *input_ids;  /* [B, T] */
    int32_t *target_ids; /* [B, T] */
    double *logits;      /* [B * T, V] */
    double ce_loss;
    double loss;
    double l1_per_layer[EMBER_MAX_LAYERS];
    double l0_per_layer[EMBER_MAX_LAYERS];
    double *fired_per_neuron; /* [L, h] */
    double train_loss[GOLDEN_STEPS];
    double train_grad_norm[GOLDEN_STEPS];
    double l1_coeff, grad_clip, lr, weight_decay, beta1, beta2, eps;
} golden_file;

EMBER_CHECKED ember_status golden_open(golden_file *out, const char *path);
void golden_close(golden_file *golden);
/* The parameter's float32 reference below `group` ("grad", "after3") in this tree's layout
 * (down_proj neuron-major). */
EMBER_CHECKED ember_status golden_read_param(const golden_file *golden, const char *group, const ember_param_spec *spec, float *out);
/* Every dataset below `group` is a parameter of the model; *n of them. */
EMBER_CHECKED ember_status golden_count_params(const golden_file *golden, const char *group, int64_t *n);

#endif
