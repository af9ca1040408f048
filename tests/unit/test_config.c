/* rooms: config base */
/* What a config file may say, what it may not, and how every refusal names file, line, key and limit. */
#include "lib/config/config.h"
#include "lib/config/schema.h"
#include "tests/check.h"

#define REQUIRED_MODEL "model: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2}\n"
#define REQUIRED REQUIRED_MODEL "data: {train: a.h5}\ntrain: {steps: 10}\n"

/* Everything that has no default, for files that hold only the key under test. */
static const char *const required_sets[] = {"model.hidden_size=16",      "model.intermediate_size=24",
                                            "model.num_hidden_layers=2", "model.num_attention_heads=2",
                                            "data.train=a.h5",           "train.steps=10"};
enum { N_REQUIRED_SETS = (int)(sizeof required_sets / sizeof required_sets[0]) };

static ember_status parse(const char *text) {
    ember_config *config = NULL;
    const ember_status status = ember_config_parse(&config, text, strlen(text), "c.yaml", NULL, 0);
    if (status != EMBER_OK) assert_null(config);
    ember_config_free(config);
    return status;
}

static ember_status parse_set(const char *set) {
    ember_config *config = NULL;
    const ember_status status = ember_config_parse(&config, REQUIRED, strlen(REQUIRED), "c.yaml", &set, 1);
    ember_config_free(config);
    return status;
}

/* The text must be refused with a message that holds every part. */
static void refused(const char *text, const char *part, const char *second) {
    check_fails(parse(text), EMBER_E_CONFIG, part);
    if (second) check_fails(parse(text), EMBER_E_CONFIG, second);
}

static void defaults_are_filled(void **state) {
    (void)state;
    ember_config *config = NULL;
    check_ok(ember_config_parse(&config, REQUIRED, strlen(REQUIRED), "some/folder/my.run.yaml", NULL, 0));
    const ember_settings *s = ember_config_settings(config);
    assert_string_equal(s->run.name, "my.run");
    assert_string_equal(s->run.output, "runs/my.run");
    assert_true(s->run.seed == 0);
    assert_int_equal(s->model.hidden_size, 16);
    assert_int_equal(s->data.train.n, 1);
    assert_string_equal(s->data.train.item[0], "a.h5");
    assert_int_equal(s->train.schedule, EMBER_SCHEDULE_COSINE);
    assert_true(s->train.lr == 0.001);
    assert_int_equal(s->sparsity.l1.n, 1);
    assert_true(s->sparsity.l1.item[0] == 0);
    assert_int_equal(s->ffn.mode, EMBER_FFN_AUTO);
    assert_int_equal(s->ffn.compression, 8);
    assert_string_equal(s->init.from, "");
    assert_true(s->data.shuffle);
    ember_config_free(config);
}

static void yaml_beyond_a_config(void **state) {
    (void)state;
    refused(REQUIRED "---\nrun: {seed: 1}\n", "c.yaml:4", "second document");
    refused("run: {seed: &a 1}\n", "c.yaml:1", "anchor &a");
    refused("run: &a {seed: 1}\n", "anchor &a", NULL);
    refused("run: {seed: *a}\n", "alias *a", NULL);
    refused("run: {seed: !!int 1}\n", "tag", "int");
    refused("run: {seed: ! 1}\n", "tag", NULL);
    refused("%TAG !e! tag:e,2000:\n---\nrun: {seed: 1}\n", "%TAG", NULL);
    refused("train:\n  <<: {lr: 1}\n", "c.yaml:2", "merge key");
    refused("? [a, b]\n: 1\n", "a key must be a plain word", NULL);
    refused("- run\n- train\n", "not a list", NULL);
    refused("hello\n", "not a single value", NULL);
    refused("train: {lr: 0.1\n", "not valid YAML", "c.yaml:");
    refused("train:\n\tlr: 0.1\n", "not valid YAML", "c.yaml:2");
    refused("train.lr: 0.1\n", "train.lr", "inside its section");
    refused("model:\n  rope_scaling:\n    type:\n      deep:\n        deeper: 1\n", "model.rope_scaling.type", NULL);
    refused("a: {b: {c: {d: {e: 1}}}}\n", "unknown section a", NULL);
}

