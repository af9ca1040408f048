/* rooms: model base */
/* The sparsity tracker against the definitions: counts, window ring, age, death, revival. */
#include "tests/check.h"

#include "lib/model/tracker.h"

enum { N_NEURONS = 3 };

static ember_tracker *tracker_of(int64_t dead_after, int64_t window, int64_t per_step) {
    ember_hparams hparams = {.num_hidden_layers = 2};
    hparams.neurons[0] = N_NEURONS;
    hparams.neurons[1] = 1;
    const ember_tracker_options options = {.dead_after_tokens = dead_after, .window_tokens = window, .tokens_per_step = per_step};
    ember_tracker *tracker = NULL;
    check_ok(ember_tracker_create(&tracker, &hparams, &options));
    return tracker;
}

static void step(ember_tracker *tracker, uint64_t a, uint64_t b, uint64_t c, int64_t tokens) {
    tracker->layers[0].step_count[0] = a;
    tracker->layers[0].step_count[1] = b;
    tracker->layers[0].step_count[2] = c;
    ember_tracker_commit_step(tracker, tokens);
}

static void counts_since_start_and_ages(void **state) {
    (void)state;
    ember_tracker *tracker = tracker_of(100, 1000, 10);
    step(tracker, 4, 0, 1, 10);
    step(tracker, 2, 0, 0, 8); /* two padding tokens are no tokens */
    assert_int_equal(tracker->tokens_seen, 18);
    assert_int_equal(tracker->layers[0].fire_count[0], 6);
    assert_int_equal(tracker->layers[0].last_fired[0], 18);
    assert_int_equal(tracker->layers[0].last_fired[2], 10);
    assert_int_equal(ember_tracker_age(tracker, 0, 0), 0);
    assert_int_equal(ember_tracker_age(tracker, 0, 1), 18);
    assert_int_equal(ember_tracker_age(tracker, 0, 2), 8);
    assert_int_equal(tracker->layers[0].step_count[0], 0);
    ember_tracker_free(tracker);
}

static void dropped_step_leaves_no_trace(void **state) {
    (void)state;
    ember_tracker *tracker = tracker_of(100, 1000, 10);
    tracker->layers[0].step_count[1] = 7;
    ember_tracker_drop_step(tracker);
    step(tracker, 0, 0, 0, 10);
    assert_int_equal(tracker->layers[0].fire_count[1], 0);
    assert_int_equal(tracker->layers[0].last_fired[1], 0);
    ember_tracker_free(tracker);
}

static void death_is_age_at_the_limit_and_revival_resets_it(void **state) {
    (void)state;
    ember_tracker *tracker = tracker_of(20, 1000, 10);
    step(tracker, 1, 0, 0, 10);
    assert_int_equal(ember_tracker_n_dead(tracker, 0), 0);
    step(tracker, 0, 0, 1, 9);
    assert_false(ember_tracker_is_dead(tracker, 0, 1)); /* age 19 */
    step(tracker, 0, 0, 1, 1);
    assert_true(ember_tracker_is_dead(tracker, 0, 1));  /* age 20 */
    assert_false(ember_tracker_is_dead(tracker, 0, 0)); /* age 10 */
    assert_int_equal(ember_tracker_n_dead(tracker, 0), 1);
    ember_tracker_revive(tracker, 0, 1);
    assert_int_equal(ember_tracker_n_dead(tracker, 0), 0);
    assert_int_equal(ember_tracker_age(tracker, 0, 1), 0);
    ember_tracker_free(tracker);
}

/* Whatever the window, it covers at least the steps since the last whole-block drop and never more
 * than its own length; checked against a plain list of all steps. */
static void window_against_a_list(void **state) {
    (void)state;
    static const int64_t windows[] = {1, 10, 11, 70, 160, 161, 333, 1000};
    for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++) {
        ember_tracker *tracker = tracker_of(100, windows[w], 10);
        const int64_t window_steps = (windows[w] + 9) / 10;
        const int64_t per_block = (window_steps + EMBER_TRACKER_BLOCKS - 1) / EMBER_TRACKER_BLOCKS;
        uint64_t fired[200];
        for (int64_t s = 0; s < 200; s++) {
            fired[s] = (uint64_t)(s * s % 11);
            step(tracker, fired[s], 0, 1, 10);
            uint64_t counts[N_NEURONS];
            const int64_t tokens = ember_tracker_window(tracker, 0, counts);
            const int64_t steps = tokens / 10;
            assert_int_equal(tokens % 10, 0);
            assert_true(steps <= per_block * EMBER_TRACKER_BLOCKS);
            assert_true(steps >= (s + 1 < window_steps - per_block + 1 ? s + 1 : window_steps - per_block + 1));
            uint64_t sum = 0;
            for (int64_t k = s + 1 - steps; k <= s; k++)
                sum += fired[k];
            assert_int_equal(counts[0], sum);
            assert_int_equal(counts[1], 0);
            assert_int_equal(counts[2], (uint64_t)steps);
        }
        ember_tracker_free(tracker);
    }
}

static void bad_options_are_named(void **state) {
    (void)state;
    ember_hparams hparams = {.num_hidden_layers = 1};
    hparams.neurons[0] = 1;
    ember_tracker *tracker = NULL;
    const ember_tracker_options no_window = {.dead_after_tokens = 1, .window_tokens = 0, .tokens_per_step = 1};
    check_fails(ember_tracker_create(&tracker, &hparams, &no_window), EMBER_E_ARGUMENT, "window_tokens");
    const ember_tracker_options no_dead = {.dead_after_tokens = 0, .window_tokens = 1, .tokens_per_step = 1};
    check_fails(ember_tracker_create(&tracker, &hparams, &no_dead), EMBER_E_ARGUMENT, "dead_after_tokens");
    assert_null(tracker);
    ember_tracker_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_since_start_and_ages),
        cmocka_unit_test(dropped_step_leaves_no_trace),
        cmocka_unit_test(death_is_age_at_the_limit_and_revival_resets_it),
        cmocka_unit_test(window_against_a_list),
        cmocka_unit_test(bad_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
