/* loader.c - opening, positions and what the data are; loader_fill.c makes batches, loader_thread.c
 * reads ahead. */
#include "data/loader.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "data/loader_internal.h"
#include "lib/base/status.h"

/* Keeps every index of a batch, and a global position, far inside 63 bits. */
enum { MAX_LENGTH = EMBER_SYNTHETIC_MAX_LENGTH - 1, MAX_BATCH = 1 << 24, MAX_RANKS = 1 << 20 };

static ember_status check_number(const char *name, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return EMBER_OK;
    return ember_fail(EMBER_E_ARGUMENT, "loader: %s is %lld; %lld to %lld are possible", name, (long long)value, (long long)low,
                      (long long)high);
}

static ember_status check_options(const ember_loader_options *options, int64_t n_ranks, bool *synthetic) {
    EMBER_TRY(check_number("the sequence length", options->sequence_length, 1, MAX_LENGTH));
    EMBER_TRY(check_number("the batch size", options->batch_size, 1, MAX_BATCH));
    EMBER_TRY(check_number("the number of ranks", n_ranks, 1, MAX_RANKS));
    EMBER_TRY(check_number("the rank", options->rank, 0, n_ranks - 1));
    EMBER_TRY(check_number("the number of sources", options->n_sources, 1, EMBER_MIXTURE_MAX_SOURCES));
    *synthetic = false;
    for (int64_t i = 0; i < options->n_sources; i++)
        *synthetic = *synthetic || strcmp(options->globs[i], "synthetic") == 0;
    if (*synthetic && options->n_sources > 1) {
        return ember_fail(EMBER_E_ARGUMENT, "loader: \"synthetic\" stands alone; it cannot be mixed with the other %lld sources",
                          (long long)options->n_sources - 1);
    }
    if (*synthetic && options->one_pass) {
        return ember_fail(EMBER_E_ARGUMENT, "loader: \"synthetic\" has no end, so one pass over it does not exist; name shards");
    }
    return EMBER_OK;
}

/* Without weights, and for one pass, all shards form one source: then a pass holds each sequence once. */
static ember_status open_sources(ember_loader *loader, const ember_loader_options *options) {
    const bool mixed = options->weights && !options->one_pass && options->n_sources > 1;
    const int64_t n = mixed ? options->n_sources : 1;
    EMBER_TRY(ember_allocate((void **)&loader->sources, (size_t)n, sizeof *loader->sources, "data sources"));
    loader->n_sources = n;
    for (int64_t i = 0; i < n; i++) {
        EMBER_TRY(ember_source_open(&loader->sources[i], options->globs + i, mixed ? 1 : options->n_sources, options->sequence_length,
                                    options->verify));
    }
    return mixed ? ember_mixture_create(&loader->mixture, options->weights, n) : EMBER_OK;
}

