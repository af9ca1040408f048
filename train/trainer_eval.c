#include <math.h>
#include <string.h>

#include "lib/base/status.h"
#include "train/trainer_internal.h"

static bool stop_requested(const ember_trainer *trainer) {
    return trainer->events.should_stop && trainer->events.should_stop(trainer->events.user);
}

static void add_stats(ember_step_stats *total, const ember_step_stats *part, int64_t n_layers) {
    total->ce_sum += part->ce_sum;
    total->n_targets += part->n_targets;
    total->n_inputs += part->n_inputs;
    for (int64_t i = 0; i < n_layers; i++) {
        total->l0_sum[i] += part->l0_sum[i];
        total->l1_sum[i] += part->l1_sum[i];
    }
}

/* A forward pass alone gets the room it needs inside the model, so EMBER_E_CAPACITY does not come here. */
static ember_status run_micro(ember_trainer *trainer, const ember_batch *batch, int64_t n_sequences) {
    const ember_micro_batch micro = {.n_sequences = n_sequences,
                                     .sequence_length = batch->sequence_length,
                                     .input_ids = batch->input_ids,
                                     .target_ids = batch->target_ids,
                                     .mask = batch->mask,
                                     .document_start = batch->document_start};
    int64_t full_layer = -1;
    trainer_clear_stats(trainer, &trainer->eval_stats);
    EMBER_TRY(ember_model_run(trainer->model, &micro, NULL, &trainer->eval_stats, NULL, &full_layer));
    add_stats(&trainer->eval_totals, &trainer->eval_stats, trainer->hparams.num_hidden_layers);
    return EMBER_OK;
}

static void fill_result(const ember_trainer *trainer, ember_eval_result *out) {
    const ember_step_stats *totals = &trainer->eval_totals;
    double fired = 0;
    double all = 0;
    for (int64_t i = 0; i < trainer->hparams.num_hidden_layers; i++) {
        out->l0[i] = (double)totals->l0_sum[i] / (double)totals->n_inputs;
        fired += out->l0[i];
        all += (double)trainer->hparams.neurons[i];
    }
    out->loss = totals->ce_sum / (double)totals->n_targets;
    out->nonzero_fraction = fired / all;
    out->n_targets = totals->n_targets;
    out->n_inputs = totals->n_inputs;
    const double bytes_per_token = ember_loader_bytes_per_token(trainer->valid_data);
    out->bits_per_byte = bytes_per_token > 0 ? out->loss / log(2.0) / bytes_per_token : (double)NAN;
}

ember_status ember_trainer_evaluate(ember_trainer *trainer, ember_eval_result *out) {
    if (!trainer->valid_data) return ember_fail(EMBER_E_STATE, "data.valid is empty: there is nothing to evaluate on");
    const int64_t limit = trainer->settings->eval.sequences;
    int64_t left = limit > 0 ? limit : INT64_MAX;
    trainer_clear_stats(trainer, &trainer->eval_totals);
    EMBER_TRY(ember_loader_seek(trainer->valid_data, (ember_loader_position){0}));
    while (left > 0) {
        if (stop_requested(trainer)) return ember_fail(EMBER_E_INTERRUPTED, "stopped during the evaluation");
        ember_batch batch;
        EMBER_TRY(ember_loader_next(trainer->valid_data, &batch));
        const int64_t n = batch.n_sequences < left ? batch.n_sequences : left;
        if (n == 0) break;
        EMBER_TRY(run_micro(trainer, &batch, n));
        left -= n;
    }
    if (trainer->eval_totals.n_targets == 0)
        return ember_fail(EMBER_E_NUMERIC, "data.valid: no token has a target, so a validation loss is not defined");
    *out = (ember_eval_result){.l0 = trainer->last_eval.l0};
    fill_result(trainer, out);
    trainer->last_eval = *out;
    return EMBER_OK;
}
