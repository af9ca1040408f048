#include "checkpoints/hf_import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoints/checkpoint.h"
#include "checkpoints/hf_config.h"
#include "checkpoints/hf_tokens.h"
#include "lib/base/status.h"

enum { MAX_CONFIG_BYTES = 16 << 20, MAX_TOKENIZER_BYTES = 512 << 20, CHUNK_ELEMENTS = 1 << 20 };

typedef struct importer {
    const char *folder;
    const ember_log *log;
    bool (*cancelled)(void *user); /* may be NULL */
    void *user;
    ember_hparams hparams;
    ember_safetensors *weights;
    ember_bytes weights_path;
    ember_bytes tokenizer;
} importer;

static ember_status join(ember_bytes *out, const char *folder, const char *name) {
    *out = (ember_bytes){0};
    return ember_bytes_printf(out, "%s/%s", folder, name);
}

/* *found false: there is no such file. */
static ember_status read_optional(ember_bytes *out, const char *folder, const char *name, size_t limit, bool *found) {
    ember_bytes path = {0};
    *out = (ember_bytes){0};
    *found = false;
    ember_status status = join(&path, folder, name);
    if (status == EMBER_OK && access(path.data, F_OK) == 0) {
        int fd = -1;
        uint64_t bytes = 0;
        status = ember_open_regular(&fd, &bytes, path.data); /* no waiting for a pipe's writer */
        if (fd >= 0) (void)close(fd);
        if (status == EMBER_OK) status = ember_read_file(out, path.data, limit);
        *found = status == EMBER_OK;
    }
    ember_bytes_free(&path);
    return status;
}

/* ---- config.json, generation_config.json, tokenizer.json */

/* Every line of `text` is one message. */
static void log_lines(const ember_log *log, char *text) {
    char *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        ember_logf(log, EMBER_LOG_INFO, "%s", line);
    }
}

static ember_status read_config(importer *m) {
    ember_bytes text = {0};
    ember_bytes path = {0};
    ember_bytes report = {0};
    bool found = false;
    ember_status status = join(&path, m->folder, "config.json");
    if (status != EMBER_OK) return status;
    EMBER_TRY_GOTO(read_optional(&text, m->folder, "config.json", MAX_CONFIG_BYTES, &found), done);
    if (!found) {
        status = ember_fail(EMBER_E_NOT_FOUND, "%s: is missing; a folder with config.json and model.safetensors is imported", path.data);
        goto done;
    }
    EMBER_TRY_GOTO(ember_hf_config_parse(&m->hparams, &report, text.data, text.n, path.data), done);
    log_lines(m->log, report.data);
done:
    ember_bytes_free(&report);
    ember_bytes_free(&text);
    ember_bytes_free(&path);
    return status;
}

static ember_status read_generation_config(importer *m) {
    ember_bytes text = {0};
    ember_bytes path = {0};
    bool found = false;
    ember_status status = join(&path, m->folder, "generation_config.json");
    if (status != EMBER_OK) return status;
    EMBER_TRY_GOTO(read_optional(&text, m->folder, "generation_config.json", MAX_CONFIG_BYTES, &found), done);
    if (found) status = hf_merge_generation_config(&m->hparams, text.data, text.n, path.data);
    if (found && status == EMBER_OK) {
        ember_logf(m->log, EMBER_LOG_INFO, "generation_config.json: %" PRId64 " end-of-text ids together with config.json",
                   m->hparams.n_eos);
    }
done:
    ember_bytes_free(&text);
    ember_bytes_free(&path);
    return status;
}

static ember_status read_tokenizer(importer *m) {
    ember_bytes path = {0};
    bool found = false;
    ember_status status = join(&path, m->folder, "tokenizer.json");
    if (status != EMBER_OK) return status;
    EMBER_TRY_GOTO(read_optional(&m->tokenizer, m->folder, "tokenizer.json", MAX_TOKENIZER_BYTES, &found), done);
    if (!found) {
        ember_logf(m->log, EMBER_LOG_NOTE, "%s: is missing; the checkpoint has no tokenizer and cannot turn text into tokens", path.data);
        goto done;
    }
    status = hf_check_vocabulary(m->tokenizer.data, m->tokenizer.n, m->hparams.vocab_size, path.data);
done:
    ember_bytes_free(&path);
    return status;
}

