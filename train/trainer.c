#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/status.h"
#include "train/trainer_internal.h"
#include "train/trainer_state.h"

static bool stop_requested(const ember_trainer *trainer) {
    return trainer->events.should_stop && trainer->events.should_stop(trainer->events.user);
}

/* ---- making one */

static ember_status check_device(const ember_settings *settings) {
    if (settings->run.device != EMBER_DEVICE_CUDA) return EMBER_OK;
    return ember_fail(EMBER_E_DEVICE, "run.device is cuda, but this build has no GPU backend (%s); set run.device to cpu or auto",
                      EMBER_BUILD_NOTE);
}

/* Finished steps are worth hours: a fresh run never goes on top of them. */
static ember_status check_unused(const ember_trainer *trainer) {
    const char *output = trainer->settings->run.output;
    int64_t n = 0;
    EMBER_TRY(ember_run_folder_count(output, &n));
    if (n == 0) return EMBER_OK;
    return ember_fail(EMBER_E_CONFIG,
                      "%s holds checkpoints of an earlier run (%lld); go on with it through --resume, or set run.output to another folder",
                      output, (long long)n);
}

static ember_status open_resumed(ember_trainer *trainer, const ember_trainer_options *options, ember_checkpoint **out) {
    const char *output = trainer->settings->run.output;
    ember_bytes path = {0};
    ember_status status;
    const char *from = options->resume_path ? options->resume_path : output;
    struct stat info;
    if (!options->resume_path || (stat(from, &info) == 0 && S_ISDIR(info.st_mode))) {
        EMBER_TRY_GOTO(ember_checkpoint_newest(&path, from, trainer->log), done);
    } else {
        EMBER_TRY_GOTO(ember_bytes_printf(&path, "%s", from), done);
    }
    EMBER_TRY_GOTO(ember_checkpoint_open(out, path.data, true), done);
    if (!ember_run_folder_holds(output, path.data)) EMBER_TRY_GOTO(check_unused(trainer), done);
    EMBER_TRY_GOTO(trainer_check_changes(trainer, *out, options), done);
    trainer->saved_path = path;
    trainer->saved_step = ember_checkpoint_get_meta(*out)->step;
    trainer->resumed_behind = options->resume_path != NULL;
    trainer->resumed_step = trainer->saved_step;
    return EMBER_OK;
done:
    ember_bytes_free(&path);
    return status;
}

static ember_status open_metrics(ember_trainer *trainer) {
    ember_bytes path = {0};
    ember_status status = ember_run_folder_file(&path, ember_run_folder_path(trainer->folder), "metrics.jsonl");
    /* The line of a step whose evaluation is still to come is written again after it. */
    const int64_t last = trainer->eval_pending ? trainer->step - 1 : trainer->step;
    if (status == EMBER_OK) status = ember_metrics_open(&trainer->metrics, path.data, last);
    ember_bytes_free(&path);
    return status;
}

static ember_status set_up(ember_trainer *trainer, const ember_trainer_options *options) {
    const char *output = trainer->settings->run.output;
    ember_checkpoint *checkpoint = NULL;
    ember_status status;
    EMBER_TRY_GOTO(check_device(trainer->settings), done);
    /* Locked before it is read, so that a run which is just saving is waited out; made only when
     * everything that can be refused has been looked at. */
    if (access(output, F_OK) == 0) EMBER_TRY_GOTO(ember_run_folder_open(&trainer->folder, output), done);
    if (options->resume) {
        EMBER_TRY_GOTO(open_resumed(trainer, options, &checkpoint), done);
    } else {
        EMBER_TRY_GOTO(check_unused(trainer), done);
    }
    EMBER_TRY_GOTO(trainer_open_data(trainer), done);
    EMBER_TRY_GOTO(trainer_allocate(trainer), done);
    if (!trainer->folder) EMBER_TRY_GOTO(ember_run_folder_open(&trainer->folder, output), done);
    if (checkpoint) {
        EMBER_TRY_GOTO(trainer_restore(trainer, checkpoint, options), done);
    } else {
        EMBER_TRY_GOTO(trainer_init_weights(trainer), done);
        EMBER_TRY_GOTO(trainer_prepare_auto(trainer, &(ember_bytes){0}), done);
    }
    EMBER_TRY_GOTO(open_metrics(trainer), done);
done:
    ember_checkpoint_close(checkpoint);
    return status;
}

