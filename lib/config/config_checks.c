/* config_checks.c - what is computed from several keys, and what several keys must fulfil together. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/status.h"
#include "lib/config/config_state.h"

/* EMBER_E_CONFIG with where the key was given and its name in front. */
static ember_status refuse(const ember_config *config, const char *key, const char *format, ...) EMBER_PRINTF(3, 4);
static ember_status refuse(const ember_config *config, const char *key, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const int row = ember_schema_find(key);
    const ember_status status = ember_fail(EMBER_E_CONFIG, "%s %s", key, text);
    if (row < 0 || config->origin[row] == EMBER_FROM_DEFAULT) return ember_fail_context(status, "%s", config->name);
    ember_bytes where = {0};
    EMBER_TRY(ember_config_origin(config, row, &where));
    (void)ember_fail_context(status, "%s", where.data);
    ember_bytes_free(&where);
    return status;
}

static bool is_synthetic(const ember_settings *s) { return s->data.train.n == 1 && strcmp(s->data.train.item[0], "synthetic") == 0; }

static bool given_l1(const ember_settings *s) {
    for (int64_t i = 0; i < s->sparsity.l1.n; i++) {
        if (s->sparsity.l1.item[i] > 0) return true;
    }
    return false;
}

static bool any_l1(const ember_settings *s) { return given_l1(s) || s->sparsity.target > 0; }

/* Keys that the others switch off. A value of its own there would do nothing, and its author thinks otherwise. */
static bool scaling_none(const ember_settings *s) { return s->model.rope_scaling.type == EMBER_ROPE_NONE; }
static bool scaling_not_llama3(const ember_settings *s) { return s->model.rope_scaling.type != EMBER_ROPE_LLAMA3; }
static bool source_synthetic(const ember_settings *s) { return is_synthetic(s); }
static bool source_files(const ember_settings *s) { return !is_synthetic(s); }
static bool one_source(const ember_settings *s) { return s->data.train.n == 1; }
static bool not_wsd(const ember_settings *s) { return s->train.schedule != EMBER_SCHEDULE_WSD; }
static bool constant_lr(const ember_settings *s) { return s->train.schedule == EMBER_SCHEDULE_CONSTANT; }
static bool no_l1(const ember_settings *s) { return !any_l1(s); }
static bool no_target(const ember_settings *s) { return s->sparsity.target <= 0; }
static bool mode_dense(const ember_settings *s) { return s->ffn.mode == EMBER_FFN_DENSE || s->ffn.activation == EMBER_SILU; }
static bool mode_not_auto(const ember_settings *s) { return s->ffn.mode != EMBER_FFN_AUTO || s->ffn.activation == EMBER_SILU; }
static bool no_valid(const ember_settings *s) { return s->data.valid.n == 0; }
static bool weights_given(const ember_settings *s) { return s->init.from[0] != '\0'; }
static bool only_kept_rows(const ember_settings *s) { return weights_given(s) && s->sparsity.revive_every == 0; }

