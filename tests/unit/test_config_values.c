/* rooms: config base */
/* The resolved form reads back as the same settings, every key has an effect, and the printed page is the shipped one. */
#include "lib/config/config.h"
#include "lib/config/schema.h"
#include "tests/check.h"

#define BASE                                                                                                           \
    "model: {vocab_size: 300, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2}\n" \
    "data: {train: [a.h5, b.h5], valid: v.h5}\ntrain: {steps: 10}\n"

static ember_config *parsed(const char *text, const char *name, const char *const *sets, int n_sets) {
    ember_config *config = NULL;
    check_ok(ember_config_parse(&config, text, strlen(text), name, sets, n_sets));
    return config;
}

/* to_yaml, parsed under another name, is the same in every key and prints the same bytes. */
static void check_round_trip(const ember_config *config) {
    ember_bytes yaml = {0};
    ember_bytes again = {0};
    ember_bytes difference = {0};
    check_ok(ember_config_to_yaml(config, &yaml));
    ember_config *copy = parsed(yaml.data, "checkpoint.h5", NULL, 0);
    check_ok(ember_config_diff(config, copy, &difference));
    assert_string_equal(difference.data, "");
    check_ok(ember_config_to_yaml(copy, &again));
    assert_string_equal(yaml.data, again.data);
    ember_config_free(copy);
    ember_bytes_free(&yaml);
    ember_bytes_free(&again);
    ember_bytes_free(&difference);
}

/* A good value for every key that is not its default, and what else must be set for it. */
static const struct perturbation {
    const char *set;
    const char *with;
} perturbations[] = {
    {"run.name=other", NULL},
    {"run.output=elsewhere", NULL},
    {"run.seed=18446744073709551615", NULL},
    {"run.device=cpu", NULL},
    {"run.threads=3", NULL},
    {"model.vocab_size=400", NULL},
    {"model.hidden_size=32", NULL},
    {"model.intermediate_size=25", NULL},
    {"model.neurons_per_layer=[24, 7]", NULL},
    {"model.num_hidden_layers=3", NULL},
    {"model.num_attention_heads=4", NULL},
    {"model.num_key_value_heads=1", NULL},
    {"model.head_dim=6", NULL},
    {"model.max_position_embeddings=512", NULL},
    {"model.rms_norm_eps=1e-6", NULL},
    {"model.rope_theta=1e5", NULL},
    {"model.tie_word_embeddings=true", NULL},
    {"model.qkv_bias=true", NULL},
    {"model.qk_norm=true", NULL},
    {"model.rope_scaling.type=linear", NULL},
    {"model.rope_scaling.factor=4", "model.rope_scaling.type=linear"},
    {"model.rope_scaling.low_freq_factor=2", "model.rope_scaling.type=llama3"},
    {"model.rope_scaling.high_freq_factor=8", "model.rope_scaling.type=llama3"},
    {"model.rope_scaling.original_max_position_embeddings=4096", "model.rope_scaling.type=llama3"},
    {"data.train=c.h5", NULL},
    {"data.weights=[0.3, 0.7]", NULL},
    {"data.valid=w.h5", NULL},
    {"data.mask_documents=true", NULL},
    {"data.shuffle=false", NULL},
    {"data.verify=false", NULL},
    {"data.zipf_exponent=1.5", "data.train=synthetic"},
    {"train.steps=11", NULL},
    {"train.stop_after=5", NULL},
    {"train.batch_size=8", NULL},
    {"train.micro_batch_size=4", NULL},
    {"train.sequence_length=128", NULL},
    {"train.lr=0.1", NULL},
    {"train.schedule=linear", NULL},
    {"train.warmup_steps=2", NULL},
    {"train.decay_steps=3", "train.schedule=wsd"},
    {"train.final_lr_fraction=0", NULL},
    {"train.beta1=0.8", NULL},
    {"train.beta2=0.99", NULL},
    {"train.eps=1e-6", NULL},
    {"train.weight_decay=0", NULL},
    {"train.clip=0", NULL},
    {"sparsity.l1=[1e-4, 0]", NULL},
    {"sparsity.l1_start_step=3", "sparsity.l1=1e-4"},
    {"sparsity.l1_warmup_steps=3", "sparsity.l1=1e-4"},
    {"sparsity.target=0.05", "sparsity.l1=1e-4"},
    {"sparsity.target_rate=0.1", "sparsity.target=0.05"},
    {"sparsity.dead_after_tokens=5", NULL},
    {"sparsity.window_tokens=5", NULL},
    {"sparsity.revive_every=2", NULL},
    {"ffn.kind=plain", NULL},
    {"ffn.activation=relu2", NULL},
    {"ffn.mode=twell", NULL},
    {"ffn.compression=16", NULL},
    {"ffn.costs=my costs.json", NULL},
    {"checkpoint.every=5", NULL},
    {"checkpoint.keep_last=7", NULL},
    {"checkpoint.keep_best=false", NULL},
    {"eval.every=5", NULL},
    {"eval.sequences=5", NULL},
    {"init.std=0.5", NULL},
    {"init.residual_scaling=false", NULL},
    {"init.from=old.h5", NULL},
    {"log.every=1", NULL},
};
enum { N_PERTURBATIONS = (int)(sizeof perturbations / sizeof perturbations[0]) };

