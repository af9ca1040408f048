/* checkpoint_internal.h - what writer and reader of checkpoints share. */
#ifndef EMBER_CHECKPOINT_INTERNAL_H
#define EMBER_CHECKPOINT_INTERNAL_H

#include "checkpoints/checkpoint.h"

#define CHECKPOINT_FORMAT "ember-checkpoint"
#define CHECKPOINT_LAYOUT "neuron_major"
enum { CHECKPOINT_VERSION = 1, CHECKPOINT_PATH_BYTES = 2 * EMBER_NAME_BYTES };

/* "/model/model/layers/0/mlp/up_proj/weight" of group "model" and the Hugging Face name. */
void checkpoint_object(char out[CHECKPOINT_PATH_BYTES], const char *group, const char *name);

/* The attributes of /model. Reading checks the whole (ember_hparams_check). */
EMBER_CHECKED ember_status checkpoint_put_hparams(ember_h5_writer *file, const ember_hparams *hparams);
EMBER_CHECKED ember_status checkpoint_get_hparams(const ember_h5_reader *file, ember_hparams *out);

#endif
