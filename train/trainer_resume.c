#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/status.h"
#include "train/trainer_internal.h"
#include "train/trainer_state.h"

/* Keys that describe steps already done: another value would mean that the checkpoint's past did not happen. */
static const char *const past_keys[] = {"run.seed",           "data.weights",     "data.mask_documents",   "data.shuffle",
                                        "data.zipf_exponent", "train.batch_size", "train.sequence_length", "ffn.kind",
                                        "ffn.activation"};

static const char *const schedule_keys[] = {"train.steps",        "train.lr",          "train.schedule",
                                            "train.warmup_steps", "train.decay_steps", "train.final_lr_fraction"};

static bool is_among(const char *key, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(key, keys[i]) == 0) return true;
    }
    return false;
}

static bool alters_past(const char *key) {
    return strncmp(key, "model.", 6) == 0 || is_among(key, past_keys, sizeof past_keys / sizeof past_keys[0]);
}

static bool moves_schedule(const char *key) { return is_among(key, schedule_keys, sizeof schedule_keys / sizeof schedule_keys[0]); }

static bool is_allowed(const ember_trainer_options *options, const char *key) {
    for (int i = 0; i < options->n_allowed_changes; i++) {
        if (strcmp(options->allowed_changes[i], key) == 0) return true;
    }
    return false;
}

/* One line of ember_config_diff, "section.key: a -> b". */
static ember_status check_line(ember_trainer *trainer, const ember_trainer_options *options, const char *line) {
    char key[EMBER_NAME_BYTES];
    const char *colon = strchr(line, ':');
    const size_t n = colon ? (size_t)(colon - line) : strlen(line);
    if (n >= sizeof key) return ember_fail(EMBER_E_STATE, "config key too long: %s", line);
    memcpy(key, line, n);
    key[n] = '\0';
    if (alters_past(key) && !is_allowed(options, key))
        return ember_fail(EMBER_E_CONFIG,
                          "%s differs from the checkpoint, and that alters what its steps were trained on or with; set it back, or resume "
                          "with --allow-change %s, or start a new run from the weights with init.from",
                          line, key);
    if (strcmp(key, "ffn.costs") == 0) trainer->costs_renamed = true;
    ember_logf(trainer->log, EMBER_LOG_NOTE, "changed since the checkpoint: %s%s", line,
               moves_schedule(key) ? " (from the restored step on, the learning rate is that of the new schedule)" : "");
    return EMBER_OK;
}

/* Calls check_line for each line of `text`, which it cuts up. */
static ember_status check_lines(ember_trainer *trainer, const ember_trainer_options *options, char *text) {
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        if (*line) EMBER_TRY(check_line(trainer, options, line));
        line = end ? end + 1 : NULL;
    }
    return EMBER_OK;
}

ember_status trainer_check_changes(ember_trainer *trainer, const ember_checkpoint *checkpoint, const ember_trainer_options *options) {
    const ember_checkpoint_meta *meta = ember_checkpoint_get_meta(checkpoint);
    const char *path = ember_h5_path(ember_checkpoint_file(checkpoint));
    if (!meta->full)
        return ember_fail(
            EMBER_E_CONFIG,
            "%s holds weights alone, without optimizer moments and data position, so there is no run to resume; start a new one "
            "from it with init.from: %s",
            path, path);
    ember_config *stored = NULL;
    ember_bytes diff = {0};
    ember_status status;
    EMBER_TRY_GOTO(ember_config_parse(&stored, meta->config, strlen(meta->config), path, NULL, 0), done);
    EMBER_TRY_GOTO(ember_config_diff(stored, trainer->config, &diff), done);
    if (diff.n > 0) EMBER_TRY_GOTO(check_lines(trainer, options, diff.data), done);
done:
    ember_bytes_free(&diff);
    ember_config_free(stored);
    return status;
}

static ember_status upload(ember_trainer *trainer, ember_tensor to, const float *from) {
    return trainer->backend->ops->upload(trainer->backend, to.data, from, (size_t)ember_tensor_count(to) * sizeof(float));
}

