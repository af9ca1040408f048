/* model_io.h - a checkpoint becomes a model for inference. (A run's full state, optimizer and counters
 * included, is saved and restored by the trainer.) */
#ifndef EMBER_MODEL_IO_H
#define EMBER_MODEL_IO_H

#include "checkpoints/checkpoint.h"
#include "lib/base/log.h"
#include "lib/model/model.h"

/* Reads every parameter into `model`, whose hyper-parameters are the checkpoint's. bf16 becomes
 * float32 exactly. */
EMBER_CHECKED ember_status ember_model_load_params(ember_model *model, const ember_checkpoint *checkpoint);

/* Firing pairs of a layer in the checkpoint's window, and the tokens it covers; both 0 when the
 * checkpoint has no counts (imported weights). */
EMBER_CHECKED ember_status ember_checkpoint_window(const ember_checkpoint *checkpoint, int64_t layer, int64_t *nnz, int64_t *n_tokens);

/* Mode of every layer for passes over many tokens. `ffn_mode`: "dense", "twell" (refused for silu), or
 * "auto": by the checkpoint's own cost table (/state/ffn_costs) and firing counts; without a table, or with one
 * that lacks a layer's shape, every layer stays dense. The model was planned for the modes that this may ask for. */
EMBER_CHECKED ember_status ember_model_choose_modes(ember_model *model, const ember_checkpoint *checkpoint, const char *ffn_mode,
                                                    int64_t n_tokens, int64_t compression);

#endif
