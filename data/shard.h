/* shard.h - token shards (data/FORMAT.md): `tokens` uint16 or uint32, `documents` start offsets,
 * the tokenizer's text. Token reads are pread on the contiguous dataset, so they are thread-safe. */
#ifndef EMBER_SHARD_H
#define EMBER_SHARD_H

#include "lib/base/memory.h"

typedef struct ember_shard ember_shard;

/* Errors as ember_h5_open; also a token count, dtype, offset order or range that is not valid. */
EMBER_CHECKED ember_status ember_shard_open(ember_shard **out, const char *path, bool verify);
void ember_shard_close(ember_shard *shard);
const char *ember_shard_path(const ember_shard *shard);
int64_t ember_shard_n_tokens(const ember_shard *shard);
int64_t ember_shard_n_documents(const ember_shard *shard);
/* Start offset of each document, ascending, the first 0; owned by the shard. */
const int64_t *ember_shard_documents(const ember_shard *shard);
int64_t ember_shard_vocab_size(const ember_shard *shard);
int64_t ember_shard_eos(const ember_shard *shard);          /* separator id; -1: none */
int64_t ember_shard_source_bytes(const ember_shard *shard); /* bytes of text encoded; -1: unknown */
uint64_t ember_shard_tokenizer_hash(const ember_shard *shard);
uint64_t ember_shard_content_hash(const ember_shard *shard); /* of its tokens and documents, from the manifest */
const char *ember_shard_tokenizer_name(const ember_shard *shard);
const char *ember_shard_tokenizer_text(const ember_shard *shard, size_t *n);
/* Tokens [first, first + n) as uint32. A range outside the shard is EMBER_E_ARGUMENT; an id at or
 * above the vocabulary is EMBER_E_CORRUPT naming its position. Thread-safe. */
EMBER_CHECKED ember_status ember_shard_read(const ember_shard *shard, int64_t first, int64_t n, uint32_t *out);

/* Writer: streams through a raw temporary file beside `path`; memory is bounded. */
typedef struct ember_shard_writer ember_shard_writer;
EMBER_CHECKED ember_status ember_shard_create(ember_shard_writer **out, const char *path, const char *tokenizer_name,
                                              const char *tokenizer_text, size_t tokenizer_bytes, int64_t vocab_size, int64_t eos);
EMBER_CHECKED ember_status ember_shard_begin_document(ember_shard_writer *writer);
EMBER_CHECKED ember_status ember_shard_append(ember_shard_writer *writer, const uint32_t *ids, size_t n);
EMBER_CHECKED ember_status ember_shard_commit(ember_shard_writer *writer, int64_t source_bytes);
void ember_shard_abort(ember_shard_writer *writer);

#endif
