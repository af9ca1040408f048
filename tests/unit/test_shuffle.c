/* rooms: data base */
/* The order of a pass is a permutation that depends on seed, source and pass alone; the mixture keeps
 * every source within one sequence of its share; synthetic ids follow Zipf. */
#include "tests/check.h"

#include <math.h>

#include "data/mixture.h"
#include "data/shuffle.h"
#include "data/synthetic.h"

static void is_a_permutation(void **state) {
    (void)state;
    const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 4096, 4097, 65537, 300007};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint64_t n = sizes[s];
        uint8_t *seen = calloc(n, 1);
        assert_non_null(seen);
        const ember_shuffle shuffle = ember_shuffle_make(7, 0, 3, n);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = ember_shuffle_at(&shuffle, i);
            assert_true(at < n);
            assert_int_equal(seen[at], 0);
            seen[at] = 1;
        }
        free(seen);
    }
}

/* Below 2^62 nothing is visited in full, but images stay inside and distinct inputs stay distinct. */
static void large_domains(void **state) {
    (void)state;
    const uint64_t n = (UINT64_C(1) << 40) + 12345;
    const ember_shuffle shuffle = ember_shuffle_make(1, 0, 0, n);
    uint64_t above = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        const uint64_t at = ember_shuffle_at(&shuffle, n - 1 - i);
        assert_true(at < n);
        above += at >= n / 2;
    }
    assert_in_range(above, 400, 600);
}

/* Differences in seed (all 64 bits), source and pass give other orders; equal arguments the same one. */
static void depends_on_every_argument(void **state) {
    (void)state;
    const uint64_t n = 1000;
    const uint64_t seeds[] = {0, 1, UINT64_C(4294967297), UINT64_C(1) << 40 | 1, UINT64_MAX};
    const ember_shuffle base = ember_shuffle_make(1, 0, 0, n);
    const ember_shuffle again = ember_shuffle_make(1, 0, 0, n);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(ember_shuffle_at(&base, i), ember_shuffle_at(&again, i));
    for (size_t a = 0; a < 7; a++) {
        const ember_shuffle other = a < 5    ? ember_shuffle_make(seeds[a], 0, 0, n)
                                    : a == 5 ? ember_shuffle_make(1, 1, 0, n)
                                             : ember_shuffle_make(1, 0, 1, n);
        uint64_t equal = 0;
        for (uint64_t i = 0; i < n; i++)
            equal += ember_shuffle_at(&base, i) == ember_shuffle_at(&other, i);
        if (a == 1) {
            assert_int_equal(equal, n);
        } else {
            assert_true(equal < 20); /* 1 expected by chance */
        }
    }
}

/* All 6 orders of 3, each about as often; for 97, each index lands in each quarter about as often. */
static void orders_are_spread(void **state) {
    (void)state;
    int orders[27] = {0};
    for (uint64_t pass = 0; pass < 6000; pass++) {
        const ember_shuffle shuffle = ember_shuffle_make(11, 0, pass, 3);
        orders[ember_shuffle_at(&shuffle, 0) * 9 + ember_shuffle_at(&shuffle, 1) * 3 + ember_shuffle_at(&shuffle, 2)]++;
    }
    int distinct = 0;
    for (int i = 0; i < 27; i++) {
        if (orders[i] == 0) continue;
        distinct++;
        assert_in_range(orders[i], 800, 1200);
    }
    assert_int_equal(distinct, 6);
    int first[97] = {0};
    for (uint64_t pass = 0; pass < 9700; pass++) {
        const ember_shuffle shuffle = ember_shuffle_make(5, 0, pass, 97);
        first[ember_shuffle_at(&shuffle, 0)]++;
    }
    for (int i = 0; i < 97; i++)
        assert_in_range(first[i], 50, 160); /* 100 expected, sigma 10 */
}

static void check_mixture(const double *weights, int64_t n) {
    ember_mixture *mixture = NULL;
    check_ok(ember_mixture_create(&mixture, weights, n));
    uint64_t counts[EMBER_MIXTURE_MAX_SOURCES] = {0};
    double sum = 0.0;
    for (int64_t s = 0; s < n; s++)
        sum += weights[s];
    for (uint64_t k = 0; k < 2 * EMBER_MIXTURE_PERIOD + 100; k++) {
        int64_t source = -1;
        uint64_t position = 0;
        ember_mixture_at(mixture, k, &source, &position);
        assert_in_range(source, 0, n - 1);
        assert_int_equal(position, counts[source]);
        counts[source]++;
        if (n < 20 || k % 997 == 0) {
            for (int64_t s = 0; s < n; s++) {
                const double share = (double)ember_mixture_share(mixture, s) / EMBER_MIXTURE_PERIOD;
                assert_true(fabs((double)counts[s] - (double)(k + 1) * share) < 1.0);
            }
        }
    }
    for (int64_t s = 0; s < n; s++) {
        assert_true(fabs(ember_mixture_share(mixture, s) - weights[s] / sum * EMBER_MIXTURE_PERIOD) < 1.0);
        assert_int_equal(ember_mixture_count(mixture, 2 * EMBER_MIXTURE_PERIOD + 100, s), counts[s]);
    }
    ember_mixture_free(mixture);
}

