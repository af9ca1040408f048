#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/atomic_file.h"
#include "lib/base/status.h"
#include "train/trainer_internal.h"

/* ---- data */

ember_loader_options ember_trainer_loader_options(const ember_settings *s) {
    return (ember_loader_options){.globs = s->data.train.item,
                                  .weights = s->data.weights.n > 0 ? s->data.weights.item : NULL,
                                  .n_sources = s->data.train.n,
                                  .sequence_length = s->train.sequence_length,
                                  .batch_size = s->train.batch_size,
                                  .seed = s->run.seed,
                                  .shuffle = s->data.shuffle,
                                  .mask_documents = s->data.mask_documents,
                                  .verify = s->data.verify,
                                  .prefetch = true,
                                  .synthetic_vocab_size = s->model.vocab_size,
                                  .zipf_exponent = s->data.zipf_exponent};
}

static ember_status open_train(ember_trainer *trainer) {
    const ember_loader_options options = ember_trainer_loader_options(trainer->settings);
    const ember_status status = ember_loader_open(&trainer->train_data, &options);
    return status == EMBER_OK ? status : ember_fail_context(status, "data.train");
}

static ember_status open_valid(ember_trainer *trainer) {
    const ember_settings *s = trainer->settings;
    if (s->data.valid.n == 0) return EMBER_OK;
    const ember_loader_options options = {.globs = s->data.valid.item,
                                          .n_sources = s->data.valid.n,
                                          .sequence_length = s->train.sequence_length,
                                          .batch_size = trainer->micro_batch,
                                          .seed = s->run.seed,
                                          .one_pass = true,
                                          .mask_documents = s->data.mask_documents,
                                          .verify = s->data.verify,
                                          .synthetic_vocab_size = s->model.vocab_size,
                                          .zipf_exponent = s->data.zipf_exponent};
    const ember_status status = ember_loader_open(&trainer->valid_data, &options);
    if (status != EMBER_OK) return ember_fail_context(status, "data.valid");
    size_t n_train = 0;
    size_t n_valid = 0;
    const char *train = ember_loader_tokenizer_text(trainer->train_data, &n_train);
    const char *valid = ember_loader_tokenizer_text(trainer->valid_data, &n_valid);
    if (n_train != n_valid || (n_train > 0 && memcmp(train, valid, n_train) != 0))
        return ember_fail(EMBER_E_CONFIG, "data.valid was prepared with another tokenizer than data.train; prepare both with the same");
    return EMBER_OK;
}

ember_status trainer_open_data(ember_trainer *trainer) {
    trainer->micro_batch = ember_trainer_model_options(trainer->settings).n_sequences;
    EMBER_TRY(open_train(trainer));
    EMBER_TRY(open_valid(trainer));
    const int64_t in_shards = ember_loader_vocab_size(trainer->train_data);
    EMBER_TRY(ember_config_hparams(trainer->config, in_shards, &trainer->hparams));
    if (in_shards > trainer->hparams.vocab_size)
        return ember_fail(EMBER_E_CONFIG, "model.vocab_size is %lld, but the shards' tokenizer has %lld tokens; set it to at least that",
                          (long long)trainer->hparams.vocab_size, (long long)in_shards);
    const int64_t eos = ember_loader_eos(trainer->train_data);
    if (eos >= 0 && trainer->hparams.n_eos == 0) {
        trainer->hparams.n_eos = 1;
        trainer->hparams.eos_token_ids[0] = eos;
    }
    return EMBER_OK;
}

/* ---- memory */

static void *carve(char **at, int64_t n, size_t size) {
    void *block = *at;
    if (*at) *at += ((size_t)n * size + 63) / 64 * 64;
    return block;
}

static void carve_stats(char **at, ember_step_stats *stats, int64_t n) {
    stats->l0_sum = carve(at, n, sizeof(uint64_t));
    stats->l1_sum = carve(at, n, sizeof(double));
    stats->spill = carve(at, n, sizeof(int64_t));
    stats->nnz = carve(at, n, sizeof(int64_t));
}

