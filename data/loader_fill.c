/* loader_fill.c - from a position to a batch: which sequence, which tokens, which targets. */
#include <stdlib.h>
#include <string.h>

#include "data/loader_internal.h"
#include "data/shuffle.h"
#include "lib/base/status.h"

uint64_t loader_advance(const ember_loader *loader, uint64_t position) {
    const uint64_t step = (uint64_t)(loader->batch_size * loader->n_ranks);
    if (!loader->one_pass) return position + step;
    const uint64_t end = (uint64_t)loader->n_sequences;
    return position >= end || end - position < step ? end : position + step;
}

/* The k-th sequence of training: source by the mixture, then pass and index, then the pass's order. */
static ember_sequence sequence_at(const ember_loader *loader, uint64_t k) {
    int64_t source = 0;
    uint64_t position = k;
    if (loader->mixture) ember_mixture_at(loader->mixture, k, &source, &position);
    const uint64_t n = (uint64_t)ember_source_n_sequences(&loader->sources[source]);
    uint64_t index = position % n;
    if (loader->shuffle) {
        const ember_shuffle shuffle = ember_shuffle_make(loader->seed, (uint64_t)source, position / n, n);
        index = ember_shuffle_at(&shuffle, index);
    }
    return ember_source_at(&loader->sources[source], (int64_t)index);
}

/* Index of the document that holds token `at`. */
static int64_t document_of(const ember_shard *shard, int64_t at) {
    const int64_t *documents = ember_shard_documents(shard);
    int64_t low = 0;
    int64_t high = ember_shard_n_documents(shard) - 1;
    while (low < high) {
        const int64_t middle = high - (high - low) / 2;
        if (documents[middle] <= at) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* Where each token's document begins, and no target across an end: the first token of a document
 * cannot be predicted from another document. */
static void mark_documents(const ember_loader *loader, const ember_sequence *sequence, int32_t *targets, int32_t *starts) {
    const int64_t *documents = ember_shard_documents(sequence->shard);
    const int64_t n_documents = ember_shard_n_documents(sequence->shard);
    int64_t document = document_of(sequence->shard, sequence->first);
    int32_t start = 0;
    for (int64_t t = 0; t < sequence->n_inputs; t++) {
        starts[t] = start;
        if (document + 1 < n_documents && documents[document + 1] == sequence->first + t + 1) {
            document++;
            targets[t] = -1;
            start = (int32_t)(t + 1);
        }
    }
    for (int64_t t = sequence->n_inputs; t < loader->sequence_length; t++)
        starts[t] = (int32_t)t;
}

static ember_status fill_row(ember_loader *loader, loader_slot *slot, int64_t row, uint64_t k) {
    const int64_t length = loader->sequence_length;
    int32_t *inputs = slot->input_ids + row * length;
    int32_t *targets = slot->target_ids + row * length;
    uint8_t *mask = slot->mask + row * length;
    ember_sequence sequence = {.n_inputs = length};
    if (loader->synthetic) {
        ember_synthetic_read(loader->synthetic, k, length + 1, loader->tokens);
    } else {
        sequence = sequence_at(loader, k);
        EMBER_TRY(ember_shard_read(sequence.shard, sequence.first, sequence.n_inputs + 1, loader->tokens));
    }
    const int64_t n = sequence.n_inputs;
    for (int64_t t = 0; t < n; t++) {
        inputs[t] = (int32_t)loader->tokens[t];
        targets[t] = (int32_t)loader->tokens[t + 1];
        mask[t] = 1;
    }
    for (int64_t t = n; t < length; t++) {
        inputs[t] = 0;
        targets[t] = -1;
        mask[t] = 0;
    }
    if (slot->document_start) {
        int32_t *starts = slot->document_start + row * length;
        if (loader->synthetic) {
            memset(starts, 0, (size_t)length * sizeof *starts);
        } else {
            mark_documents(loader, &sequence, targets, starts);
        }
    }
    slot->batch.n_inputs += n;
    for (int64_t t = 0; t < n; t++)
        slot->batch.n_targets += targets[t] >= 0;
    return EMBER_OK;
}

void loader_fill(ember_loader *loader, loader_slot *slot, uint64_t position) {
    slot->batch = (ember_batch){.sequence_length = loader->sequence_length,
                                .input_ids = slot->input_ids,
                                .target_ids = slot->target_ids,
                                .mask = slot->mask,
                                .document_start = slot->document_start};
    slot->status = EMBER_OK;
    slot->error.n = 0;
    for (int64_t row = 0; row < loader->batch_size; row++) {
        const uint64_t k = position + (uint64_t)(loader->rank + row * loader->n_ranks);
        if (loader->one_pass && k >= (uint64_t)loader->n_sequences) break;
        if (atomic_load_explicit(&loader->stop, memory_order_relaxed)) break;
        slot->status = fill_row(loader, slot, row, k);
        if (slot->status != EMBER_OK) {
            /* Out of memory for the message loses the message, not the status. */
            if (ember_bytes_append(&slot->error, ember_last_error(), strlen(ember_last_error())) != EMBER_OK) slot->error.n = 0;
            break;
        }
        slot->batch.n_sequences++;
    }
    slot->filled = true;
}
