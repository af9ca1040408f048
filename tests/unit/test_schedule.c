/* rooms: train */
#include "tests/check.h"

#include <math.h>

#include "train/schedule.h"

static void near(double got, double wanted) {
    if (!(fabs(got - wanted) <= 1e-15 + 1e-12 * fabs(wanted))) fail_msg("%.17g, not %.17g", got, wanted);
}

static ember_schedule make(ember_schedule_kind kind) {
    return (ember_schedule){.kind = kind, .lr = 0.01, .steps = 100, .warmup_steps = 10, .decay_steps = 20, .final_lr_fraction = 0.1};
}

static const ember_schedule_kind kinds[] = {EMBER_SCHEDULE_CONSTANT, EMBER_SCHEDULE_LINEAR, EMBER_SCHEDULE_COSINE, EMBER_SCHEDULE_WSD};

static void warmup_rises_to_the_peak(void **state) {
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const ember_schedule s = make(kinds[i]);
        near(ember_schedule_lr(&s, 1), 0.001);
        near(ember_schedule_lr(&s, 5), 0.005);
        near(ember_schedule_lr(&s, 10), 0.01);
    }
}

static void ends_where_it_says(void **state) {
    (void)state;
    const double last[] = {0.01, 0.001, 0.001, 0.001};
    for (size_t i = 0; i < 4; i++) {
        const ember_schedule s = make(kinds[i]);
        near(ember_schedule_lr(&s, 100), last[i]);
        near(ember_schedule_lr(&s, 1000), last[i]);
    }
}

static void middle_values(void **state) {
    (void)state;
    const ember_schedule linear = make(EMBER_SCHEDULE_LINEAR);
    near(ember_schedule_lr(&linear, 55), 0.01 * 0.55); /* p = 1/2 */
    const ember_schedule cosine = make(EMBER_SCHEDULE_COSINE);
    near(ember_schedule_lr(&cosine, 55), 0.01 * 0.55);
    near(ember_schedule_lr(&cosine, 40), 0.01 * (0.1 + 0.9 * 0.75)); /* p = 1/3, cos = 1/2 */
    const ember_schedule wsd = make(EMBER_SCHEDULE_WSD);
    near(ember_schedule_lr(&wsd, 11), 0.01);
    near(ember_schedule_lr(&wsd, 80), 0.01);
    near(ember_schedule_lr(&wsd, 90), 0.01 * 0.55);
}

static void falls_and_never_rises(void **state) {
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const ember_schedule s = make(kinds[i]);
        for (int64_t step = 11; step < 130; step++) {
            const double now = ember_schedule_lr(&s, step);
            assert_true(now <= ember_schedule_lr(&s, step - 1) && now > 0 && isfinite(now));
        }
    }
}

/* No warm-up, one step, a warm-up longer than the run, nothing left to decay. */
static void edges(void **state) {
    (void)state;
    ember_schedule s = make(EMBER_SCHEDULE_COSINE);
    s.warmup_steps = 0;
    s.steps = 1;
    near(ember_schedule_lr(&s, 1), 0.001);
    s = make(EMBER_SCHEDULE_LINEAR);
    s.warmup_steps = 200;
    near(ember_schedule_lr(&s, 100), 0.005);
    near(ember_schedule_lr(&s, 201), 0.001);
    s = make(EMBER_SCHEDULE_WSD);
    s.decay_steps = 0;
    near(ember_schedule_lr(&s, 99), 0.01);
    s.decay_steps = 200;
    near(ember_schedule_lr(&s, 100), 0.001);
}

/* The schedule knows the total alone: raising it at resume gives the values of a run planned so. */
static void longer_run_is_the_longer_schedule(void **state) {
    (void)state;
    ember_schedule s = make(EMBER_SCHEDULE_LINEAR);
    s.steps = 200;
    s.warmup_steps = 0;
    near(ember_schedule_lr(&s, 100), 0.01 * 0.55);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warmup_rises_to_the_peak),
        cmocka_unit_test(ends_where_it_says),
        cmocka_unit_test(middle_values),
        cmocka_unit_test(falls_and_never_rises),
        cmocka_unit_test(edges),
        cmocka_unit_test(longer_run_is_the_longer_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