static const struct idle_rule {
    const char *key;
    const char *switched_by; /* the key that decides */
    bool (*idle)(const ember_settings *settings);
    const char *because;
} idle_rules[] = {
    {"model.rope_scaling.factor", "model.rope_scaling.type", scaling_none, "model.rope_scaling.type is none"},
    {"model.rope_scaling.low_freq_factor", "model.rope_scaling.type", scaling_not_llama3, "model.rope_scaling.type is not llama3"},
    {"model.rope_scaling.high_freq_factor", "model.rope_scaling.type", scaling_not_llama3, "model.rope_scaling.type is not llama3"},
    {"model.rope_scaling.original_max_position_embeddings", "model.rope_scaling.type", scaling_not_llama3,
     "model.rope_scaling.type is not llama3"},
    {"data.weights", "data.train", source_synthetic, "data.train is synthetic"},
    {"data.weights", "data.train", one_source, "data.train has one entry"},
    {"data.mask_documents", "data.train", source_synthetic, "data.train is synthetic"},
    {"data.shuffle", "data.train", source_synthetic, "data.train is synthetic"},
    {"data.verify", "data.train", source_synthetic, "data.train is synthetic"},
    {"data.zipf_exponent", "data.train", source_files, "data.train is not synthetic"},
    {"train.decay_steps", "train.schedule", not_wsd, "train.schedule is not wsd"},
    {"train.final_lr_fraction", "train.schedule", constant_lr, "train.schedule is constant"},
    {"sparsity.l1_start_step", "sparsity.l1", no_l1, "sparsity.l1 and sparsity.target are 0"},
    {"sparsity.l1_warmup_steps", "sparsity.l1", no_l1, "sparsity.l1 and sparsity.target are 0"},
    {"sparsity.target_rate", "sparsity.target", no_target, "sparsity.target is 0"},
    {"ffn.compression", "ffn.mode", mode_dense, "every layer runs dense (ffn.mode, ffn.activation)"},
    {"ffn.costs", "ffn.mode", mode_not_auto, "nothing is chosen by cost (ffn.mode, ffn.activation)"},
    {"eval.every", "data.valid", no_valid, "data.valid is empty"},
    {"eval.sequences", "data.valid", no_valid, "data.valid is empty"},
    {"checkpoint.keep_best", "data.valid", no_valid, "data.valid is empty"},
    {"init.std", "init.from", only_kept_rows, "init.from gives the weights"},
    {"init.residual_scaling", "init.from", weights_given, "init.from gives the weights"},
};

static ember_status same_as_default(const ember_config *config, int row, bool *same) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    ember_config *plain = NULL;
    ember_bytes now = {0};
    ember_bytes then = {0};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_allocate((void **)&plain, 1, sizeof *plain, "a default"), done);
    EMBER_TRY_GOTO(ember_config_reset(plain, row), done);
    EMBER_TRY_GOTO(ember_schema_format(&rows[row], &config->settings, &now), done);
    EMBER_TRY_GOTO(ember_schema_format(&rows[row], &plain->settings, &then), done);
    *same = strcmp(now.data, then.data) == 0;
done:
    ember_config_free(plain);
    ember_bytes_free(&now);
    ember_bytes_free(&then);
    return status;
}

/* A key of the file that --set switched off goes back to its default (`--set sparsity.l1=0` makes the twin of a run);
 * otherwise a key without effect is an error. */
static ember_status check_idle(ember_config *config) {
    for (size_t i = 0; i < sizeof idle_rules / sizeof idle_rules[0]; i++) {
        const struct idle_rule *rule = &idle_rules[i];
        const int row = ember_schema_find(rule->key);
        if (config->origin[row] == EMBER_FROM_DEFAULT || !rule->idle(&config->settings)) continue;
        bool same = false;
        EMBER_TRY(same_as_default(config, row, &same));
        if (same) continue;
        if (config->origin[row] == EMBER_FROM_FILE && config->origin[ember_schema_find(rule->switched_by)] == EMBER_FROM_SET) {
            EMBER_TRY(ember_config_reset(config, row));
            continue;
        }
        return refuse(config, rule->key, "has no effect because %s; take it out", rule->because);
    }
    return EMBER_OK;
}

static ember_status check_required(const ember_config *config) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    for (int row = 0; row < n; row++) {
        if (rows[row].initial || rows[row].initial_note || config->origin[row] != EMBER_FROM_DEFAULT) continue;
        return refuse(config, rows[row].key, "is missing; it has no default (%s)", rows[row].help);
    }
    return EMBER_OK;
}

