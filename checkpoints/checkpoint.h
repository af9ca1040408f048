/* checkpoint.h - writer and reader of Ember checkpoints (checkpoints/FORMAT.md): named tensors,
 * sparsity counters, trainer state and history in one HDF5 file. */
#ifndef EMBER_CHECKPOINT_H
#define EMBER_CHECKPOINT_H

#include "lib/base/hparams.h"
#include "lib/h5/h5.h"

typedef struct ember_checkpoint_writer ember_checkpoint_writer;
typedef struct ember_checkpoint ember_checkpoint;

typedef struct ember_checkpoint_meta {
    bool full;             /* kind: full (resumable) or weights */
    int64_t step;          /* finished optimizer steps */
    int64_t tokens_seen;   /* non-padding input tokens */
    const char *config;    /* resolved YAML, "" when imported */
    const char *tokenizer; /* tokenizer.json text; "" when there is none (synthetic data) */
    size_t tokenizer_bytes;
} ember_checkpoint_meta;

/* ---- writing */
EMBER_CHECKED ember_status ember_checkpoint_create(ember_checkpoint_writer **out, const char *path, const ember_checkpoint_meta *meta,
                                                   const ember_hparams *hparams);
/* /model/<name with / for .>; layout = neuron_major on FFN matrices. Shape is checked against the
 * hyper-parameters. Host memory. */
EMBER_CHECKED ember_status ember_checkpoint_put_param(ember_checkpoint_writer *writer, const ember_param_spec *spec, ember_tensor value);
/* The same in pieces of rows (import streams): reserve, then append. */
EMBER_CHECKED ember_status ember_checkpoint_reserve_param(ember_checkpoint_writer *writer, const ember_param_spec *spec, ember_dtype dtype);
EMBER_CHECKED ember_status ember_checkpoint_append_rows(ember_checkpoint_writer *writer, const ember_param_spec *spec, const void *rows,
                                                        int64_t n_rows);
/* /optimizer/exp_avg/<name>, /optimizer/exp_avg_sq/<name>. */
EMBER_CHECKED ember_status ember_checkpoint_put_moments(ember_checkpoint_writer *writer, const ember_param_spec *spec, ember_tensor exp_avg,
                                                        ember_tensor exp_avg_sq);
/* /<group>/<name>, group one of "sparsity/layer_<i>", "state", "history": any small dataset. */
EMBER_CHECKED ember_status ember_checkpoint_put(ember_checkpoint_writer *writer, const char *group, const char *name, ember_tensor value);
EMBER_CHECKED ember_status ember_checkpoint_put_text(ember_checkpoint_writer *writer, const char *group, const char *name, const char *text,
                                                     size_t n);
/* Fails (and removes the file) when a parameter of the hyper-parameters was not put. Frees. */
EMBER_CHECKED ember_status ember_checkpoint_commit(ember_checkpoint_writer *writer);
void ember_checkpoint_abort(ember_checkpoint_writer *writer);

/* ---- reading */
EMBER_CHECKED ember_status ember_checkpoint_open(ember_checkpoint **out, const char *path, bool verify_data);
void ember_checkpoint_close(ember_checkpoint *checkpoint);
const ember_hparams *ember_checkpoint_hparams(const ember_checkpoint *checkpoint);
/* Strings inside live as long as the checkpoint. */
const ember_checkpoint_meta *ember_checkpoint_get_meta(const ember_checkpoint *checkpoint);
/* Into float32 (bf16 converts exactly) or bf16 host memory of the spec's shape. */
EMBER_CHECKED ember_status ember_checkpoint_get_param(const ember_checkpoint *checkpoint, const ember_param_spec *spec, ember_tensor out);
EMBER_CHECKED ember_status ember_checkpoint_get_moments(const ember_checkpoint *checkpoint, const ember_param_spec *spec,
                                                        ember_tensor exp_avg, ember_tensor exp_avg_sq);
bool ember_checkpoint_has(const ember_checkpoint *checkpoint, const char *group, const char *name);
EMBER_CHECKED ember_status ember_checkpoint_info(const ember_checkpoint *checkpoint, const char *group, const char *name,
                                                 ember_h5_info *out);
EMBER_CHECKED ember_status ember_checkpoint_get(const ember_checkpoint *checkpoint, const char *group, const char *name, ember_tensor out);
EMBER_CHECKED ember_status ember_checkpoint_get_text(const ember_checkpoint *checkpoint, const char *group, const char *name,
                                                     ember_bytes *out);
const ember_h5_reader *ember_checkpoint_file(const ember_checkpoint *checkpoint);

/* Newest complete checkpoint of a folder by its step attribute ("step_<n>.h5" files, found by
 * content, damaged ones skipped with a note through `log`). EMBER_E_NOT_FOUND when none. */
struct ember_log;
EMBER_CHECKED ember_status ember_checkpoint_newest(ember_bytes *out_path, const char *folder, const struct ember_log *log);

#endif
