#include "checkpoints/checkpoint.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoints/checkpoint_internal.h"
#include "lib/base/log.h"
#include "lib/base/status.h"

struct ember_checkpoint {
    ember_h5_reader *file;
    ember_hparams hparams;
    ember_checkpoint_meta meta;
    ember_bytes config;
    ember_bytes tokenizer;
};

/* ---- opening: everything that a reader relies on is there and has the right shape. */

static ember_status read_meta(ember_checkpoint *c) {
    ember_bytes kind = {0};
    EMBER_TRY(ember_h5_get_attribute_text(c->file, "/", "kind", &kind));
    c->meta.full = strcmp(kind.data, "full") == 0;
    const bool known = c->meta.full || strcmp(kind.data, "weights") == 0;
    const ember_status status =
        known ? EMBER_OK : ember_fail(EMBER_E_FORMAT, "%s: kind is \"%s\"; full and weights are known", ember_h5_path(c->file), kind.data);
    ember_bytes_free(&kind);
    EMBER_TRY(status);
    EMBER_TRY(ember_h5_get_attribute_i64(c->file, "/", "step", &c->meta.step));
    EMBER_TRY(ember_h5_get_attribute_i64(c->file, "/", "tokens_seen", &c->meta.tokens_seen));
    if (c->meta.step < 0 || c->meta.tokens_seen < 0) {
        return ember_fail(EMBER_E_FORMAT, "%s: step %lld or tokens_seen %lld is negative", ember_h5_path(c->file), (long long)c->meta.step,
                          (long long)c->meta.tokens_seen);
    }
    EMBER_TRY(ember_h5_get_text(c->file, "/config", &c->config));
    EMBER_TRY(ember_h5_get_text(c->file, "/tokenizer", &c->tokenizer));
    c->meta.config = c->config.data;
    c->meta.tokenizer = c->tokenizer.data;
    c->meta.tokenizer_bytes = c->tokenizer.n;
    return EMBER_OK;
}

static ember_status check_dataset(const ember_checkpoint *c, const char *group, const ember_param_spec *spec) {
    char object[CHECKPOINT_PATH_BYTES];
    ember_h5_info info;
    const char *path = ember_h5_path(c->file);
    checkpoint_object(object, group, spec->name);
    if (!ember_h5_has(c->file, object)) return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s is missing", path, object);
    EMBER_TRY(ember_h5_get_info(c->file, object, &info));
    bool same = info.n_dims == spec->n_dims && !info.is_text;
    for (int i = 0; i < spec->n_dims && same; i++)
        same = info.dims[i] == spec->dims[i];
    if (!same) {
        return ember_fail(EMBER_E_SHAPE, "%s: dataset %s has shape [%lld%s%lld], the hyper-parameters ask for [%lld%s%lld]", path, object,
                          (long long)info.dims[0], info.n_dims > 1 ? ", " : "; ", (long long)info.dims[1], (long long)spec->dims[0],
                          spec->n_dims > 1 ? ", " : "; ", (long long)spec->dims[1]);
    }
    if (info.dtype != EMBER_F32 && info.dtype != EMBER_BF16) {
        return ember_fail(EMBER_E_FORMAT, "%s: dataset %s is %s; f32 and bf16 are read", path, object, ember_dtype_name(info.dtype));
    }
    if (!spec->neuron_major) return EMBER_OK;
    ember_bytes layout = {0};
    if (ember_h5_get_attribute_text(c->file, object, "layout", &layout) != EMBER_OK) {
        return ember_fail(EMBER_E_FORMAT, "%s: dataset %s has no attribute layout; %s is read, and a layout is never guessed", path, object,
                          CHECKPOINT_LAYOUT);
    }
    ember_status status = EMBER_OK;
    if (strcmp(layout.data, CHECKPOINT_LAYOUT) != 0) {
        status =
            ember_fail(EMBER_E_UNSUPPORTED, "%s: dataset %s has layout \"%s\"; %s is read", path, object, layout.data, CHECKPOINT_LAYOUT);
    }
    ember_bytes_free(&layout);
    return status;
}

typedef struct count_user {
    const ember_checkpoint *c;
    int64_t n;
} count_user;

/* A dataset below /model that is no parameter would be dropped in silence. */
static ember_status count_dataset(void *user, const char *path, bool is_group, const ember_h5_info *info) {
    count_user *u = user;
    char name[CHECKPOINT_PATH_BYTES];
    (void)info;
    if (is_group) return EMBER_OK;
    (void)snprintf(name, sizeof name, "%s", path + strlen("/model/"));
    for (char *at = name; *at; at++) {
        if (*at == '/') *at = '.';
    }
    if (ember_hparams_find(&u->c->hparams, name) < 0) {
        return ember_fail(EMBER_E_FORMAT, "%s: dataset %s is no parameter of the model that the attributes of /model describe",
                          ember_h5_path(u->c->file), path);
    }
    u->n++;
    return EMBER_OK;
}

