#include <math.h>
#include <string.h>

#include "lib/base/status.h"
#include "train/progress.h"
#include "train/revive.h"
#include "train/trainer_internal.h"

void trainer_clear_stats(const ember_trainer *trainer, ember_step_stats *stats) {
    const size_t n = (size_t)trainer->hparams.num_hidden_layers;
    stats->ce_sum = 0;
    stats->n_targets = 0;
    stats->n_inputs = 0;
    memset(stats->l0_sum, 0, n * sizeof *stats->l0_sum);
    memset(stats->l1_sum, 0, n * sizeof *stats->l1_sum);
    memset(stats->spill, 0, n * sizeof *stats->spill);
    memset(stats->nnz, 0, n * sizeof *stats->nnz);
}

int64_t ember_trainer_spill_limit(const ember_settings *settings, int64_t n_neurons) {
    return ember_trainer_model_options(settings).n_sequences * settings->train.sequence_length * n_neurons / 8;
}

int64_t trainer_spill_limit(const ember_trainer *trainer, int64_t layer) {
    return ember_trainer_spill_limit(trainer->settings, trainer->hparams.neurons[layer]);
}

static ember_status give_up_twell(ember_trainer *trainer, int64_t layer, int64_t needed) {
    ember_logf(trainer->log, EMBER_LOG_NOTE,
               "step %lld: layer %lld needs %lld spill entries, over the limit of %lld under ffn.mode auto; it runs dense from here on",
               (long long)trainer->step + 1, (long long)layer, (long long)needed, (long long)trainer_spill_limit(trainer, layer));
    ember_ffn_auto_pin_dense(trainer->chooser, layer);
    return ember_model_set_mode(trainer->model, layer, EMBER_MODE_DENSE);
}

ember_status trainer_make_room(ember_trainer *trainer, int64_t layer) {
    const int64_t needed = ember_model_spill_needed(trainer->model, layer);
    if (trainer->chooser && needed > trainer_spill_limit(trainer, layer)) return give_up_twell(trainer, layer, needed);
    int64_t entries = 0;
    EMBER_TRY(ember_model_grow_spill(trainer->model, layer, &entries));
    ember_logf(trainer->log, EMBER_LOG_INFO, "step %lld: spill array of layer %lld grown to %lld entries; the step is repeated",
               (long long)trainer->step + 1, (long long)layer, (long long)entries);
    return EMBER_OK;
}

static ember_micro_batch slice(const ember_batch *batch, int64_t first, int64_t n) {
    const int64_t at = first * batch->sequence_length;
    return (ember_micro_batch){.n_sequences = n,
                               .sequence_length = batch->sequence_length,
                               .input_ids = batch->input_ids + at,
                               .target_ids = batch->target_ids + at,
                               .mask = batch->mask ? batch->mask + at : NULL,
                               .document_start = batch->document_start ? batch->document_start + at : NULL};
}

static bool all_finite(const ember_trainer *trainer) {
    bool finite = isfinite(trainer->stats.ce_sum);
    for (int64_t i = 0; i < trainer->hparams.num_hidden_layers; i++)
        finite = finite && isfinite(trainer->stats.l1_sum[i]);
    return finite;
}

/* Under auto the limit holds whatever room the spill array happens to have: which layer runs dense
 * must not depend on when the array grew. */
static int64_t layer_over_limit(const ember_trainer *trainer) {
    if (!trainer->chooser) return -1;
    for (int64_t i = 0; i < trainer->hparams.num_hidden_layers; i++) {
        const bool sparse = ember_model_mode(trainer->model, i) == EMBER_MODE_TWELL;
        if (sparse && ember_model_spill_needed(trainer->model, i) > trainer_spill_limit(trainer, i)) return i;
    }
    return -1;
}

/* Gradients and sums of the whole batch. EMBER_E_CAPACITY: *full_layer has no room. `*failed` is the
 * micro-batch whose loss is not finite, or -1. */