static void text_that_is_no_text(void **state) {
    (void)state;
    refused(REQUIRED "run: {name: \"\xff\xfe\"}\n", "UTF-8", "c.yaml:4");
    refused("run: {name: \"\xed\xa0\x80\"}\n", "UTF-8", NULL);       /* a surrogate */
    refused("run: {name: \"\xc0\xaf\"}\n", "UTF-8", NULL);           /* overlong */
    refused("run: {name: \"a\\0b\"}\n", "NUL", "c.yaml:1");          /* an escaped NUL */
    refused("# \x01\nrun: {name: a}\n", "control characters", NULL); /* even in a comment */
    static const char nul[] = "run:\n  seed: 1\0\n";
    ember_config *config = NULL;
    check_fails(ember_config_parse(&config, nul, sizeof nul - 1, "c.yaml", NULL, 0), EMBER_E_CONFIG, "c.yaml:2");
    static const char utf16[] = "\xff\xfer\0u\0n\0";
    check_fails(ember_config_parse(&config, utf16, sizeof utf16 - 1, "c.yaml", NULL, 0), EMBER_E_CONFIG, "UTF-8");
    /* A byte order mark and Windows line ends are only packaging. */
    check_ok(parse("\xef\xbb\xbfmodel: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2}\r\n"
                   "data: {train: a.h5}\r\ntrain: {steps: 10}\r\n"));
}

static void sizes_are_bounded(void **state) {
    (void)state;
    const size_t n = (1u << 20) + 1;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, '#', n);
    text[n] = '\0';
    refused(text, "at most 1048576", "1048577");
    memset(text, '[', n);
    text[n - 1] = '\0';
    check_fails(parse(text), EMBER_E_CONFIG, "c.yaml");
    memcpy(text, "run: {seed: ", 12);
    memset(text + 12, '[', n - 13);
    refused(text, "run.seed", NULL);
    memset(text, 'x', n);
    memcpy(text, "run: {name: ", 12);
    memcpy(text + 100000, "}\n", 3);
    refused(text, "run.name", "4096");
    /* More items than a list holds. */
    size_t at = (size_t)sprintf(text, "data: {train: [");
    for (int i = 0; i < 70; i++)
        at += (size_t)sprintf(text + at, "a,");
    (void)sprintf(text + at, "]}\n");
    refused(text, "data.train", "64");
    at = (size_t)sprintf(text, "sparsity: {l1: [");
    for (int i = 0; i < 600; i++)
        at += (size_t)sprintf(text + at, "0,");
    (void)sprintf(text + at, "]}\n");
    refused(text, "sparsity.l1", "512");
    free(text);
}

static void names_are_known(void **state) {
    (void)state;
    refused(REQUIRED "eval: {evry: 3}\n", "c.yaml:4: unknown key eval.evry", "nearest known one is eval.every");
    refused("trian: {lr: 0.1}\n", "unknown section trian", "nearest known one is train (");
    refused("optimizer:\n  lr: 0.1\n", "unknown section optimizer", NULL);
    check_fails(parse_set("optimizer.weight_decay=0.1"), EMBER_E_CONFIG, "train.weight_decay");
    check_fails(parse_set("train.batchsize=4"), EMBER_E_CONFIG, "train.batch_size");
    refused("train: 5\n", "train is a section", NULL);
    refused("train:\n", "train is a section", NULL);
    refused("train: [1, 2]\n", "train is a section", NULL);
    refused("train:\n  lr:\n    peak: 1\n", "c.yaml:2", "train.lr is a mapping");
    refused("run:\n  seed: 1\nrun:\n  name: a\n", "c.yaml:3", "run is given twice, first in line 1");
    refused("run:\n  seed: 1\n  name: a\n  seed: 1\n", "c.yaml:4", "run.seed is given twice, first in line 2");
    refused("", "model.hidden_size is missing", "c.yaml");
    refused("# nothing\n", "model.hidden_size is missing", NULL);
    refused(REQUIRED_MODEL "train: {steps: 10}\n", "data.train is missing", NULL);
    refused("model: {hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2}\ndata: {train: a.h5}\ntrain: {steps: 10}\n",
            "model.intermediate_size is missing", NULL);
}

