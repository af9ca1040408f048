#include "lib/base/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/status.h"

static ember_status in_range(const char *field, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return EMBER_OK;
    return ember_fail(EMBER_E_ARGUMENT, "%s is %lld; it must be %lld to %lld", field, (long long)value, (long long)low, (long long)high);
}

static ember_status positive(const char *field, double value) {
    if (isfinite(value) && value > 0) return EMBER_OK;
    return ember_fail(EMBER_E_ARGUMENT, "%s is %g; it must be finite and above 0", field, value);
}

static ember_status check_rope(const ember_hparams *p) {
    EMBER_TRY(positive("rope_theta", p->rope_theta));
    if (p->rope_scaling == EMBER_ROPE_NONE) return EMBER_OK;
    EMBER_TRY(positive("rope_scaling.factor", p->rope_factor));
    if (p->rope_scaling == EMBER_ROPE_LINEAR) return EMBER_OK;
    EMBER_TRY(positive("rope_scaling.low_freq_factor", p->rope_low_freq_factor));
    EMBER_TRY(positive("rope_scaling.high_freq_factor", p->rope_high_freq_factor));
    if (!(p->rope_high_freq_factor > p->rope_low_freq_factor)) {
        return ember_fail(EMBER_E_ARGUMENT, "rope_scaling.high_freq_factor (%g) must be above low_freq_factor (%g)",
                          p->rope_high_freq_factor, p->rope_low_freq_factor);
    }
    return in_range("rope_scaling.original_max_position_embeddings", p->rope_original_max_position_embeddings, 1, (int64_t)1 << 30);
}

ember_status ember_hparams_check(const ember_hparams *p) {
    EMBER_TRY(in_range("vocab_size", p->vocab_size, 2, (int64_t)1 << 24));
    EMBER_TRY(in_range("hidden_size", p->hidden_size, 1, (int64_t)1 << 17));
    EMBER_TRY(in_range("num_hidden_layers", p->num_hidden_layers, 1, EMBER_MAX_LAYERS));
    EMBER_TRY(in_range("num_attention_heads", p->num_attention_heads, 1, (int64_t)1 << 14));
    EMBER_TRY(in_range("num_key_value_heads", p->num_key_value_heads, 1, p->num_attention_heads));
    if (p->num_attention_heads % p->num_key_value_heads != 0) {
        return ember_fail(EMBER_E_ARGUMENT, "num_attention_heads (%lld) must be a multiple of num_key_value_heads (%lld)",
                          (long long)p->num_attention_heads, (long long)p->num_key_value_heads);
    }
    EMBER_TRY(in_range("head_dim", p->head_dim, 2, EMBER_MAX_HEAD_DIM));
    if (p->head_dim % 2 != 0) return ember_fail(EMBER_E_ARGUMENT, "head_dim is %lld; it must be even", (long long)p->head_dim);
    EMBER_TRY(in_range("max_position_embeddings", p->max_position_embeddings, 1, (int64_t)1 << 24));
    for (int64_t layer = 0; layer < p->num_hidden_layers; layer++) {
        if (p->neurons[layer] < 1 || p->neurons[layer] > EMBER_MAX_NEURONS) {
            return ember_fail(EMBER_E_ARGUMENT, "layer %lld has %lld neurons (intermediate_size); it must be 1 to %d", (long long)layer,
                              (long long)p->neurons[layer], EMBER_MAX_NEURONS);
        }
    }
    EMBER_TRY(positive("rms_norm_eps", p->rms_norm_eps));
    EMBER_TRY(check_rope(p));
    if (p->bos_token_id != -1) EMBER_TRY(in_range("bos_token_id", p->bos_token_id, 0, p->vocab_size - 1));
    EMBER_TRY(in_range("number of eos_token_id", p->n_eos, 0, EMBER_MAX_EOS));
    for (int64_t i = 0; i < p->n_eos; i++)
        EMBER_TRY(in_range("eos_token_id", p->eos_token_ids[i], 0, p->vocab_size - 1));
    return EMBER_OK;
}