/* The list above has every key once, and its value arrives in the settings, in the diff and in the resolved form. */
static void every_key_arrives(void **state) {
    (void)state;
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    assert_int_equal(n, N_PERTURBATIONS);
    for (int row = 0; row < n; row++) {
        const struct perturbation *p = &perturbations[row];
        const size_t length = strlen(rows[row].key);
        assert_true(strncmp(p->set, rows[row].key, length) == 0 && p->set[length] == '=');
        const char *sets[3];
        int n_with = 0;
        if (p->with) sets[n_with++] = p->with;
        if (strstr(p->set, "target_rate")) sets[n_with++] = "sparsity.l1=1e-4"; /* which the target steers */
        sets[n_with] = p->set;
        const bool with_wsd = strstr(p->set, "decay_steps") != NULL;
        ember_config *before =
            parsed(BASE, "c.yaml", with_wsd ? (const char *[]){"train.schedule=wsd", "train.decay_steps=2"} : sets, with_wsd ? 2 : n_with);
        ember_config *after = parsed(BASE, "c.yaml", sets, n_with + 1);
        ember_bytes difference = {0};
        check_ok(ember_config_diff(before, after, &difference));
        char line[128];
        (void)snprintf(line, sizeof line, "%s: ", rows[row].key);
        if (!strstr(difference.data ? difference.data : "", line)) fail_msg("%s: the difference is \"%s\"", p->set, difference.data);
        check_round_trip(after);
        ember_bytes_free(&difference);
        ember_config_free(before);
        ember_config_free(after);
    }
}

/* Rows and fields cover each other: between two fields there is at most padding. */
static void every_field_has_a_row(void **state) {
    (void)state;
    static unsigned char covered[sizeof(ember_settings)];
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    for (int row = 0; row < n; row++) {
        static const size_t bytes[] = {
            [EMBER_KEY_BOOL] = sizeof(bool),
            [EMBER_KEY_INT] = 8,
            [EMBER_KEY_UINT64] = 8,
            [EMBER_KEY_REAL] = 8,
            [EMBER_KEY_ENUM] = sizeof(int),
            [EMBER_KEY_TEXT] = sizeof(char *),
            [EMBER_KEY_TEXTS] = sizeof(ember_text_list),
            [EMBER_KEY_NUMBERS] = sizeof(ember_number_list),
            [EMBER_KEY_INTS] = sizeof(ember_number_list),
        };
        for (size_t i = 0; i < bytes[rows[row].type]; i++) {
            assert_int_equal(covered[rows[row].offset + i], 0);
            covered[rows[row].offset + i] = 1;
        }
    }
    size_t gap = 0;
    for (size_t i = 0; i < sizeof covered; i++) {
        gap = covered[i] ? 0 : gap + 1;
        assert_true(gap < 8);
    }
}

