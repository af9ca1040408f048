/* history.h - one row a finished optimizer step: what /history of a checkpoint holds. */
#ifndef EMBER_HISTORY_H
#define EMBER_HISTORY_H

#include "checkpoints/checkpoint.h"

/* The numbers of one step. Arrays are [n_layers]. */
typedef struct ember_history_row {
    int64_t step; /* 1, 2, ... without gaps */
    int64_t tokens_seen;
    double loss; /* ce + lambda * mean L1 */
    double ce;
    double l1;         /* mean over layers of L1(layer) */
    double valid_loss; /* NaN: not evaluated after this step */
    double lr;
    double lambda; /* mean over layers */
    double grad_norm;
    double tokens_per_s;
    float *l0;           /* mean firing neurons a token */
    float *l1_per_layer; /* mean over tokens of sum |h| */
    int32_t *dead;       /* after the step */
    uint8_t *mode;       /* ember_ffn_mode of the step */
    int64_t *spill;      /* entries that needed the spill array */
} ember_history_row;

typedef struct ember_history ember_history;

EMBER_CHECKED ember_status ember_history_create(ember_history **out, int64_t n_layers);
void ember_history_free(ember_history *history);
int64_t ember_history_n(const ember_history *history);
int64_t ember_history_n_layers(const ember_history *history);
/* Room for `n` rows, so that appending them allocates nothing. */
EMBER_CHECKED ember_status ember_history_reserve(ember_history *history, int64_t n);
/* Copies the row. Its step must be that of the last row + 1, or any for the first: EMBER_E_STATE. */
EMBER_CHECKED ember_status ember_history_append(ember_history *history, const ember_history_row *row);
/* Row `index`; its arrays point into the history and live until the next append or reserve. */
ember_history_row ember_history_at(const ember_history *history, int64_t index);
void ember_history_set_valid_loss(ember_history *history, int64_t index, double valid_loss);
/* Columns under /history: [n] each, [n, n_layers] per layer. */
EMBER_CHECKED ember_status ember_history_save(const ember_history *history, ember_checkpoint_writer *writer);
/* Replaces the rows by those of a checkpoint. Errors: EMBER_E_NOT_FOUND (a column is missing),
 * EMBER_E_SHAPE, EMBER_E_CORRUPT (steps with gaps). */
EMBER_CHECKED ember_status ember_history_load(ember_history *history, const ember_checkpoint *checkpoint);

#endif
