#include "checkpoints/hf_config.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/parse.h"
#include "lib/base/status.h"

typedef enum family { FAMILY_LLAMA = 1, FAMILY_QWEN2 = 2 } family;

typedef struct family_row {
    const char *model_type;
    const char *architecture;
    family id;
    int64_t max_position_embeddings; /* default */
    int64_t bos;                     /* default; -1: none */
    int64_t eos;
    bool qkv_bias;
} family_row;

static const family_row families[] = {
    {"llama", "LlamaForCausalLM", FAMILY_LLAMA, 2048, 1, 2, false},
    {"qwen2", "Qwen2ForCausalLM", FAMILY_QWEN2, 32768, -1, -1, true},
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

/* Keys that change nothing in the arithmetic of inference and training. */
static const char *const irrelevant[] = {
    "torch_dtype",
    "dtype",
    "transformers_version",
    "use_cache",
    "initializer_range",
    "attention_dropout",
    "pretraining_tp",
    "pad_token_id",
    "_name_or_path",
    "name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "max_window_layers",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "return_dict_in_generate",
    "torchscript",
    "use_bfloat16",
    "is_decoder",
    "is_encoder_decoder",
    "chunk_size_feed_forward",
    "id2label",
    "label2id",
    "problem_type",
    "finetuning_task",
    "tokenizer_class",
    "prefix",
    "task_specific_params",
    "unsloth_version",
    "unsloth_fixed",
    "architectures",
    "bos_token_id",
    "eos_token_id",
    "sliding_window",
    "auto_map",
    "_commit_hash",
    "_flash_attn_2_enabled",
};

static const char *const used[] = {
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "hidden_act",
    "attention_bias",
    "mlp_bias",
    "tie_word_embeddings",
    "use_sliding_window",
    "layer_types",
    "partial_rotary_factor",
};

typedef struct reader {
    const char *path;
    ember_bytes *report;
    const json_t *root;
    const family_row *family;
} reader;

static bool listed(const char *const *list, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], key) == 0) return true;
    }
    return false;
}

static ember_status note(const reader *r, const char *key, const char *value, bool from_file) {
    if (!r->report) return EMBER_OK;
    return ember_bytes_printf(r->report, "%s: %s (%s)\n", key, value, from_file ? "from file" : "default");
}

static ember_status note_i64(const reader *r, const char *key, int64_t value, bool from_file) {
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return note(r, key, text, from_file);
}

static ember_status note_f64(const reader *r, const char *key, double value, bool from_file) {
    char text[32];
    ember_format_f64(text, value);
    return note(r, key, text, from_file);
}

static ember_status wrong_type(const reader *r, const char *key, const char *wanted) {
    return ember_fail(EMBER_E_FORMAT, "%s: key %s is not %s", r->path, key, wanted);
}

static ember_status missing(const reader *r, const char *key) {
    return ember_fail(EMBER_E_NOT_FOUND, "%s: key %s is missing, and there is no default for it", r->path, key);
}

