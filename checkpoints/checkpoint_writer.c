#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoints/checkpoint_internal.h"
#include "lib/base/status.h"

struct ember_checkpoint_writer {
    ember_h5_writer *file;
    ember_hparams hparams;
    bool full;
    int64_t n_params;
    unsigned char *param_done;   /* [n_params] */
    unsigned char *moments_done; /* [n_params] */
    char path[4096];             /* for messages */
};

void checkpoint_object(char out[CHECKPOINT_PATH_BYTES], const char *group, const char *name) {
    const int used = snprintf(out, CHECKPOINT_PATH_BYTES, "/%s/", group);
    const int n = snprintf(out + used, CHECKPOINT_PATH_BYTES - (size_t)used, "%s", name);
    for (int i = used; i < used + n && i < CHECKPOINT_PATH_BYTES; i++) {
        if (out[i] == '.') out[i] = '/';
    }
}

static void free_writer(ember_checkpoint_writer *writer) {
    free(writer->param_done);
    free(writer->moments_done);
    free(writer);
}

static ember_status put_head(ember_checkpoint_writer *writer, const ember_checkpoint_meta *meta) {
    const char *config = meta->config ? meta->config : "";
    EMBER_TRY(ember_h5_put_attribute_text(writer->file, "/", "kind", meta->full ? "full" : "weights"));
    EMBER_TRY(ember_h5_put_attribute_i64(writer->file, "/", "step", meta->step));
    EMBER_TRY(ember_h5_put_attribute_i64(writer->file, "/", "tokens_seen", meta->tokens_seen));
    EMBER_TRY(ember_h5_put_text(writer->file, "/config", config, strlen(config)));
    EMBER_TRY(ember_h5_put_text(writer->file, "/tokenizer", meta->tokenizer, meta->tokenizer ? meta->tokenizer_bytes : 0));
    return checkpoint_put_hparams(writer->file, &writer->hparams);
}

ember_status ember_checkpoint_create(ember_checkpoint_writer **out, const char *path, const ember_checkpoint_meta *meta,
                                     const ember_hparams *hparams) {
    *out = NULL;
    EMBER_TRY(ember_hparams_check(hparams));
    ember_checkpoint_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a writer", path);
    writer->hparams = *hparams;
    writer->full = meta->full;
    writer->n_params = ember_hparams_n_params(hparams);
    writer->param_done = calloc((size_t)writer->n_params, 1);
    writer->moments_done = calloc((size_t)writer->n_params, 1);
    (void)snprintf(writer->path, sizeof writer->path, "%s", path);
    ember_status status = EMBER_OK;
    if (!writer->param_done || !writer->moments_done) {
        status = ember_fail(EMBER_E_MEMORY, "%s: no memory for a writer", path);
    } else {
        status = ember_h5_create(&writer->file, path, CHECKPOINT_FORMAT, CHECKPOINT_VERSION);
        if (status == EMBER_OK) status = put_head(writer, meta);
    }
    if (status != EMBER_OK) {
        ember_checkpoint_abort(writer);
        return status;
    }
    *out = writer;
    return EMBER_OK;
}

void ember_checkpoint_abort(ember_checkpoint_writer *writer) {
    if (!writer) return;
    ember_h5_abort(writer->file);
    free_writer(writer);
}

/* The parameter's place in the list; its shape must be that of the hyper-parameters. */
static ember_status check_spec(const ember_checkpoint_writer *writer, const ember_param_spec *spec, int64_t *index) {
    *index = ember_hparams_find(&writer->hparams, spec->name);
    if (*index < 0) return ember_fail(EMBER_E_ARGUMENT, "%s: the model has no parameter %s", writer->path, spec->name);
    const ember_param_spec own = ember_hparams_param(&writer->hparams, *index);
    bool same = own.n_dims == spec->n_dims;
    for (int i = 0; i < own.n_dims && same; i++)
        same = own.dims[i] == spec->dims[i];
    if (!same) return ember_fail(EMBER_E_SHAPE, "%s: parameter %s has another shape than the model's", writer->path, spec->name);
    return EMBER_OK;
}

static ember_status check_value(const ember_checkpoint_writer *writer, const ember_param_spec *spec, ember_tensor value, const char *what) {
    bool same = value.n_dims == spec->n_dims;
    for (int i = 0; i < spec->n_dims && same; i++)
        same = value.dims[i] == spec->dims[i];
    if (!same) return ember_fail(EMBER_E_SHAPE, "%s: %s of parameter %s: its shape is not the parameter's", writer->path, what, spec->name);
    if (value.dtype != EMBER_F32 && value.dtype != EMBER_BF16) {
        return ember_fail(EMBER_E_SHAPE, "%s: %s of parameter %s is %s; f32 and bf16 are stored", writer->path, what, spec->name,
                          ember_dtype_name(value.dtype));
    }
    return EMBER_OK;
}

