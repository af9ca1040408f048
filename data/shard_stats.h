/* shard_stats.h - what is in a shard: document lengths, separators, the commonest tokens. */
#ifndef EMBER_SHARD_STATS_H
#define EMBER_SHARD_STATS_H

#include "data/shard.h"

typedef struct ember_token_count {
    uint32_t id;
    int64_t count;
} ember_token_count;

typedef struct ember_shard_stats {
    int64_t n_separators;       /* tokens that are the end-of-text id; 0 when the shard has none */
    int64_t n_closed_documents; /* documents whose last token is the separator */
    bool separators_agree;      /* exactly one separator a document, at its end; or no separator id */
    int64_t shortest_document;  /* tokens, separator included; 0 when there is no document */
    int64_t median_document;    /* the lower one of two */
    int64_t longest_document;
    int64_t n_distinct;           /* ids that occur */
    int64_t n_commonest;          /* entries of `commonest` */
    ember_token_count *commonest; /* most frequent first, equal counts by id */
} ember_shard_stats;

/* Reads every token. `n_commonest`: how many to list. Free with ember_shard_stats_free. */
EMBER_CHECKED ember_status ember_shard_measure(ember_shard_stats *out, const ember_shard *shard, int64_t n_commonest);
void ember_shard_stats_free(ember_shard_stats *stats);

#endif