static ember_status allocate_scratch(ember_trainer *trainer) {
    const int64_t n = trainer->hparams.num_hidden_layers;
    const int64_t d = trainer->hparams.hidden_size;
    const int64_t h = ember_hparams_max_neurons(&trainer->hparams);
    enum { ARRAYS = 24 }; /* no fewer than the carvings below */
    const size_t bytes = (size_t)ARRAYS * ((size_t)n * 8 + 64) + ((size_t)d * sizeof(float) + 64) + ((size_t)h * 8 + 64);
    EMBER_TRY(ember_allocate(&trainer->scratch, bytes, 1, "trainer scratch"));
    char *at = trainer->scratch;
    carve_stats(&at, &trainer->stats, n);
    carve_stats(&at, &trainer->eval_stats, n);
    carve_stats(&at, &trainer->eval_totals, n);
    trainer->row.l0 = carve(&at, n, sizeof(float));
    trainer->row.l1_per_layer = carve(&at, n, sizeof(float));
    trainer->row.dead = carve(&at, n, sizeof(int32_t));
    trainer->row.mode = carve(&at, n, sizeof(uint8_t));
    trainer->row.spill = carve(&at, n, sizeof(int64_t));
    trainer->lambda = carve(&at, n, sizeof(double));
    trainer->l1_scale = carve(&at, n, sizeof(double));
    trainer->mode_state = carve(&at, n, sizeof(int64_t));
    trainer->last_eval.l0 = carve(&at, n, sizeof(double));
    trainer->neuron_row = carve(&at, d, sizeof(float));
    trainer->window_count = carve(&at, h, sizeof(uint64_t));
    return EMBER_OK;
}

ember_model_options ember_trainer_model_options(const ember_settings *settings) {
    const ember_settings *s = settings;
    const int64_t micro = s->train.micro_batch_size;
    const bool silu = s->ffn.activation == EMBER_SILU;
    return (ember_model_options){.training = true,
                                 .n_sequences = micro > 0 && micro < s->train.batch_size ? micro : s->train.batch_size,
                                 .sequence_length = s->train.sequence_length,
                                 .compression = s->ffn.compression,
                                 .may_run_dense = silu || s->ffn.mode != EMBER_FFN_TWELL,
                                 .may_run_twell = !silu && s->ffn.mode != EMBER_FFN_DENSE};
}

static ember_status create_model(ember_trainer *trainer) {
    const ember_settings *s = trainer->settings;
    const bool silu = trainer->hparams.activation == EMBER_SILU;
    const ember_model_options options = ember_trainer_model_options(s);
    if (silu && s->ffn.mode == EMBER_FFN_TWELL)
        return ember_fail(EMBER_E_CONFIG,
                          "ffn.mode twell needs neurons that can be silent; ffn.activation silu runs dense (use relu or relu2)");
    EMBER_TRY(ember_cpu_backend_create(&trainer->backend, (int)s->run.threads));
    EMBER_TRY(ember_model_plan(&trainer->plan, trainer->backend, &trainer->hparams, &options));
    EMBER_TRY(ember_model_create(&trainer->model, trainer->backend, &trainer->hparams, &options));
    if (s->ffn.mode == EMBER_FFN_TWELL) {
        for (int64_t i = 0; i < trainer->hparams.num_hidden_layers; i++)
            EMBER_TRY(ember_model_set_mode(trainer->model, i, EMBER_MODE_TWELL));
    }
    if (s->ffn.mode != EMBER_FFN_AUTO || silu) return EMBER_OK;
    const ember_ffn_auto_options choices = {.n_tokens = trainer->micro_batch * s->train.sequence_length, .compression = s->ffn.compression};
    return ember_ffn_auto_create(&trainer->chooser, &trainer->hparams, &choices);
}

/* Rows of history that are set aside at the start; a longer run adds as many again when they are full. */
static int64_t history_rows(const ember_trainer *trainer) {
    const int64_t most = 1 << 16;
    return trainer->settings->train.steps < most ? trainer->settings->train.steps : most;
}

ember_status trainer_allocate(ember_trainer *trainer) {
    const ember_settings *s = trainer->settings;
    EMBER_TRY(ember_l1_controller_init(&trainer->l1, s, trainer->hparams.num_hidden_layers));
    EMBER_TRY(create_model(trainer));
    const ember_tracker_options options = {.dead_after_tokens = s->sparsity.dead_after_tokens,
                                           .window_tokens = s->sparsity.window_tokens,
                                           .tokens_per_step = s->train.batch_size * s->train.sequence_length};
    EMBER_TRY(ember_tracker_create(&trainer->tracker, &trainer->hparams, &options));
    EMBER_TRY(ember_history_create(&trainer->history, trainer->hparams.num_hidden_layers));
    EMBER_TRY(ember_history_reserve(trainer->history, history_rows(trainer)));
    return allocate_scratch(trainer);
}

/* ---- weights */

