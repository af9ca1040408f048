/* trainer_internal.h - what the files trainer_*.c share; nobody else includes it. */
#ifndef EMBER_TRAINER_INTERNAL_H
#define EMBER_TRAINER_INTERNAL_H

#include "data/loader.h"
#include "lib/model/ffn_auto.h"
#include "train/l1_controller.h"
#include "train/metrics.h"
#include "train/optimizer.h"
#include "train/run_folder.h"
#include "train/schedule.h"
#include "train/trainer.h"

struct ember_trainer {
    /* given */
    const ember_config *config;
    const ember_settings *settings;
    const ember_log *log;
    ember_trainer_events events;

    /* made once */
    ember_run_folder *folder;
    ember_hparams hparams;
    ember_loader *train_data;
    ember_loader *valid_data; /* NULL: no validation */
    ember_backend *backend;
    ember_model *model;
    ember_tracker *tracker;
    ember_ffn_auto *chooser; /* NULL unless ffn.mode auto may choose */
    ember_bytes costs;       /* the chooser's table as JSON, as it is stored */
    ember_history *history;
    ember_metrics *metrics;
    ember_schedule schedule;
    ember_optimizer optimizer;
    ember_memory_plan plan;
    int64_t micro_batch; /* sequences */
    int64_t last_step;   /* of this run */
    bool fresh_weights;  /* drawn here: the first loss can be predicted */

    /* moves with every step; all of it is in a checkpoint */
    int64_t step; /* finished */
    ember_l1_controller l1;
    ember_loader_position position; /* after the finished steps */
    double best_loss;               /* infinity: none yet */
    int64_t best_step;
    bool eval_pending; /* the evaluation after `step` was cut short */

    /* of this process */
    bool costs_renamed;               /* ffn.costs is not the checkpoint's */
    bool resumed_behind;              /* the folder may hold checkpoints of later steps, superseded by this run */
    int64_t resumed_step;             /* of the checkpoint that was resumed */
    ember_loader_position last_start; /* of the last finished step's batch; position where none was finished here */
    int64_t saved_step;               /* of the newest checkpoint; -1: none */
    ember_bytes saved_path;
    ember_eval_result last_eval;

    /* scratch: [L] each unless said otherwise, all inside one block */
    void *scratch;
    ember_step_stats stats;
    ember_step_stats eval_stats; /* of one micro-batch */
    ember_step_stats eval_totals;
    ember_history_row row;
    double *lambda;
    double *l1_scale;
    float *neuron_row;      /* [d], for revival */
    uint64_t *window_count; /* [largest layer], for saving */
    int64_t *mode_state;    /* [L], for saving */
};

/* trainer_step.c: one optimizer step, from batch to history row (not yet in metrics.jsonl). */
EMBER_CHECKED ember_status trainer_step(ember_trainer *trainer);
void trainer_clear_stats(const ember_trainer *trainer, ember_step_stats *stats);
/* A layer's spill array is too small: grows it, or under auto gives the layer up to dense. */
EMBER_CHECKED ember_status trainer_make_room(ember_trainer *trainer, int64_t layer);
/* Entries that the spill array of a layer may hold under auto: M h / 8. */
int64_t trainer_spill_limit(const ember_trainer *trainer, int64_t layer);

/* trainer_numeric.c: names what is not finite in `step`, the one in progress or the last finished one, writes the
 * dump, returns EMBER_E_NUMERIC. micro_batch -1: none in particular. */
ember_status trainer_report_nonfinite(ember_trainer *trainer, int64_t step, double grad_norm, int64_t micro_batch);

/* trainer_setup.c */
EMBER_CHECKED ember_status trainer_open_data(ember_trainer *trainer);
EMBER_CHECKED ember_status trainer_allocate(ember_trainer *trainer);
EMBER_CHECKED ember_status trainer_init_weights(ember_trainer *trainer);
/* Cost table: from `stored` (a checkpoint's, may be empty) unless ffn.costs was renamed, else from the file, else measured. */
EMBER_CHECKED ember_status trainer_prepare_auto(ember_trainer *trainer, const ember_bytes *stored);

/* trainer_resume.c */
EMBER_CHECKED ember_status trainer_check_changes(ember_trainer *trainer, const ember_checkpoint *checkpoint,
                                                 const ember_trainer_options *options);
EMBER_CHECKED ember_status trainer_restore(ember_trainer *trainer, const ember_checkpoint *checkpoint,
                                           const ember_trainer_options *options);
/* Every parameter of the model is in the checkpoint with its shape, and the other way round. */
EMBER_CHECKED ember_status trainer_check_shapes(const ember_trainer *trainer, const ember_checkpoint *checkpoint);
EMBER_CHECKED ember_status trainer_load_params(ember_trainer *trainer, const ember_checkpoint *checkpoint, bool with_moments);

#endif