static ember_tensor in_host(ember_tensor tensor, float *host) {
    tensor.data = host;
    return tensor;
}

ember_status trainer_load_params(ember_trainer *trainer, const ember_checkpoint *checkpoint, bool with_moments) {
    int64_t largest = 0;
    void *first = NULL;
    void *second = NULL;
    ember_status status;
    for (int64_t i = 0; i < ember_model_n_params(trainer->model); i++) {
        const int64_t n = ember_tensor_count(ember_model_param(trainer->model, i)->value);
        largest = n > largest ? n : largest;
    }
    EMBER_TRY_GOTO(ember_allocate(&first, (size_t)largest, sizeof(float), "loading buffer"), done);
    EMBER_TRY_GOTO(ember_allocate(&second, with_moments ? (size_t)largest : 1, sizeof(float), "loading buffer"), done);
    for (int64_t i = 0; i < ember_model_n_params(trainer->model); i++) {
        const ember_param *param = ember_model_param(trainer->model, i);
        EMBER_TRY_GOTO(ember_checkpoint_get_param(checkpoint, &param->spec, in_host(param->value, first)), done);
        EMBER_TRY_GOTO(upload(trainer, param->value, first), done);
        if (!with_moments) continue;
        EMBER_TRY_GOTO(
            ember_checkpoint_get_moments(checkpoint, &param->spec, in_host(param->exp_avg, first), in_host(param->exp_avg_sq, second)),
            done);
        EMBER_TRY_GOTO(upload(trainer, param->exp_avg, first), done);
        EMBER_TRY_GOTO(upload(trainer, param->exp_avg_sq, second), done);
    }
done:
    ember_release(second);
    ember_release(first);
    return status;
}

void trainer_pack_tracker(int64_t *numbers, const ember_tracker *tracker) {
    numbers[0] = tracker->n_blocks;
    numbers[1] = tracker->steps_per_block;
    numbers[2] = tracker->head;
    numbers[3] = tracker->tokens_seen;
    memcpy(numbers + 4, tracker->block_tokens, sizeof tracker->block_tokens);
    memcpy(numbers + 4 + EMBER_TRACKER_BLOCKS, tracker->block_steps, sizeof tracker->block_steps);
}

ember_status trainer_unpack_tracker(ember_tracker *tracker, const int64_t *numbers, bool *kept) {
    bool valid = numbers[3] >= 0 && numbers[0] >= 1 && numbers[0] <= EMBER_TRACKER_BLOCKS && numbers[1] >= 1 && numbers[2] >= 0 &&
                 numbers[2] < numbers[0];
    for (int i = 4; i < TRAINER_TRACKER_NUMBERS; i++)
        valid = valid && numbers[i] >= 0;
    if (!valid) return ember_fail(EMBER_E_CORRUPT, "/state/tracker holds numbers that no tracker has");
    tracker->tokens_seen = numbers[3];
    *kept = numbers[0] == tracker->n_blocks && numbers[1] == tracker->steps_per_block;
    if (!*kept) return EMBER_OK;
    tracker->head = numbers[2];
    memcpy(tracker->block_tokens, numbers + 4, sizeof tracker->block_tokens);
    memcpy(tracker->block_steps, numbers + 4 + EMBER_TRACKER_BLOCKS, sizeof tracker->block_steps);
    return EMBER_OK;
}