ember_status ember_trainer_create(ember_trainer **out, const ember_trainer_options *options) {
    *out = NULL;
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_trainer), "trainer"));
    ember_trainer *trainer = block;
    const ember_settings *settings = ember_config_settings(options->config);
    trainer->config = options->config;
    trainer->settings = settings;
    trainer->log = options->log;
    trainer->events = options->events;
    trainer->schedule = ember_schedule_from(settings);
    trainer->optimizer = ember_optimizer_from(settings);
    trainer->best_loss = (double)INFINITY;
    trainer->saved_step = -1;
    const int64_t stop = settings->train.stop_after;
    trainer->last_step = stop > 0 && stop < settings->train.steps ? stop : settings->train.steps;
    const ember_status status = set_up(trainer, options);
    if (status != EMBER_OK) {
        ember_run_folder_undo(trainer->folder);
        trainer->folder = NULL;
        ember_trainer_free(trainer);
        return status;
    }
    *out = trainer;
    return EMBER_OK;
}

void ember_trainer_free(ember_trainer *trainer) {
    if (!trainer) return;
    ember_metrics_close(trainer->metrics);
    ember_history_free(trainer->history);
    ember_bytes_free(&trainer->costs);
    ember_ffn_auto_free(trainer->chooser);
    ember_tracker_free(trainer->tracker);
    ember_model_free(trainer->model);
    ember_backend_free(trainer->backend);
    ember_loader_close(trainer->valid_data);
    ember_loader_close(trainer->train_data);
    ember_run_folder_close(trainer->folder);
    ember_bytes_free(&trainer->saved_path);
    ember_release(trainer->scratch);
    ember_release(trainer);
}

/* ---- running it */

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static bool eval_is_due(const ember_trainer *trainer) {
    if (!trainer->valid_data) return false;
    return trainer->step == trainer->settings->train.steps || is_due(trainer->step, trainer->settings->eval.every);
}

/* Evaluation into the last row, and best.h5. *improved: the checkpoint of this step is the best so far. */
static ember_status evaluate_row(ember_trainer *trainer, bool *improved) {
    ember_eval_result result;
    trainer->eval_pending = true;
    EMBER_TRY(ember_trainer_evaluate(trainer, &result));
    trainer->eval_pending = false;
    ember_history_set_valid_loss(trainer->history, ember_history_n(trainer->history) - 1, result.loss);
    *improved = result.loss < trainer->best_loss;
    if (*improved) {
        trainer->best_loss = result.loss;
        trainer->best_step = trainer->step;
    }
    if (trainer->events.eval_done) trainer->events.eval_done(trainer->events.user, trainer->step, &result);
    return EMBER_OK;
}

/* What follows a finished step: evaluation, metrics line, checkpoints. */
static ember_status after_step(ember_trainer *trainer) {
    const ember_settings *s = trainer->settings;
    bool improved = false;
    const bool evaluated = eval_is_due(trainer);
    if (evaluated) EMBER_TRY(evaluate_row(trainer, &improved));
    trainer->eval_pending = false; /* also one that the present config asks for no more */
    const ember_history_row row = ember_history_at(trainer->history, ember_history_n(trainer->history) - 1);
    EMBER_TRY(ember_metrics_write(trainer->metrics, &row, trainer->hparams.neurons, trainer->hparams.num_hidden_layers,
                                  evaluated ? trainer->last_eval.bits_per_byte : (double)NAN));
    if (trainer->step == trainer->last_step || is_due(trainer->step, s->checkpoint.every)) EMBER_TRY(trainer_save_step(trainer));
    if (improved && s->checkpoint.keep_best) EMBER_TRY(trainer_save_best(trainer));
    return EMBER_OK;
}

