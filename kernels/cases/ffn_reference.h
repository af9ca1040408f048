/* ffn_reference.h - the feed-forward block as its definition reads, in double: slow and obvious. */
#ifndef EMBER_FFN_REFERENCE_H
#define EMBER_FFN_REFERENCE_H

#include "kernels/ops.h"

/* Beside every value the sum of the magnitudes of its terms: rounding is judged against that. */
typedef struct ember_ffn_reference {
    double *y; /* [M, d], without what `accumulate` adds to */
    double *y_size;
    double *dx; /* [M, d] */
    double *dx_size;
    double *d_gate; /* [h, d]; unused for plain */
    double *d_gate_size;
    double *d_up; /* [h, d] */
    double *d_up_size;
    double *d_down; /* [h, d] */
    double *d_down_size;
    uint64_t *fire_count; /* [h] */
    uint32_t *token_l0;   /* [M] */
    uint64_t l0_sum;
    double l1_sum;
    int64_t nnz; /* padding tokens included */
    double *block;
} ember_ffn_reference;

EMBER_CHECKED ember_status ember_ffn_reference_create(ember_ffn_reference *out, const ember_ffn_shape *shape);
void ember_ffn_reference_free(ember_ffn_reference *reference);

/* Forward from args->given_g (or from the gate product in double, rounded to float32 once), and with dy also backward.
 * silu is silu; `mode` is not looked at. */
void ember_ffn_reference_run(ember_ffn_reference *out, const ember_ffn_args *args);

#endif