/* ---- every tensor of the file has a place, every parameter of the model a tensor */

static const char *reason_of(const char *name) {
    if (strstr(name, "q_norm") || strstr(name, "k_norm"))
        return "query and key norms belong to another architecture than config.json names";
    if (strstr(name, "o_proj.bias")) return "a bias on o_proj is not supported";
    if (strstr(name, "mlp.") && strstr(name, ".bias")) return "feed-forward layers with biases are not supported";
    if (strstr(name, "_proj.bias")) return "config.json names a model without this bias";
    if (strcmp(name, "lm_head.weight") == 0) return "config.json ties the head to the embedding";
    return "the model that config.json describes has no such parameter";
}

/* Buffers of old files that are computed, not learned. */
static bool is_rotary_buffer(const char *name) {
    const char *tail = strstr(name, ".rotary_emb.inv_freq");
    return tail && tail[strlen(".rotary_emb.inv_freq")] == '\0';
}

/* A tied head is accepted only when it is the embedding, value for value. */
static ember_status check_tied_head(importer *m, const ember_safetensors_entry *head) {
    const char *path = m->weights_path.data;
    const ember_safetensors_entry *embedding = ember_safetensors_find(m->weights, "model.embed_tokens.weight");
    void *block = NULL;
    if (!embedding) return EMBER_OK; /* reported as missing */
    const int64_t v = m->hparams.vocab_size;
    const int64_t d = m->hparams.hidden_size;
    if (embedding->n_dims != 2 || embedding->dims[0] != v || embedding->dims[1] != d) return EMBER_OK; /* reported when it is read */
    if (head->n_dims != 2 || head->dims[0] != v || head->dims[1] != d) {
        return ember_fail(EMBER_E_SHAPE, "%s: tensor \"lm_head.weight\" has not the shape of the embedding, and config.json ties them",
                          path);
    }
    const int64_t rows = CHUNK_ELEMENTS / d > 0 ? CHUNK_ELEMENTS / d : 1;
    EMBER_TRY(ember_allocate(&block, (size_t)(2 * rows * d), sizeof(float), "comparison of the tied head"));
    float *a = block;
    float *b = a + rows * d;
    ember_status status = EMBER_OK;
    for (int64_t row = 0; row < v && status == EMBER_OK; row += rows) {
        const int64_t n = v - row < rows ? v - row : rows;
        EMBER_TRY_GOTO(ember_safetensors_read_f32(m->weights, head, row, n, a), done);
        EMBER_TRY_GOTO(ember_safetensors_read_f32(m->weights, embedding, row, n, b), done);
        if (memcmp(a, b, (size_t)(n * d) * sizeof *a) == 0) continue;
        status = ember_fail(EMBER_E_FORMAT,
                            "%s: tensor \"lm_head.weight\" differs from the embedding, and config.json says tie_word_embeddings true; with "
                            "tie_word_embeddings false it is imported as its own matrix",
                            path);
    }
done:
    ember_release(block);
    return status;
}

static ember_status check_tensors(importer *m) {
    const int64_t n = ember_safetensors_n(m->weights);
    const int64_t n_params = ember_hparams_n_params(&m->hparams);
    int64_t n_used = 0;
    int64_t n_skipped = 0;
    for (int64_t i = 0; i < n; i++) {
        const ember_safetensors_entry *entry = ember_safetensors_at(m->weights, i);
        if (ember_hparams_find(&m->hparams, entry->name) >= 0) {
            n_used++;
        } else if (is_rotary_buffer(entry->name)) {
            n_skipped++;
        } else if (strcmp(entry->name, "lm_head.weight") == 0 && m->hparams.tie_word_embeddings) {
            EMBER_TRY(check_tied_head(m, entry));
            ember_logf(m->log, EMBER_LOG_NOTE, "lm_head.weight equals the embedding, as config.json says; it is stored once");
            n_used++;
        } else {
            return ember_fail(EMBER_E_UNSUPPORTED, "%s: tensor \"%s\" would be left out: %s", m->weights_path.data, entry->name,
                              reason_of(entry->name));
        }
    }
    for (int64_t i = 0; i < n_params; i++) {
        const ember_param_spec spec = ember_hparams_param(&m->hparams, i);
        if (ember_safetensors_find(m->weights, spec.name)) continue;
        return ember_fail(EMBER_E_NOT_FOUND, "%s: tensor \"%s\" is missing%s", m->weights_path.data, spec.name,
                          spec.role == EMBER_PARAM_HEAD ? ", and config.json does not say tie_word_embeddings true" : "");
    }
    if (n_skipped > 0) {
        ember_logf(m->log, EMBER_LOG_NOTE, "%" PRId64 " rotary_emb.inv_freq buffers are skipped: they follow from rope_theta", n_skipped);
    }
    ember_logf(m->log, EMBER_LOG_INFO, "%" PRId64 " of %" PRId64 " tensors used, %" PRId64 " of %" PRId64 " parameters filled", n_used,
               n - n_skipped, n_params, n_params);
    return EMBER_OK;
}

