/* tokenizer.h - text to ids and back: `bytes`, and Hugging Face tokenizer.json files with a BPE
 * model. A tokenizer does not change after loading; any number of threads may use one, each with
 * its own ember_encoder. */
#ifndef EMBER_TOKENIZER_H
#define EMBER_TOKENIZER_H

#include "lib/base/memory.h"

typedef struct ember_tokenizer ember_tokenizer;
typedef struct ember_encoder ember_encoder; /* scratch and word cache of one thread */
typedef struct ember_decoder ember_decoder; /* state of one output stream */

typedef struct ember_ids {
    uint32_t *data;
    size_t n;
    size_t capacity;
} ember_ids;
void ember_ids_free(ember_ids *ids);

/* "bytes", or the path of a tokenizer.json (or of a folder that holds one). */
EMBER_CHECKED ember_status ember_tokenizer_open(ember_tokenizer **out, const char *spec);
/* From the text stored in a shard or checkpoint; `name` stands for the path in messages.
 * Unsupported parts: EMBER_E_UNSUPPORTED naming the part and its type. */
EMBER_CHECKED ember_status ember_tokenizer_parse(ember_tokenizer **out, const char *json, size_t n, const char *name);
void ember_tokenizer_free(ember_tokenizer *tokenizer);

/* The text that _parse accepts: for a file its bytes unchanged, for `bytes` a small JSON object. */
const char *ember_tokenizer_text(const ember_tokenizer *tokenizer, size_t *n);
const char *ember_tokenizer_name(const ember_tokenizer *tokenizer);   /* "bytes" or "bpe" */
uint64_t ember_tokenizer_hash(const ember_tokenizer *tokenizer);      /* xxh3_64 of the text */
int64_t ember_tokenizer_vocab_size(const ember_tokenizer *tokenizer); /* largest id + 1 */
/* Id of a token's exact text, -1 when absent. */
int64_t ember_tokenizer_find(const ember_tokenizer *tokenizer, const char *token);
/* End-of-text and beginning-of-text by the usual names (<|endoftext|>, </s>, <|end_of_text|>, ...;
 * <s>, <|begin_of_text|>, ...); -1 when there is none. `bytes`: end-of-text is 256. */
int64_t ember_tokenizer_eos(const ember_tokenizer *tokenizer);
int64_t ember_tokenizer_bos(const ember_tokenizer *tokenizer);
int64_t ember_tokenizer_unk(const ember_tokenizer *tokenizer); /* model.unk_token; -1 when there is none */
/* A token's text as the file has it; NULL when no token has this id. Owned by the tokenizer. */
const char *ember_tokenizer_token(const ember_tokenizer *tokenizer, int64_t id);
bool ember_tokenizer_is_special(const ember_tokenizer *tokenizer, int64_t id);
/* True when decode(encode(x)) = x for every byte string (no special tokens added, none skipped). */
bool ember_tokenizer_lossless(const ember_tokenizer *tokenizer);

EMBER_CHECKED ember_status ember_encoder_create(ember_encoder **out, const ember_tokenizer *tokenizer);
void ember_encoder_free(ember_encoder *encoder);
/* Appends the ids of `n` bytes. `add_special`: the post-processor's template (begin/end tokens).
 * Text of special tokens inside the input becomes those tokens, as in the reference, unless
 * `plain` is set (corpus text: special tokens are never made from data). Bytes that are not UTF-8 make
 * pieces of their own between the valid runs, which are encoded one by one; no dummy blank is put behind them.
 * Time O(n log n), also when the text is one piece; a piece of p symbols takes about 28 p bytes meanwhile.
 * On an error `out` is as it was. */
EMBER_CHECKED ember_status ember_encode(ember_encoder *encoder, const char *text, size_t n, bool add_special, bool plain, ember_ids *out);
/* A position >= `from` and < `n` where `text` may be cut so that encoding the two parts separately gives
 * the same ids (without `add_special`); `n` when none was found. Lets long documents stream and split over
 * threads. tokenizer_cut.c says where and why; a tokenizer without pre-tokenizer has no such place. */
size_t ember_encode_cut(const ember_tokenizer *tokenizer, const char *text, size_t n, size_t from);

/* All ids at once. Ids outside the vocabulary are EMBER_E_ARGUMENT. */
EMBER_CHECKED ember_status ember_decode(const ember_tokenizer *tokenizer, const uint32_t *ids, size_t n, bool skip_special,
                                        ember_bytes *out);
/* One id after the other: the concatenation of all pushed bytes and the flush equals ember_decode. */
EMBER_CHECKED ember_status ember_decoder_create(ember_decoder **out, const ember_tokenizer *tokenizer, bool skip_special);
void ember_decoder_free(ember_decoder *decoder);
EMBER_CHECKED ember_status ember_decoder_push(ember_decoder *decoder, uint32_t id, ember_bytes *out);
EMBER_CHECKED ember_status ember_decoder_flush(ember_decoder *decoder, ember_bytes *out);

#endif
