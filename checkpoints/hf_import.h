/* hf_import.h - a Hugging Face folder becomes an Ember checkpoint of kind `weights`. */
#ifndef EMBER_HF_IMPORT_H
#define EMBER_HF_IMPORT_H

#include "checkpoints/safetensors.h"
#include "lib/base/hparams.h"
#include "lib/base/log.h"

/* FOLDER holds config.json, model.safetensors, tokenizer.json and optionally
 * generation_config.json. Streams tensor by tensor; weights are stored as float32. Prints "N of N
 * tensors used" and the defaults taken through `log`. Nothing is left under `path` on failure. */
EMBER_CHECKED ember_status ember_hf_import(const char *folder, const char *path, const ember_log *log);

/* The same until `cancelled` (asked every few megabytes; NULL: never) says true: EMBER_E_INTERRUPTED. */
EMBER_CHECKED ember_status ember_hf_import_until(const char *folder, const char *path, const ember_log *log, bool (*cancelled)(void *user),
                                                 void *user);

/* One parameter of a safetensors file in Ember's layout (down_proj transposed to neuron-major),
 * float32, `out` of the spec's element count. Errors name the tensor and both shapes. */
EMBER_CHECKED ember_status ember_hf_read_param(const ember_safetensors *file, const ember_param_spec *spec, float *out);

#endif