/* Stem of the path; bytes that a config cannot hold become '_'. */
static ember_status default_name(ember_config *config) {
    const char *slash = strrchr(config->name, '/');
    const char *stem = slash ? slash + 1 : config->name;
    const char *dot = strrchr(stem, '.');
    size_t n = dot && dot != stem ? (size_t)(dot - stem) : strlen(stem);
    if (n > 200) n = 200; /* leaves room for what is put beside it in a folder */
    ember_bytes name = {0};
    ember_status status = EMBER_OK;
    for (size_t i = 0; i < n && status == EMBER_OK;) {
        const size_t length = ember_yaml_utf8_length(stem + i, n - i);
        status = length ? ember_bytes_append(&name, stem + i, length) : ember_bytes_append(&name, "_", 1);
        i += length ? length : 1;
    }
    if (status == EMBER_OK) status = ember_config_keep(config, name.n ? name.data : "run", &config->settings.run.name);
    ember_bytes_free(&name);
    return status;
}

static ember_status compute_defaults(ember_config *config) {
    ember_settings *s = &config->settings;
    if (!ember_config_given(config, "run.name")) EMBER_TRY(default_name(config));
    const char *name = s->run.name;
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > 255) {
        return refuse(config, "run.name", "is \"%s\"; it must be one file name: no slash, not . or .., at most 255 bytes", name);
    }
    if (!ember_config_given(config, "run.output")) {
        ember_bytes folder = {0};
        EMBER_TRY(ember_bytes_printf(&folder, "runs/%s", name));
        const ember_status status = ember_config_keep(config, folder.data, &s->run.output);
        ember_bytes_free(&folder);
        EMBER_TRY(status);
    }
    return EMBER_OK;
}

static ember_status check_neurons(ember_config *config) {
    ember_settings *s = &config->settings;
    const ember_number_list *list = &s->model.neurons_per_layer;
    if (list->n == 0) {
        if (ember_config_given(config, "model.intermediate_size")) return EMBER_OK;
        return refuse(config, "model.intermediate_size", "is missing; it has no default (neurons of every layer)");
    }
    if (list->n != s->model.num_hidden_layers) {
        return refuse(config, "model.neurons_per_layer", "has %lld values; it must have one for each of the %lld layers",
                      (long long)list->n, (long long)s->model.num_hidden_layers);
    }
    int64_t most = 0;
    for (int64_t i = 0; i < list->n; i++)
        most = (int64_t)list->item[i] > most ? (int64_t)list->item[i] : most;
    if (ember_config_given(config, "model.intermediate_size") && s->model.intermediate_size != most) {
        return refuse(config, "model.intermediate_size",
                      "is %lld, but the largest of model.neurons_per_layer is %lld; take one of them out",
                      (long long)s->model.intermediate_size, (long long)most);
    }
    s->model.intermediate_size = most;
    return EMBER_OK;
}

static ember_status check_heads(const ember_config *config) {
    const ember_settings *s = &config->settings;
    const int64_t heads = s->model.num_attention_heads;
    if (s->model.head_dim == 0) {
        const int64_t size = s->model.hidden_size / heads;
        if (s->model.hidden_size % heads != 0 || size % 2 != 0 || size < 2 || size > EMBER_MAX_HEAD_DIM) {
            return refuse(config, "model.num_attention_heads",
                          "is %lld: hidden_size %lld / heads must be whole and even, 2 to %d; change them or give model.head_dim",
                          (long long)heads, (long long)s->model.hidden_size, EMBER_MAX_HEAD_DIM);
        }
    } else if (s->model.head_dim % 2 != 0) {
        return refuse(config, "model.head_dim", "is %lld; it must be even", (long long)s->model.head_dim);
    }
    const int64_t kv = s->model.num_key_value_heads;
    if (kv != 0 && (kv > heads || heads % kv != 0)) {
        return refuse(config, "model.num_key_value_heads", "is %lld; it must divide num_attention_heads (%lld)", (long long)kv,
                      (long long)heads);
    }
    const int64_t longest = s->model.max_position_embeddings;
    if (longest != 0 && s->train.sequence_length > longest) {
        return refuse(config, "train.sequence_length", "is %lld, more than model.max_position_embeddings (%lld)",
                      (long long)s->train.sequence_length, (long long)longest);
    }
    return EMBER_OK;
}