/* NULL when the key is absent or null. */
static const json_t *get(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* `fallback` < 0: the key is required. */
static ember_status get_i64(const reader *r, const char *key, int64_t fallback, int64_t *out) {
    const json_t *value = get(r->root, key);
    if (!value && fallback < 0) return missing(r, key);
    if (value && !json_is_integer(value)) return wrong_type(r, key, "an integer");
    *out = value ? (int64_t)json_integer_value(value) : fallback;
    if (value && *out <= 0) return ember_fail(EMBER_E_FORMAT, "%s: key %s is %" PRId64 "; it must be 1 or more", r->path, key, *out);
    return note_i64(r, key, *out, value != NULL);
}

static ember_status get_f64(const reader *r, const char *key, double fallback, double *out) {
    const json_t *value = get(r->root, key);
    if (value && !json_is_number(value)) return wrong_type(r, key, "a number");
    *out = value ? json_number_value(value) : fallback;
    if (!isfinite(*out)) return wrong_type(r, key, "a finite number");
    return note_f64(r, key, *out, value != NULL);
}

static ember_status get_bool(const reader *r, const char *key, bool fallback, bool *out) {
    const json_t *value = get(r->root, key);
    if (value && !json_is_boolean(value)) return wrong_type(r, key, "true or false");
    *out = value ? json_is_true(value) : fallback;
    return note(r, key, *out ? "true" : "false", value != NULL);
}

/* ---- which family, and every key accounted for */

static ember_status read_family(reader *r) {
    const json_t *type = get(r->root, "model_type");
    if (!type) return missing(r, "model_type");
    if (!json_is_string(type)) return wrong_type(r, "model_type", "a text");
    const char *name = json_string_value(type);
    for (int i = 0; i < N_FAMILIES; i++) {
        if (strcmp(families[i].model_type, name) == 0) r->family = &families[i];
    }
    if (!r->family) return ember_fail(EMBER_E_UNSUPPORTED, "%s: model_type \"%s\" is not supported; llama and qwen2 are", r->path, name);
    const json_t *architectures = get(r->root, "architectures");
    if (architectures && !json_is_array(architectures)) return wrong_type(r, "architectures", "a list");
    for (size_t i = 0; i < json_array_size(architectures); i++) {
        const char *text = json_string_value(json_array_get(architectures, i));
        if (text && strcmp(text, r->family->architecture) == 0) continue;
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: architectures names \"%s\"; %s is supported for model_type %s", r->path,
                          text ? text : "no text", r->family->architecture, name);
    }
    return note(r, "model_type", name, true);
}

static ember_status check_keys(const reader *r) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)r->root, key, value) {
        if (listed(used, sizeof used / sizeof used[0], key) || listed(irrelevant, sizeof irrelevant / sizeof irrelevant[0], key)) continue;
        if (json_is_null(value)) continue;
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: key %s is unknown, and ignoring it could change the model; remove it if it does not",
                          r->path, key);
    }
    return EMBER_OK;
}

static ember_status check_refusals(const reader *r) {
    bool flag = false;
    EMBER_TRY(get_bool(r, "mlp_bias", false, &flag));
    if (flag) return ember_fail(EMBER_E_UNSUPPORTED, "%s: mlp_bias true: feed-forward layers with biases are not supported", r->path);
    if (r->family->id == FAMILY_LLAMA) {
        EMBER_TRY(get_bool(r, "attention_bias", false, &flag));
        if (flag) {
            return ember_fail(EMBER_E_UNSUPPORTED,
                              "%s: attention_bias true puts a bias on o_proj too, which is not supported; biases on q, k and v alone "
                              "(model_type qwen2) are",
                              r->path);
        }
    }
    EMBER_TRY(get_bool(r, "use_sliding_window", false, &flag));
    const bool window = get(r->root, "sliding_window") && r->family->id == FAMILY_LLAMA && !get(r->root, "use_sliding_window");
    if (flag || window) return ember_fail(EMBER_E_UNSUPPORTED, "%s: sliding_window attention is not supported; full attention is", r->path);
    const json_t *types = get(r->root, "layer_types");
    if (types && !json_is_array(types)) return wrong_type(r, "layer_types", "a list");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *text = json_string_value(json_array_get(types, i));
        if (text && strcmp(text, "full_attention") == 0) continue;
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: layer_types: \"%s\" is not supported; full_attention is", r->path,
                          text ? text : "no text");
    }
    const json_t *partial = get(r->root, "partial_rotary_factor");
    if (partial && json_number_value(partial) != 1.0) {
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: partial_rotary_factor is not 1, which is not supported", r->path);
    }
    return EMBER_OK;
}

/* ---- RoPE */

static ember_status rope_number(const reader *r, const json_t *object, const char *where, const char *key, double *out) {
    const json_t *value = get(object, key);
    if (!value) return ember_fail(EMBER_E_NOT_FOUND, "%s: %s: key %s is missing", r->path, where, key);
    if (!json_is_number(value) || !(json_number_value(value) > 0)) {
        return ember_fail(EMBER_E_FORMAT, "%s: %s: key %s is not a number above 0", r->path, where, key);
    }
    *out = json_number_value(value);
    char name[64];
    (void)snprintf(name, sizeof name, "%s.%s", where, key);
    return note_f64(r, name, *out, true);
}

