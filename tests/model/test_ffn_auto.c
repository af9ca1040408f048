/* rooms: model kernels base */
/* The choice of the FFN mode: a pure function of the table and of counts, with hysteresis. */
#include "tests/check.h"

#include "lib/model/ffn_auto.h"

/* Sparse cost 10 ms + 1000 ms * density up to 0.25; dense 100 ms: enters below density 0.08, leaves
 * above 0.09. Forward alone: sparse the same, dense 40 ms: 0.03. */
static const char table[] =
    "{\"format\": \"ember-ffn-costs\", \"version\": 1, \"device\": \"cpu\", \"entries\": ["
    "{\"hidden\": 8, \"neurons\": 100, \"kind\": \"gated\", \"activation\": \"relu\", \"compression\": 8, \"tokens\": 10,"
    " \"density\": [0.002, 0.02, 0.08, 0.25], \"dense_ms\": 100, \"forward_dense_ms\": 40,"
    " \"sparse_ms\": [12, 30, 90, 260], \"forward_sparse_ms\": [12, 30, 90, 260]}]}";

static ember_ffn_auto *chooser_of(ember_activation activation) {
    ember_hparams hparams = {.num_hidden_layers = 2, .hidden_size = 8, .activation = activation};
    hparams.neurons[0] = 100;
    hparams.neurons[1] = 100;
    const ember_ffn_auto_options options = {.n_tokens = 10, .compression = 8};
    ember_ffn_auto *chooser = NULL;
    check_ok(ember_ffn_auto_create(&chooser, &hparams, &options));
    return chooser;
}

static ember_ffn_auto *loaded(void) {
    ember_ffn_auto *chooser = chooser_of(EMBER_RELU);
    check_ok(ember_ffn_auto_load(chooser, table, strlen(table), "table.json"));
    assert_true(ember_ffn_auto_ready(chooser));
    return chooser;
}

/* nnz of a density over 1000 tokens of 100 neurons */
static ember_ffn_mode decide(ember_ffn_auto *chooser, double density) {
    return ember_ffn_auto_decide(chooser, 0, (int64_t)(density * 100000 + 0.5), 1000);
}

static void hysteresis(void **state) {
    (void)state;
    ember_ffn_auto *chooser = loaded();
    assert_int_equal(decide(chooser, 1.0), EMBER_MODE_DENSE);
    assert_int_equal(decide(chooser, 0.085), EMBER_MODE_DENSE); /* cheaper, but not by enough to switch */
    assert_int_equal(decide(chooser, 0.079), EMBER_MODE_TWELL);
    assert_int_equal(decide(chooser, 0.085), EMBER_MODE_TWELL); /* stays */
    assert_int_equal(decide(chooser, 0.091), EMBER_MODE_DENSE);
    assert_int_equal(decide(chooser, 0.0), EMBER_MODE_TWELL);
    int64_t modes[2];
    ember_ffn_auto_state(chooser, modes);
    assert_int_equal(modes[0], 1);
    assert_int_equal(modes[1], 0); /* the other layer was never asked */
    ember_ffn_auto_free(chooser);
}

static void state_survives_and_pinning_holds(void **state) {
    (void)state;
    ember_ffn_auto *chooser = loaded();
    assert_int_equal(decide(chooser, 0.079), EMBER_MODE_TWELL);
    int64_t modes[2];
    ember_ffn_auto_state(chooser, modes);
    ember_ffn_auto *other = loaded();
    check_ok(ember_ffn_auto_restore(other, modes));
    assert_int_equal(decide(other, 0.085), EMBER_MODE_TWELL);
    ember_ffn_auto_pin_dense(other, 0);
    assert_int_equal(decide(other, 0.0), EMBER_MODE_DENSE);
    ember_ffn_auto_state(other, modes);
    check_ok(ember_ffn_auto_restore(chooser, modes));
    assert_int_equal(decide(chooser, 0.0), EMBER_MODE_DENSE);
    modes[0] = 3;
    check_fails(ember_ffn_auto_restore(chooser, modes), EMBER_E_CORRUPT, "layer 0");
    ember_ffn_auto_free(other);
    ember_ffn_auto_free(chooser);
}

