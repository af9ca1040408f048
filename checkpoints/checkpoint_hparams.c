/* One table for both directions: attribute name, type, field. */
#include <stddef.h>
#include <string.h>

#include "checkpoints/checkpoint_internal.h"
#include "lib/base/status.h"

typedef enum field_type { FIELD_I64, FIELD_F64, FIELD_BOOL, FIELD_FFN_KIND, FIELD_ACTIVATION, FIELD_ROPE } field_type;

typedef struct field {
    const char *name;
    field_type type;
    size_t offset;
} field;

#define FIELD(type, member) \
    { #member, type, offsetof(ember_hparams, member) }
static const field fields[] = {
    FIELD(FIELD_I64, vocab_size),
    FIELD(FIELD_I64, hidden_size),
    FIELD(FIELD_I64, num_hidden_layers),
    FIELD(FIELD_I64, num_attention_heads),
    FIELD(FIELD_I64, num_key_value_heads),
    FIELD(FIELD_I64, head_dim),
    FIELD(FIELD_I64, max_position_embeddings),
    FIELD(FIELD_FFN_KIND, ffn_kind),
    FIELD(FIELD_ACTIVATION, activation),
    FIELD(FIELD_F64, rms_norm_eps),
    FIELD(FIELD_F64, rope_theta),
    FIELD(FIELD_ROPE, rope_scaling),
    FIELD(FIELD_F64, rope_factor),
    FIELD(FIELD_F64, rope_low_freq_factor),
    FIELD(FIELD_F64, rope_high_freq_factor),
    FIELD(FIELD_I64, rope_original_max_position_embeddings),
    FIELD(FIELD_BOOL, tie_word_embeddings),
    FIELD(FIELD_BOOL, qkv_bias),
    FIELD(FIELD_BOOL, qk_norm),
    FIELD(FIELD_I64, bos_token_id),
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static ember_status put_field(ember_h5_writer *file, const field *f, const void *value) {
    switch (f->type) {
    case FIELD_I64: return ember_h5_put_attribute_i64(file, "/model", f->name, *(const int64_t *)value);
    case FIELD_F64: return ember_h5_put_attribute_f64(file, "/model", f->name, *(const double *)value);
    case FIELD_BOOL: return ember_h5_put_attribute_i64(file, "/model", f->name, *(const bool *)value ? 1 : 0);
    case FIELD_FFN_KIND: return ember_h5_put_attribute_text(file, "/model", f->name, ember_ffn_kind_name(*(const ember_ffn_kind *)value));
    case FIELD_ACTIVATION:
        return ember_h5_put_attribute_text(file, "/model", f->name, ember_activation_name(*(const ember_activation *)value));
    case FIELD_ROPE:
        return ember_h5_put_attribute_text(file, "/model", f->name, ember_rope_scaling_name(*(const ember_rope_scaling *)value));
    }
    return EMBER_OK;
}

ember_status checkpoint_put_hparams(ember_h5_writer *file, const ember_hparams *hparams) {
    const size_t n_layers = (size_t)hparams->num_hidden_layers;
    bool differ = false;
    EMBER_TRY(ember_h5_put_group(file, "/model"));
    for (int i = 0; i < N_FIELDS; i++)
        EMBER_TRY(put_field(file, &fields[i], (const char *)hparams + fields[i].offset));
    for (size_t i = 1; i < n_layers; i++)
        differ = differ || hparams->neurons[i] != hparams->neurons[0];
    EMBER_TRY(ember_h5_put_attribute_i64(file, "/model", "intermediate_size", ember_hparams_max_neurons(hparams)));
    if (differ) EMBER_TRY(ember_h5_put_attribute_i64s(file, "/model", "neurons_per_layer", hparams->neurons, n_layers));
    return ember_h5_put_attribute_i64s(file, "/model", "eos_token_ids", hparams->eos_token_ids, (size_t)hparams->n_eos);
}

static ember_status get_name(const ember_h5_reader *file, const field *f, void *out) {
    ember_bytes text = {0};
    bool known = false;
    EMBER_TRY(ember_h5_get_attribute_text(file, "/model", f->name, &text));
    if (f->type == FIELD_FFN_KIND) known = ember_ffn_kind_parse(text.data, out);
    if (f->type == FIELD_ACTIVATION) known = ember_activation_parse(text.data, out);
    if (f->type == FIELD_ROPE) known = ember_rope_scaling_parse(text.data, out);
    const ember_status status = known ? EMBER_OK
                                      : ember_fail(EMBER_E_UNSUPPORTED, "%s: attribute %s of /model: \"%s\" is unknown to this version",
                                                   ember_h5_path(file), f->name, text.data);
    ember_bytes_free(&text);
    return status;
}

static ember_status get_field(const ember_h5_reader *file, const field *f, void *out) {
    int64_t value = 0;
    switch (f->type) {
    case FIELD_I64: return ember_h5_get_attribute_i64(file, "/model", f->name, out);
    case FIELD_F64: return ember_h5_get_attribute_f64(file, "/model", f->name, out);
    case FIELD_BOOL:
        EMBER_TRY(ember_h5_get_attribute_i64(file, "/model", f->name, &value));
        if (value != 0 && value != 1) {
            return ember_fail(EMBER_E_FORMAT, "%s: attribute %s of /model is %lld, not 0 or 1", ember_h5_path(file), f->name,
                              (long long)value);
        }
        *(bool *)out = value == 1;
        return EMBER_OK;
    default: return get_name(file, f, out);
    }
}

static ember_status get_neurons(const ember_h5_reader *file, ember_hparams *out) {
    int64_t intermediate_size = 0;
    size_t n = 0;
    EMBER_TRY(ember_h5_get_attribute_i64(file, "/model", "intermediate_size", &intermediate_size));
    if (out->num_hidden_layers < 1 || out->num_hidden_layers > EMBER_MAX_LAYERS) {
        return ember_fail(EMBER_E_FORMAT, "%s: attribute num_hidden_layers of /model is %lld; the limits are 1 and %d", ember_h5_path(file),
                          (long long)out->num_hidden_layers, (int)EMBER_MAX_LAYERS);
    }
    for (int64_t i = 0; i < out->num_hidden_layers; i++)
        out->neurons[i] = intermediate_size;
    if (!ember_h5_has_attribute(file, "/model", "neurons_per_layer")) return EMBER_OK;
    EMBER_TRY(ember_h5_get_attribute_i64s(file, "/model", "neurons_per_layer", out->neurons, EMBER_MAX_LAYERS, &n));
    if ((int64_t)n != out->num_hidden_layers) {
        return ember_fail(EMBER_E_FORMAT, "%s: attribute neurons_per_layer of /model has %zu values for %lld layers", ember_h5_path(file),
                          n, (long long)out->num_hidden_layers);
    }
    return EMBER_OK;
}

ember_status checkpoint_get_hparams(const ember_h5_reader *file, ember_hparams *out) {
    size_t n = 0;
    *out = (ember_hparams){0};
    for (int i = 0; i < N_FIELDS; i++)
        EMBER_TRY(get_field(file, &fields[i], (char *)out + fields[i].offset));
    EMBER_TRY(get_neurons(file, out));
    EMBER_TRY(ember_h5_get_attribute_i64s(file, "/model", "eos_token_ids", out->eos_token_ids, EMBER_MAX_EOS, &n));
    out->n_eos = (int64_t)n;
    if (ember_hparams_check(out) != EMBER_OK) return ember_fail_context(EMBER_E_FORMAT, "%s: attributes of /model", ember_h5_path(file));
    return EMBER_OK;
}