/* ---- one parameter */

static ember_status find_tensor(const ember_safetensors *file, const ember_param_spec *spec, const ember_safetensors_entry **out) {
    const bool transposed = spec->role == EMBER_PARAM_DOWN;
    const int64_t want[2] = {transposed ? spec->dims[1] : spec->dims[0], transposed ? spec->dims[0] : spec->dims[1]};
    const ember_safetensors_entry *entry = ember_safetensors_find(file, spec->name);
    if (!entry) return ember_fail(EMBER_E_NOT_FOUND, "tensor \"%s\" is missing", spec->name);
    bool same = entry->n_dims == spec->n_dims;
    for (int i = 0; i < spec->n_dims && same; i++)
        same = entry->dims[i] == want[i];
    if (!same) {
        char have[128] = "";
        size_t at = 0;
        for (int i = 0; i < entry->n_dims; i++) {
            at += (size_t)snprintf(have + at, sizeof have - at, "%s%lld", i ? ", " : "", (long long)entry->dims[i]);
        }
        if (spec->n_dims == 1) {
            return ember_fail(EMBER_E_SHAPE, "tensor \"%s\" has shape [%s], config.json asks for [%lld]", spec->name, have,
                              (long long)want[0]);
        }
        return ember_fail(EMBER_E_SHAPE, "tensor \"%s\" has shape [%s], config.json asks for [%lld, %lld]", spec->name, have,
                          (long long)want[0], (long long)want[1]);
    }
    *out = entry;
    return EMBER_OK;
}

/* [hidden, neurons] rows become columns of [neurons, hidden]. Rows are taken 16 at a time, so that each
 * neuron's cache line is written once. */
static ember_status read_transposed(const ember_safetensors *file, const ember_safetensors_entry *entry, float *out) {
    enum { ROWS = 16 };
    const int64_t d = entry->dims[0];
    const int64_t h = entry->dims[1];
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, (size_t)(ROWS * h), sizeof(float), "transposition"));
    const float *rows = block;
    ember_status status = EMBER_OK;
    for (int64_t i = 0; i < d && status == EMBER_OK; i += ROWS) {
        const int64_t n = d - i < ROWS ? d - i : ROWS;
        status = ember_safetensors_read_f32(file, entry, i, n, block);
        for (int64_t j = 0; j < h && status == EMBER_OK; j++) {
            for (int64_t k = 0; k < n; k++)
                out[j * d + i + k] = rows[k * h + j];
        }
    }
    ember_release(block);
    return status;
}

ember_status ember_hf_read_param(const ember_safetensors *file, const ember_param_spec *spec, float *out) {
    const ember_safetensors_entry *entry = NULL;
    EMBER_TRY(find_tensor(file, spec, &entry));
    if (spec->role == EMBER_PARAM_DOWN) return read_transposed(file, entry, out);
    return ember_safetensors_read_f32(file, entry, 0, spec->dims[0], out);
}

/* ---- writing, tensor by tensor: in pieces, except where a tensor is transposed. */