static void report_step(const ember_trainer *trainer) {
    if (!trainer->events.step_done) return;
    ember_step_report report = {.row = &trainer->row, .last_step = trainer->last_step};
    double fired = 0;
    double all = 0;
    for (int64_t i = 0; i < trainer->hparams.num_hidden_layers; i++) {
        fired += (double)trainer->row.l0[i];
        all += (double)trainer->hparams.neurons[i];
        report.n_dead += trainer->row.dead[i];
    }
    report.nonzero_fraction = fired / all;
    trainer->events.step_done(trainer->events.user, &report);
}

/* The state is saved unless the checkpoint of this very step is there already. */
static ember_status stop(ember_trainer *trainer) {
    if (trainer->step == 0) return ember_fail(EMBER_E_INTERRUPTED, "stopped before the first step was finished; there is nothing to save");
    if (trainer->saved_step != trainer->step || trainer->eval_pending) EMBER_TRY(trainer_save_step(trainer));
    return ember_fail(EMBER_E_INTERRUPTED, "stopped after step %lld of %lld; saved as %s", (long long)trainer->step,
                      (long long)trainer->settings->train.steps, trainer->saved_path.data);
}

static ember_status run_steps(ember_trainer *trainer) {
    if (trainer->eval_pending) EMBER_TRY(after_step(trainer));
    while (trainer->step < trainer->last_step) {
        if (stop_requested(trainer)) return EMBER_E_INTERRUPTED;
        EMBER_TRY(trainer_step(trainer));
        report_step(trainer);
        EMBER_TRY(after_step(trainer));
    }
    return EMBER_OK;
}

/* An evaluation that fails costs no finished step: it is saved, and a resume evaluates again. */
static ember_status keep_step(ember_trainer *trainer, ember_status why) {
    char message[1024];
    (void)snprintf(message, sizeof message, "%s", ember_last_error());
    if (trainer_save_step(trainer) != EMBER_OK) return ember_fail(why, "%s", message);
    return ember_fail(why, "%s; step %lld is saved as %s", message, (long long)trainer->step, trainer->saved_path.data);
}

ember_status ember_trainer_run(ember_trainer *trainer) {
    if (trainer->step >= trainer->last_step && !trainer->eval_pending) {
        ember_logf(trainer->log, EMBER_LOG_NOTE,
                   "nothing to do: the checkpoint is of step %lld, and the run ends at step %lld; a larger train.steps goes on",
                   (long long)trainer->step, (long long)trainer->last_step);
        return EMBER_OK;
    }
    const ember_status status = run_steps(trainer);
    if (status == EMBER_E_INTERRUPTED) return stop(trainer);
    if (status != EMBER_OK && trainer->eval_pending && trainer->saved_step != trainer->step) return keep_step(trainer, status);
    return status;
}

/* ---- looking at it */

int64_t ember_trainer_step(const ember_trainer *trainer) { return trainer->step; }
int64_t ember_trainer_last_step(const ember_trainer *trainer) { return trainer->last_step; }
ember_model *ember_trainer_model(ember_trainer *trainer) { return trainer->model; }
const ember_tracker *ember_trainer_tracker(const ember_trainer *trainer) { return trainer->tracker; }
const ember_history *ember_trainer_history(const ember_trainer *trainer) { return trainer->history; }
const ember_memory_plan *ember_trainer_plan(const ember_trainer *trainer) { return &trainer->plan; }
const char *ember_trainer_checkpoint(const ember_trainer *trainer) { return trainer->saved_path.n ? trainer->saved_path.data : ""; }
const ember_eval_result *ember_trainer_last_eval(const ember_trainer *trainer) { return &trainer->last_eval; }
int64_t ember_trainer_n_train_tokens(const ember_trainer *trainer) { return ember_loader_n_tokens(trainer->train_data); }
int64_t ember_trainer_n_valid_tokens(const ember_trainer *trainer) {
    return trainer->valid_data ? ember_loader_n_tokens(trainer->valid_data) : 0;
}
