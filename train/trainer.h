/* trainer.h - a training run as library code: it reads a config, trains, evaluates, saves, and
 * reports through callbacks. It prints nothing and installs no signal handler.
 *
 * What a run writes, all of it in its output folder (run.output): step_<n>.h5 checkpoints (the last
 * checkpoint.keep_last of them), best.h5 (lowest validation loss), metrics.jsonl, ffn_costs.json
 * under ffn.mode auto, .lock while it runs, and nonfinite_step_<n>.json where a step went wrong. */
#ifndef EMBER_TRAINER_H
#define EMBER_TRAINER_H

#include "data/loader.h"
#include "lib/base/log.h"
#include "lib/config/config.h"
#include "lib/model/model.h"
#include "train/history.h"

typedef struct ember_trainer ember_trainer;

typedef struct ember_step_report {
    const ember_history_row *row; /* valid during the call */
    int64_t last_step;            /* at which this run ends */
    double nonzero_fraction;      /* of the model */
    int64_t n_dead;
} ember_step_report;

typedef struct ember_eval_result {
    double loss;             /* nats a target */
    double bits_per_byte;    /* NaN when the shards do not say how many bytes a token has */
    double nonzero_fraction; /* of the model */
    int64_t n_targets;
    int64_t n_inputs;
    double *l0; /* [L], owned by the trainer */
} ember_eval_result;

typedef struct ember_trainer_events {
    void *user;
    bool (*should_stop)(void *user); /* asked between steps, micro-batches of an evaluation and measurements */
    void (*step_done)(void *user, const ember_step_report *report);
    void (*eval_done)(void *user, int64_t step, const ember_eval_result *result);
    void (*saved)(void *user, int64_t step, const char *path);
} ember_trainer_events;

enum { EMBER_MAX_ALLOWED = 64 };

typedef struct ember_trainer_options {
    const ember_config *config; /* borrowed for the life of the trainer */
    bool resume;
    const char *resume_path;            /* a checkpoint, or a folder: its newest complete one; NULL: that of the output folder */
    const char *const *allowed_changes; /* keys that may differ from the checkpoint although they alter the past */
    int n_allowed_changes;
    const ember_log *log;
    ember_trainer_events events; /* every callback may be NULL */
} ember_trainer_options;

/* Checks everything, restores or initialises, allocates everything. Fresh runs refuse a folder that
 * holds checkpoints; any run refuses a folder in use by another. On failure a folder that this call
 * made is gone again. Errors: those of config, loader and checkpoint; EMBER_E_DEVICE; EMBER_E_CONFIG
 * for a change that alters the past; EMBER_E_IO for a folder in use; EMBER_E_INTERRUPTED during
 * the calibration. */
EMBER_CHECKED ember_status ember_trainer_create(ember_trainer **out, const ember_trainer_options *options);
void ember_trainer_free(ember_trainer *trainer);

/* Trains up to train.stop_after or train.steps. EMBER_E_INTERRUPTED: should_stop said so; the step in
 * progress was finished and saved. EMBER_E_NUMERIC: not a number in loss or gradient; nothing was
 * saved, the file named in the message tells the step, the tensor and the data. */
EMBER_CHECKED ember_status ember_trainer_run(ember_trainer *trainer);

/* One pass over the validation sequences with the present weights and FFN modes. Tracker, data
 * position and modes stay as they are. */
EMBER_CHECKED ember_status ember_trainer_evaluate(ember_trainer *trainer, ember_eval_result *out);
/* Writes a full checkpoint of the present state. */
EMBER_CHECKED ember_status ember_trainer_save(ember_trainer *trainer, const char *path);

/* The model that a run of these settings allocates; for `plan`. */
ember_model_options ember_trainer_model_options(const ember_settings *settings);
/* Entries that the spill array of a layer of so many neurons may hold under ffn.mode auto, M h / 8; a layer that needs
 * more runs dense from there on. */
int64_t ember_trainer_spill_limit(const ember_settings *settings, int64_t n_neurons);
/* The training data that a run of these settings reads; for the benchmark of a step. */
ember_loader_options ember_trainer_loader_options(const ember_settings *settings);
int64_t ember_trainer_step(const ember_trainer *trainer);      /* finished steps */
int64_t ember_trainer_last_step(const ember_trainer *trainer); /* at which the run ends */
ember_model *ember_trainer_model(ember_trainer *trainer);
const ember_tracker *ember_trainer_tracker(const ember_trainer *trainer);
const ember_history *ember_trainer_history(const ember_trainer *trainer);
const ember_memory_plan *ember_trainer_plan(const ember_trainer *trainer);
/* Path of the newest checkpoint of this run, "" before the first. */
const char *ember_trainer_checkpoint(const ember_trainer *trainer);
/* The last evaluation of this run; n_targets 0 before the first. */
const ember_eval_result *ember_trainer_last_eval(const ember_trainer *trainer);
/* Tokens of one pass over the training data and over the validation data; 0: endless or none. */
int64_t ember_trainer_n_train_tokens(const ember_trainer *trainer);
int64_t ember_trainer_n_valid_tokens(const ember_trainer *trainer);

#endif