static void forward_alone_and_no_tokens(void **state) {
    (void)state;
    ember_ffn_auto *chooser = loaded();
    assert_int_equal(ember_ffn_auto_decide_forward(chooser, 0, 2900, 1000), EMBER_MODE_TWELL);
    assert_int_equal(ember_ffn_auto_decide_forward(chooser, 0, 3100, 1000), EMBER_MODE_DENSE);
    assert_int_equal(ember_ffn_auto_decide_forward(chooser, 0, 0, 0), EMBER_MODE_DENSE);
    ember_ffn_auto_free(chooser);
}

static void table_round_trip_is_exact(void **state) {
    (void)state;
    ember_ffn_auto *chooser = loaded();
    ember_bytes text = {0};
    ember_bytes again = {0};
    check_ok(ember_ffn_auto_to_json(chooser, &text));
    ember_ffn_auto *other = chooser_of(EMBER_RELU);
    check_ok(ember_ffn_auto_load(other, text.data, text.n, "copy"));
    check_ok(ember_ffn_auto_to_json(other, &again));
    assert_string_equal(text.data, again.data);
    ember_bytes_free(&text);
    ember_bytes_free(&again);
    ember_ffn_auto_free(other);
    ember_ffn_auto_free(chooser);
}

static void load_replaced(const char *from, const char *to, ember_status wanted, const char *part) {
    ember_bytes text = {0};
    const char *at = strstr(table, from);
    assert_non_null(at);
    check_ok(ember_bytes_printf(&text, "%.*s%s%s", (int)(at - table), table, to, at + strlen(from)));
    ember_ffn_auto *chooser = chooser_of(EMBER_RELU);
    check_fails(ember_ffn_auto_load(chooser, text.data, text.n, "table.json"), wanted, part);
    assert_false(ember_ffn_auto_ready(chooser));
    ember_ffn_auto_free(chooser);
    ember_bytes_free(&text);
}

static void damaged_tables_are_refused(void **state) {
    (void)state;
    load_replaced("ember-ffn-costs", "other", EMBER_E_FORMAT, "table.json");
    load_replaced("\"version\": 1", "\"version\": 2", EMBER_E_VERSION, "version");
    load_replaced("\"neurons\": 100", "\"neurons\": 101", EMBER_E_NOT_FOUND, "neurons 100");
    load_replaced("[12, 30, 90, 260], \"f", "[12, 30, 90], \"f", EMBER_E_FORMAT, "4 values");
    load_replaced("\"dense_ms\": 100", "\"dense_ms\": -1", EMBER_E_FORMAT, "dense");
    load_replaced("\"dense_ms\": 100", "\"dense_ms\": \"fast\"", EMBER_E_FORMAT, "dense");
    load_replaced("0.02,", "0.03,", EMBER_E_FORMAT, "density");
    load_replaced("]}", "", EMBER_E_FORMAT, "not JSON");
}

static void silu_has_nothing_to_choose(void **state) {
    (void)state;
    ember_ffn_auto *chooser = chooser_of(EMBER_SILU);
    assert_true(ember_ffn_auto_ready(chooser));
    assert_int_equal(decide(chooser, 0.0), EMBER_MODE_DENSE);
    ember_ffn_auto_free(chooser);
}

static bool count_and_stop(void *user) {
    int *asked = user;
    return ++*asked > 3;
}

static void calibration_measures_and_can_be_stopped(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    ember_ffn_auto *chooser = chooser_of(EMBER_RELU);
    int asked = 0;
    check_fails(ember_ffn_auto_calibrate(chooser, backend, count_and_stop, &asked), EMBER_E_INTERRUPTED, "FFN costs");
    assert_false(ember_ffn_auto_ready(chooser));
    check_ok(ember_ffn_auto_calibrate(chooser, backend, NULL, NULL));
    assert_true(ember_ffn_auto_ready(chooser));
    assert_true(ember_ffn_auto_cost_ms(chooser, 0, EMBER_MODE_DENSE, 0, 10) > 0);
    ember_ffn_auto_free(chooser);
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hysteresis),
        cmocka_unit_test(state_survives_and_pinning_holds),
        cmocka_unit_test(forward_alone_and_no_tokens),
        cmocka_unit_test(table_round_trip_is_exact),
        cmocka_unit_test(damaged_tables_are_refused),
        cmocka_unit_test(silu_has_nothing_to_choose),
        cmocka_unit_test(calibration_measures_and_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
