/* rooms: checkpoints h5 base */
#include "checkpoints/hf_config.h"
#include "checkpoints/hf_tokens.h"
#include "tests/check.h"

#define SIZES "\"hidden_size\":64,\"intermediate_size\":172,\"num_hidden_layers\":5,\"num_attention_heads\":8,\"vocab_size\":512"
#define LLAMA "{\"model_type\":\"llama\"," SIZES
#define QWEN "{\"model_type\":\"qwen2\"," SIZES

static ember_hparams parse(const char *json, const char *reported) {
    ember_hparams hparams;
    ember_bytes report = {0};
    check_ok(ember_hf_config_parse(&hparams, &report, json, strlen(json), "config.json"));
    if (reported && !strstr(report.data, reported)) fail_msg("\"%s\" is not in: %s", reported, report.data);
    ember_bytes_free(&report);
    return hparams;
}

static void refuses(const char *json, ember_status wanted, const char *part) {
    ember_hparams hparams;
    check_fails(ember_hf_config_parse(&hparams, NULL, json, strlen(json), "config.json"), wanted, part);
    assert_int_equal(strncmp(ember_last_error(), "config.json", 11), 0);
}

static void test_defaults(void **state) {
    (void)state;
    const ember_hparams h = parse(LLAMA "}", "num_key_value_heads: 8 (default)");
    assert_true(h.num_key_value_heads == 8 && h.head_dim == 8 && h.rms_norm_eps == 1e-6 && h.rope_theta == 10000.0);
    assert_true(h.max_position_embeddings == 2048 && !h.tie_word_embeddings && !h.qkv_bias && !h.qk_norm);
    assert_true(h.bos_token_id == 1 && h.n_eos == 1 && h.eos_token_ids[0] == 2 && h.activation == EMBER_SILU);
    assert_true(h.neurons[4] == 172 && h.ffn_kind == EMBER_FFN_GATED && h.rope_scaling == EMBER_ROPE_NONE);
    (void)parse(LLAMA "}", "rms_norm_eps: 1e-06 (default)");
    (void)parse(LLAMA ",\"rms_norm_eps\":0.1}", "rms_norm_eps: 0.1 (from file)");
    const ember_hparams q = parse(QWEN "}", "max_position_embeddings: 32768 (default)");
    assert_true(q.qkv_bias && q.bos_token_id == -1 && q.n_eos == 0);
    const ember_hparams n =
        parse(LLAMA ",\"num_key_value_heads\":null,\"head_dim\":null,\"rope_scaling\":null,\"bos_token_id\":null}", NULL);
    assert_true(n.num_key_value_heads == 8 && n.bos_token_id == -1);
}

static void test_values(void **state) {
    (void)state;
    const ember_hparams h = parse(LLAMA ",\"num_key_value_heads\":2,\"head_dim\":32,\"max_position_embeddings\":99,\"hidden_act\":\"relu\","
                                        "\"rope_theta\":500000,\"tie_word_embeddings\":true,\"bos_token_id\":5,\"eos_token_id\":[7,8],"
                                        "\"torch_dtype\":\"bfloat16\",\"architectures\":[\"LlamaForCausalLM\"],\"pretraining_tp\":1}",
                                  "rope_theta: 5e+05 (from file)");
    assert_true(h.num_key_value_heads == 2 && h.head_dim == 32 && h.max_position_embeddings == 99 && h.activation == EMBER_RELU);
    assert_true(h.rope_theta == 500000 && h.tie_word_embeddings && h.bos_token_id == 5 && h.n_eos == 2 && h.eos_token_ids[1] == 8);
    /* The smallest model of all. */
    const ember_hparams tiny = parse("{\"model_type\":\"llama\",\"hidden_size\":8,\"intermediate_size\":1,\"num_hidden_layers\":1,"
                                     "\"num_attention_heads\":1,\"vocab_size\":2}",
                                     NULL);
    assert_true(tiny.neurons[0] == 1 && tiny.bos_token_id == 1 && tiny.n_eos == 0);
    (void)parse(QWEN ",\"sliding_window\":4096,\"use_sliding_window\":false,\"max_window_layers\":28,\"layer_types\":[\"full_attention\"]}",
                NULL);
}

