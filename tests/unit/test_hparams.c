/* rooms: base */
#include <math.h>

#include "lib/base/hparams.h"
#include "tests/check.h"

static ember_hparams small(void) {
    ember_hparams p = {
        .vocab_size = 11,
        .hidden_size = 8,
        .num_hidden_layers = 3,
        .num_attention_heads = 4,
        .num_key_value_heads = 2,
        .head_dim = 6,
        .max_position_embeddings = 16,
        .rms_norm_eps = 1e-5,
        .rope_theta = 1e4,
        .bos_token_id = -1,
    };
    p.neurons[0] = 5;
    p.neurons[1] = 7;
    p.neurons[2] = 1;
    return p;
}

static void good_ones_pass(void **state) {
    (void)state;
    ember_hparams p = small();
    check_ok(ember_hparams_check(&p));
    /* The smallest there is (A1.5). */
    ember_hparams least = {.vocab_size = 2,
                           .hidden_size = 1,
                           .num_hidden_layers = 1,
                           .num_attention_heads = 1,
                           .num_key_value_heads = 1,
                           .head_dim = 2,
                           .max_position_embeddings = 1,
                           .rms_norm_eps = 1e-6,
                           .rope_theta = 1,
                           .bos_token_id = -1};
    least.neurons[0] = 1;
    check_ok(ember_hparams_check(&least));
}

/* Each field beyond its bounds is refused by its name. */
static void bad_fields_are_named(void **state) {
    (void)state;
    ember_hparams p;
#define REFUSED(assignment, name)                                     \
    do {                                                              \
        p = small();                                                  \
        assignment;                                                   \
        check_fails(ember_hparams_check(&p), EMBER_E_ARGUMENT, name); \
    } while (0)
    REFUSED(p.vocab_size = 1, "vocab_size is 1");
    REFUSED(p.vocab_size = ((int64_t)1 << 24) + 1, "vocab_size");
    REFUSED(p.hidden_size = 0, "hidden_size is 0");
    REFUSED(p.num_hidden_layers = 0, "num_hidden_layers is 0");
    REFUSED(p.num_hidden_layers = EMBER_MAX_LAYERS + 1, "num_hidden_layers is 513");
    REFUSED(p.num_attention_heads = 0, "num_attention_heads is 0");
    REFUSED(p.num_key_value_heads = 0, "num_key_value_heads is 0");
    REFUSED(p.num_key_value_heads = 5, "num_key_value_heads is 5");
    REFUSED(p.num_key_value_heads = 3, "multiple of num_key_value_heads (3)");
    REFUSED(p.head_dim = 0, "head_dim is 0");
    REFUSED(p.head_dim = 5, "head_dim is 5");
    REFUSED(p.head_dim = 258, "head_dim is 258");
    REFUSED(p.max_position_embeddings = 0, "max_position_embeddings is 0");
    REFUSED(p.neurons[1] = 0, "layer 1 has 0 neurons");
    REFUSED(p.neurons[2] = 65537, "layer 2 has 65537 neurons");
    REFUSED(p.rms_norm_eps = 0, "rms_norm_eps");
    REFUSED(p.rms_norm_eps = (double)NAN, "rms_norm_eps");
    REFUSED(p.rope_theta = -1, "rope_theta");
    REFUSED(p.rope_theta = (double)INFINITY, "rope_theta");
    REFUSED(p.rope_scaling = EMBER_ROPE_LINEAR, "rope_scaling.factor");
    REFUSED((p.rope_scaling = EMBER_ROPE_LLAMA3, p.rope_factor = 8), "low_freq_factor");
    REFUSED((p.rope_scaling = EMBER_ROPE_LLAMA3, p.rope_factor = 8, p.rope_low_freq_factor = 4, p.rope_high_freq_factor = 4),
            "must be above");
    REFUSED((p.rope_scaling = EMBER_ROPE_LLAMA3, p.rope_factor = 8, p.rope_low_freq_factor = 1, p.rope_high_freq_factor = 4),
            "original_max_position_embeddings is 0");
    REFUSED(p.bos_token_id = 11, "bos_token_id is 11");
    REFUSED(p.bos_token_id = -2, "bos_token_id is -2");
    REFUSED(p.n_eos = EMBER_MAX_EOS + 1, "eos_token_id is 17");
    REFUSED((p.n_eos = 1, p.eos_token_ids[0] = 11), "eos_token_id is 11");
#undef REFUSED
    p = small();
    p.neurons[0] = 65536;
    check_ok(ember_hparams_check(&p));
}