static ember_status rope_kind(const reader *r, const json_t *object, const char *where, ember_rope_scaling *out) {
    const json_t *now = get(object, "rope_type");
    const json_t *before = get(object, "type");
    const char *a = json_string_value(now);
    const char *b = json_string_value(before);
    if ((now && !a) || (before && !b)) return ember_fail(EMBER_E_FORMAT, "%s: %s: rope_type is no text", r->path, where);
    if (a && b && strcmp(a, b) != 0)
        return ember_fail(EMBER_E_FORMAT, "%s: %s: rope_type \"%s\" and type \"%s\" differ", r->path, where, a, b);
    const char *name = a ? a : b;
    if (!name && strcmp(where, "rope_scaling") == 0)
        return ember_fail(EMBER_E_NOT_FOUND, "%s: %s: key rope_type is missing", r->path, where);
    *out = EMBER_ROPE_NONE;
    if (!name || strcmp(name, "default") == 0) return EMBER_OK;
    if (strcmp(name, "linear") == 0) *out = EMBER_ROPE_LINEAR;
    if (strcmp(name, "llama3") == 0) *out = EMBER_ROPE_LLAMA3;
    if (*out == EMBER_ROPE_NONE) {
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: %s: rope_type \"%s\" is not supported; default, linear and llama3 are", r->path, where,
                          name);
    }
    return note(r, where, name, true);
}

/* A number that the kind does not use was meant for another kind. */
static ember_status rope_unused(const reader *r, const json_t *object, const char *where, ember_rope_scaling kind) {
    static const char *const numbers[] = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
    const size_t n_used = kind == EMBER_ROPE_LLAMA3 ? 4 : kind == EMBER_ROPE_LINEAR ? 1 : 0;
    for (size_t i = n_used; i < sizeof numbers / sizeof numbers[0]; i++) {
        const json_t *value = get(object, numbers[i]);
        if (!value || (i == 0 && json_number_value(value) == 1.0)) continue;
        return ember_fail(EMBER_E_FORMAT, "%s: %s: key %s is there, and rope_type %s does not use it", r->path, where, numbers[i],
                          kind == EMBER_ROPE_NONE ? "default" : ember_rope_scaling_name(kind));
    }
    return EMBER_OK;
}

static ember_status rope_fields(const reader *r, const json_t *object, const char *where, ember_hparams *out) {
    static const char *const known[] = {"rope_type",        "type",
                                        "factor",           "low_freq_factor",
                                        "high_freq_factor", "original_max_position_embeddings",
                                        "rope_theta",       "partial_rotary_factor"};
    const char *key = NULL;
    json_t *value = NULL;
    double original = 0;
    if (!json_is_object(object)) return wrong_type(r, where, "an object");
    json_object_foreach((json_t *)object, key, value) {
        if (json_is_null(value) || listed(known, sizeof known / sizeof known[0], key)) continue;
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: %s: key %s is unknown", r->path, where, key);
    }
    const json_t *partial = get(object, "partial_rotary_factor");
    if (partial && json_number_value(partial) != 1.0) {
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: %s: partial_rotary_factor is not 1, which is not supported", r->path, where);
    }
    EMBER_TRY(rope_kind(r, object, where, &out->rope_scaling));
    EMBER_TRY(rope_unused(r, object, where, out->rope_scaling));
    if (out->rope_scaling == EMBER_ROPE_NONE) return EMBER_OK;
    EMBER_TRY(rope_number(r, object, where, "factor", &out->rope_factor));
    if (out->rope_scaling == EMBER_ROPE_LINEAR) return EMBER_OK;
    EMBER_TRY(rope_number(r, object, where, "low_freq_factor", &out->rope_low_freq_factor));
    EMBER_TRY(rope_number(r, object, where, "high_freq_factor", &out->rope_high_freq_factor));
    EMBER_TRY(rope_number(r, object, where, "original_max_position_embeddings", &original));
    if (original != floor(original) || original > 1e12) {
        return ember_fail(EMBER_E_FORMAT, "%s: %s: original_max_position_embeddings is no integer", r->path, where);
    }
    out->rope_original_max_position_embeddings = (int64_t)original;
    return EMBER_OK;
}

