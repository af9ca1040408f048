/* rooms: train */
#include "tests/check.h"

#include <math.h>

#include "train/l1_controller.h"

static ember_settings settings_of(double l1, double target) {
    ember_settings s = {0};
    s.sparsity.l1.n = 1;
    s.sparsity.l1.item[0] = l1;
    s.sparsity.target = target;
    s.sparsity.target_rate = 0.02;
    return s;
}

static void near(double got, double wanted) {
    if (!(fabs(got - wanted) <= 1e-12 * fabs(wanted))) fail_msg("%.17g, not %.17g", got, wanted);
}

static void start_and_warmup(void **state) {
    (void)state;
    ember_settings s = settings_of(0.5, 0);
    s.sparsity.l1_start_step = 10;
    s.sparsity.l1_warmup_steps = 4;
    ember_l1_controller c;
    double lambda[2];
    check_ok(ember_l1_controller_init(&c, &s, 2));
    const double wanted[] = {0, 0, 0.125, 0.25, 0.375, 0.5, 0.5};
    for (int64_t step = 8; step < 15; step++) {
        near(ember_l1_controller_lambda(&c, step, lambda), wanted[step - 8]);
        near(lambda[0], wanted[step - 8]);
        near(lambda[1], wanted[step - 8]);
    }
}

static void full_strength_at_once_without_warmup(void **state) {
    (void)state;
    const ember_settings s = settings_of(0.5, 0);
    ember_l1_controller c;
    double lambda[1];
    check_ok(ember_l1_controller_init(&c, &s, 1));
    near(ember_l1_controller_lambda(&c, 1, lambda), 0.5);
}

static void one_value_a_layer(void **state) {
    (void)state;
    ember_settings s = settings_of(0, 0);
    s.sparsity.l1.n = 3;
    s.sparsity.l1.item[0] = 1;
    s.sparsity.l1.item[1] = 2;
    s.sparsity.l1.item[2] = 6;
    ember_l1_controller c;
    double lambda[3];
    check_ok(ember_l1_controller_init(&c, &s, 3));
    near(ember_l1_controller_lambda(&c, 1, lambda), 3);
    near(lambda[2], 6);
    check_fails(ember_l1_controller_init(&c, &s, 4), EMBER_E_CONFIG, "sparsity.l1 lists 3 values for 4 layers");
}

static void a_target_needs_a_coefficient(void **state) {
    (void)state;
    const ember_settings s = settings_of(0, 0.1);
    ember_l1_controller c;
    check_fails(ember_l1_controller_init(&c, &s, 1), EMBER_E_CONFIG, "sparsity.l1 is 0");
}

/* A model whose log density follows -log lambda with a lag, as training does. Returns the largest
 * |log(density / target)| over the last `tail` of `steps`. */
static double closed_loop(double lag, double target, int64_t steps, int64_t tail, double noise) {
    ember_settings s = settings_of(1e-4, target);
    ember_l1_controller c;
    double lambda[1];
    double level = log(0.5); /* of the density */
    double worst = 0;
    check_ok(ember_l1_controller_init(&c, &s, 1));
    for (int64_t step = 1; step <= steps; step++) {
        const double mean = ember_l1_controller_lambda(&c, step, lambda);
        const double settled = fmin(log(0.5), log(0.5) - 0.7 * log(mean / 1e-4));
        level += (settled - level) / lag;
        const double density = exp(level + noise * (double)((step * 7919) % 13 - 6) / 6.0);
        ember_l1_controller_update(&c, step, density);
        if (step > steps - tail) worst = fmax(worst, fabs(level - log(target)));
    }
    return worst;
}

static void settles_on_the_target(void **state) {
    (void)state;
    assert_true(closed_loop(1, 0.05, 2000, 500, 0) < 0.02);
    assert_true(closed_loop(50, 0.05, 2000, 500, 0) < 0.05);
    assert_true(closed_loop(100, 0.02, 3000, 500, 0.05) < 0.1);
}

static void works_upwards_too(void **state) {
    (void)state;
    ember_settings s = settings_of(1, 0.3);
    ember_l1_controller c;
    double lambda[1];
    check_ok(ember_l1_controller_init(&c, &s, 1));
    for (int64_t step = 1; step <= 100; step++)
        ember_l1_controller_update(&c, step, 0.01);
    assert_true(ember_l1_controller_lambda(&c, 101, lambda) < 0.2);
}

/* A target out of reach, a silent model, a broken number: lambda stays finite and within 10^4 of its start. */
static void is_bounded(void **state) {
    (void)state;
    const double densities[] = {1.0, 0.0, (double)NAN, 1e-300};
    for (size_t i = 0; i < 4; i++) {
        const ember_settings s = settings_of(1e-3, 0.01);
        ember_l1_controller c;
        double lambda[1];
        check_ok(ember_l1_controller_init(&c, &s, 1));
        for (int64_t step = 1; step <= 20000; step++)
            ember_l1_controller_update(&c, step, densities[i]);
        const double value = ember_l1_controller_lambda(&c, 20001, lambda);
        assert_true(isfinite(value) && value > 0.9e-7 && value < 11);
    }
}

static void waits_for_the_warmup(void **state) {
    (void)state;
    ember_settings s = settings_of(1, 0.1);
    s.sparsity.l1_warmup_steps = 10;
    ember_l1_controller c;
    check_ok(ember_l1_controller_init(&c, &s, 1));
    for (int64_t step = 1; step < 10; step++)
        ember_l1_controller_update(&c, step, 0.5);
    assert_true(c.state[0] == 0 && c.state[1] == 0);
    ember_l1_controller_update(&c, 10, 0.5);
    assert_true(c.state[0] > 0);
}

/* The state is all there is: a controller given it goes on with the same bits. */
static void state_restores_every_bit(void **state) {
    (void)state;
    const ember_settings s = settings_of(1e-3, 0.1);
    ember_l1_controller a;
    ember_l1_controller b;
    double la[1];
    double lb[1];
    check_ok(ember_l1_controller_init(&a, &s, 1));
    check_ok(ember_l1_controller_init(&b, &s, 1));
    for (int64_t step = 1; step <= 20; step++) {
        if (step == 11) memcpy(b.state, a.state, sizeof a.state);
        const double density = 0.3 / (double)step;
        (void)ember_l1_controller_lambda(&a, step, la);
        if (step >= 11) {
            (void)ember_l1_controller_lambda(&b, step, lb);
            assert_memory_equal(la, lb, sizeof la);
            ember_l1_controller_update(&b, step, density);
        }
        ember_l1_controller_update(&a, step, density);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_and_warmup),
        cmocka_unit_test(full_strength_at_once_without_warmup),
        cmocka_unit_test(one_value_a_layer),
        cmocka_unit_test(a_target_needs_a_coefficient),
        cmocka_unit_test(settles_on_the_target),
        cmocka_unit_test(works_upwards_too),
        cmocka_unit_test(is_bounded),
        cmocka_unit_test(waits_for_the_warmup),
        cmocka_unit_test(state_restores_every_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