static ember_status write_param(importer *m, ember_checkpoint_writer *writer, const ember_param_spec *spec) {
    const ember_safetensors_entry *entry = NULL;
    void *block = NULL;
    EMBER_TRY(find_tensor(m->weights, spec, &entry));
    EMBER_TRY(ember_checkpoint_reserve_param(writer, spec, EMBER_F32));
    const int64_t row = spec->n_dims == 2 ? spec->dims[1] : 1;
    int64_t rows = spec->role == EMBER_PARAM_DOWN ? spec->dims[0] : CHUNK_ELEMENTS / row;
    if (rows < 1) rows = 1;
    if (rows > spec->dims[0]) rows = spec->dims[0];
    EMBER_TRY(ember_allocate(&block, (size_t)(rows * row), sizeof(float), spec->name));
    ember_status status = EMBER_OK;
    for (int64_t done = 0; done < spec->dims[0] && status == EMBER_OK; done += rows) {
        if (m->cancelled && m->cancelled(m->user)) {
            status = ember_fail(EMBER_E_INTERRUPTED, "stopped on request; no checkpoint was written");
            break;
        }
        const int64_t n = spec->dims[0] - done < rows ? spec->dims[0] - done : rows;
        status = spec->role == EMBER_PARAM_DOWN ? read_transposed(m->weights, entry, block)
                                                : ember_safetensors_read_f32(m->weights, entry, done, n, block);
        if (status == EMBER_OK) status = ember_checkpoint_append_rows(writer, spec, block, n);
    }
    ember_release(block);
    return status;
}

/* The output is none of the files that are read. */
static ember_status spare_inputs(const importer *m, const char *path) {
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"};
    struct stat to;
    if (stat(path, &to) != 0) return EMBER_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct stat from;
        ember_bytes input = {0};
        EMBER_TRY(join(&input, m->folder, names[i]));
        const bool same = stat(input.data, &from) == 0 && from.st_ino == to.st_ino && from.st_dev == to.st_dev;
        ember_bytes_free(&input);
        if (same) return ember_fail(EMBER_E_ARGUMENT, "%s: is both a file to import and the output", path);
    }
    return EMBER_OK;
}

static ember_status write_checkpoint(importer *m, const char *path) {
    const ember_checkpoint_meta meta = {.config = "", .tokenizer = m->tokenizer.data, .tokenizer_bytes = m->tokenizer.n};
    ember_checkpoint_writer *writer = NULL;
    EMBER_TRY(ember_checkpoint_create(&writer, path, &meta, &m->hparams));
    const int64_t n = ember_hparams_n_params(&m->hparams);
    for (int64_t i = 0; i < n; i++) {
        const ember_param_spec spec = ember_hparams_param(&m->hparams, i);
        const ember_status status = write_param(m, writer, &spec);
        if (status == EMBER_OK) continue;
        ember_checkpoint_abort(writer);
        if (status == EMBER_E_INTERRUPTED) return status;
        return ember_fail_context(status, "%s", m->weights_path.data);
    }
    return ember_checkpoint_commit(writer);
}

static ember_status open_weights(importer *m) {
    ember_bytes index = {0};
    EMBER_TRY(join(&m->weights_path, m->folder, "model.safetensors"));
    EMBER_TRY(join(&index, m->folder, "model.safetensors.index.json"));
    const bool sharded = access(m->weights_path.data, F_OK) != 0 && access(index.data, F_OK) == 0;
    ember_bytes_free(&index);
    if (sharded) {
        return ember_fail(EMBER_E_UNSUPPORTED,
                          "%s: the weights are in several files (model.safetensors.index.json); one model.safetensors is imported",
                          m->folder);
    }
    const ember_status status = ember_safetensors_open(&m->weights, m->weights_path.data);
    if (status != EMBER_E_NOT_FOUND) return status;
    return ember_fail(status, "%s: is missing; weights are read from safetensors, not from pytorch_model.bin or other files",
                      m->weights_path.data);
}

ember_status ember_hf_import(const char *folder, const char *path, const ember_log *log) {
    return ember_hf_import_until(folder, path, log, NULL, NULL);
}

ember_status ember_hf_import_until(const char *folder, const char *path, const ember_log *log, bool (*cancelled)(void *user), void *user) {
    importer m = {.folder = folder, .log = log, .cancelled = cancelled, .user = user};
    ember_status status = spare_inputs(&m, path);
    if (status != EMBER_OK) goto done;
    EMBER_TRY_GOTO(read_config(&m), done);
    EMBER_TRY_GOTO(read_generation_config(&m), done);
    EMBER_TRY_GOTO(read_tokenizer(&m), done);
    EMBER_TRY_GOTO(open_weights(&m), done);
    EMBER_TRY_GOTO(check_tensors(&m), done);
    status = write_checkpoint(&m, path);
done:
    ember_safetensors_close(m.weights);
    ember_bytes_free(&m.weights_path);
    ember_bytes_free(&m.tokenizer);
    return status;
}