static void numbers_are_strict(void **state) {
    (void)state;
    static const char *const wrong_reals[] = {"3,5", ".5",      "5.",  "1.5abc",  "1e400", "inf",   ".inf", "nan", ".nan", "0x1p3", "+0.1",
                                              "1_0", "0.1 0.2", "ten", "\"0.1\"", "'0.1'", "[0.1]", "-0.1", "11",  "1e",   "~",     "\"\""};
    for (size_t i = 0; i < sizeof wrong_reals / sizeof wrong_reals[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "train:\n  lr: %s\n", wrong_reals[i]);
        refused(text, "c.yaml:2", "train.lr");
    }
    static const char *const wrong_integers[] = {"1e3",
                                                 "010",
                                                 "0x10",
                                                 "0o7",
                                                 "1.0",
                                                 "1.5",
                                                 "\"3\"",
                                                 "3k",
                                                 "1_000",
                                                 "9223372036854775808",
                                                 "-1",
                                                 "99999999999999999999",
                                                 "9007199254740993",
                                                 "[3]",
                                                 "null"};
    for (size_t i = 0; i < sizeof wrong_integers / sizeof wrong_integers[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "train:\n  stop_after: %s\n", wrong_integers[i]);
        refused(text, "c.yaml:2", "train.stop_after");
    }
    static const char *const wrong_bools[] = {"yes", "no", "on", "True", "FALSE", "1", "0", "\"true\"", "maybe", "[true]"};
    for (size_t i = 0; i < sizeof wrong_bools / sizeof wrong_bools[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "data:\n  shuffle: %s\n", wrong_bools[i]);
        refused(text, "c.yaml:2", "data.shuffle");
    }
    refused("train: {lr: \"0.1\"}\n", "without quotes", NULL);
    refused("train: {lr: 11}\n", "train.lr is 11", "0 to 10");
    refused("ffn: {activation: gelu}\n", "ffn.activation is gelu", "relu, relu2 or silu");
}

static uint64_t seed_of(const char *text) {
    char set[64];
    (void)snprintf(set, sizeof set, "run.seed=%s", text);
    const char *sets[] = {set};
    ember_config *config = NULL;
    check_ok(ember_config_parse(&config, REQUIRED, strlen(REQUIRED), "c.yaml", sets, 1));
    const uint64_t seed = ember_config_settings(config)->run.seed;
    ember_config_free(config);
    return seed;
}

static void seeds_have_64_bits(void **state) {
    (void)state;
    assert_true(seed_of("0") == 0);
    assert_true(seed_of("4294967297") == 4294967297u);
    assert_true(seed_of("1099511627777") == 1099511627777u);
    assert_true(seed_of("9007199254740993") == 9007199254740993u);
    assert_true(seed_of("18446744073709551615") == UINT64_MAX);
    static const char *const wrong[] = {"-1", "18446744073709551616", "1.5", "", "1e3", "0x1", "007", "\"1\""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char set[64];
        (void)snprintf(set, sizeof set, "run.seed=%s", wrong[i]);
        check_fails(parse_set(set), EMBER_E_CONFIG, "run.seed");
    }
}

/* Every row refuses, by name, each kind of value that is not its own. */
static void every_key_refuses_wrong_values(void **state) {
    (void)state;
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    for (int row = 0; row < n; row++) {
        const ember_schema_row *r = &rows[row];
        const bool number =
            r->type == EMBER_KEY_INT || r->type == EMBER_KEY_REAL || r->type == EMBER_KEY_INTS || r->type == EMBER_KEY_NUMBERS;
        const bool list = r->type == EMBER_KEY_TEXTS || r->type == EMBER_KEY_INTS || r->type == EMBER_KEY_NUMBERS;
        const bool text = r->type == EMBER_KEY_TEXT || r->type == EMBER_KEY_TEXTS;
        char below[40] = "";
        char above[40] = "";
        if (number && (r->type == EMBER_KEY_INT || r->type == EMBER_KEY_INTS)) {
            (void)snprintf(below, sizeof below, "%lld", (long long)r->low - 1);
            (void)snprintf(above, sizeof above, "%lld", (long long)r->high + 1);
        } else if (number) {
            (void)snprintf(below, sizeof below, "%g", r->above_low ? r->low : r->low - 1);
            (void)snprintf(above, sizeof above, "%g", r->below_high ? r->high : r->high * 2);
        }
        const char *const wrong[] = {
            "",
            "null",
            "{a: 1}",
            "[[1]]",
            list ? "[null]" : "[1]",
            text ? "~" : "word",
            text ? "" : "\"7\"",
            number ? below : "",
            number ? above : "",
        };
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            char yaml[256];
            char key[128];
            (void)snprintf(key, sizeof key, "%s", r->key);
            int depth = 0;
            size_t at = 0;
            for (char *part = strtok(key, "."); part; part = strtok(NULL, ".")) {
                at += (size_t)snprintf(yaml + at, sizeof yaml - at, "%s%*s%s:", depth ? "\n" : "", 2 * depth, "", part);
                depth++;
            }
            (void)snprintf(yaml + at, sizeof yaml - at, " %s\n", wrong[i]);
            char where[16];
            (void)snprintf(where, sizeof where, "c.yaml:%d", depth);
            ember_config *config = NULL;
            check_fails(ember_config_parse(&config, yaml, strlen(yaml), "c.yaml", required_sets, N_REQUIRED_SETS), EMBER_E_CONFIG, r->key);
            if (!strstr(ember_last_error(), where)) fail_msg("%s: %s does not name %s", yaml, ember_last_error(), where);
        }
    }
}