/* The parameters of one layer, in order; the flags say which models have them. */
static const struct layer_entry {
    ember_param_role role;
    const char *name;
} layer_entries[] = {
    {EMBER_PARAM_ATTENTION_NORM, "input_layernorm.weight"},
    {EMBER_PARAM_Q, "self_attn.q_proj.weight"},
    {EMBER_PARAM_K, "self_attn.k_proj.weight"},
    {EMBER_PARAM_V, "self_attn.v_proj.weight"},
    {EMBER_PARAM_Q_BIAS, "self_attn.q_proj.bias"},
    {EMBER_PARAM_K_BIAS, "self_attn.k_proj.bias"},
    {EMBER_PARAM_V_BIAS, "self_attn.v_proj.bias"},
    {EMBER_PARAM_Q_NORM, "self_attn.q_norm.weight"},
    {EMBER_PARAM_K_NORM, "self_attn.k_norm.weight"},
    {EMBER_PARAM_O, "self_attn.o_proj.weight"},
    {EMBER_PARAM_FFN_NORM, "post_attention_layernorm.weight"},
    {EMBER_PARAM_GATE, "mlp.gate_proj.weight"},
    {EMBER_PARAM_UP, "mlp.up_proj.weight"},
    {EMBER_PARAM_DOWN, "mlp.down_proj.weight"},
};
enum { N_LAYER_ENTRIES = (int)(sizeof layer_entries / sizeof layer_entries[0]) };

static bool has_role(const ember_hparams *p, ember_param_role role) {
    switch (role) {
    case EMBER_PARAM_Q_BIAS:
    case EMBER_PARAM_K_BIAS:
    case EMBER_PARAM_V_BIAS: return p->qkv_bias;
    case EMBER_PARAM_Q_NORM:
    case EMBER_PARAM_K_NORM: return p->qk_norm;
    case EMBER_PARAM_GATE: return p->ffn_kind == EMBER_FFN_GATED;
    case EMBER_PARAM_HEAD: return !p->tie_word_embeddings;
    default: return true;
    }
}

static int64_t params_per_layer(const ember_hparams *p) {
    int64_t n = 0;
    for (int i = 0; i < N_LAYER_ENTRIES; i++)
        n += has_role(p, layer_entries[i].role) ? 1 : 0;
    return n;
}

int64_t ember_hparams_n_params(const ember_hparams *p) {
    return 2 + p->num_hidden_layers * params_per_layer(p) + (p->tie_word_embeddings ? 0 : 1);
}

static void matrix(ember_param_spec *spec, int64_t rows, int64_t columns) {
    spec->n_dims = 2;
    spec->dims[0] = rows;
    spec->dims[1] = columns;
    spec->decay = true;
}

static void vector(ember_param_spec *spec, int64_t n) {
    spec->n_dims = 1;
    spec->dims[0] = n;
    spec->dims[1] = 1;
}

static void set_shape(const ember_hparams *p, ember_param_spec *spec) {
    const int64_t d = p->hidden_size;
    const int64_t q = p->num_attention_heads * p->head_dim;
    const int64_t kv = p->num_key_value_heads * p->head_dim;
    switch (spec->role) {
    case EMBER_PARAM_EMBEDDING:
    case EMBER_PARAM_HEAD: matrix(spec, p->vocab_size, d); break;
    case EMBER_PARAM_Q: matrix(spec, q, d); break;
    case EMBER_PARAM_K:
    case EMBER_PARAM_V: matrix(spec, kv, d); break;
    case EMBER_PARAM_O: matrix(spec, d, q); break;
    case EMBER_PARAM_GATE:
    case EMBER_PARAM_UP:
    case EMBER_PARAM_DOWN:
        matrix(spec, p->neurons[spec->layer], d);
        spec->neuron_major = true;
        break;
    case EMBER_PARAM_Q_BIAS: vector(spec, q); break;
    case EMBER_PARAM_K_BIAS:
    case EMBER_PARAM_V_BIAS: vector(spec, kv); break;
    case EMBER_PARAM_Q_NORM:
    case EMBER_PARAM_K_NORM: vector(spec, p->head_dim); break;
    case EMBER_PARAM_ATTENTION_NORM:
    case EMBER_PARAM_FFN_NORM:
    case EMBER_PARAM_FINAL_NORM: vector(spec, d); break;
    }
}

