#include "data/shard_stats.h"

#include <stdlib.h>

#include "lib/base/status.h"

enum { PIECE_TOKENS = 1 << 16 };

static ember_status count_tokens(ember_shard_stats *stats, const ember_shard *shard, int64_t *counts, uint32_t *piece) {
    const int64_t n = ember_shard_n_tokens(shard);
    const int64_t eos = ember_shard_eos(shard);
    const int64_t *documents = ember_shard_documents(shard);
    const int64_t n_documents = ember_shard_n_documents(shard);
    int64_t next = 1; /* document that begins after the token */
    for (int64_t first = 0; first < n; first += PIECE_TOKENS) {
        const int64_t count = n - first < PIECE_TOKENS ? n - first : PIECE_TOKENS;
        EMBER_TRY(ember_shard_read(shard, first, count, piece));
        for (int64_t i = 0; i < count; i++) {
            counts[piece[i]]++;
            const int64_t after = first + i + 1;
            const bool last = next < n_documents ? after == documents[next] : after == n;
            next += last;
            stats->n_closed_documents += last && (int64_t)piece[i] == eos;
        }
    }
    stats->n_separators = eos >= 0 ? counts[eos] : 0;
    stats->separators_agree = eos < 0 || (stats->n_separators == n_documents && stats->n_closed_documents == n_documents);
    return EMBER_OK;
}

static int compare_lengths(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static ember_status measure_documents(ember_shard_stats *stats, const ember_shard *shard) {
    const int64_t n = ember_shard_n_documents(shard);
    const int64_t *documents = ember_shard_documents(shard);
    int64_t *lengths = NULL;
    if (n == 0) return EMBER_OK;
    EMBER_TRY(ember_allocate((void **)&lengths, (size_t)n, sizeof *lengths, "document lengths"));
    for (int64_t i = 0; i < n; i++)
        lengths[i] = (i + 1 < n ? documents[i + 1] : ember_shard_n_tokens(shard)) - documents[i];
    qsort(lengths, (size_t)n, sizeof *lengths, compare_lengths);
    stats->shortest_document = lengths[0];
    stats->median_document = lengths[(n - 1) / 2];
    stats->longest_document = lengths[n - 1];
    ember_release(lengths);
    return EMBER_OK;
}

/* Keeps the `wanted` largest in order, by insertion: the list is short. */
static ember_status rank_tokens(ember_shard_stats *stats, const int64_t *counts, int64_t vocab, int64_t wanted) {
    EMBER_TRY(ember_allocate((void **)&stats->commonest, (size_t)wanted, sizeof *stats->commonest, "commonest tokens"));
    for (int64_t id = 0; id < vocab; id++) {
        if (counts[id] == 0) continue;
        stats->n_distinct++;
        int64_t at = stats->n_commonest;
        while (at > 0 && stats->commonest[at - 1].count < counts[id])
            at--;
        if (at >= wanted) continue;
        if (stats->n_commonest < wanted) stats->n_commonest++;
        for (int64_t i = stats->n_commonest - 1; i > at; i--)
            stats->commonest[i] = stats->commonest[i - 1];
        stats->commonest[at] = (ember_token_count){.id = (uint32_t)id, .count = counts[id]};
    }
    return EMBER_OK;
}

ember_status ember_shard_measure(ember_shard_stats *out, const ember_shard *shard, int64_t n_commonest) {
    *out = (ember_shard_stats){0};
    if (n_commonest < 0 || n_commonest > 1000) {
        return ember_fail(EMBER_E_ARGUMENT, "%lld commonest tokens; 0 to 1000 can be listed", (long long)n_commonest);
    }
    int64_t *counts = NULL;
    uint32_t *piece = NULL;
    const int64_t vocab = ember_shard_vocab_size(shard);
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_allocate((void **)&counts, (size_t)vocab, sizeof *counts, "token counts"), done);
    EMBER_TRY_GOTO(ember_allocate((void **)&piece, PIECE_TOKENS, sizeof *piece, "tokens"), done);
    EMBER_TRY_GOTO(count_tokens(out, shard, counts, piece), done);
    EMBER_TRY_GOTO(measure_documents(out, shard), done);
    EMBER_TRY_GOTO(rank_tokens(out, counts, vocab, n_commonest), done);
done:
    ember_release(piece);
    ember_release(counts);
    if (status != EMBER_OK) ember_shard_stats_free(out);
    return status;
}

void ember_shard_stats_free(ember_shard_stats *stats) {
    ember_release(stats->commonest);
    *stats = (ember_shard_stats){0};
}