/* One vocabulary for all; sums and the fingerprint. */
static ember_status survey(ember_loader *loader) {
    const ember_shard *first = loader->sources[0].shards[0];
    double source_bytes = 0.0;
    double all_tokens = 0.0;
    bool known = true;
    XXH3_state_t *state = XXH3_createState();
    if (!state) return ember_fail(EMBER_E_MEMORY, "loader: no memory for a hash");
    (void)XXH3_64bits_reset(state);
    ember_status status = EMBER_OK;
    loader->vocab_size = ember_shard_vocab_size(first);
    loader->eos = -1;
    for (int64_t s = 0; s < loader->n_sources; s++) {
        const ember_source *source = &loader->sources[s];
        loader->n_sequences += ember_source_n_sequences(source);
        for (int64_t i = 0; i < source->n_shards; i++) {
            const ember_shard *shard = source->shards[i];
            const uint64_t hash = ember_shard_tokenizer_hash(shard);
            if (hash != ember_shard_tokenizer_hash(first) || ember_shard_vocab_size(shard) != loader->vocab_size) {
                status = ember_fail(EMBER_E_ARGUMENT,
                                    "%s (tokenizer %s %016llx, vocabulary %lld) and %s (tokenizer %s %016llx, vocabulary %lld) do not go "
                                    "together; prepare both with one tokenizer",
                                    ember_shard_path(first), ember_shard_tokenizer_name(first),
                                    (unsigned long long)ember_shard_tokenizer_hash(first), (long long)loader->vocab_size,
                                    ember_shard_path(shard), ember_shard_tokenizer_name(shard), (unsigned long long)hash,
                                    (long long)ember_shard_vocab_size(shard));
                goto done;
            }
            if (loader->eos < 0) loader->eos = ember_shard_eos(shard);
            const int64_t n = ember_shard_n_tokens(shard);
            loader->n_tokens += n;
            known = known && ember_shard_source_bytes(shard) >= 0;
            source_bytes += (double)ember_shard_source_bytes(shard);
            all_tokens += (double)n;
            const uint64_t words[5] = {(uint64_t)s, (uint64_t)i, (uint64_t)n, hash, ember_shard_content_hash(shard)};
            (void)XXH3_64bits_update(state, words, sizeof words);
        }
    }
    loader->bytes_per_token = known && all_tokens > 0.0 ? source_bytes / all_tokens : 0.0;
    loader->fingerprint = XXH3_64bits_digest(state);
done:
    (void)XXH3_freeState(state);
    return status;
}

static ember_status open_synthetic(ember_loader *loader, const ember_loader_options *options) {
    EMBER_TRY(ember_synthetic_create(&loader->synthetic, options->seed, options->synthetic_vocab_size, options->zipf_exponent));
    loader->vocab_size = options->synthetic_vocab_size;
    loader->eos = -1;
    uint64_t words[3] = {UINT64_C(0x73796e7468), (uint64_t)options->synthetic_vocab_size, 0};
    memcpy(&words[2], &options->zipf_exponent, sizeof words[2]);
    loader->fingerprint = XXH3_64bits(words, sizeof words);
    return EMBER_OK;
}

static ember_status allocate_slot(const ember_loader *loader, loader_slot *slot, bool documents) {
    const size_t n = (size_t)loader->batch_size * (size_t)loader->sequence_length;
    EMBER_TRY(ember_allocate((void **)&slot->input_ids, n, sizeof *slot->input_ids, "batch inputs"));
    EMBER_TRY(ember_allocate((void **)&slot->target_ids, n, sizeof *slot->target_ids, "batch targets"));
    EMBER_TRY(ember_allocate((void **)&slot->mask, n, sizeof *slot->mask, "batch mask"));
    if (documents) EMBER_TRY(ember_allocate((void **)&slot->document_start, n, sizeof *slot->document_start, "batch documents"));
    return EMBER_OK;
}

ember_status ember_loader_open(ember_loader **out, const ember_loader_options *options) {
    *out = NULL;
    const int64_t n_ranks = options->n_ranks == 0 ? 1 : options->n_ranks;
    bool synthetic = false;
    EMBER_TRY(check_options(options, n_ranks, &synthetic));
    ember_loader *loader = NULL;
    EMBER_TRY(ember_allocate((void **)&loader, 1, sizeof *loader, "loader"));
    loader->sequence_length = options->sequence_length;
    loader->batch_size = options->batch_size;
    loader->rank = options->rank;
    loader->n_ranks = n_ranks;
    loader->seed = options->seed;
    loader->shuffle = options->shuffle;
    loader->one_pass = options->one_pass;
    loader->mask_documents = options->mask_documents;
    loader->prefetch = options->prefetch;
    atomic_init(&loader->stop, false);
    ember_status status = EMBER_OK;
    if (synthetic) {
        EMBER_TRY_GOTO(open_synthetic(loader, options), done);
    } else {
        EMBER_TRY_GOTO(open_sources(loader, options), done);
        EMBER_TRY_GOTO(survey(loader), done);
    }
    EMBER_TRY_GOTO(ember_allocate((void **)&loader->tokens, (size_t)loader->sequence_length + 1, sizeof *loader->tokens, "token scratch"),
                   done);
    for (int i = 0; i < (loader->prefetch ? 2 : 1); i++)
        EMBER_TRY_GOTO(allocate_slot(loader, &loader->slots[i], options->mask_documents), done);
    if (loader->prefetch) EMBER_TRY_GOTO(loader_thread_start(loader), done);
done:
    if (status != EMBER_OK) {
        ember_loader_close(loader);
    } else {
        *out = loader;
    }
    return status;
}

