/* rooms: train */
/* The texts of the sparsity report where numbers are missing: silent layers, no tokens, not a number. */
#include "tests/check.h"

#include <jansson.h>
#include <math.h>

#include "train/sparsity_report.h"

enum { NEURONS = 3, LAYERS = 3 };

typedef struct fixture {
    ember_sparsity_report report;
    ember_layer_report layers[LAYERS];
    uint64_t zeros[NEURONS];
    uint64_t counts[NEURONS];
    int64_t fired[NEURONS];
    char path[64];
} fixture;

static void fill(fixture *f, int64_t tokens_seen, int64_t window_tokens, double broken) {
    memset(f, 0, sizeof *f);
    (void)snprintf(f->path, sizeof f->path, "a \"b\"\\c\n\xFF.h5");
    f->counts[1] = 7;
    f->fired[1] = 5;
    f->report = (ember_sparsity_report){.path = f->path,
                                        .step = 1,
                                        .tokens_seen = tokens_seen,
                                        .window_tokens = window_tokens,
                                        .dead_after_tokens = 4,
                                        .n_layers = LAYERS,
                                        .layers = f->layers};
    for (int i = 0; i < LAYERS; i++)
        f->layers[i] = (ember_layer_report){
            .n_neurons = NEURONS, .fire_count = f->zeros, .window_count = f->zeros, .last_fired = f->fired, .l0_window = broken};
    f->layers[1].fire_count = f->counts;
    f->layers[1].l0 = 1.5;
    f->layers[1].l1 = broken;
    f->layers[2].l1 = (double)-INFINITY;
}

static void check_csv(ember_status (*make)(const ember_sparsity_report *, ember_bytes *), const fixture *f, int n_lines) {
    ember_bytes text = {0};
    check_ok(make(&f->report, &text));
    int commas = -1;
    int lines = 0;
    for (const char *line = text.data; *line; lines++) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        int n = 0;
        for (const char *c = line; c < end; c++)
            n += *c == ',';
        if (commas < 0) commas = n;
        assert_int_equal(n, commas);
        line = end + 1;
    }
    assert_int_equal(lines, n_lines);
    assert_null(strstr(strchr(text.data, '\n'), "nan"));
    assert_null(strstr(text.data, "inf"));
    ember_bytes_free(&text);
}

static void check_report(const fixture *f) {
    ember_bytes text = {0};
    json_error_t error;
    check_ok(ember_sparsity_report_json(&f->report, &text));
    json_t *root = json_loadb(text.data, text.n, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s in %s", error.text, text.data);
    const json_t *layers = json_object_get(root, "layers");
    assert_int_equal(json_array_size(layers), LAYERS);
    /* A layer that never fired: 0 of 3 is 0. */
    assert_true(json_real_value(json_object_get(json_array_get(layers, 0), "nonzero")) == 0);
    assert_true(json_number_value(json_object_get(json_array_get(layers, 1), "nonzero")) == 0.5);
    assert_true(json_is_null(json_object_get(json_array_get(layers, 2), "l1")));
    json_decref(root);
    ember_bytes_free(&text);
    check_csv(ember_sparsity_report_csv, f, 1 + LAYERS);
    check_csv(ember_sparsity_report_neurons_csv, f, 1 + LAYERS * NEURONS);
    check_ok(ember_sparsity_report_table(&f->report, &text));
    assert_non_null(strstr(text.data, "layer"));
    ember_bytes_free(&text);
}

static void numbers_that_are_missing(void **state) {
    (void)state;
    fixture f;
    fill(&f, 10, 10, 0.25);
    check_report(&f);
    fill(&f, 10, 0, (double)NAN);
    check_report(&f);
    fill(&f, 0, 0, (double)NAN);
    check_report(&f);
    fill(&f, 10, 10, (double)INFINITY);
    check_report(&f);
}

static void fractions(void **state) {
    (void)state;
    assert_true(ember_report_fraction(0, 0) == 0);
    assert_true(ember_report_fraction(1, 4) == 0.25);
    assert_true(isnan(ember_report_fraction((double)NAN, 4)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_missing),
        cmocka_unit_test(fractions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