static void parameters_in_order(void **state) {
    (void)state;
    ember_hparams p = small();
    static const char *const first[] = {
        "model.embed_tokens.weight",
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.self_attn.v_proj.weight",
        "model.layers.0.self_attn.o_proj.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.layers.0.mlp.gate_proj.weight",
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.0.mlp.down_proj.weight",
        "model.layers.1.input_layernorm.weight",
    };
    for (int64_t i = 0; i < 11; i++)
        assert_string_equal(ember_hparams_param(&p, i).name, first[i]);
    const int64_t n = ember_hparams_n_params(&p);
    assert_int_equal(n, 1 + 3 * 9 + 2);
    assert_string_equal(ember_hparams_param(&p, n - 2).name, "model.norm.weight");
    assert_string_equal(ember_hparams_param(&p, n - 1).name, "lm_head.weight");
    p.tie_word_embeddings = true;
    assert_int_equal(ember_hparams_n_params(&p), n - 1);
    assert_int_equal(ember_hparams_find(&p, "lm_head.weight"), -1);
    p.qkv_bias = true;
    p.qk_norm = true;
    p.ffn_kind = EMBER_FFN_PLAIN;
    assert_int_equal(ember_hparams_n_params(&p), 1 + 3 * (9 + 5 - 1) + 1);
    assert_int_equal(ember_hparams_find(&p, "model.layers.2.mlp.gate_proj.weight"), -1);
    /* find and param are inverse, and every name is there once. */
    for (int64_t i = 0; i < ember_hparams_n_params(&p); i++)
        assert_int_equal(ember_hparams_find(&p, ember_hparams_param(&p, i).name), i);
}

static void check_param(const ember_hparams *p, const char *name, int layer, int64_t rows, int64_t columns, bool decay, bool neuron_major) {
    const int64_t index = ember_hparams_find(p, name);
    if (index < 0) fail_msg("no %s", name);
    const ember_param_spec spec = ember_hparams_param(p, index);
    assert_int_equal(spec.layer, layer);
    assert_int_equal(spec.n_dims, columns ? 2 : 1);
    assert_int_equal(spec.dims[0], rows);
    if (columns) assert_int_equal(spec.dims[1], columns);
    assert_true(spec.decay == decay);
    assert_true(spec.neuron_major == neuron_major);
}

static void shapes_and_decay(void **state) {
    (void)state;
    ember_hparams p = small();
    p.qkv_bias = true;
    p.qk_norm = true;
    check_param(&p, "model.embed_tokens.weight", -1, 11, 8, true, false);
    check_param(&p, "model.layers.0.self_attn.q_proj.weight", 0, 24, 8, true, false);
    check_param(&p, "model.layers.0.self_attn.k_proj.weight", 0, 12, 8, true, false);
    check_param(&p, "model.layers.1.self_attn.q_proj.bias", 1, 24, 0, false, false);
    check_param(&p, "model.layers.1.self_attn.v_proj.bias", 1, 12, 0, false, false);
    check_param(&p, "model.layers.1.self_attn.k_norm.weight", 1, 6, 0, false, false);
    check_param(&p, "model.layers.1.self_attn.o_proj.weight", 1, 8, 24, true, false);
    check_param(&p, "model.layers.1.mlp.gate_proj.weight", 1, 7, 8, true, true);
    check_param(&p, "model.layers.2.mlp.down_proj.weight", 2, 1, 8, true, true);
    check_param(&p, "model.layers.2.post_attention_layernorm.weight", 2, 8, 0, false, false);
    check_param(&p, "model.norm.weight", -1, 8, 0, false, false);
    check_param(&p, "lm_head.weight", -1, 11, 8, true, false);
    assert_int_equal(ember_hparams_max_neurons(&p), 7);
    const int64_t layer = 8 + 24 * 8 + 2 * (12 * 8) + 24 + 2 * 12 + 2 * 6 + 8 * 24 + 8;
    assert_int_equal(ember_hparams_n_elements(&p), 2 * 11 * 8 + 8 + 3 * layer + 3 * 8 * (5 + 7 + 1));
}

static void names_of_kinds(void **state) {
    (void)state;
    ember_ffn_kind kind;
    ember_activation activation;
    ember_rope_scaling scaling;
    for (int i = 0; i < 2; i++)
        assert_true(ember_ffn_kind_parse(ember_ffn_kind_name((ember_ffn_kind)i), &kind) && (int)kind == i);
    for (int i = 0; i < 3; i++)
        assert_true(ember_activation_parse(ember_activation_name((ember_activation)i), &activation) && (int)activation == i);
    for (int i = 0; i < 3; i++)
        assert_true(ember_rope_scaling_parse(ember_rope_scaling_name((ember_rope_scaling)i), &scaling) && (int)scaling == i);
    assert_false(ember_ffn_kind_parse("Gated", &kind));
    assert_false(ember_activation_parse("gelu", &activation));
    assert_false(ember_rope_scaling_parse("yarn", &scaling));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones_pass),   cmocka_unit_test(bad_fields_are_named), cmocka_unit_test(parameters_in_order),
        cmocka_unit_test(shapes_and_decay), cmocka_unit_test(names_of_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