static ember_status check_params(const ember_checkpoint *c) {
    count_user user = {.c = c};
    const int64_t n = ember_hparams_n_params(&c->hparams);
    for (int64_t i = 0; i < n; i++) {
        const ember_param_spec spec = ember_hparams_param(&c->hparams, i);
        EMBER_TRY(check_dataset(c, "model", &spec));
        if (!c->meta.full) continue;
        EMBER_TRY(check_dataset(c, "optimizer/exp_avg", &spec));
        EMBER_TRY(check_dataset(c, "optimizer/exp_avg_sq", &spec));
    }
    return ember_h5_walk(c->file, "/model", (ember_h5_visit){.object = count_dataset, .user = &user});
}

ember_status ember_checkpoint_open(ember_checkpoint **out, const char *path, bool verify_data) {
    *out = NULL;
    ember_checkpoint *c = calloc(1, sizeof *c);
    if (!c) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a reader", path);
    ember_status status = ember_h5_open(&c->file, path, CHECKPOINT_FORMAT, CHECKPOINT_VERSION, verify_data);
    if (status != EMBER_OK) goto fail;
    EMBER_TRY_GOTO(read_meta(c), fail);
    EMBER_TRY_GOTO(checkpoint_get_hparams(c->file, &c->hparams), fail);
    EMBER_TRY_GOTO(check_params(c), fail);
    *out = c;
    return EMBER_OK;
fail:
    ember_checkpoint_close(c);
    return status;
}

void ember_checkpoint_close(ember_checkpoint *checkpoint) {
    if (!checkpoint) return;
    ember_h5_close(checkpoint->file);
    ember_bytes_free(&checkpoint->config);
    ember_bytes_free(&checkpoint->tokenizer);
    free(checkpoint);
}

const ember_hparams *ember_checkpoint_hparams(const ember_checkpoint *checkpoint) { return &checkpoint->hparams; }
const ember_checkpoint_meta *ember_checkpoint_get_meta(const ember_checkpoint *checkpoint) { return &checkpoint->meta; }
const ember_h5_reader *ember_checkpoint_file(const ember_checkpoint *checkpoint) { return checkpoint->file; }

/* ---- reading */

static ember_status get_named(const ember_checkpoint *c, const char *group, const ember_param_spec *spec, ember_tensor out) {
    char object[CHECKPOINT_PATH_BYTES];
    checkpoint_object(object, group, spec->name);
    return ember_h5_get(c->file, object, out);
}

ember_status ember_checkpoint_get_param(const ember_checkpoint *checkpoint, const ember_param_spec *spec, ember_tensor out) {
    return get_named(checkpoint, "model", spec, out);
}

ember_status ember_checkpoint_get_moments(const ember_checkpoint *checkpoint, const ember_param_spec *spec, ember_tensor exp_avg,
                                          ember_tensor exp_avg_sq) {
    if (!checkpoint->meta.full) {
        return ember_fail(EMBER_E_STATE,
                          "%s: holds weights only, no optimizer moments, and cannot be resumed; start a new run from it with init.from",
                          ember_h5_path(checkpoint->file));
    }
    EMBER_TRY(get_named(checkpoint, "optimizer/exp_avg", spec, exp_avg));
    return get_named(checkpoint, "optimizer/exp_avg_sq", spec, exp_avg_sq);
}

static bool small_object(char out[CHECKPOINT_PATH_BYTES], const char *group, const char *name) {
    const int n = snprintf(out, CHECKPOINT_PATH_BYTES, "/%s/%s", group, name);
    return n > 0 && n < CHECKPOINT_PATH_BYTES;
}

static ember_status find_small(const ember_checkpoint *c, char out[CHECKPOINT_PATH_BYTES], const char *group, const char *name) {
    if (small_object(out, group, name) && ember_h5_has(c->file, out)) return EMBER_OK;
    return ember_fail(EMBER_E_NOT_FOUND, "%s: there is no dataset /%s/%s", ember_h5_path(c->file), group, name);
}

bool ember_checkpoint_has(const ember_checkpoint *checkpoint, const char *group, const char *name) {
    char object[CHECKPOINT_PATH_BYTES];
    return small_object(object, group, name) && ember_h5_has(checkpoint->file, object);
}