static ember_param_spec outer_param(const ember_hparams *p, ember_param_role role, const char *name) {
    ember_param_spec spec = {.role = role, .layer = -1};
    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    set_shape(p, &spec);
    return spec;
}

ember_param_spec ember_hparams_param(const ember_hparams *p, int64_t index) {
    const int64_t per_layer = params_per_layer(p);
    const int64_t inside = index - 1;
    if (index == 0) return outer_param(p, EMBER_PARAM_EMBEDDING, "model.embed_tokens.weight");
    if (inside == p->num_hidden_layers * per_layer) return outer_param(p, EMBER_PARAM_FINAL_NORM, "model.norm.weight");
    if (inside > p->num_hidden_layers * per_layer) return outer_param(p, EMBER_PARAM_HEAD, "lm_head.weight");
    ember_param_spec spec = {.layer = (int)(inside / per_layer)};
    int64_t left = inside % per_layer;
    for (int i = 0; i < N_LAYER_ENTRIES; i++) {
        if (!has_role(p, layer_entries[i].role)) continue;
        if (left-- > 0) continue;
        spec.role = layer_entries[i].role;
        (void)snprintf(spec.name, sizeof spec.name, "model.layers.%d.%s", spec.layer, layer_entries[i].name);
        break;
    }
    set_shape(p, &spec);
    return spec;
}

int64_t ember_hparams_find(const ember_hparams *p, const char *name) {
    const int64_t n = ember_hparams_n_params(p);
    for (int64_t i = 0; i < n; i++) {
        const ember_param_spec spec = ember_hparams_param(p, i);
        if (strcmp(spec.name, name) == 0) return i;
    }
    return -1;
}

int64_t ember_hparams_n_elements(const ember_hparams *p) {
    int64_t total = 0;
    const int64_t n = ember_hparams_n_params(p);
    for (int64_t i = 0; i < n; i++) {
        const ember_param_spec spec = ember_hparams_param(p, i);
        total += spec.dims[0] * spec.dims[1];
    }
    return total;
}

int64_t ember_hparams_max_neurons(const ember_hparams *p) {
    int64_t most = 0;
    for (int64_t layer = 0; layer < p->num_hidden_layers; layer++)
        most = p->neurons[layer] > most ? p->neurons[layer] : most;
    return most;
}

static const char *const ffn_kind_names[] = {"gated", "plain"};
static const char *const activation_names[] = {"relu", "relu2", "silu"};
static const char *const rope_scaling_names[] = {"none", "linear", "llama3"};

static int find_name(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) return i;
    }
    return -1;
}

const char *ember_ffn_kind_name(ember_ffn_kind kind) { return ffn_kind_names[kind]; }
const char *ember_activation_name(ember_activation activation) { return activation_names[activation]; }
const char *ember_rope_scaling_name(ember_rope_scaling scaling) { return rope_scaling_names[scaling]; }

bool ember_ffn_kind_parse(const char *name, ember_ffn_kind *out) {
    const int i = find_name(ffn_kind_names, 2, name);
    if (i >= 0) *out = (ember_ffn_kind)i;
    return i >= 0;
}

bool ember_activation_parse(const char *name, ember_activation *out) {
    const int i = find_name(activation_names, 3, name);
    if (i >= 0) *out = (ember_activation)i;
    return i >= 0;
}

bool ember_rope_scaling_parse(const char *name, ember_rope_scaling *out) {
    const int i = find_name(rope_scaling_names, 3, name);
    if (i >= 0) *out = (ember_rope_scaling)i;
    return i >= 0;
}
