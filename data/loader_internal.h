/* loader_internal.h - what the loader's files share: filling one batch, and handing batches over from a
 * thread. */
#ifndef EMBER_LOADER_INTERNAL_H
#define EMBER_LOADER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "data/loader.h"
#include "data/mixture.h"
#include "data/source.h"
#include "data/synthetic.h"

/* One batch in memory that is allocated once. */
typedef struct loader_slot {
    int32_t *input_ids;      /* [B, T] */
    int32_t *target_ids;     /* [B, T] */
    uint8_t *mask;           /* [B, T] */
    int32_t *document_start; /* [B, T]; NULL without mask_documents */
    ember_batch batch;
    ember_status status; /* of the fill */
    ember_bytes error;   /* its message: ember_last_error belongs to the filling thread */
    bool filled;
} loader_slot;

struct ember_loader {
    /* Fixed after opening. */
    int64_t n_sources;
    ember_source *sources;
    ember_mixture *mixture;     /* NULL: one source */
    ember_synthetic *synthetic; /* instead of sources */
    int64_t sequence_length;
    int64_t batch_size;
    int64_t rank;
    int64_t n_ranks;
    uint64_t seed;
    bool shuffle;
    bool one_pass;
    bool mask_documents;
    int64_t vocab_size;
    int64_t eos;
    int64_t n_sequences; /* of one pass; 0: endless */
    int64_t n_tokens;
    double bytes_per_token;
    uint64_t fingerprint;
    uint32_t *tokens; /* [T + 1], scratch of whoever fills */

    /* Owned by the caller's thread. */
    uint64_t position; /* sequences handed out, all ranks */
    int borrowed;      /* slot that the caller reads */

    /* Shared with the thread, under `lock`. */
    loader_slot slots[2];
    bool prefetch;
    bool thread_started;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int wanted; /* slot the thread is to fill; -1: none */
    uint64_t wanted_position;
    atomic_bool stop; /* also looked at between two sequences */
};

/* Fills a slot with the batch at `position`; the status and the message stay in the slot. */
void loader_fill(ember_loader *loader, loader_slot *slot, uint64_t position);
/* Where a batch that starts at `position` ends. */
uint64_t loader_advance(const ember_loader *loader, uint64_t position);

EMBER_CHECKED ember_status loader_thread_start(ember_loader *loader);
/* The filled slot of the batch at loader->position; asks for the one after it. */
loader_slot *loader_thread_take(ember_loader *loader);
/* Waits until the thread is idle and drops what it has read ahead. */
void loader_thread_reset(ember_loader *loader);
void loader_thread_stop(ember_loader *loader);

#endif