ember_status ember_checkpoint_info(const ember_checkpoint *checkpoint, const char *group, const char *name, ember_h5_info *out) {
    char object[CHECKPOINT_PATH_BYTES];
    EMBER_TRY(find_small(checkpoint, object, group, name));
    return ember_h5_get_info(checkpoint->file, object, out);
}

ember_status ember_checkpoint_get(const ember_checkpoint *checkpoint, const char *group, const char *name, ember_tensor out) {
    char object[CHECKPOINT_PATH_BYTES];
    EMBER_TRY(find_small(checkpoint, object, group, name));
    return ember_h5_get(checkpoint->file, object, out);
}

ember_status ember_checkpoint_get_text(const ember_checkpoint *checkpoint, const char *group, const char *name, ember_bytes *out) {
    char object[CHECKPOINT_PATH_BYTES];
    *out = (ember_bytes){0};
    EMBER_TRY(find_small(checkpoint, object, group, name));
    return ember_h5_get_text(checkpoint->file, object, out);
}

/* ---- the newest of a folder */

typedef struct candidate {
    char *path;
    int64_t step;
} candidate;

/* Later steps first; names decide between equal steps, so that the answer does not depend on the folder's order. */
static int later_first(const void *a, const void *b) {
    const candidate *x = a;
    const candidate *y = b;
    if (x->step != y->step) return x->step > y->step ? -1 : 1;
    return strcmp(y->path, x->path);
}

/* Adds the file when its head reads as a full checkpoint. */
static ember_status consider(candidate **list, size_t *n, const char *path, const ember_log *log) {
    ember_checkpoint *c = NULL;
    if (ember_checkpoint_open(&c, path, false) != EMBER_OK) {
        ember_logf(log, EMBER_LOG_NOTE, "skipped: %s", ember_last_error());
        return EMBER_OK;
    }
    const candidate found = {.step = c->meta.step};
    const bool full = c->meta.full;
    ember_checkpoint_close(c);
    if (!full) {
        ember_logf(log, EMBER_LOG_NOTE, "skipped: %s holds weights only and cannot be resumed", path);
        return EMBER_OK;
    }
    candidate *grown = realloc(*list, (*n + 1) * sizeof *grown);
    if (!grown) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a list of files", path);
    *list = grown;
    grown[*n] = found;
    grown[*n].path = strdup(path);
    if (!grown[*n].path) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a list of files", path);
    (*n)++;
    return EMBER_OK;
}

static ember_status list_folder(candidate **list, size_t *n, const char *folder, const ember_log *log) {
    ember_status status = EMBER_OK;
    DIR *directory = opendir(folder);
    if (!directory) return ember_fail(EMBER_E_NOT_FOUND, "%s: there is no such folder to look for checkpoints in", folder);
    for (const struct dirent *item = readdir(directory); item && status == EMBER_OK; item = readdir(directory)) {
        const size_t length = strlen(item->d_name);
        ember_bytes path = {0};
        /* A leading dot: temporary files of a writer that was stopped. Superseded: of a branch that the run has left. */
        if (item->d_name[0] == '.' || strncmp(item->d_name, "superseded_", 11) == 0 || length < 4 ||
            strcmp(item->d_name + length - 3, ".h5") != 0)
            continue;
        status = ember_bytes_printf(&path, "%s/%s", folder, item->d_name);
        if (status == EMBER_OK) status = consider(list, n, path.data, log);
        ember_bytes_free(&path);
    }
    (void)closedir(directory);
    return status;
}

ember_status ember_checkpoint_newest(ember_bytes *out_path, const char *folder, const ember_log *log) {
    candidate *list = NULL;
    size_t n = 0;
    *out_path = (ember_bytes){0};
    ember_status status = list_folder(&list, &n, folder, log);
    if (status != EMBER_OK) goto done;
    if (n > 0) qsort(list, n, sizeof *list, later_first);
    status = EMBER_E_NOT_FOUND;
    for (size_t i = 0; i < n && status == EMBER_E_NOT_FOUND; i++) {
        ember_checkpoint *c = NULL;
        if (ember_checkpoint_open(&c, list[i].path, true) != EMBER_OK) {
            ember_logf(log, EMBER_LOG_NOTE, "skipped: %s", ember_last_error());
            continue;
        }
        ember_checkpoint_close(c);
        status = ember_bytes_append(out_path, list[i].path, strlen(list[i].path));
    }
    if (status == EMBER_E_NOT_FOUND) status = ember_fail(status, "%s: holds no complete checkpoint to resume from", folder);
done:
    for (size_t i = 0; i < n; i++)
        free(list[i].path);
    free(list);
    return status;
}