void ember_loader_close(ember_loader *loader) {
    if (!loader) return;
    loader_thread_stop(loader);
    for (int i = 0; i < 2; i++) {
        loader_slot *slot = &loader->slots[i];
        ember_release(slot->input_ids);
        ember_release(slot->target_ids);
        ember_release(slot->mask);
        ember_release(slot->document_start);
        ember_bytes_free(&slot->error);
    }
    ember_release(loader->tokens);
    ember_mixture_free(loader->mixture);
    ember_synthetic_free(loader->synthetic);
    for (int64_t i = 0; i < loader->n_sources; i++)
        ember_source_close(&loader->sources[i]);
    ember_release(loader->sources);
    ember_release(loader);
}

ember_status ember_loader_next(ember_loader *loader, ember_batch *out) {
    *out = (ember_batch){0};
    loader_slot *slot = &loader->slots[0];
    if (loader->prefetch) {
        slot = loader_thread_take(loader);
    } else {
        loader_fill(loader, slot, loader->position);
    }
    if (slot->status != EMBER_OK) return ember_fail(slot->status, "%s", slot->error.n ? slot->error.data : "loader: out of memory");
    loader->position = loader_advance(loader, loader->position);
    *out = slot->batch;
    return EMBER_OK;
}

ember_loader_position ember_loader_tell(const ember_loader *loader) {
    ember_loader_position position = {.n_sequences = loader->position};
    if (loader->synthetic) return position;
    const uint64_t taken = loader->mixture ? ember_mixture_count(loader->mixture, loader->position, 0) : loader->position;
    const int64_t n = loader->mixture ? ember_source_n_sequences(&loader->sources[0]) : loader->n_sequences;
    position.passes = taken / (uint64_t)n;
    return position;
}

ember_status ember_loader_seek(ember_loader *loader, ember_loader_position position) {
    if (position.n_sequences > UINT64_MAX / 4) {
        return ember_fail(EMBER_E_ARGUMENT, "loader: cannot go to sequence %llu", (unsigned long long)position.n_sequences);
    }
    if (loader->one_pass && position.n_sequences > (uint64_t)loader->n_sequences) {
        return ember_fail(EMBER_E_ARGUMENT, "loader: cannot go to sequence %llu of one pass over %lld",
                          (unsigned long long)position.n_sequences, (long long)loader->n_sequences);
    }
    if (loader->prefetch) loader_thread_reset(loader);
    loader->position = position.n_sequences;
    return EMBER_OK;
}

int64_t ember_loader_n_tokens(const ember_loader *loader) { return loader->n_tokens; }
int64_t ember_loader_n_sequences(const ember_loader *loader) { return loader->n_sequences; }
int64_t ember_loader_vocab_size(const ember_loader *loader) { return loader->vocab_size; }
int64_t ember_loader_eos(const ember_loader *loader) { return loader->eos; }
double ember_loader_bytes_per_token(const ember_loader *loader) { return loader->bytes_per_token; }
uint64_t ember_loader_fingerprint(const ember_loader *loader) { return loader->fingerprint; }

const char *ember_loader_tokenizer_text(const ember_loader *loader, size_t *n) {
    if (loader->synthetic) {
        if (n) *n = 0;
        return "";
    }
    return ember_shard_tokenizer_text(loader->sources[0].shards[0], n);
}