static void combinations_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *sets[3];
        const char *key;
        const char *why;
    } cases[] = {
        {{"train.batch_size=8", "train.micro_batch_size=3"}, "train.micro_batch_size is 3", "divide train.batch_size (8)"},
        {{"train.warmup_steps=11"}, "train.warmup_steps is 11", "train.steps (10)"},
        {{"train.stop_after=11"}, "train.stop_after is 11", "train.steps (10)"},
        {{"train.schedule=wsd"}, "train.decay_steps is 0", "1 to steps - warmup_steps (10)"},
        {{"train.schedule=wsd", "train.decay_steps=6", "train.warmup_steps=5"}, "train.decay_steps is 6", "(5)"},
        {{"sparsity.l1=[1, 2, 3]"}, "sparsity.l1 has 3 values", "2 layers"},
        {{"sparsity.l1=1", "sparsity.l1_start_step=10"}, "sparsity.l1_start_step is 10", "train.steps (10)"},
        {{"sparsity.target=0.1", "ffn.activation=silu"}, "sparsity.target", "relu or relu2"},
        {{"sparsity.target=0.1"}, "sparsity.target is 0.1", "sparsity.l1 is 0"},
        {{"sparsity.target=0.1", "sparsity.l1=[0, 0]"}, "sparsity.target is 0.1", "sparsity.l1 is 0"},
        {{"sparsity.revive_every=2", "ffn.activation=silu"}, "sparsity.revive_every", "relu or relu2"},
        {{"ffn.mode=twell", "ffn.activation=silu"}, "ffn.mode is twell", "dense or auto"},
        {{"ffn.compression=3"}, "ffn.compression is 3", "2, 4, 8 or 16"},
        {{"model.neurons_per_layer=[1, 2, 3]"}, "model.neurons_per_layer has 3 values", "2 layers"},
        {{"model.neurons_per_layer=[1, 2]"}, "model.intermediate_size is 24", "is 2"},
        {{"model.hidden_size=15"}, "model.num_attention_heads is 2", "hidden_size 15"},
        {{"model.hidden_size=6"}, "model.num_attention_heads is 2", "even"},
        {{"model.head_dim=7"}, "model.head_dim is 7", "even"},
        {{"model.num_attention_heads=4", "model.num_key_value_heads=3"}, "model.num_key_value_heads is 3", "divide"},
        {{"model.max_position_embeddings=8"}, "train.sequence_length is 256", "(8)"},
        {{"model.rope_scaling.type=llama3", "model.rope_scaling.high_freq_factor=1"}, "model.rope_scaling.high_freq_factor", "above"},
        {{"data.train=[synthetic, a.h5]"}, "data.train has the word synthetic", "alone"},
        {{"data.train=synthetic", "model.vocab_size=0"}, "model.vocab_size is 0", "synthetic"},
        {{"data.valid=synthetic"}, "data.valid is synthetic", "shards"},
        {{"data.weights=[1]"}, "data.weights has 1 values", "2 entries"},
        {{"run.name=a/b"}, "run.name is \"a/b\"", "no slash"},
        {{"run.name=.."}, "run.name is \"..\"", "not . or .."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int n = 0;
        while (n < 3 && cases[i].sets[n])
            n++;
        ember_config *config = NULL;
        check_fails(ember_config_parse(&config, BASE, strlen(BASE), "c.yaml", cases[i].sets, n), EMBER_E_CONFIG, cases[i].key);
        if (!strstr(ember_last_error(), cases[i].why)) fail_msg("\"%s\" does not say \"%s\"", ember_last_error(), cases[i].why);
    }
    /* silu under auto is dense, and that is fine. */
    const char *silu[] = {"ffn.activation=silu"};
    ember_config_free(parsed(BASE, "c.yaml", silu, 1));
}