static ember_status check_data(const ember_config *config) {
    const ember_settings *s = &config->settings;
    for (int64_t i = 0; i < s->data.train.n; i++) {
        if (s->data.train.n > 1 && strcmp(s->data.train.item[i], "synthetic") == 0) {
            return refuse(config, "data.train", "has the word synthetic among %lld entries; it must stand alone",
                          (long long)s->data.train.n);
        }
    }
    for (int64_t i = 0; i < s->data.valid.n; i++) {
        if (strcmp(s->data.valid.item[i], "synthetic") == 0) {
            return refuse(config, "data.valid", "is synthetic; validation needs shards, or [] for none");
        }
    }
    if (is_synthetic(s) && s->model.vocab_size == 0) {
        return refuse(config, "model.vocab_size", "is 0 (that of the shards), but data.train is synthetic; give a number");
    }
    if (s->data.weights.n != 0 && s->data.weights.n != s->data.train.n) {
        return refuse(config, "data.weights", "has %lld values; it must have one for each of the %lld entries of data.train",
                      (long long)s->data.weights.n, (long long)s->data.train.n);
    }
    return EMBER_OK;
}

static ember_status check_train(const ember_config *config) {
    const ember_settings *s = &config->settings;
    const long long steps = (long long)s->train.steps;
    if (s->train.micro_batch_size != 0 && s->train.batch_size % s->train.micro_batch_size != 0) {
        return refuse(config, "train.micro_batch_size", "is %lld; it must divide train.batch_size (%lld)",
                      (long long)s->train.micro_batch_size, (long long)s->train.batch_size);
    }
    if (s->train.warmup_steps > s->train.steps) {
        return refuse(config, "train.warmup_steps", "is %lld, more than train.steps (%lld)", (long long)s->train.warmup_steps, steps);
    }
    if (s->train.stop_after > s->train.steps) {
        return refuse(config, "train.stop_after", "is %lld, more than train.steps (%lld)", (long long)s->train.stop_after, steps);
    }
    if (s->train.schedule == EMBER_SCHEDULE_WSD &&
        (s->train.decay_steps < 1 || s->train.decay_steps > s->train.steps - s->train.warmup_steps)) {
        return refuse(config, "train.decay_steps", "is %lld; wsd needs 1 to steps - warmup_steps (%lld)", (long long)s->train.decay_steps,
                      steps - (long long)s->train.warmup_steps);
    }
    return EMBER_OK;
}

static ember_status check_sparsity(const ember_config *config) {
    const ember_settings *s = &config->settings;
    const int64_t n = s->sparsity.l1.n;
    if (n != 1 && n != s->model.num_hidden_layers) {
        return refuse(config, "sparsity.l1", "has %lld values; it must have one, or one for each of the %lld layers", (long long)n,
                      (long long)s->model.num_hidden_layers);
    }
    if (any_l1(s) && s->sparsity.l1_start_step >= s->train.steps) {
        return refuse(config, "sparsity.l1_start_step", "is %lld, not before the last of train.steps (%lld)",
                      (long long)s->sparsity.l1_start_step, (long long)s->train.steps);
    }
    const bool silu = s->ffn.activation == EMBER_SILU;
    if (silu && s->sparsity.target > 0) {
        return refuse(config, "sparsity.target", "needs ffn.activation relu or relu2: every silu neuron fires for every token");
    }
    if (silu && s->sparsity.revive_every > 0) {
        return refuse(config, "sparsity.revive_every", "needs ffn.activation relu or relu2: no silu neuron is ever dead");
    }
    if (silu && s->ffn.mode == EMBER_FFN_TWELL) {
        return refuse(config, "ffn.mode", "is twell, but ffn.activation is silu, which is dense only; use dense or auto, or relu or relu2");
    }
    if (s->sparsity.target > 0 && !given_l1(s)) {
        return refuse(
            config, "sparsity.target",
            "is %g, but sparsity.l1 is 0: the controller multiplies sparsity.l1, so give it a start above 0 (1e-4 works for most models)",
            s->sparsity.target);
    }
    const int64_t c = s->ffn.compression;
    if (c != 2 && c != 4 && c != 8 && c != 16) return refuse(config, "ffn.compression", "is %lld; it must be 2, 4, 8 or 16", (long long)c);
    return EMBER_OK;
}

