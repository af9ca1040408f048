/* rooms: train */
#include "tests/check.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "train/interrupt.h"
#include "train/progress.h"

/* A frozen clock, one that was set back, the very first step. */
static void rate_is_finite_and_positive(void **state) {
    (void)state;
    const double elapsed[] = {0, -3600, 1e-300, 1e300, (double)NAN, (double)INFINITY, 2};
    for (size_t i = 0; i < sizeof elapsed / sizeof elapsed[0]; i++) {
        const double rate = ember_rate(1000, elapsed[i]);
        if (!(isfinite(rate) && rate > 0)) fail_msg("rate %g for %g s", rate, elapsed[i]);
    }
    assert_true(ember_rate(1000, 2) > 499.9 && ember_rate(1000, 2) < 500.1);
    assert_true(ember_rate(0, 2) > 0);
}

static void durations(void **state) {
    (void)state;
    const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0s"},         {59.4, "59s"}, {60, "1m00s"},      {187, "3m07s"}, {3600, "1h00m"},
                 {90061, "25h01m"}, {-1, "?"},     {(double)NAN, "?"}, {1e300, "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        ember_format_duration(text, cases[i].seconds);
        assert_string_equal(text, cases[i].text);
    }
}

static void line_is_plain_text(void **state) {
    (void)state;
    ember_bytes line = {0};
    const ember_progress progress = {
        .step = 12, .steps = 600, .loss = 4.321, .nonzero_fraction = 0.412, .tokens_per_s = 12345.6, .eta_s = 187, .n_dead = 3};
    check_ok(ember_progress_format(&line, &progress));
    check_ok(ember_progress_format(&line, &progress));
    assert_string_equal(line.data, "step 12/600  loss 4.3210  nonzero 41.20 %  dead 3  12346 tokens/s  ETA 3m07s");
    ember_bytes_free(&line);
}

static void only_a_terminal_redraws(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_false(ember_progress_can_redraw(ends[1], "xterm"));
    assert_false(ember_progress_can_redraw(-1, "xterm"));
    const int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (terminal >= 0 && isatty(terminal)) {
        assert_true(ember_progress_can_redraw(terminal, "xterm"));
        assert_false(ember_progress_can_redraw(terminal, "dumb"));
        assert_false(ember_progress_can_redraw(terminal, ""));
        assert_false(ember_progress_can_redraw(terminal, NULL));
    }
    if (terminal >= 0) (void)close(terminal);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void signals_set_a_flag_and_nothing_else(void **state) {
    (void)state;
    check_ok(ember_interrupt_install());
    assert_false(ember_interrupt_requested(NULL));
    assert_string_equal(ember_interrupt_name(), "");
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(raise(SIGINT), 0);
    assert_int_equal(raise(SIGTERM), 0);
    assert_true(ember_interrupt_requested(NULL));
    assert_string_equal(ember_interrupt_name(), "SIGTERM");
    ember_interrupt_remove();
    assert_false(ember_interrupt_requested(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_is_finite_and_positive),
        cmocka_unit_test(durations),
        cmocka_unit_test(line_is_plain_text),
        cmocka_unit_test(only_a_terminal_redraws),
        cmocka_unit_test(signals_set_a_flag_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