/* A value that the other keys switch off would do nothing. */
static void keys_without_effect(void **state) {
    (void)state;
    static const char *const given[] = {
        "model.rope_scaling.factor=2",
        "model.rope_scaling.low_freq_factor=2",
        "model.rope_scaling.original_max_position_embeddings=7",
        "data.zipf_exponent=2",
        "train.decay_steps=3",
        "sparsity.l1_start_step=3",
        "sparsity.l1_warmup_steps=3",
        "sparsity.target_rate=0.5",
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        ember_config *config = NULL;
        check_fails(ember_config_parse(&config, BASE, strlen(BASE), "c.yaml", &given[i], 1), EMBER_E_CONFIG, "has no effect because");
    }
    static const char *const pairs[][2] = {
        {"ffn.mode=dense", "ffn.compression=4"},
        {"ffn.mode=twell", "ffn.costs=a.json"},
        {"data.train=a.h5", "data.weights=[2]"},
        {"data.valid=[]", "eval.every=3"},
        {"data.valid=[]", "eval.sequences=3"},
        {"data.valid=[]", "checkpoint.keep_best=false"},
        {"init.from=a.h5", "init.std=0.1"},
        {"init.from=a.h5", "init.residual_scaling=false"},
        {"train.schedule=constant", "train.final_lr_fraction=0.5"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        ember_config *config = NULL;
        check_fails(ember_config_parse(&config, BASE, strlen(BASE), "c.yaml", pairs[i], 2), EMBER_E_CONFIG, "has no effect because");
    }
    static const char in_file[] = BASE "sparsity:\n  l1: 0\n  l1_warmup_steps: 4\n";
    ember_config *config = NULL;
    check_fails(ember_config_parse(&config, in_file, strlen(in_file), "c.yaml", NULL, 0), EMBER_E_CONFIG,
                "c.yaml:6: sparsity.l1_warmup_steps");
    /* What a --set switches off in a file goes back to its default: the twin of a run needs one --set. */
    static const char twin[] = BASE "sparsity:\n  l1: 0.001\n  l1_warmup_steps: 4\n";
    static const char *const off[] = {"sparsity.l1=0"};
    ember_config *plain = parsed(twin, "c.yaml", off, 1);
    assert_int_equal(ember_config_settings(plain)->sparsity.l1_warmup_steps, 0);
    check_round_trip(plain);
    ember_config_free(plain);
}

static void weird_texts_survive(void **state) {
    (void)state;
    static const char *const texts[] = {
        "a b",
        " leading and trailing ",
        "it's \"quoted\"",
        "back\\slash\\n",
        "line\nbreak\r\n\ttab",
        "\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x94\xa5",
        "# no comment",
        "a: b",
        "- x",
        "[1, 2]x",
        "{a}",
        "*star",
        "&and",
        "!bang",
        "%percent",
        "@at",
        "`tick`",
        "null",
        "true",
        "1e3",
        "~x",
        "\x01\x1f\x7f",
        "\xc2\x85next\xe2\x80\xa8line\xe2\x80\xa9",
        "\xef\xbb\xbfmark\xef\xbf\xbe\xef\xbf\xbf",
        "--- x",
        "...",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char set[256];
        (void)snprintf(set, sizeof set, "run.output=%s", texts[i]);
        char from[256];
        (void)snprintf(from, sizeof from, "data.valid=%s", texts[i]);
        const char *sets[] = {set, strcmp(texts[i], "[1, 2]x") == 0 ? set : from};
        if (strcmp(texts[i], "null") == 0) {
            ember_config *config = NULL;
            check_fails(ember_config_parse(&config, BASE, strlen(BASE), "c.yaml", sets, 1), EMBER_E_CONFIG, "run.output has no value");
            continue;
        }
        ember_config *config = parsed(BASE, "c.yaml", sets, 2);
        assert_string_equal(ember_config_settings(config)->run.output, texts[i]);
        check_round_trip(config);
        ember_config_free(config);
    }
    /* The name of a file may be any bytes; what a config cannot hold becomes '_'. */
    ember_config *config = parsed(BASE, "dir/r\xffn \xc3\xa4.yaml", NULL, 0);
    assert_string_equal(ember_config_settings(config)->run.name, "r_n \xc3\xa4");
    check_round_trip(config);
    ember_config_free(config);
}

static void reals_survive(void **state) {
    (void)state;
    static const char *const values[] = {"0.1", "1e-300", "5e-324", "0.30000000000000004", "9.999999999999999", "3", "1E-2", "1e+0", "-0"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char set[64];
        (void)snprintf(set, sizeof set, "train.lr=%s", values[i]);
        const char *sets[] = {set};
        ember_config *config = parsed(BASE, "c.yaml", sets, 1);
        assert_true(ember_config_settings(config)->train.lr == strtod(values[i], NULL));
        check_round_trip(config);
        ember_config_free(config);
    }
}

static void origins_are_told(void **state) {
    (void)state;
    static const char *const sets[] = {"train.lr=0.5"};
    ember_config *config = parsed(BASE, "dir/c.yaml", sets, 1);
    ember_bytes text = {0};
    check_ok(ember_config_describe(config, &text));
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    int lines = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), lines++) {
        assert_true(strncmp(line, rows[lines].key, strlen(rows[lines].key)) == 0);
        assert_non_null(strstr(line, "read by "));
        if (strncmp(line, "train.lr ", 9) == 0) assert_non_null(strstr(line, "from --set"));
        if (strncmp(line, "train.lr ", 9) == 0) assert_non_null(strstr(line, "0.5"));
        if (strncmp(line, "train.steps ", 12) == 0) assert_non_null(strstr(line, "from dir/c.yaml:3"));
        if (strncmp(line, "train.clip ", 11) == 0) assert_non_null(strstr(line, "from default"));
    }
    assert_int_equal(lines, n);
    ember_bytes_free(&text);
    ember_config_free(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_arrives),   cmocka_unit_test(every_field_has_a_row), cmocka_unit_test(combinations_are_checked),
        cmocka_unit_test(keys_without_effect), cmocka_unit_test(weird_texts_survive),   cmocka_unit_test(reals_survive),
        cmocka_unit_test(origins_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
