/* loader.h - batches of token sequences. Sequence i of a shard has the input tokens
 * [iT, iT + T) and as targets the tokens one further on; the last one of a shard may be short and is padded, so
 * in one pass every token but the first of a shard is a target once. The order of a pass is a
 * permutation computed from (seed, pass, index): O(1) state, exact resume. */
#ifndef EMBER_LOADER_H
#define EMBER_LOADER_H

#include "lib/base/memory.h"

typedef struct ember_loader ember_loader;

typedef struct ember_loader_options {
    const char *const *globs; /* shards of each source; or the single word "synthetic" */
    const double *weights;    /* mixture weight of each source; NULL: by number of sequences */
    int64_t n_sources;
    int64_t sequence_length;
    int64_t batch_size; /* sequences per ember_loader_next */
    uint64_t seed;
    bool shuffle;  /* false: in file order */
    bool one_pass; /* evaluation: ends with a batch of zero sequences; the last may be smaller */
    bool mask_documents;
    bool verify;
    bool prefetch; /* read the next batch on a thread */
    int64_t synthetic_vocab_size;
    double zipf_exponent;
    int64_t rank;    /* this rank takes sequences rank, rank + n_ranks, ... of each batch order */
    int64_t n_ranks; /* 0 means 1 */
} ember_loader_options;

/* Arrays are [n_sequences, sequence_length], row-major, borrowed until the next call. */
typedef struct ember_batch {
    int64_t n_sequences;
    int64_t sequence_length;
    const int32_t *input_ids;
    const int32_t *target_ids;     /* -1: no target here */
    const uint8_t *mask;           /* 1: token, 0: padding */
    const int32_t *document_start; /* position in the sequence where this token's document begins;
                                      NULL without mask_documents */
    int64_t n_inputs;              /* tokens that are not padding */
    int64_t n_targets;             /* targets >= 0 */
} ember_batch;

typedef struct ember_loader_position {
    uint64_t n_sequences; /* consumed since the start of training by finished steps, all ranks */
    uint64_t passes;      /* finished passes over the first source, for display */
} ember_loader_position;

EMBER_CHECKED ember_status ember_loader_open(ember_loader **out, const ember_loader_options *options);
void ember_loader_close(ember_loader *loader);
EMBER_CHECKED ember_status ember_loader_next(ember_loader *loader, ember_batch *out);
/* Position after the batches handed out so far (prefetched ones do not count). */
ember_loader_position ember_loader_tell(const ember_loader *loader);
EMBER_CHECKED ember_status ember_loader_seek(ember_loader *loader, ember_loader_position position);
int64_t ember_loader_n_tokens(const ember_loader *loader);    /* of one pass; 0: endless */
int64_t ember_loader_n_sequences(const ember_loader *loader); /* of one pass; 0: endless */
int64_t ember_loader_vocab_size(const ember_loader *loader);
int64_t ember_loader_eos(const ember_loader *loader);
/* Bytes of source text per token over all shards; 0 when unknown. */
double ember_loader_bytes_per_token(const ember_loader *loader);
/* Tokenizer text of the first shard ("" for synthetic); all shards must have the same hash, else
 * opening is EMBER_E_ARGUMENT naming both. */
const char *ember_loader_tokenizer_text(const ember_loader *loader, size_t *n);
/* xxh3_64 over the (path-independent) hashes of tokens, documents and tokenizers: names the data at resume. */
uint64_t ember_loader_fingerprint(const ember_loader *loader);

#endif