static ember_status run_batch(ember_trainer *trainer, const ember_batch *batch, int64_t *full_layer, int64_t *failed) {
    const int64_t n_layers = trainer->hparams.num_hidden_layers;
    *full_layer = -1;
    *failed = -1;
    for (int64_t i = 0; i < n_layers; i++)
        trainer->l1_scale[i] = trainer->lambda[i] / ((double)n_layers * (double)batch->n_inputs);
    const ember_loss_scale scale = {.ce = 1.0 / (double)batch->n_targets, .l1 = trainer->l1_scale};
    trainer_clear_stats(trainer, &trainer->stats);
    ember_tracker_drop_step(trainer->tracker);
    EMBER_TRY(ember_model_zero_grad(trainer->model));
    for (int64_t first = 0; first < batch->n_sequences; first += trainer->micro_batch) {
        const int64_t left = batch->n_sequences - first;
        const ember_micro_batch micro = slice(batch, first, left < trainer->micro_batch ? left : trainer->micro_batch);
        EMBER_TRY(ember_model_run(trainer->model, &micro, &scale, &trainer->stats, trainer->tracker, full_layer));
        *full_layer = layer_over_limit(trainer);
        if (*full_layer >= 0) return EMBER_E_CAPACITY;
        if (!all_finite(trainer)) {
            *failed = first / trainer->micro_batch;
            return EMBER_OK;
        }
    }
    return EMBER_OK;
}

/* The same until every layer has room. Each repeat grows an array, whose size is bounded, or pins a
 * layer to dense, so it ends. */
static ember_status run_batch_with_room(ember_trainer *trainer, const ember_batch *batch, int64_t *failed) {
    for (;;) {
        int64_t full_layer = -1;
        const ember_status status = run_batch(trainer, batch, &full_layer, failed);
        if (status != EMBER_E_CAPACITY || full_layer < 0) return status;
        EMBER_TRY(trainer_make_room(trainer, full_layer));
    }
}

/* A fresh model's loss is known beforehand: logits are sums of d products of a normalised vector and
 * head weights of deviation sigma, so E[log sum exp] = ln V + d sigma^2 / 2. Anything far from it means
 * that the data or the model is not what it seems. */
static void check_first_loss(const ember_trainer *trainer, double ce) {
    const double d = (double)trainer->hparams.hidden_size;
    const double sigma = trainer->settings->init.std;
    const double expected = log((double)trainer->hparams.vocab_size) + d * sigma * sigma / 2;
    /* The mean over n targets scatters by sqrt(d) sigma / sqrt(n) even when all is well. */
    const double scatter = sqrt(d / (double)trainer->stats.n_targets) * sigma;
    if (fabs(ce - expected) > 0.1 + 4 * scatter) {
        ember_logf(trainer->log, EMBER_LOG_WARNING,
                   "the loss of the untrained model is %.3f; ln(vocabulary) + d sigma^2 / 2 = %.3f was expected (vocabulary %lld, d %lld, "
                   "init.std %g)",
                   ce, expected, (long long)trainer->hparams.vocab_size, (long long)trainer->hparams.hidden_size, sigma);
    }
}

/* Loss and per-layer means of the finished batch. */
static void fill_row(ember_trainer *trainer, double lambda_mean) {
    const int64_t n_layers = trainer->hparams.num_hidden_layers;
    const ember_step_stats *stats = &trainer->stats;
    ember_history_row *row = &trainer->row;
    const double n_inputs = (double)stats->n_inputs;
    double l1 = 0;
    double penalty = 0;
    for (int64_t i = 0; i < n_layers; i++) {
        const double layer_l1 = stats->l1_sum[i] / n_inputs;
        l1 += layer_l1 / (double)n_layers;
        penalty += trainer->lambda[i] * layer_l1 / (double)n_layers;
        row->l0[i] = (float)((double)stats->l0_sum[i] / n_inputs);
        row->l1_per_layer[i] = (float)layer_l1;
        row->mode[i] = (uint8_t)ember_model_mode(trainer->model, i);
        row->spill[i] = stats->spill[i];
    }
    row->ce = stats->ce_sum / (double)stats->n_targets;
    row->l1 = l1;
    row->loss = row->ce + penalty;
    row->lambda = lambda_mean;
    row->valid_loss = (double)NAN;
}

static double nonzero_fraction(const ember_trainer *trainer) {
    double fired = 0;
    double all = 0;
    for (int64_t i = 0; i < trainer->hparams.num_hidden_layers; i++) {
        fired += (double)trainer->stats.l0_sum[i] / (double)trainer->stats.n_inputs;
        all += (double)trainer->hparams.neurons[i];
    }
    return fired / all;
}