static void test_rope(void **state) {
    (void)state;
    const char *fields = "\"factor\":32.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192";
    char json[1024];
    static const char *const forms[] = {"\"rope_scaling\":{\"rope_type\":\"llama3\"", "\"rope_scaling\":{\"type\":\"llama3\"",
                                        "\"rope_scaling\":{\"type\":\"llama3\",\"rope_type\":\"llama3\"",
                                        "\"rope_parameters\":{\"rope_theta\":7.0,\"rope_type\":\"llama3\""};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        (void)snprintf(json, sizeof json, LLAMA ",%s,%s}}", forms[i], fields);
        const ember_hparams h = parse(json, "factor: 32 (from file)");
        assert_true(h.rope_scaling == EMBER_ROPE_LLAMA3 && h.rope_factor == 32 && h.rope_low_freq_factor == 1 &&
                    h.rope_high_freq_factor == 4);
        assert_true(h.rope_original_max_position_embeddings == 8192 && h.rope_theta == (i == 3 ? 7.0 : 10000.0));
    }
    const ember_hparams l = parse(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}", "rope_scaling: linear");
    assert_true(l.rope_scaling == EMBER_ROPE_LINEAR && l.rope_factor == 4);
    const ember_hparams d = parse(LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e6}}", NULL);
    assert_true(d.rope_scaling == EMBER_ROPE_NONE && d.rope_theta == 1e6);
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"llama3\",\"factor\":4}}", EMBER_E_FORMAT, "differ");
    refuses(LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}", EMBER_E_UNSUPPORTED, "yarn");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":4}}", EMBER_E_UNSUPPORTED, "dynamic");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"longrope\"}}", EMBER_E_UNSUPPORTED, "longrope");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", EMBER_E_NOT_FOUND, "factor");
    refuses(LLAMA ",\"rope_scaling\":{\"factor\":2}}", EMBER_E_NOT_FOUND, "rope_type");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":-1}}", EMBER_E_FORMAT, "factor");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"beta_fast\":3}}", EMBER_E_UNSUPPORTED, "beta_fast");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4}}", EMBER_E_NOT_FOUND,
            "original_max_position_embeddings");
    const ember_hparams s = parse(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4,\"rope_theta\":5e5}}",
                                  "rope_scaling.rope_theta: 5e+05 (from file)");
    assert_true(s.rope_theta == 5e5);
    (void)parse(LLAMA ",\"rope_parameters\":{\"rope_theta\":1e6,\"rope_type\":\"default\",\"factor\":1.0}}", NULL);
    refuses(LLAMA ",\"rope_theta\":1,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4,\"rope_theta\":2}}", EMBER_E_FORMAT, "differ");
    refuses(LLAMA ",\"rope_parameters\":{\"rope_theta\":1e6,\"factor\":8}}", EMBER_E_FORMAT, "factor is there");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"default\",\"factor\":8}}", EMBER_E_FORMAT, "factor is there");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":8,\"low_freq_factor\":1}}", EMBER_E_FORMAT,
            "low_freq_factor is there");
    refuses(LLAMA ",\"rope_scaling\":7}", EMBER_E_FORMAT, "rope_scaling");
    refuses(LLAMA ",\"rope_theta\":1,\"rope_parameters\":{\"rope_theta\":2}}", EMBER_E_FORMAT, "differ");
    refuses(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_theta\":2}}", EMBER_E_FORMAT, "both");
}