ember_status ember_checkpoint_reserve_param(ember_checkpoint_writer *writer, const ember_param_spec *spec, ember_dtype dtype) {
    char object[CHECKPOINT_PATH_BYTES];
    int64_t index = 0;
    EMBER_TRY(check_spec(writer, spec, &index));
    if (dtype != EMBER_F32 && dtype != EMBER_BF16) {
        return ember_fail(EMBER_E_SHAPE, "%s: parameter %s as %s; f32 and bf16 are stored", writer->path, spec->name,
                          ember_dtype_name(dtype));
    }
    checkpoint_object(object, "model", spec->name);
    EMBER_TRY(ember_h5_reserve(writer->file, object, dtype, spec->n_dims, spec->dims));
    if (spec->neuron_major) EMBER_TRY(ember_h5_put_attribute_text(writer->file, object, "layout", CHECKPOINT_LAYOUT));
    writer->param_done[index] = 1;
    return EMBER_OK;
}

ember_status ember_checkpoint_append_rows(ember_checkpoint_writer *writer, const ember_param_spec *spec, const void *rows, int64_t n_rows) {
    char object[CHECKPOINT_PATH_BYTES];
    checkpoint_object(object, "model", spec->name);
    return ember_h5_append_rows(writer->file, object, rows, n_rows);
}

ember_status ember_checkpoint_put_param(ember_checkpoint_writer *writer, const ember_param_spec *spec, ember_tensor value) {
    EMBER_TRY(check_value(writer, spec, value, "the value"));
    EMBER_TRY(ember_checkpoint_reserve_param(writer, spec, value.dtype));
    return ember_checkpoint_append_rows(writer, spec, value.data, spec->dims[0]);
}

ember_status ember_checkpoint_put_moments(ember_checkpoint_writer *writer, const ember_param_spec *spec, ember_tensor exp_avg,
                                          ember_tensor exp_avg_sq) {
    static const char *const groups[2] = {"optimizer/exp_avg", "optimizer/exp_avg_sq"};
    const ember_tensor values[2] = {exp_avg, exp_avg_sq};
    char object[CHECKPOINT_PATH_BYTES];
    int64_t index = 0;
    EMBER_TRY(check_spec(writer, spec, &index));
    for (int i = 0; i < 2; i++) {
        EMBER_TRY(check_value(writer, spec, values[i], groups[i]));
        checkpoint_object(object, groups[i], spec->name);
        EMBER_TRY(ember_h5_put(writer->file, object, values[i]));
        if (spec->neuron_major) EMBER_TRY(ember_h5_put_attribute_text(writer->file, object, "layout", CHECKPOINT_LAYOUT));
    }
    writer->moments_done[index] = 1;
    return EMBER_OK;
}

static ember_status small_object(char out[CHECKPOINT_PATH_BYTES], const char *path, const char *group, const char *name) {
    const int n = snprintf(out, CHECKPOINT_PATH_BYTES, "/%s/%s", group, name);
    if (n < 0 || n >= CHECKPOINT_PATH_BYTES) return ember_fail(EMBER_E_ARGUMENT, "%s: /%s/%s: the name is too long", path, group, name);
    return EMBER_OK;
}

ember_status ember_checkpoint_put(ember_checkpoint_writer *writer, const char *group, const char *name, ember_tensor value) {
    char object[CHECKPOINT_PATH_BYTES];
    EMBER_TRY(small_object(object, writer->path, group, name));
    return ember_h5_put(writer->file, object, value);
}

ember_status ember_checkpoint_put_text(ember_checkpoint_writer *writer, const char *group, const char *name, const char *text, size_t n) {
    char object[CHECKPOINT_PATH_BYTES];
    EMBER_TRY(small_object(object, writer->path, group, name));
    return ember_h5_put_text(writer->file, object, text, n);
}

ember_status ember_checkpoint_commit(ember_checkpoint_writer *writer) {
    for (int64_t i = 0; i < writer->n_params; i++) {
        const bool no_param = !writer->param_done[i];
        if (!no_param && (!writer->full || writer->moments_done[i])) continue;
        const ember_status status =
            ember_fail(EMBER_E_STATE, "%s: parameter %s was not written%s", writer->path, ember_hparams_param(&writer->hparams, i).name,
                       no_param ? "" : " with its optimizer moments");
        ember_checkpoint_abort(writer);
        return status;
    }
    const ember_status status = ember_h5_commit(writer->file);
    free_writer(writer);
    return status;
}
