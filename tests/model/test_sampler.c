/* rooms: model kernels base */
#include <float.h>
#include <math.h>

#include "lib/base/philox.h"
#include "lib/model/sampler.h"
#include "tests/check.h"

enum { N = 512 };

static void fill(float *logits) {
    for (int64_t i = 0; i < N; i++)
        logits[i] = 3.0f * ember_philox_normal(9, 9, (uint64_t)i);
}

static int32_t best_of(const float *logits, int64_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static int32_t draw(ember_sampler *sampler, const float *logits, int64_t n) {
    float scratch[2 * N];
    int32_t token = -1;
    check_ok(ember_sample(sampler, logits, n, scratch, &token));
    assert_in_range(token, 0, n - 1);
    return token;
}

static void test_greedy(void **state) {
    (void)state;
    float logits[N];
    fill(logits);
    const int32_t best = best_of(logits, N);
    const ember_sampler samplers[] = {
        {.temperature = 0, .top_p = 1},
        {.temperature = 0, .top_k = 7, .top_p = 0.3, .seed = 5},
        {.temperature = 1e-30, .top_p = 1},
        {.temperature = 1e-30, .top_p = 0.5, .top_k = 3},
        {.temperature = 1, .top_k = 1, .top_p = 1},
        {.temperature = 5, .top_p = 0},
        {.temperature = 5, .top_p = 1e-9},
        {.temperature = DBL_MIN, .top_p = 1},
    };
    for (size_t i = 0; i < sizeof samplers / sizeof samplers[0]; i++) {
        ember_sampler sampler = samplers[i];
        for (int k = 0; k < 50; k++)
            assert_int_equal(draw(&sampler, logits, N), best);
        assert_int_equal(sampler.index, 50);
    }
}

static void test_ties_lowest_id(void **state) {
    (void)state;
    const float logits[6] = {-1, 2, 0, 2, 2, 1};
    const double temperatures[] = {0, 1e-30};
    for (int i = 0; i < 2; i++) {
        ember_sampler sampler = {.temperature = temperatures[i], .top_p = 1};
        assert_int_equal(draw(&sampler, logits, 6), 1);
    }
    ember_sampler top_two = {.temperature = 1, .top_k = 2, .top_p = 1};
    for (int k = 0; k < 100; k++) {
        const int32_t token = draw(&top_two, logits, 6);
        assert_true(token == 1 || token == 3);
    }
}

/* Shares of 40,000 draws against exact probabilities, five standard deviations wide. */
static void check_shares(ember_sampler sampler, const float *logits, int64_t n, const double *wanted) {
    enum { DRAWS = 40000 };
    int64_t count[16] = {0};
    for (int k = 0; k < DRAWS; k++)
        count[draw(&sampler, logits, n)]++;
    for (int64_t i = 0; i < n; i++) {
        const double deviation = sqrt(wanted[i] * (1 - wanted[i]) * DRAWS);
        if (fabs((double)count[i] - wanted[i] * DRAWS) > 5 * deviation + 1e-9) {
            fail_msg("token %lld: %lld draws, wanted %g", (long long)i, (long long)count[i], wanted[i] * DRAWS);
        }
    }
}

static void test_distribution(void **state) {
    (void)state;
    /* probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625, in mixed order */
    const float logits[5] = {logf(0.125f), logf(0.5f), logf(0.0625f), logf(0.25f), logf(0.0625f)};
    check_shares((ember_sampler){.temperature = 1, .top_p = 1, .seed = 3}, logits, 5, (const double[]){0.125, 0.5, 0.0625, 0.25, 0.0625});
    check_shares((ember_sampler){.temperature = 1, .top_k = 2, .top_p = 1, .seed = 3}, logits, 5,
                 (const double[]){0, 2 / 3.0, 0, 1 / 3.0, 0});
    check_shares((ember_sampler){.temperature = 1, .top_p = 0.7, .seed = 3}, logits, 5, (const double[]){0, 2 / 3.0, 0, 1 / 3.0, 0});
    check_shares((ember_sampler){.temperature = 1, .top_p = 0.8, .seed = 3}, logits, 5, (const double[]){1 / 7.0, 4 / 7.0, 0, 2 / 7.0, 0});
    /* top-p of what top-k leaves: 0.5 / 0.875 < 0.8 <= 0.75 / 0.875 */
    check_shares((ember_sampler){.temperature = 1, .top_k = 3, .top_p = 0.8, .seed = 3}, logits, 5,
                 (const double[]){0, 2 / 3.0, 0, 1 / 3.0, 0});
    /* temperature 0.5 squares the ratios */
    check_shares((ember_sampler){.temperature = 0.5, .top_k = 2, .top_p = 1, .seed = 3}, logits, 5, (const double[]){0, 0.8, 0, 0.2, 0});
    check_shares((ember_sampler){.temperature = 1e30, .top_p = 1, .seed = 3}, logits, 5, (const double[]){0.2, 0.2, 0.2, 0.2, 0.2});
}

static void test_off_values(void **state) {
    (void)state;
    float logits[N];
    fill(logits);
    const ember_sampler plain = {.temperature = 1, .top_p = 1, .seed = 11};
    const int64_t off[] = {N, N + 1, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        ember_sampler a = plain, b = plain;
        b.top_k = off[i];
        for (int k = 0; k < 200; k++)
            assert_int_equal(draw(&a, logits, N), draw(&b, logits, N));
    }
}

static void test_extreme_temperatures(void **state) {
    (void)state;
    float logits[N];
    fill(logits);
    logits[3] = 3e38f;
    logits[4] = -3e38f;
    const double temperatures[] = {1e-30, 1e-6, 1, 1e30, DBL_MAX};
    for (int i = 0; i < 5; i++) {
        for (int top_k = 0; top_k < 600; top_k += 37) {
            ember_sampler sampler = {.temperature = temperatures[i], .top_k = top_k, .top_p = 0.9, .seed = 1};
            for (int k = 0; k < 20; k++)
                (void)draw(&sampler, logits, N);
        }
    }
}

static void test_seeds(void **state) {
    (void)state;
    float logits[N];
    fill(logits);
    const uint64_t seeds[] = {0, 1, 2, 4294967297u, 1099511627777u, UINT64_MAX};
    int32_t tokens[6][40];
    for (int s = 0; s < 6; s++) {
        ember_sampler a = {.temperature = 1, .top_p = 1, .seed = seeds[s]}, b = a;
        for (int k = 0; k < 40; k++) {
            tokens[s][k] = draw(&a, logits, N);
            assert_int_equal(tokens[s][k], draw(&b, logits, N));
        }
        for (int other = 0; other < s; other++)
            assert_memory_not_equal(tokens[s], tokens[other], sizeof tokens[s]);
    }
}

static void test_smaller_vocabulary(void **state) {
    (void)state;
    float logits[N];
    fill(logits);
    logits[N - 1] = 1000.0f; /* a padding row that the tokenizer does not have */
    ember_sampler sampler = {.temperature = 1, .top_p = 0.99, .seed = 4};
    for (int k = 0; k < 200; k++)
        assert_true(draw(&sampler, logits, N - 1) < N - 1);
    ember_sampler one = {.temperature = 2, .top_p = 0.5};
    assert_int_equal(draw(&one, logits, 1), 0);
}

static void test_refusals(void **state) {
    (void)state;
    float logits[4] = {0, 1, 2, 3};
    float scratch[8];
    int32_t token = 0;
    const struct {
        ember_sampler sampler;
        const char *part;
    } bad[] = {{{.temperature = -1, .top_p = 1}, "temperature"},
               {{.temperature = NAN, .top_p = 1}, "temperature"},
               {{.temperature = INFINITY, .top_p = 1}, "temperature"},
               {{.temperature = 1, .top_k = -1, .top_p = 1}, "top-k"},
               {{.temperature = 1, .top_p = 1.1}, "top-p"},
               {{.temperature = 1, .top_p = -0.1}, "top-p"},
               {{.temperature = 1, .top_p = NAN}, "top-p"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ember_sampler sampler = bad[i].sampler;
        check_fails(ember_sampler_check(&sampler), EMBER_E_ARGUMENT, bad[i].part);
        check_fails(ember_sample(&sampler, logits, 4, scratch, &token), EMBER_E_ARGUMENT, bad[i].part);
    }
    ember_sampler sampler = {.temperature = 1, .top_p = 1};
    check_fails(ember_sample(&sampler, logits, 0, scratch, &token), EMBER_E_ARGUMENT, "logits");
    logits[2] = NAN;
    check_fails(ember_sample(&sampler, logits, 4, scratch, &token), EMBER_E_NUMERIC, "token 2");
    logits[2] = INFINITY;
    check_fails(ember_sample(&sampler, logits, 4, scratch, &token), EMBER_E_NUMERIC, "token 2");
    assert_int_equal(sampler.index, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),     cmocka_unit_test(test_ties_lowest_id),       cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_off_values), cmocka_unit_test(test_extreme_temperatures), cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_smaller_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