static void mixture_keeps_its_shares(void **state) {
    (void)state;
    check_mixture((const double[]){3.0}, 1);
    check_mixture((const double[]){1.0, 1.0}, 2);
    check_mixture((const double[]){0.7, 0.2, 0.1}, 3);
    check_mixture((const double[]){1.0, 65000.0, 3.5}, 3);
    check_mixture((const double[]){0.123, 0.456, 17.0, 2.0, 2.0, 5.0, 0.01}, 7);
    double many[100];
    for (int i = 0; i < 100; i++)
        many[i] = 1.0 + (i * 37) % 11;
    check_mixture(many, 100);
}

static void mixture_refuses(void **state) {
    (void)state;
    ember_mixture *mixture = NULL;
    check_fails(ember_mixture_create(&mixture, (const double[]){1.0, 0.0}, 2), EMBER_E_ARGUMENT, "weight 1");
    check_fails(ember_mixture_create(&mixture, (const double[]){-1.0, 1.0}, 2), EMBER_E_ARGUMENT, "weight 0");
    check_fails(ember_mixture_create(&mixture, (const double[]){(double)NAN, 1.0}, 2), EMBER_E_ARGUMENT, "weight 0");
    check_fails(ember_mixture_create(&mixture, (const double[]){1.0, (double)INFINITY}, 2), EMBER_E_ARGUMENT, "weight 1");
    check_fails(ember_mixture_create(&mixture, (const double[]){1.0, 1e9}, 2), EMBER_E_ARGUMENT, "1/65536");
    check_fails(ember_mixture_create(&mixture, NULL, 0), EMBER_E_ARGUMENT, "0 sources");
    assert_null(mixture);
}

static void synthetic_is_zipf(void **state) {
    (void)state;
    enum { V = 50, T = 200, N = 500 };
    ember_synthetic *synthetic = NULL;
    check_ok(ember_synthetic_create(&synthetic, 9, V, 1.0));
    double harmonic = 0.0;
    for (int i = 1; i <= V; i++)
        harmonic += 1.0 / i;
    int64_t counts[V] = {0};
    uint32_t tokens[T];
    for (uint64_t k = 0; k < N; k++) {
        ember_synthetic_read(synthetic, k, T, tokens);
        for (int t = 0; t < T; t++) {
            assert_true(tokens[t] < V);
            counts[tokens[t]]++;
        }
    }
    for (int i = 0; i < V; i++) {
        const double expected = N * T / harmonic / (i + 1);
        assert_true(fabs((double)counts[i] - expected) < 6.0 * sqrt(expected));
    }
    /* A prefix does not depend on the length asked for, and other sequences differ. */
    uint32_t prefix[10];
    uint32_t other[T];
    ember_synthetic_read(synthetic, N - 1, 10, prefix);
    assert_memory_equal(prefix, tokens, sizeof prefix);
    ember_synthetic_read(synthetic, N, T, other);
    assert_memory_not_equal(other, tokens, sizeof other);
    ember_synthetic_free(synthetic);
    check_ok(ember_synthetic_create(&synthetic, 10, V, 1.0));
    ember_synthetic_read(synthetic, N - 1, T, other);
    assert_memory_not_equal(other, tokens, sizeof other);
    ember_synthetic_free(synthetic);
    check_fails(ember_synthetic_create(&synthetic, 1, 0, 1.0), EMBER_E_ARGUMENT, "vocabulary of 0");
    check_fails(ember_synthetic_create(&synthetic, 1, 10, -1.0), EMBER_E_ARGUMENT, "exponent of -1");
    check_fails(ember_synthetic_create(&synthetic, 1, 10, (double)NAN), EMBER_E_ARGUMENT, "exponent");
    assert_null(synthetic);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_permutation),          cmocka_unit_test(large_domains),
        cmocka_unit_test(depends_on_every_argument), cmocka_unit_test(orders_are_spread),
        cmocka_unit_test(mixture_keeps_its_shares),  cmocka_unit_test(mixture_refuses),
        cmocka_unit_test(synthetic_is_zipf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
