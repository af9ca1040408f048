/* hf_tokens.h - token ids of a Hugging Face folder: the ends of text, and whether every token has a row. */
#ifndef EMBER_HF_TOKENS_H
#define EMBER_HF_TOKENS_H

#include "lib/base/hparams.h"

/* eos_token_id of generation_config.json joins those of config.json (the union, in order); bos_token_id is
 * taken where config.json has none. Errors: EMBER_E_FORMAT, EMBER_E_UNSUPPORTED (too many ids). */
EMBER_CHECKED ember_status hf_merge_generation_config(ember_hparams *hparams, const char *json, size_t n, const char *path);

/* Every id of model.vocab and added_tokens of a tokenizer.json is below `vocab_size`; EMBER_E_FORMAT names
 * the token and the id otherwise. Fewer tokens than rows are fine. */
EMBER_CHECKED ember_status hf_check_vocabulary(const char *json, size_t n, int64_t vocab_size, const char *path);

#endif