/* transformers 5 writes rope_parameters {rope_theta, rope_type, ...}; before, rope_theta and rope_scaling. */
static ember_status read_rope(const reader *r, ember_hparams *out) {
    const json_t *scaling = get(r->root, "rope_scaling");
    const json_t *parameters = get(r->root, "rope_parameters");
    const json_t *top = get(r->root, "rope_theta");
    const char *where = parameters ? "rope_parameters" : "rope_scaling";
    const json_t *inner = get(parameters ? parameters : scaling, "rope_theta");
    if (scaling && parameters)
        return ember_fail(EMBER_E_FORMAT, "%s: both rope_scaling and rope_parameters are there; one of them is expected", r->path);
    if (top && inner && json_number_value(top) != json_number_value(inner)) {
        return ember_fail(EMBER_E_FORMAT, "%s: rope_theta and %s.rope_theta differ", r->path, where);
    }
    if (scaling) EMBER_TRY(rope_fields(r, scaling, "rope_scaling", out));
    if (parameters) EMBER_TRY(rope_fields(r, parameters, "rope_parameters", out));
    if (top || !inner) return get_f64(r, "rope_theta", 10000.0, &out->rope_theta);
    return rope_number(r, parameters ? parameters : scaling, where, "rope_theta", &out->rope_theta);
}

/* ---- the rest */

static ember_status read_activation(const reader *r, ember_hparams *out) {
    static const struct {
        const char *name;
        ember_activation activation;
    } known[] = {{"silu", EMBER_SILU}, {"swish", EMBER_SILU}, {"relu", EMBER_RELU}, {"relu2", EMBER_RELU2}, {"relu_squared", EMBER_RELU2}};
    const json_t *value = get(r->root, "hidden_act");
    if (value && !json_is_string(value)) return wrong_type(r, "hidden_act", "a text");
    const char *name = value ? json_string_value(value) : "silu";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        out->activation = known[i].activation;
        return note(r, "hidden_act", name, value != NULL);
    }
    return ember_fail(EMBER_E_UNSUPPORTED, "%s: hidden_act \"%s\" is not supported; relu, relu2 and silu are", r->path, name);
}

static ember_status check_id(const reader *r, const char *key, const json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return wrong_type(r, key, "a token id");
    return EMBER_OK;
}

/* A default id that the vocabulary has not got is no id. */
static ember_status read_tokens(const reader *r, ember_hparams *out) {
    const json_t *bos = json_object_get(r->root, "bos_token_id");
    const json_t *eos = json_object_get(r->root, "eos_token_id");
    out->bos_token_id = r->family->bos < out->vocab_size ? r->family->bos : -1;
    if (json_is_null(bos)) out->bos_token_id = -1;
    if (bos && !json_is_null(bos)) {
        EMBER_TRY(check_id(r, "bos_token_id", bos));
        out->bos_token_id = (int64_t)json_integer_value(bos);
    }
    EMBER_TRY(note_i64(r, "bos_token_id", out->bos_token_id, bos != NULL));
    if (json_is_array(eos)) {
        if (json_array_size(eos) > EMBER_MAX_EOS) {
            return ember_fail(EMBER_E_UNSUPPORTED, "%s: eos_token_id has %zu ids; the limit is %d", r->path, json_array_size(eos),
                              (int)EMBER_MAX_EOS);
        }
        for (size_t i = 0; i < json_array_size(eos); i++) {
            EMBER_TRY(check_id(r, "eos_token_id", json_array_get(eos, i)));
            out->eos_token_ids[out->n_eos++] = (int64_t)json_integer_value(json_array_get(eos, i));
        }
    } else if (eos && !json_is_null(eos)) {
        EMBER_TRY(check_id(r, "eos_token_id", eos));
        out->eos_token_ids[out->n_eos++] = (int64_t)json_integer_value(eos);
    } else if (!eos && r->family->eos >= 0 && r->family->eos < out->vocab_size) {
        out->eos_token_ids[out->n_eos++] = r->family->eos;
    }
    for (int64_t i = 0; i < out->n_eos; i++)
        EMBER_TRY(note_i64(r, "eos_token_id", out->eos_token_ids[i], eos != NULL));
    return EMBER_OK;
}