static ember_status restore_tracker(ember_trainer *trainer, const ember_checkpoint *checkpoint) {
    ember_tracker *tracker = trainer->tracker;
    int64_t numbers[TRAINER_TRACKER_NUMBERS];
    bool kept = false;
    EMBER_TRY(ember_checkpoint_get(checkpoint, "state", "tracker", ember_tensor_1d(numbers, EMBER_I64, TRAINER_TRACKER_NUMBERS)));
    EMBER_TRY(trainer_unpack_tracker(tracker, numbers, &kept));
    if (!kept) ember_logf(trainer->log, EMBER_LOG_NOTE, "the firing window has another length than in the checkpoint; it starts empty");
    for (int64_t i = 0; i < tracker->n_layers; i++) {
        ember_tracker_layer *layer = &tracker->layers[i];
        char group[64];
        char ring[64];
        (void)snprintf(group, sizeof group, "sparsity/layer_%lld", (long long)i);
        (void)snprintf(ring, sizeof ring, "ring_layer_%lld", (long long)i);
        EMBER_TRY(ember_checkpoint_get(checkpoint, group, "fire_count", ember_tensor_1d(layer->fire_count, EMBER_U64, layer->n_neurons)));
        EMBER_TRY(ember_checkpoint_get(checkpoint, group, "last_fired", ember_tensor_1d(layer->last_fired, EMBER_I64, layer->n_neurons)));
        if (kept)
            EMBER_TRY(ember_checkpoint_get(checkpoint, "state", ring,
                                           ember_tensor_2d(layer->ring, EMBER_U64, EMBER_TRACKER_BLOCKS, layer->n_neurons)));
    }
    return EMBER_OK;
}

/* Mode of each layer for the next step. Another ffn.mode than the checkpoint's starts from its own default. */
static ember_status restore_modes(ember_trainer *trainer, const ember_checkpoint *checkpoint) {
    const bool was_auto = ember_checkpoint_has(checkpoint, "state", "ffn_costs");
    ember_bytes costs = {0};
    ember_status status = EMBER_OK;
    if (was_auto && trainer->chooser) EMBER_TRY_GOTO(ember_checkpoint_get_text(checkpoint, "state", "ffn_costs", &costs), done);
    EMBER_TRY_GOTO(trainer_prepare_auto(trainer, &costs), done);
    if (!was_auto || !trainer->chooser) goto done;
    const int64_t n_layers = trainer->hparams.num_hidden_layers;
    EMBER_TRY_GOTO(ember_checkpoint_get(checkpoint, "state", "ffn_modes", ember_tensor_1d(trainer->mode_state, EMBER_I64, n_layers)), done);
    EMBER_TRY_GOTO(ember_ffn_auto_restore(trainer->chooser, trainer->mode_state), done);
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY_GOTO(ember_model_set_mode(trainer->model, i, trainer->mode_state[i] & 1 ? EMBER_MODE_TWELL : EMBER_MODE_DENSE), done);
done:
    ember_bytes_free(&costs);
    return status;
}

static ember_status restore_data(ember_trainer *trainer, const ember_checkpoint *checkpoint, const ember_trainer_options *options) {
    uint64_t position[2];
    uint64_t fingerprint = 0;
    EMBER_TRY(ember_checkpoint_get(checkpoint, "state", "data_position", ember_tensor_1d(position, EMBER_U64, 2)));
    EMBER_TRY(ember_checkpoint_get(checkpoint, "state", "data_fingerprint", ember_tensor_1d(&fingerprint, EMBER_U64, 1)));
    const uint64_t present = ember_loader_fingerprint(trainer->train_data);
    if (fingerprint != present && !is_allowed(options, "data.train"))
        return ember_fail(
            EMBER_E_CONFIG,
            "data.train: the shards are not those of the checkpoint (fingerprint %016llx, now %016llx), so its position in them "
            "means nothing; give the same shards, or resume with --allow-change data.train",
            (unsigned long long)fingerprint, (unsigned long long)present);
    trainer->position = (ember_loader_position){.n_sequences = position[0], .passes = position[1]};
    trainer->last_start = trainer->position;
    return ember_loader_seek(trainer->train_data, trainer->position);
}

static ember_status restore_numbers(ember_trainer *trainer, const ember_checkpoint *checkpoint) {
    double best[2];
    int64_t pending = 0;
    double controller[EMBER_L1_STATE];
    EMBER_TRY(ember_checkpoint_get(checkpoint, "state", "l1_controller", ember_tensor_1d(controller, EMBER_F64, EMBER_L1_STATE)));
    EMBER_TRY(ember_checkpoint_get(checkpoint, "state", "best", ember_tensor_1d(best, EMBER_F64, 2)));
    EMBER_TRY(ember_checkpoint_get(checkpoint, "state", "eval_pending", ember_tensor_1d(&pending, EMBER_I64, 1)));
    memcpy(trainer->l1.state, controller, sizeof controller);
    trainer->best_loss = best[0];
    trainer->best_step = (int64_t)best[1];
    trainer->eval_pending = pending != 0;
    return EMBER_OK;
}