/* What the shapes do not show: numbers that make the same weights another function. */
static ember_status check_same_function(const ember_trainer *trainer, const ember_hparams *from, const char *path) {
    const ember_hparams *to = &trainer->hparams;
    const bool scaled = to->rope_scaling != EMBER_ROPE_NONE;
    const bool llama3 = to->rope_scaling == EMBER_ROPE_LLAMA3;
    const struct {
        const char *key;
        double config;
        double checkpoint;
        bool unread; /* by this kind of scaling */
    } numbers[] = {
        {"model.num_attention_heads", (double)to->num_attention_heads, (double)from->num_attention_heads, false},
        {"model.num_key_value_heads", (double)to->num_key_value_heads, (double)from->num_key_value_heads, false},
        {"model.head_dim", (double)to->head_dim, (double)from->head_dim, false},
        {"model.rms_norm_eps", to->rms_norm_eps, from->rms_norm_eps, false},
        {"model.rope_theta", to->rope_theta, from->rope_theta, false},
        {"model.rope_scaling.factor", to->rope_factor, from->rope_factor, !scaled},
        {"model.rope_scaling.low_freq_factor", to->rope_low_freq_factor, from->rope_low_freq_factor, !llama3},
        {"model.rope_scaling.high_freq_factor", to->rope_high_freq_factor, from->rope_high_freq_factor, !llama3},
        {"model.rope_scaling.original_max_position_embeddings", (double)to->rope_original_max_position_embeddings,
         (double)from->rope_original_max_position_embeddings, !llama3},
        {"model.tie_word_embeddings", (double)to->tie_word_embeddings, (double)from->tie_word_embeddings, false},
    };
    if (to->rope_scaling != from->rope_scaling)
        return ember_fail(EMBER_E_CONFIG, "model.rope_scaling.type is %s, but init.from %s has %s; give the checkpoint's value",
                          ember_rope_scaling_name(to->rope_scaling), path, ember_rope_scaling_name(from->rope_scaling));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].unread) continue;
        if (numbers[i].config < numbers[i].checkpoint || numbers[i].config > numbers[i].checkpoint)
            return ember_fail(EMBER_E_CONFIG, "%s is %g, but init.from %s has %g; give the checkpoint's value", numbers[i].key,
                              numbers[i].config, path, numbers[i].checkpoint);
    }
    if (to->activation != from->activation)
        ember_logf(trainer->log, EMBER_LOG_NOTE, "init.from %s was trained with %s; this run uses %s", path,
                   ember_activation_name(from->activation), ember_activation_name(to->activation));
    return EMBER_OK;
}

static ember_status check_tokenizer(const ember_trainer *trainer, const ember_checkpoint_meta *meta, const char *path) {
    size_t n = 0;
    const char *text = ember_loader_tokenizer_text(trainer->train_data, &n);
    if (n == 0 || meta->tokenizer_bytes == 0) return EMBER_OK;
    if (n == meta->tokenizer_bytes && memcmp(text, meta->tokenizer, n) == 0) return EMBER_OK;
    return ember_fail(
        EMBER_E_CONFIG,
        "data.train was prepared with another tokenizer than the one in init.from %s; prepare the shards with the checkpoint's", path);
}

static bool ends_text(const ember_hparams *hparams, int64_t id) {
    for (int64_t i = 0; i < hparams->n_eos; i++) {
        if (hparams->eos_token_ids[i] == id) return true;
    }
    return false;
}

/* The tokens that began and ended text before still do; no config key names them. */
static void inherit_tokens(ember_hparams *to, const ember_hparams *from) {
    to->bos_token_id = from->bos_token_id;
    for (int64_t i = 0; i < from->n_eos && to->n_eos < EMBER_MAX_EOS; i++) {
        if (!ends_text(to, from->eos_token_ids[i])) to->eos_token_ids[to->n_eos++] = from->eos_token_ids[i];
    }
}

static ember_status init_from(ember_trainer *trainer, const char *path) {
    ember_checkpoint *checkpoint = NULL;
    ember_status status;
    EMBER_TRY_GOTO(ember_checkpoint_open(&checkpoint, path, true), done);
    EMBER_TRY_GOTO(trainer_check_shapes(trainer, checkpoint), done);
    EMBER_TRY_GOTO(check_same_function(trainer, ember_checkpoint_hparams(checkpoint), path), done);
    EMBER_TRY_GOTO(check_tokenizer(trainer, ember_checkpoint_get_meta(checkpoint), path), done);
    EMBER_TRY_GOTO(trainer_load_params(trainer, checkpoint, false), done);
    inherit_tokens(&trainer->hparams, ember_checkpoint_hparams(checkpoint));
    ember_logf(trainer->log, EMBER_LOG_INFO, "weights from %s (step %lld there); step, schedule, data position and moments start anew",
               path, (long long)ember_checkpoint_get_meta(checkpoint)->step);
done:
    ember_checkpoint_close(checkpoint);
    return status;
}

