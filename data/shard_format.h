/* shard_format.h - the names inside a token shard, shared by its reader and its writer
 * (data/FORMAT.md describes them). */
#ifndef EMBER_SHARD_FORMAT_H
#define EMBER_SHARD_FORMAT_H

#include <stdint.h>

#define SHARD_FORMAT "ember-tokens"
#define SHARD_TOKENS "/tokens"
#define SHARD_DOCUMENTS "/documents"
#define SHARD_TOKENIZER "/tokenizer"
#define SHARD_TOKENIZER_NAME "tokenizer_name"
#define SHARD_TOKENIZER_HASH "tokenizer_hash"
#define SHARD_VOCAB_SIZE "vocab_size"
#define SHARD_EOS "eos_token_id"
#define SHARD_SOURCE_BYTES "source_bytes"

enum { SHARD_VERSION = 1 };
/* Ids are int32 in a batch. */
#define SHARD_MAX_VOCAB INT64_C(2147483647)

#endif
