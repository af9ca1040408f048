/* hf_config.h - a Hugging Face config.json (Llama, Qwen2) as hyper-parameters. */
#ifndef EMBER_HF_CONFIG_H
#define EMBER_HF_CONFIG_H

#include "lib/base/hparams.h"

/* Every key is used, known to be irrelevant, or named in the refusal. `report` (may be NULL) gets
 * one line a key: name, value, "from file" or "default". Errors: EMBER_E_FORMAT,
 * EMBER_E_UNSUPPORTED, EMBER_E_NOT_FOUND (missing key); messages start with `path`. */
EMBER_CHECKED ember_status ember_hf_config_parse(ember_hparams *out, ember_bytes *report, const char *json, size_t n, const char *path);

#endif
