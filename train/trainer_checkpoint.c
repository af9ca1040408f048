/* What a checkpoint of a run holds beside model, config and tokenizer:
 * /sparsity/layer_<i>: fire_count, window_count, last_fired [h], l0, l1 (of the last step) [1]
 * /state: data_position [2], data_fingerprint [1], seed [1], l1_controller [2], tracker [36] (blocks, steps of a block, head,
 *         tokens and steps of each block), ring_layer_<i> [16, h], window_tokens [1],
 *         dead_after_tokens [1], ffn_modes [L], ffn_costs (text), best [2] (loss, step), eval_pending [1]
 * /history: train/history.h */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/atomic_file.h"
#include "lib/base/status.h"
#include "train/trainer_internal.h"
#include "train/trainer_state.h"

static ember_status put_i64(ember_checkpoint_writer *writer, const char *group, const char *name, const int64_t *values, int64_t n) {
    return ember_checkpoint_put(writer, group, name, ember_tensor_1d((void *)(uintptr_t)values, EMBER_I64, n));
}

static ember_status put_u64(ember_checkpoint_writer *writer, const char *group, const char *name, const uint64_t *values, int64_t n) {
    return ember_checkpoint_put(writer, group, name, ember_tensor_1d((void *)(uintptr_t)values, EMBER_U64, n));
}

static ember_status put_f64(ember_checkpoint_writer *writer, const char *group, const char *name, const double *values, int64_t n) {
    return ember_checkpoint_put(writer, group, name, ember_tensor_1d((void *)(uintptr_t)values, EMBER_F64, n));
}

static ember_status put_params(ember_trainer *trainer, ember_checkpoint_writer *writer) {
    for (int64_t i = 0; i < ember_model_n_params(trainer->model); i++) {
        const ember_param *param = ember_model_param(trainer->model, i);
        EMBER_TRY(ember_checkpoint_put_param(writer, &param->spec, param->value));
    }
    for (int64_t i = 0; i < ember_model_n_params(trainer->model); i++) {
        const ember_param *param = ember_model_param(trainer->model, i);
        EMBER_TRY(ember_checkpoint_put_moments(writer, &param->spec, param->exp_avg, param->exp_avg_sq));
    }
    return EMBER_OK;
}

static ember_status put_sparsity(ember_trainer *trainer, ember_checkpoint_writer *writer) {
    const ember_tracker *tracker = trainer->tracker;
    int64_t window_tokens = 0;
    for (int64_t i = 0; i < tracker->n_layers; i++) {
        const ember_tracker_layer *layer = &tracker->layers[i];
        char group[64];
        char ring[64];
        (void)snprintf(group, sizeof group, "sparsity/layer_%lld", (long long)i);
        (void)snprintf(ring, sizeof ring, "ring_layer_%lld", (long long)i);
        window_tokens = ember_tracker_window(tracker, i, trainer->window_count);
        EMBER_TRY(put_u64(writer, group, "fire_count", layer->fire_count, layer->n_neurons));
        EMBER_TRY(put_u64(writer, group, "window_count", trainer->window_count, layer->n_neurons));
        EMBER_TRY(put_i64(writer, group, "last_fired", layer->last_fired, layer->n_neurons));
        const double l0 = (double)trainer->row.l0[i];
        const double l1 = (double)trainer->row.l1_per_layer[i];
        EMBER_TRY(put_f64(writer, group, "l0", &l0, 1));
        EMBER_TRY(put_f64(writer, group, "l1", &l1, 1));
        EMBER_TRY(
            ember_checkpoint_put(writer, "state", ring, ember_tensor_2d(layer->ring, EMBER_U64, EMBER_TRACKER_BLOCKS, layer->n_neurons)));
    }
    return put_i64(writer, "state", "window_tokens", &window_tokens, 1);
}

static ember_status put_tracker(const ember_tracker *tracker, ember_checkpoint_writer *writer) {
    int64_t numbers[TRAINER_TRACKER_NUMBERS];
    trainer_pack_tracker(numbers, tracker);
    EMBER_TRY(put_i64(writer, "state", "tracker", numbers, TRAINER_TRACKER_NUMBERS));
    return put_i64(writer, "state", "dead_after_tokens", &tracker->options.dead_after_tokens, 1);
}

static ember_status put_modes(ember_trainer *trainer, ember_checkpoint_writer *writer) {
    const int64_t n_layers = trainer->hparams.num_hidden_layers;
    if (trainer->chooser) {
        ember_ffn_auto_state(trainer->chooser, trainer->mode_state);
        EMBER_TRY(
            ember_checkpoint_put_text(writer, "state", "ffn_costs", trainer->costs.data ? trainer->costs.data : "", trainer->costs.n));
    } else {
        for (int64_t i = 0; i < n_layers; i++)
            trainer->mode_state[i] = (int64_t)ember_model_mode(trainer->model, i);
    }
    return put_i64(writer, "state", "ffn_modes", trainer->mode_state, n_layers);
}

static ember_status put_state(ember_trainer *trainer, ember_checkpoint_writer *writer) {
    const uint64_t position[2] = {trainer->position.n_sequences, trainer->position.passes};
    const uint64_t fingerprint = ember_loader_fingerprint(trainer->train_data);
    const uint64_t seed = trainer->settings->run.seed;
    const double best[2] = {trainer->best_loss, (double)trainer->best_step};
    const int64_t pending = trainer->eval_pending ? 1 : 0;
    EMBER_TRY(put_u64(writer, "state", "data_position", position, 2));
    EMBER_TRY(put_u64(writer, "state", "data_fingerprint", &fingerprint, 1));
    EMBER_TRY(put_u64(writer, "state", "seed", &seed, 1));
    EMBER_TRY(put_f64(writer, "state", "l1_controller", trainer->l1.state, EMBER_L1_STATE));
    EMBER_TRY(put_f64(writer, "state", "best", best, 2));
    EMBER_TRY(put_i64(writer, "state", "eval_pending", &pending, 1));
    EMBER_TRY(put_tracker(trainer->tracker, writer));
    return put_modes(trainer, writer);
}