static ember_status read_sizes(const reader *r, ember_hparams *out) {
    int64_t intermediate_size = 0;
    EMBER_TRY(get_i64(r, "vocab_size", -1, &out->vocab_size));
    EMBER_TRY(get_i64(r, "hidden_size", -1, &out->hidden_size));
    EMBER_TRY(get_i64(r, "intermediate_size", -1, &intermediate_size));
    EMBER_TRY(get_i64(r, "num_hidden_layers", -1, &out->num_hidden_layers));
    EMBER_TRY(get_i64(r, "num_attention_heads", -1, &out->num_attention_heads));
    EMBER_TRY(get_i64(r, "num_key_value_heads", out->num_attention_heads, &out->num_key_value_heads));
    if (!get(r->root, "head_dim") && out->hidden_size % out->num_attention_heads != 0) {
        return ember_fail(EMBER_E_FORMAT,
                          "%s: hidden_size %" PRId64 " is no multiple of num_attention_heads %" PRId64 ", and head_dim is missing", r->path,
                          out->hidden_size, out->num_attention_heads);
    }
    EMBER_TRY(get_i64(r, "head_dim", out->hidden_size / out->num_attention_heads, &out->head_dim));
    EMBER_TRY(get_i64(r, "max_position_embeddings", r->family->max_position_embeddings, &out->max_position_embeddings));
    if (out->num_hidden_layers > EMBER_MAX_LAYERS) {
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: num_hidden_layers is %" PRId64 "; the limit is %d", r->path, out->num_hidden_layers,
                          (int)EMBER_MAX_LAYERS);
    }
    for (int64_t i = 0; i < out->num_hidden_layers; i++)
        out->neurons[i] = intermediate_size;
    return EMBER_OK;
}

static ember_status read_all(reader *r, ember_hparams *out) {
    if (!json_is_object(r->root)) return ember_fail(EMBER_E_FORMAT, "%s: is no JSON object", r->path);
    EMBER_TRY(read_family(r));
    EMBER_TRY(check_keys(r));
    EMBER_TRY(read_sizes(r, out));
    EMBER_TRY(read_activation(r, out));
    EMBER_TRY(get_f64(r, "rms_norm_eps", 1e-6, &out->rms_norm_eps));
    EMBER_TRY(read_rope(r, out));
    EMBER_TRY(check_refusals(r));
    EMBER_TRY(get_bool(r, "tie_word_embeddings", false, &out->tie_word_embeddings));
    EMBER_TRY(read_tokens(r, out));
    out->ffn_kind = EMBER_FFN_GATED;
    out->qkv_bias = r->family->qkv_bias;
    if (ember_hparams_check(out) != EMBER_OK) return ember_fail_context(EMBER_E_UNSUPPORTED, "%s", r->path);
    return EMBER_OK;
}

ember_status ember_hf_config_parse(ember_hparams *out, ember_bytes *report, const char *json, size_t n, const char *path) {
    json_error_t error;
    *out = (ember_hparams){.bos_token_id = -1};
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &error);
    if (!root) return ember_fail(EMBER_E_FORMAT, "%s: line %d: no valid JSON: %s", path, error.line, error.text);
    reader r = {.path = path, .report = report, .root = root};
    const ember_status status = read_all(&r, out);
    json_decref(root);
    return status;
}
