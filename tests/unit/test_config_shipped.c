/* rooms: config base */
/* Every config in configs/ parses, survives its resolved form, and describes a model; the page beside them is the table. */
#include <dirent.h>

#include "lib/config/config.h"
#include "tests/check.h"

static void resolved_is_the_same(const ember_config *config) {
    ember_bytes yaml = {0};
    ember_bytes difference = {0};
    check_ok(ember_config_to_yaml(config, &yaml));
    ember_config *copy = NULL;
    check_ok(ember_config_parse(&copy, yaml.data, yaml.n, "resolved", NULL, 0));
    check_ok(ember_config_diff(config, copy, &difference));
    assert_string_equal(difference.data, "");
    ember_config_free(copy);
    ember_bytes_free(&yaml);
    ember_bytes_free(&difference);
}

static bool is_yaml(const char *name) {
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".yaml") == 0;
}

static void every_config(void **state) {
    (void)state;
    ember_bytes page = {0};
    check_ok(ember_config_markdown(&page));
    DIR *folder = opendir(SOURCE_FOLDER "/configs");
    assert_non_null(folder);
    int n_configs = 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (!is_yaml(entry->d_name)) continue;
        char path[4096];
        (void)snprintf(path, sizeof path, SOURCE_FOLDER "/configs/%s", entry->d_name);
        ember_config *config = NULL;
        check_ok(ember_config_load(&config, path, NULL, 0));
        resolved_is_the_same(config);
        ember_hparams hparams;
        check_ok(ember_config_hparams(config, ember_config_settings(config)->model.vocab_size ? 0 : 257, &hparams));
        assert_true(ember_hparams_n_elements(&hparams) > 0);
        /* The page names each. */
        char mention[300];
        (void)snprintf(mention, sizeof mention, "`%s`", entry->d_name);
        if (!strstr(page.data, mention)) fail_msg("configs/README.md does not name %s", entry->d_name);
        ember_config_free(config);
        n_configs++;
    }
    (void)closedir(folder);
    ember_bytes_free(&page);
    assert_true(n_configs >= 7);
}

static void the_large_ones(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t layers, vocab_size, n_parameters;
    } sizes[] = {
        {"0p5b", 8, 49152, 511739904}, {"1b", 18, 49152, 1025583104}, {"1p5b", 28, 49152, 1539426304},
        {"2b", 38, 49152, 2053269504}, {"445m", 8, 16384, 444631040},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, SOURCE_FOLDER "/configs/%s.yaml", sizes[i].name);
        ember_config *config = NULL;
        ember_hparams h;
        check_ok(ember_config_load(&config, path, NULL, 0));
        check_ok(ember_config_hparams(config, 0, &h));
        assert_int_equal(h.num_hidden_layers, sizes[i].layers);
        assert_int_equal(h.vocab_size, sizes[i].vocab_size);
        assert_int_equal(h.hidden_size, 2048);
        assert_int_equal(h.neurons[0], 5632);
        assert_int_equal(h.neurons[h.num_hidden_layers - 1], 5632);
        assert_int_equal(h.num_attention_heads, 32);
        assert_int_equal(h.max_position_embeddings, 2048);
        assert_true(h.rope_theta == 1e5);
        assert_true(h.tie_word_embeddings);
        assert_int_equal(ember_hparams_n_elements(&h), sizes[i].n_parameters);
        ember_config_free(config);
    }
}

static void page_is_current(void **state) {
    (void)state;
    ember_bytes page = {0};
    ember_bytes shipped = {0};
    check_ok(ember_config_markdown(&page));
    check_ok(ember_read_file(&shipped, SOURCE_FOLDER "/configs/README.md", 0));
    if (page.n != shipped.n || memcmp(page.data, shipped.data, page.n) != 0) {
        fail_msg("configs/README.md is not what the table says; run `ember help config --markdown > configs/README.md`");
    }
    ember_bytes_free(&page);
    ember_bytes_free(&shipped);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_config),
        cmocka_unit_test(the_large_ones),
        cmocka_unit_test(page_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