ember_status ember_config_complete(ember_config *config) {
    EMBER_TRY(check_required(config));
    EMBER_TRY(compute_defaults(config));
    EMBER_TRY(check_neurons(config));
    EMBER_TRY(check_idle(config));
    EMBER_TRY(check_heads(config));
    EMBER_TRY(check_data(config));
    EMBER_TRY(check_train(config));
    EMBER_TRY(check_sparsity(config));
    ember_hparams hparams;
    return ember_config_hparams(config, config->settings.model.vocab_size ? 0 : 2, &hparams);
}

ember_status ember_config_hparams(const ember_config *config, int64_t shard_vocab_size, ember_hparams *out) {
    const ember_settings *s = &config->settings;
    if (s->model.vocab_size == 0 && shard_vocab_size <= 0) {
        return refuse(config, "model.vocab_size", "is 0 (that of the shards), and no shard says it; give a number");
    }
    if (s->model.vocab_size != 0 && shard_vocab_size > s->model.vocab_size) {
        return refuse(config, "model.vocab_size",
                      "is %lld, but the shards hold ids of a vocabulary of %lld; it must be at least that, or 0",
                      (long long)s->model.vocab_size, (long long)shard_vocab_size);
    }
    *out = (ember_hparams){
        .vocab_size = s->model.vocab_size ? s->model.vocab_size : shard_vocab_size,
        .hidden_size = s->model.hidden_size,
        .num_hidden_layers = s->model.num_hidden_layers,
        .num_attention_heads = s->model.num_attention_heads,
        .num_key_value_heads = s->model.num_key_value_heads ? s->model.num_key_value_heads : s->model.num_attention_heads,
        .head_dim = s->model.head_dim ? s->model.head_dim : s->model.hidden_size / s->model.num_attention_heads,
        .max_position_embeddings = s->model.max_position_embeddings ? s->model.max_position_embeddings : s->train.sequence_length,
        .ffn_kind = s->ffn.kind,
        .activation = s->ffn.activation,
        .rms_norm_eps = s->model.rms_norm_eps,
        .rope_theta = s->model.rope_theta,
        .rope_scaling = s->model.rope_scaling.type,
        .rope_factor = s->model.rope_scaling.factor,
        .rope_low_freq_factor = s->model.rope_scaling.low_freq_factor,
        .rope_high_freq_factor = s->model.rope_scaling.high_freq_factor,
        .rope_original_max_position_embeddings = s->model.rope_scaling.original_max_position_embeddings,
        .tie_word_embeddings = s->model.tie_word_embeddings,
        .qkv_bias = s->model.qkv_bias,
        .qk_norm = s->model.qk_norm,
        .bos_token_id = -1,
    };
    for (int64_t layer = 0; layer < out->num_hidden_layers; layer++) {
        out->neurons[layer] = s->model.neurons_per_layer.n ? (int64_t)s->model.neurons_per_layer.item[layer] : s->model.intermediate_size;
    }
    /* Its messages begin with the field, which is the key's name in the section. */
    if (ember_hparams_check(out) != EMBER_OK) return ember_fail(EMBER_E_CONFIG, "%s: model.%s", config->name, ember_last_error());
    return EMBER_OK;
}