ember_status trainer_init_weights(ember_trainer *trainer) {
    const ember_settings *s = trainer->settings;
    if (s->init.from && s->init.from[0] != '\0') return init_from(trainer, s->init.from);
    trainer->fresh_weights = true;
    return ember_model_init(trainer->model, s->run.seed, s->init.std, s->init.residual_scaling);
}

/* ---- the cost table of ffn.mode auto */

static ember_status keep_costs(ember_trainer *trainer) {
    trainer->costs.n = 0;
    return ember_ffn_auto_to_json(trainer->chooser, &trainer->costs);
}

/* A table in the output folder may be of another model that ran there before; one that the config
 * names has to fit. */
static ember_status load_costs(ember_trainer *trainer, const char *path, bool named) {
    ember_bytes text = {0};
    ember_status status;
    int fd = -1;
    uint64_t n = 0;
    /* Signals only set a flag by now: reading a pipe that never ends could not be stopped. */
    EMBER_TRY_GOTO(ember_open_regular(&fd, &n, path), done);
    (void)close(fd);
    EMBER_TRY_GOTO(ember_read_file(&text, path, (size_t)1 << 24), done);
    status = ember_ffn_auto_load(trainer->chooser, text.data ? text.data : "", text.n, path);
    if (status != EMBER_OK && !named) {
        ember_logf(trainer->log, EMBER_LOG_NOTE, "%s; measuring anew", ember_last_error());
        status = EMBER_OK;
    } else if (status == EMBER_OK) {
        ember_logf(trainer->log, EMBER_LOG_INFO, "FFN cost table from %s", path);
    }
done:
    ember_bytes_free(&text);
    return status;
}

static ember_status measure_costs(ember_trainer *trainer, const char *path) {
    ember_logf(trainer->log, EMBER_LOG_INFO, "measuring the FFN modes (once; the table goes to %s)", path);
    EMBER_TRY(ember_ffn_auto_calibrate(trainer->chooser, trainer->backend, trainer->events.should_stop, trainer->events.user));
    EMBER_TRY(keep_costs(trainer));
    return ember_write_file(path, trainer->costs.data, trainer->costs.n);
}

/* The table that a checkpoint carries goes before every file, so that a resume repeats the run; only a file that the
 * config has named since then goes before it. It lacks the shapes of another ffn.compression: *found is false then. */
static ember_status load_stored_costs(ember_trainer *trainer, const ember_bytes *stored, bool *found) {
    const ember_status status = ember_ffn_auto_load(trainer->chooser, stored->data, stored->n, "/state/ffn_costs");
    *found = status == EMBER_OK;
    if (status == EMBER_E_NOT_FOUND) {
        ember_logf(trainer->log, EMBER_LOG_NOTE, "%s; another table is taken", ember_last_error());
        return EMBER_OK;
    }
    return status == EMBER_OK ? keep_costs(trainer) : status;
}

ember_status trainer_prepare_auto(ember_trainer *trainer, const ember_bytes *stored) {
    if (!trainer->chooser) return EMBER_OK;
    const char *costs = trainer->settings->ffn.costs;
    const bool named = costs && costs[0] != '\0';
    if (stored->n > 0 && !(named && trainer->costs_renamed)) {
        bool found = false;
        EMBER_TRY(load_stored_costs(trainer, stored, &found));
        if (found) return EMBER_OK;
    }
    ember_bytes path = {0};
    ember_status status = named ? ember_bytes_printf(&path, "%s", costs)
                                : ember_run_folder_file(&path, ember_run_folder_path(trainer->folder), "ffn_costs.json");
    if (status == EMBER_OK && access(path.data, F_OK) == 0) status = load_costs(trainer, path.data, named);
    if (status == EMBER_OK && !ember_ffn_auto_ready(trainer->chooser)) {
        status = measure_costs(trainer, path.data);
    } else if (status == EMBER_OK) {
        status = keep_costs(trainer);
    }
    ember_bytes_free(&path);
    return status;
}