static void sets_follow_the_file(void **state) {
    (void)state;
    ember_config *config = NULL;
    static const char *const sets[] = {
        "train.lr=0.5",       "train.lr=0.25",      "sparsity.l1=[1e-4, 2e-4]", "data.train=[\"b c.h5\", d.h5]",
        "run.output=a: b #c", "data.valid=x, y.h5", "run.name=\"quoted\""};
    check_ok(ember_config_parse(&config, REQUIRED, strlen(REQUIRED), "c.yaml", sets, 7));
    const ember_settings *s = ember_config_settings(config);
    assert_true(s->train.lr == 0.25);
    assert_int_equal(s->sparsity.l1.n, 2);
    assert_true(s->sparsity.l1.item[1] == 2e-4);
    assert_int_equal(s->data.train.n, 2);
    assert_string_equal(s->data.train.item[0], "b c.h5");
    assert_string_equal(s->run.output, "a: b #c");
    assert_int_equal(s->data.valid.n, 1);
    assert_string_equal(s->data.valid.item[0], "x, y.h5");
    assert_string_equal(s->run.name, "quoted");
    ember_config_free(config);
    check_fails(parse_set("train.lr"), EMBER_E_CONFIG, "section.key=value");
    check_fails(parse_set("=1"), EMBER_E_CONFIG, "section.key=value");
    check_fails(parse_set(""), EMBER_E_CONFIG, "section.key=value");
    check_fails(parse_set("train.lr="), EMBER_E_CONFIG, "--set train.lr=: train.lr has no value");
    check_fails(parse_set("run.name="), EMBER_E_CONFIG, "run.name has no value");
    check_fails(parse_set("train.lr=fast"), EMBER_E_CONFIG, "--set train.lr=fast: train.lr is fast");
    check_fails(parse_set("train={lr: 1}"), EMBER_E_CONFIG, "train is a section");
    check_fails(parse_set("train.lr={a: 1}"), EMBER_E_CONFIG, "mapping");
    check_fails(parse_set("train.lr=0.1\n---\n0.2"), EMBER_E_CONFIG, "second document");
    check_fails(parse_set("sparsity.l1=1e-4,2e-4"), EMBER_E_CONFIG, "sparsity.l1");
    check_fails(parse_set("run.output=\xff"), EMBER_E_CONFIG, "UTF-8");
    check_fails(parse_set("run.output=\"unfinished"), EMBER_E_CONFIG, "not valid YAML");
}

static void files_are_read(void **state) {
    (void)state;
    ember_config *config = NULL;
    check_fails(ember_config_load(&config, "no-such-file.yaml", NULL, 0), EMBER_E_NOT_FOUND, "no-such-file.yaml");
    check_fails(ember_config_load(&config, ".", NULL, 0), EMBER_E_IO, ".");
    assert_null(config);
    /* Blanks, quotes, a newline and letters beyond ASCII in the path (A5.4). */
    static const char path[] = "config \"a'b\nc\xc3\xa4.yaml";
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(REQUIRED, file) >= 0);
    assert_int_equal(fclose(file), 0);
    check_ok(ember_config_load(&config, path, NULL, 0));
    assert_string_equal(ember_config_settings(config)->run.name, "config \"a'b\nc\xc3\xa4");
    ember_config_free(config);
    static const char *const bad[] = {"train.lr=x"};
    check_fails(ember_config_load(&config, path, bad, 1), EMBER_E_CONFIG, "train.lr");
    assert_int_equal(remove(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_filled),  cmocka_unit_test(yaml_beyond_a_config),
        cmocka_unit_test(text_that_is_no_text), cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(names_are_known),      cmocka_unit_test(numbers_are_strict),
        cmocka_unit_test(seeds_have_64_bits),   cmocka_unit_test(every_key_refuses_wrong_values),
        cmocka_unit_test(sets_follow_the_file), cmocka_unit_test(files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