/* What the finished step's integer counts decide for the next one. */
static ember_status decide_modes(ember_trainer *trainer, int64_t n_tokens) {
    if (!trainer->chooser) return EMBER_OK;
    for (int64_t i = 0; i < trainer->hparams.num_hidden_layers; i++) {
        const ember_ffn_mode before = ember_model_mode(trainer->model, i);
        const ember_ffn_mode after = ember_ffn_auto_decide(trainer->chooser, i, trainer->stats.nnz[i], n_tokens);
        if (after == before) continue;
        EMBER_TRY(ember_model_set_mode(trainer->model, i, after));
        const double density = (double)trainer->stats.nnz[i] / ((double)n_tokens * (double)trainer->hparams.neurons[i]);
        ember_logf(trainer->log, EMBER_LOG_INFO, "step %lld: layer %lld %s -> %s at %.2f %% non-zero", (long long)trainer->step,
                   (long long)i, before == EMBER_MODE_DENSE ? "dense" : "twell", after == EMBER_MODE_DENSE ? "dense" : "twell",
                   100 * density);
    }
    return EMBER_OK;
}

static ember_status revive_dead(ember_trainer *trainer) {
    const int64_t every = trainer->settings->sparsity.revive_every;
    if (every <= 0 || trainer->step % every != 0) return EMBER_OK;
    const ember_revive_options options = {.seed = trainer->settings->run.seed, .std = trainer->settings->init.std, .step = trainer->step};
    int64_t n_revived = 0;
    EMBER_TRY(ember_revive(trainer->model, trainer->tracker, &options, trainer->neuron_row, &n_revived));
    if (n_revived > 0)
        ember_logf(trainer->log, EMBER_LOG_INFO, "step %lld: %lld dead neurons revived", (long long)trainer->step, (long long)n_revived);
    return EMBER_OK;
}

/* Counters, modes and revival: the step counts from here on. */
static ember_status finish_step(ember_trainer *trainer, const ember_batch *batch) {
    const int64_t step = trainer->step + 1;
    ember_tracker_commit_step(trainer->tracker, trainer->stats.n_inputs);
    ember_l1_controller_update(&trainer->l1, step, nonzero_fraction(trainer));
    trainer->step = step;
    trainer->last_start = trainer->position;
    trainer->position = ember_loader_tell(trainer->train_data);
    trainer->row.step = step;
    trainer->row.tokens_seen = trainer->tracker->tokens_seen;
    for (int64_t i = 0; i < trainer->hparams.num_hidden_layers; i++)
        trainer->row.dead[i] = (int32_t)ember_tracker_n_dead(trainer->tracker, i);
    EMBER_TRY(decide_modes(trainer, batch->n_sequences * batch->sequence_length));
    return revive_dead(trainer);
}

ember_status trainer_step(ember_trainer *trainer) {
    const double start_s = ember_seconds();
    const int64_t step = trainer->step + 1;
    ember_batch batch;
    EMBER_TRY(ember_loader_next(trainer->train_data, &batch));
    if (batch.n_targets == 0 || batch.n_inputs == 0)
        return ember_fail(EMBER_E_NUMERIC,
                          "step %lld: none of the %lld sequences of this batch has a target token, so its loss is not defined; raise "
                          "train.batch_size or prepare longer documents",
                          (long long)step, (long long)batch.n_sequences);
    const double lambda_mean = ember_l1_controller_lambda(&trainer->l1, step, trainer->lambda);
    int64_t failed = -1;
    EMBER_TRY(run_batch_with_room(trainer, &batch, &failed));
    fill_row(trainer, lambda_mean);
    double norm = (double)NAN;
    if (failed < 0) EMBER_TRY(ember_optimizer_grad_norm(trainer->model, &norm));
    if (failed >= 0 || !isfinite(norm)) return trainer_report_nonfinite(trainer, step, norm, failed);
    if (trainer->fresh_weights && trainer->step == 0) check_first_loss(trainer, trainer->row.ce);

    trainer->row.lr = ember_schedule_lr(&trainer->schedule, step);
    trainer->row.grad_norm = norm;
    EMBER_TRY(ember_optimizer_step(&trainer->optimizer, trainer->model, trainer->row.lr,
                                   ember_optimizer_clip_scale(&trainer->optimizer, norm), step));
    EMBER_TRY(finish_step(trainer, &batch));
    trainer->row.tokens_per_s = ember_rate(trainer->stats.n_inputs, ember_seconds() - start_s);
    return ember_history_append(trainer->history, &trainer->row);
}