static void test_refusals(void **state) {
    (void)state;
    refuses("{" SIZES "}", EMBER_E_NOT_FOUND, "model_type");
    refuses("{\"model_type\":\"gpt2\"," SIZES "}", EMBER_E_UNSUPPORTED, "llama and qwen2");
    refuses("{\"model_type\":\"llama\",\"hidden_size\":64}", EMBER_E_NOT_FOUND, "vocab_size");
    refuses("{\"model_type\":\"llama\",\"vocab_size\":64}", EMBER_E_NOT_FOUND, "hidden_size");
    refuses(LLAMA ",\"quantization_config\":{}}", EMBER_E_UNSUPPORTED, "quantization_config");
    refuses(LLAMA ",\"some_new_key\":1}", EMBER_E_UNSUPPORTED, "some_new_key");
    refuses(LLAMA ",\"hidden_act\":\"gelu\"}", EMBER_E_UNSUPPORTED, "gelu");
    refuses(LLAMA ",\"hidden_act\":3}", EMBER_E_FORMAT, "hidden_act");
    refuses(LLAMA ",\"mlp_bias\":true}", EMBER_E_UNSUPPORTED, "mlp_bias");
    refuses(LLAMA ",\"attention_bias\":true}", EMBER_E_UNSUPPORTED, "o_proj");
    refuses(LLAMA ",\"attention_bias\":1}", EMBER_E_FORMAT, "attention_bias");
    refuses(LLAMA ",\"sliding_window\":4096}", EMBER_E_UNSUPPORTED, "sliding_window");
    refuses(QWEN ",\"use_sliding_window\":true}", EMBER_E_UNSUPPORTED, "sliding_window");
    refuses(QWEN ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}", EMBER_E_UNSUPPORTED, "sliding_attention");
    refuses(LLAMA ",\"layer_types\":\"sliding_attention\"}", EMBER_E_FORMAT, "layer_types");
    refuses(LLAMA ",\"architectures\":\"MistralForCausalLM\"}", EMBER_E_FORMAT, "architectures");
    refuses(LLAMA ",\"partial_rotary_factor\":0.5}", EMBER_E_UNSUPPORTED, "partial_rotary_factor");
    refuses(LLAMA ",\"architectures\":[\"LlamaForSequenceClassification\"]}", EMBER_E_UNSUPPORTED, "LlamaForSequenceClassification");
    refuses(LLAMA ",\"num_key_value_heads\":3}", EMBER_E_UNSUPPORTED, "num_key_value_heads");
    refuses(LLAMA ",\"num_key_value_heads\":0}", EMBER_E_FORMAT, "num_key_value_heads");
    refuses(LLAMA ",\"head_dim\":7}", EMBER_E_UNSUPPORTED, "head_dim");
    refuses(LLAMA ",\"rms_norm_eps\":\"x\"}", EMBER_E_FORMAT, "rms_norm_eps");
    refuses(LLAMA ",\"max_position_embeddings\":1.5}", EMBER_E_FORMAT, "max_position_embeddings");
    refuses(LLAMA ",\"eos_token_id\":512}", EMBER_E_UNSUPPORTED, "eos_token_id");
    refuses(LLAMA ",\"eos_token_id\":\"2\"}", EMBER_E_FORMAT, "eos_token_id");
    refuses(LLAMA ",\"hidden_size\":64}", EMBER_E_FORMAT, "duplicate");
    refuses(LLAMA, EMBER_E_FORMAT, "JSON");
    refuses("[]", EMBER_E_FORMAT, "object");
    refuses("{\"model_type\":\"llama\",\"hidden_size\":65,\"intermediate_size\":1,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
            "\"vocab_size\":2}",
            EMBER_E_FORMAT, "head_dim");
    refuses("{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":65537,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
            "\"vocab_size\":2}",
            EMBER_E_UNSUPPORTED, "65536");
}

static void test_generation_config(void **state) {
    (void)state;
    ember_hparams h = parse(LLAMA ",\"eos_token_id\":7,\"bos_token_id\":null}", NULL);
    const char *json = "{\"eos_token_id\":[9,7,11],\"bos_token_id\":3,\"temperature\":0.6}";
    check_ok(hf_merge_generation_config(&h, json, strlen(json), "generation_config.json"));
    assert_true(h.n_eos == 3 && h.eos_token_ids[0] == 7 && h.eos_token_ids[1] == 9 && h.eos_token_ids[2] == 11 && h.bos_token_id == 3);
    const char *bad = "{\"eos_token_id\":600}";
    check_fails(hf_merge_generation_config(&h, bad, strlen(bad), "generation_config.json"), EMBER_E_FORMAT, "eos_token_id");
}

static void test_vocabulary(void **state) {
    (void)state;
    const char *json = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1}},\"added_tokens\":[{\"id\":2,\"content\":\"<end>\"}]}";
    check_ok(hf_check_vocabulary(json, strlen(json), 3, "tokenizer.json"));
    check_ok(hf_check_vocabulary(json, strlen(json), 300, "tokenizer.json"));
    check_fails(hf_check_vocabulary(json, strlen(json), 2, "tokenizer.json"), EMBER_E_FORMAT, "\"<end>\" has id 2");
    check_fails(hf_check_vocabulary(json, strlen(json), 1, "tokenizer.json"), EMBER_E_FORMAT, "\"b\" has id 1");
    check_fails(hf_check_vocabulary("{", 1, 1, "tokenizer.json"), EMBER_E_FORMAT, "JSON");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_generation_config),
        cmocka_unit_test(test_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