/* The last row again becomes the present one: its L0 and L1 are part of the next checkpoint. */
static ember_status restore_history(ember_trainer *trainer, const ember_checkpoint *checkpoint) {
    EMBER_TRY(ember_history_load(trainer->history, checkpoint));
    const int64_t n = ember_history_n(trainer->history);
    if (n == 0) return EMBER_OK;
    const ember_history_row last = ember_history_at(trainer->history, n - 1);
    if (last.step != trainer->step)
        return ember_fail(EMBER_E_CORRUPT, "/history ends at step %lld, the checkpoint is of step %lld", (long long)last.step,
                          (long long)trainer->step);
    const size_t n_layers = (size_t)trainer->hparams.num_hidden_layers;
    memcpy(trainer->row.l0, last.l0, n_layers * sizeof *last.l0);
    memcpy(trainer->row.l1_per_layer, last.l1_per_layer, n_layers * sizeof *last.l1_per_layer);
    return EMBER_OK;
}

ember_status trainer_check_shapes(const ember_trainer *trainer, const ember_checkpoint *checkpoint) {
    const ember_hparams *stored = ember_checkpoint_hparams(checkpoint);
    const int64_t n = ember_hparams_n_params(&trainer->hparams);
    if (ember_hparams_n_params(stored) != n)
        return ember_fail(EMBER_E_CONFIG, "the config describes a model of %lld parameters, the checkpoint holds %lld", (long long)n,
                          (long long)ember_hparams_n_params(stored));
    for (int64_t i = 0; i < n; i++) {
        const ember_param_spec ours = ember_hparams_param(&trainer->hparams, i);
        const ember_param_spec theirs = ember_hparams_param(stored, i);
        if (strcmp(ours.name, theirs.name) != 0 || ours.n_dims != theirs.n_dims || ours.dims[0] != theirs.dims[0] ||
            (ours.n_dims == 2 && ours.dims[1] != theirs.dims[1]))
            return ember_fail(EMBER_E_CONFIG, "%s is [%lld, %lld] in the config, and %s [%lld, %lld] in the checkpoint", ours.name,
                              (long long)ours.dims[0], (long long)(ours.n_dims == 2 ? ours.dims[1] : 1), theirs.name,
                              (long long)theirs.dims[0], (long long)(theirs.n_dims == 2 ? theirs.dims[1] : 1));
    }
    return EMBER_OK;
}

/* No config key names them: they come from the shards, or from the model that the run started from. */
static void restore_tokens(ember_hparams *to, const ember_hparams *from) {
    to->bos_token_id = from->bos_token_id;
    to->n_eos = from->n_eos;
    memcpy(to->eos_token_ids, from->eos_token_ids, sizeof to->eos_token_ids);
}

ember_status trainer_restore(ember_trainer *trainer, const ember_checkpoint *checkpoint, const ember_trainer_options *options) {
    trainer->step = ember_checkpoint_get_meta(checkpoint)->step;
    ember_status status;
    EMBER_TRY_GOTO(trainer_check_shapes(trainer, checkpoint), done);
    restore_tokens(&trainer->hparams, ember_checkpoint_hparams(checkpoint));
    EMBER_TRY_GOTO(trainer_load_params(trainer, checkpoint, true), done);
    EMBER_TRY_GOTO(restore_data(trainer, checkpoint, options), done);
    EMBER_TRY_GOTO(restore_tracker(trainer, checkpoint), done);
    EMBER_TRY_GOTO(restore_numbers(trainer, checkpoint), done);
    EMBER_TRY_GOTO(restore_history(trainer, checkpoint), done);
    EMBER_TRY_GOTO(restore_modes(trainer, checkpoint), done);
done:
    if (status == EMBER_OK || status == EMBER_E_CONFIG || status == EMBER_E_INTERRUPTED) return status;
    return ember_fail_context(status, "%s", ember_h5_path(ember_checkpoint_file(checkpoint)));
}