/* A file with a weight that is no number would not be a good checkpoint, whatever the loss was. */
static ember_status check_weights(ember_trainer *trainer) {
    int64_t index = -1;
    EMBER_TRY(ember_model_find_nonfinite(trainer->model, false, &index));
    if (index < 0) return EMBER_OK;
    return trainer_report_nonfinite(trainer, trainer->step, trainer->row.grad_norm, -1);
}

ember_status ember_trainer_save(ember_trainer *trainer, const char *path) {
    ember_checkpoint_writer *writer = NULL;
    ember_bytes yaml = {0};
    ember_status status;
    EMBER_TRY(check_weights(trainer));
    EMBER_TRY_GOTO(ember_config_to_yaml(trainer->config, &yaml), fail);
    ember_checkpoint_meta meta = {
        .full = true, .step = trainer->step, .tokens_seen = trainer->tracker->tokens_seen, .config = yaml.data ? yaml.data : ""};
    meta.tokenizer = ember_loader_tokenizer_text(trainer->train_data, &meta.tokenizer_bytes);
    EMBER_TRY_GOTO(ember_checkpoint_create(&writer, path, &meta, &trainer->hparams), fail);
    EMBER_TRY_GOTO(put_params(trainer, writer), fail);
    EMBER_TRY_GOTO(put_sparsity(trainer, writer), fail);
    EMBER_TRY_GOTO(put_state(trainer, writer), fail);
    EMBER_TRY_GOTO(ember_history_save(trainer->history, writer), fail);
    ember_checkpoint_writer *finished = writer;
    writer = NULL;
    EMBER_TRY_GOTO(ember_checkpoint_commit(finished), fail);
    ember_bytes_free(&yaml);
    return EMBER_OK;
fail:
    ember_checkpoint_abort(writer);
    ember_bytes_free(&yaml);
    return ember_fail_context(status, "checkpoint of step %lld", (long long)trainer->step);
}

static void tell_saved(const ember_trainer *trainer, const char *path) {
    if (trainer->events.saved) trainer->events.saved(trainer->events.user, trainer->step, path);
}

/* best.h5 of a step that this branch has not had. One that cannot be read is no best either. */
static ember_status set_best_aside(ember_trainer *trainer) {
    ember_bytes path = {0};
    ember_checkpoint *best = NULL;
    ember_status status;
    EMBER_TRY_GOTO(ember_run_folder_file(&path, ember_run_folder_path(trainer->folder), "best.h5"), done);
    if (access(path.data, F_OK) != 0) goto done;
    const bool readable = ember_checkpoint_open(&best, path.data, false) == EMBER_OK;
    const bool later = !readable || ember_checkpoint_get_meta(best)->step > trainer->resumed_step;
    if (later) status = ember_run_folder_set_aside(trainer->folder, "best.h5", trainer->log);
done:
    ember_checkpoint_close(best);
    ember_bytes_free(&path);
    return status;
}

/* Before the first file of a branch is written: those of the run that it leaves go out of its way, so
 * that none of them is taken for the newest. */
static ember_status leave_old_branch(ember_trainer *trainer) {
    if (!trainer->resumed_behind) return EMBER_OK;
    EMBER_TRY(ember_run_folder_supersede(trainer->folder, trainer->resumed_step, trainer->log));
    EMBER_TRY(set_best_aside(trainer));
    trainer->resumed_behind = false;
    return EMBER_OK;
}

ember_status trainer_save_step(ember_trainer *trainer) {
    const char *folder = ember_run_folder_path(trainer->folder);
    EMBER_TRY(leave_old_branch(trainer));
    ember_bytes path = {0};
    ember_status status = ember_bytes_printf(&path, "%s/step_%lld.h5", folder, (long long)trainer->step);
    if (status == EMBER_OK) status = ember_trainer_save(trainer, path.data);
    if (status != EMBER_OK) {
        ember_bytes_free(&path);
        return status;
    }
    ember_bytes_free(&trainer->saved_path);
    trainer->saved_path = path;
    trainer->saved_step = trainer->step;
    tell_saved(trainer, path.data);
    return ember_run_folder_prune(trainer->folder, trainer->step, trainer->settings->checkpoint.keep_last);
}

/* Gives the checkpoint of this step a second name; false where the file system has no links. */
static bool link_best(const ember_trainer *trainer, const char *best) {
    ember_bytes temporary = {0};
    bool linked = false;
    if (ember_temporary_name(&temporary, best) == EMBER_OK) {
        (void)unlink(temporary.data);
        linked = link(trainer->saved_path.data, temporary.data) == 0 && rename(temporary.data, best) == 0;
        /* rename does nothing and keeps both names when they are one file already. */
        (void)unlink(temporary.data);
    }
    ember_bytes_free(&temporary);
    return linked;
}

ember_status trainer_save_best(ember_trainer *trainer) {
    EMBER_TRY(leave_old_branch(trainer));
    ember_bytes path = {0};
    ember_status status = ember_run_folder_file(&path, ember_run_folder_path(trainer->folder), "best.h5");
    if (status == EMBER_OK) {
        const bool linked = trainer->saved_step == trainer->step && link_best(trainer, path.data);
        if (!linked) status = ember_trainer_save(trainer, path.data);
    }
    if (status == EMBER_OK) tell_saved(trainer, path.data);
    ember_bytes_free(&path);
    return status;
}
