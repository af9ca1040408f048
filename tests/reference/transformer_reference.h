/* transformer_reference.h - the transformer in double precision, written for the eye: one token
 * after the other, no fusion, nothing shared with the library but the list of parameters. Gradients come from
 * central differences of its loss. */
#ifndef EMBER_TRANSFORMER_REFERENCE_H
#define EMBER_TRANSFORMER_REFERENCE_H

#include "lib/base/hparams.h"

typedef struct reference_batch {
    int64_t n_sequences;           /* B */
    int64_t sequence_length;       /* T */
    const int32_t *input_ids;      /* [B, T] */
    const int32_t *target_ids;     /* [B, T], -1 none */
    const uint8_t *mask;           /* [B, T], 0 padding; NULL: all real */
    const int32_t *document_start; /* [B, T] or NULL */
} reference_batch;

typedef struct reference_result {
    double ce_sum;
    int64_t n_targets;
    int64_t n_inputs;
    double l0_sum[EMBER_MAX_LAYERS];
    double l1_sum[EMBER_MAX_LAYERS];
} reference_result;

/* `params[i]` is parameter i of the hyper-parameters' list, row-major. `logits` [B T, V] or NULL. */
void transformer_reference_forward(reference_result *out, double *logits, const ember_hparams *hparams, double *const *params,
                                   const reference_batch *batch);

/* Cross-entropy over targets + 1/L sum over layers of lambda[l] * L1(l). */
double transformer_reference_loss(const ember_hparams *hparams, double *const *params, const reference_batch *batch, const double *lambda);

/* d loss / d params[index][element], by a central difference. */
double transformer_reference_gradient(const ember_hparams *hparams, double *const *params, const reference_batch *batch,
                                      const double *lambda, int64_t index, int64_t element);

#endif
