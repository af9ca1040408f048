#include <math.h>
#include <string.h>

#include "data/loader.h"
#include "lib/api/llm_internal.h"
#include "lib/base/status.h"

_Static_assert((int)EMBER_LLM_MAX_LAYERS == (int)EMBER_MAX_LAYERS, "one slot a layer");

/* Sums over the whole set; nothing is divided before the end. */
typedef struct evaluation_sums {
    ember_step_stats stats;
    uint64_t l0_sum[EMBER_MAX_LAYERS];
    double l1_sum[EMBER_MAX_LAYERS];
    int64_t spill[EMBER_MAX_LAYERS];
    int64_t nnz[EMBER_MAX_LAYERS];
} evaluation_sums;

static ember_status open_loader(ember_loader **loader, const ember_llm *llm, const ember_evaluation_options *options) {
    const int64_t length = options->sequence_length > 0 ? options->sequence_length : llm->max_sequence_length;
    if (options->n_shards < 1) return ember_fail(EMBER_E_ARGUMENT, "no shard to evaluate on");
    if (options->sequence_length < 0 || length > llm->max_sequence_length) {
        return ember_fail(EMBER_E_ARGUMENT, "sequences of %lld tokens; this model was opened for 1 to %lld (max_sequence_length)",
                          (long long)options->sequence_length, (long long)llm->max_sequence_length);
    }
    const ember_loader_options reading = {.globs = options->shards,
                                          .n_sources = options->n_shards,
                                          .sequence_length = length,
                                          .batch_size = llm->max_sequences,
                                          .one_pass = true,
                                          .mask_documents = options->mask_documents,
                                          .verify = true,
                                          .prefetch = true};
    return ember_loader_open(loader, &reading);
}

static ember_status check_tokenizer(const ember_llm *llm, const ember_loader *loader, const ember_evaluation_options *options) {
    if (ember_loader_vocab_size(loader) > llm->info.vocab_size) {
        return ember_fail(EMBER_E_ARGUMENT,
                          "%s: the shards have ids up to %lld, the model's vocabulary ends at %lld; they are of different "
                          "tokenizers",
                          llm->path.data, (long long)ember_loader_vocab_size(loader) - 1, (long long)llm->info.vocab_size - 1);
    }
    if (options->any_tokenizer) return EMBER_OK;
    size_t n_mine = 0, n_theirs = 0;
    const char *mine = llm->tokenizer ? ember_tokenizer_text(llm->tokenizer, &n_mine) : "";
    const char *theirs = ember_loader_tokenizer_text(loader, &n_theirs);
    if (n_mine == n_theirs && (n_mine == 0 || memcmp(mine, theirs, n_mine) == 0)) return EMBER_OK;
    return ember_fail(EMBER_E_ARGUMENT,
                      "%s: the shards were made with another tokenizer (%zu bytes of text, the checkpoint's has %zu); a loss "
                      "over foreign ids means nothing. Prepare the data with the checkpoint's tokenizer",
                      llm->path.data, n_theirs, n_mine);
}

static ember_status run_all(ember_llm *llm, ember_loader *loader, const ember_evaluation_options *options, evaluation_sums *sums) {
    const int64_t all = ember_loader_n_sequences(loader);
    const int64_t total = options->n_sequences > 0 && options->n_sequences < all ? options->n_sequences : all;
    for (int64_t done = 0; done < total;) {
        ember_batch batch;
        EMBER_TRY(ember_loader_next(loader, &batch));
        if (batch.n_sequences == 0) break;
        const ember_micro_batch micro = {.n_sequences = batch.n_sequences < total - done ? batch.n_sequences : total - done,
                                         .sequence_length = batch.sequence_length,
                                         .input_ids = batch.input_ids,
                                         .target_ids = batch.target_ids,
                                         .mask = batch.mask,
                                         .document_start = batch.document_start};
        int64_t full_layer = -1;
        EMBER_TRY(ember_model_run(llm->model, &micro, NULL, &sums->stats, NULL, &full_layer));
        done += micro.n_sequences;
        if (options->progress && options->progress(options->progress_user, done, total)) {
            return ember_fail(EMBER_E_INTERRUPTED, "stopped after %lld of %lld sequences", (long long)done, (long long)total);
        }
    }
    return EMBER_OK;
}

static void fill_figures(ember_evaluation *out, const ember_llm *llm, const evaluation_sums *sums, double bytes_per_token) {
    const ember_step_stats *s = &sums->stats;
    *out = (ember_evaluation){.n_targets = s->n_targets, .n_inputs = s->n_inputs, .n_layers = llm->info.n_layers};
    out->loss = s->ce_sum / (double)s->n_targets;
    out->perplexity = exp(out->loss);
    out->bits_per_byte = bytes_per_token > 0 ? out->loss / log(2.0) / bytes_per_token : (double)NAN;
    double fired = 0.0, neurons = 0.0;
    for (int64_t layer = 0; layer < out->n_layers; layer++) {
        const double n_neurons = (double)ember_llm_neurons(llm, layer);
        out->l0_per_layer[layer] = (double)sums->l0_sum[layer] / (double)s->n_inputs;
        out->nonzero_per_layer[layer] = out->l0_per_layer[layer] / n_neurons;
        fired += out->l0_per_layer[layer];
        neurons += n_neurons;
    }
    out->nonzero_fraction = fired / neurons;
}

ember_status ember_evaluate(ember_llm *llm, const ember_evaluation_options *options, ember_evaluation *out) {
    *out = (ember_evaluation){0};
    ember_loader *loader = NULL;
    evaluation_sums *sums = NULL;
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_allocate((void **)&sums, 1, sizeof *sums, "evaluation sums"), done);
    sums->stats = (ember_step_stats){.l0_sum = sums->l0_sum, .l1_sum = sums->l1_sum, .spill = sums->spill, .nnz = sums->nnz};
    if (options->n_sequences < 0) {
        status = ember_fail(EMBER_E_ARGUMENT, "%lld sequences to evaluate; it must be 0 (all) or more", (long long)options->n_sequences);
        goto done;
    }
    EMBER_TRY_GOTO(open_loader(&loader, llm, options), done);
    EMBER_TRY_GOTO(check_tokenizer(llm, loader, options), done);
    EMBER_TRY_GOTO(run_all(llm, loader, options, sums), done);
    if (sums->stats.n_targets == 0) {
        status =
            ember_fail(EMBER_E_NUMERIC, "no token of the shards has a target, so a loss is not defined; a shard needs at least 2 tokens");
        goto done;
    }
    fill_figures(out, llm, sums, ember_loader_bytes_per_token(loader));
done:
    if (loader) ember_loader_close(loader);
    ember_release(sums);
    return status;
}
