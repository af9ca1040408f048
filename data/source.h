/* source.h - one source of the loader: the shards that a glob names, in name order, seen as one list
 * of sequences of T tokens. */
#ifndef EMBER_SOURCE_H
#define EMBER_SOURCE_H

#include "data/shard.h"

typedef struct ember_source {
    int64_t n_shards;
    ember_shard **shards;
    int64_t *first_sequence; /* [n_shards + 1]: of each shard; the last is the number of sequences */
    int64_t sequence_length; /* T */
} ember_source;

/* One sequence: tokens [first, first + n_inputs] of `shard`, both ends included: the inputs and, one
 * further on, the targets. */
typedef struct ember_sequence {
    const ember_shard *shard;
    int64_t first;
    int64_t n_inputs; /* 1..T */
} ember_sequence;

/* Sequences of T inputs in `n_tokens` tokens: every token but the first is a target once. */
int64_t ember_source_count(int64_t n_tokens, int64_t sequence_length);

/* Appends the shards of each of `n_globs` patterns, each pattern sorted by name (bytes). A pattern that names
 * an existing file is taken literally. Errors: EMBER_E_NOT_FOUND when a pattern matches nothing; as
 * ember_shard_open; EMBER_E_ARGUMENT when the source holds no sequence. Zero-initialise `source`;
 * ember_source_close frees in every case. */
EMBER_CHECKED ember_status ember_source_open(ember_source *source, const char *const *globs, int64_t n_globs, int64_t sequence_length,
                                             bool verify);
void ember_source_close(ember_source *source);
int64_t ember_source_n_sequences(const ember_source *source);
/* `index` is below ember_source_n_sequences. */
ember_sequence ember_source_at(const ember_source *source, int64_t index);

#endif
