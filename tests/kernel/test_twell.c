/* rooms: kernels base */
/* test_twell.c - the packed format against a plain reading of its definition: pack, unpack, rows, capacity, damage. */
#include "tests/check.h"

#include <math.h>

#include "kernels/cpu/cpu_isa.h"
#include "kernels/twell.h"
#include "lib/base/philox.h"

enum { GUARD = 0x5a5a5a5a };

/* A packed array with room for everything and guards behind each part. */
static ember_twell make(int64_t m, int64_t h, int64_t c, int64_t spill_capacity) {
    const size_t n = (size_t)(m * ember_twell_words_per_row(h, c));
    ember_twell packed = {.n_tokens = m, .n_neurons = h, .compression = c, .spill_capacity = spill_capacity};
    packed.words = malloc((n + 1) * sizeof *packed.words);
    packed.values = malloc((n + 1) * sizeof *packed.values);
    packed.spill = malloc(((size_t)spill_capacity + 1) * sizeof *packed.spill);
    assert_true(packed.words && packed.values && packed.spill);
    memset(packed.words, 0xff, n * sizeof *packed.words);
    memset(packed.values, 0xff, n * sizeof *packed.values);
    memset(packed.spill, 0xff, (size_t)spill_capacity * sizeof *packed.spill);
    packed.words[n] = GUARD;
    packed.values[n] = 1234.5F;
    packed.spill[spill_capacity].token = GUARD;
    return packed;
}

static void check_guards(const ember_twell *packed) {
    const int64_t n = packed->n_tokens * ember_twell_words_per_row(packed->n_neurons, packed->compression);
    assert_int_equal(packed->words[n], GUARD);
    assert_true(packed->values[n] == 1234.5F);
    assert_int_equal(packed->spill[packed->spill_capacity].token, GUARD);
}

static void drop(ember_twell *packed) {
    free(packed->words);
    free(packed->values);
    free(packed->spill);
}

static float *random_g(int64_t m, int64_t h, double share) {
    float *g = malloc((size_t)(m * h) * sizeof *g);
    assert_non_null(g);
    for (int64_t i = 0; i < m * h; i++) {
        const float size = 0.5F + (float)i;
        const double u = ember_philox_uniform(1, EMBER_STREAM_TENSOR, (uint64_t)i);
        g[i] = u < share ? size : u < (1.0 + share) / 2 ? -size : u < (3.0 + share) / 4 ? 0.0F : -0.0F;
    }
    return g;
}

static bool fires(float g) { return isnan(g) || g > 0.0F; }

/* Every word, value and spill entry as the definition says, in a walk over dense g. */
static void check_packed(const ember_twell *packed, const float *g) {
    const int64_t h = packed->n_neurons;
    const int64_t s = 256 / packed->compression;
    int64_t spill = 0;
    for (int64_t t = 0; t < packed->n_tokens; t++) {
        for (int64_t tile = 0; tile * 256 < h; tile++) {
            const int64_t at = t * ((h + 255) / 256) * s + tile * s;
            int64_t count = 0;
            for (int64_t j = tile * 256; j < h && j < (tile + 1) * 256; j++) {
                if (!fires(g[t * h + j])) continue;
                count++;
                if (count <= s - 1) {
                    assert_int_equal(packed->words[at + count], j);
                    assert_memory_equal(&packed->values[at + count], &g[t * h + j], sizeof(float));
                } else {
                    assert_true(spill < packed->spill_count);
                    assert_int_equal(packed->spill[spill].token, t);
                    assert_int_equal(packed->spill[spill].neuron, j);
                    assert_memory_equal(&packed->spill[spill].value, &g[t * h + j], sizeof(float));
                    spill++;
                }
            }
            assert_int_equal(packed->words[at], count); /* the true count, also above S - 1 */
        }
    }
    assert_int_equal(packed->spill_count, spill);
}

static void check_rows(const ember_twell *packed, const float *g, int n_threads) {
    const int64_t m = packed->n_tokens;
    const int64_t h = packed->n_neurons;
    const size_t n = (size_t)(m * h);
    int64_t *row_start = malloc((size_t)(m + 1) * sizeof *row_start);
    uint32_t *columns = malloc((n + 1) * sizeof *columns);
    float *values = malloc((n + 1) * sizeof *values);
    float *dense = malloc((n + 1) * sizeof *dense);
    assert_true(row_start && columns && values && dense);
    memset(dense, 0xff, (n + 1) * sizeof *dense);
    check_ok(ember_twell_unpack(dense, packed, n_threads));
    for (size_t i = 0; i < n; i++) {
        const float wanted = fires(g[i]) ? g[i] : 0.0F;
        assert_memory_equal(&dense[i], &wanted, sizeof wanted);
    }
    assert_true(isnan(dense[n]));
    ember_csr csr = {.n_rows = m, .capacity = (int64_t)n, .row_start = row_start, .columns = columns, .values = values};
    check_ok(ember_twell_to_csr(&csr, packed, n_threads));
    int64_t k = 0;
    for (int64_t t = 0; t < m; t++) {
        assert_int_equal(row_start[t], k);
        for (int64_t j = 0; j < h; j++) {
            if (!fires(g[t * h + j])) continue;
            assert_int_equal(columns[k], j);
            assert_memory_equal(&values[k], &g[t * h + j], sizeof(float));
            k++;
        }
    }
    assert_int_equal(row_start[m], k);
    if (k > 0) {
        csr.capacity = k - 1;
        check_fails(ember_twell_to_csr(&csr, packed, n_threads), EMBER_E_CAPACITY, "room for");
    }
    free(row_start);
    free(columns);
    free(values);
    free(dense);
}

static void check_all(int64_t m, int64_t h, int64_t c, const float *g) {
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        ember_twell packed = make(m, h, c, m * h);
        check_ok(ember_twell_pack(&packed, g, n_threads));
        check_guards(&packed);
        check_packed(&packed, g);
        check_rows(&packed, g, n_threads);
        drop(&packed);
    }
}

static void every_size_and_compression(void **state) {
    (void)state;
    const int64_t sizes[][2] = {{1, 1}, {3, 2}, {5, 31}, {2, 172}, {7, 255}, {64, 256}, {65, 257}, {3, 2048}, {130, 515}};
    const double shares[] = {0.0, 0.003, 0.1, 0.5, 1.0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
            float *g = random_g(sizes[i][0], sizes[i][1], shares[k]);
            for (int64_t c = 2; c <= 16; c *= 2)
                check_all(sizes[i][0], sizes[i][1], c, g);
            free(g);
        }
    }
}

static void most_neurons(void **state) {
    (void)state;
    float *g = random_g(2, 65536, 0.13);
    check_all(2, 65536, 8, g);
    free(g);
    ember_twell packed = make(1, 1, 8, 0);
    const float one = 1.0F;
    packed.n_neurons = 65537;
    check_fails(ember_twell_pack(&packed, &one, 1), EMBER_E_SHAPE, "65537");
    packed.n_neurons = 0;
    check_fails(ember_twell_pack(&packed, &one, 1), EMBER_E_SHAPE, "0 neurons");
    packed.n_neurons = 1;
    packed.n_tokens = 0;
    check_fails(ember_twell_pack(&packed, &one, 1), EMBER_E_SHAPE, "0 tokens");
    packed.n_tokens = 1;
    packed.compression = 32;
    check_fails(ember_twell_pack(&packed, &one, 1), EMBER_E_ARGUMENT, "C = 32");
    packed.compression = 8;
    drop(&packed);
}

/* 31 fit a tile of 32 words; the short last tile owns as many words as the others. */
static void adversarial_tiles(void **state) {
    (void)state;
    const int64_t firing[] = {30, 31, 32, 33, 128, 255, 256};
    for (size_t i = 0; i < sizeof firing / sizeof firing[0]; i++) {
        float *g = random_g(4, 256 + 100, 0.0);
        for (int64_t k = 0; k < firing[i]; k++)
            g[356 + 255 - k] = (float)(k + 1);
        for (int64_t k = 0; k < 100; k++)
            g[3 * 356 + 256 + k] = 2.0F;
        check_all(4, 356, 8, g);
        free(g);
    }
}

static void special_values(void **state) {
    (void)state;
    float g[64] = {0.0F};
    g[0] = NAN;
    g[1] = -NAN;
    g[2] = -0.0F;
    g[3] = INFINITY;
    g[4] = -INFINITY;
    g[5] = 1e-45F;
    g[6] = -1e-45F;
    g[63] = NAN;
    ember_twell packed = make(1, 64, 8, 0);
    check_ok(ember_twell_pack(&packed, g, 1));
    assert_int_equal(packed.words[0], 5); /* NaN of either sign, infinity, the smallest denormal, NaN */
    check_packed(&packed, g);
    drop(&packed);
}

static void spill_capacity(void **state) {
    (void)state;
    float *g = random_g(9, 300, 0.4);
    ember_twell ample = make(9, 300, 16, 9 * 300);
    check_ok(ember_twell_pack(&ample, g, 2));
    const int64_t needed = ample.spill_count;
    assert_true(needed > 0);
    ember_twell small = make(9, 300, 16, needed - 1);
    char count[32];
    (void)snprintf(count, sizeof count, "%lld", (long long)needed);
    check_fails(ember_twell_pack(&small, g, 2), EMBER_E_CAPACITY, count);
    check_guards(&small);
    assert_int_equal(small.spill_count, needed);
    float *dense = malloc(9 * 300 * sizeof *dense);
    assert_non_null(dense);
    check_fails(ember_twell_unpack(dense, &small, 1), EMBER_E_STATE, "spill");
    ember_twell exact = make(9, 300, 16, needed);
    check_ok(ember_twell_pack(&exact, g, 2));
    check_guards(&exact);
    assert_memory_equal(exact.spill, ample.spill, (size_t)needed * sizeof *exact.spill);
    assert_memory_equal(exact.words, ample.words, (size_t)(9 * ember_twell_words_per_row(300, 16)) * sizeof *exact.words);
    free(dense);
    free(g);
    drop(&ample);
    drop(&small);
    drop(&exact);
}

/* A buffer from elsewhere may be damaged: an error, never an access outside. */
static void damaged_buffers(void **state) {
    (void)state;
    float *g = random_g(3, 300, 0.4);
    float *dense = malloc(3 * 300 * sizeof *dense);
    uint32_t columns[900];
    float values[900];
    int64_t row_start[4];
    assert_non_null(dense);
    ember_csr csr = {.n_rows = 3, .capacity = 900, .row_start = row_start, .columns = columns, .values = values};
    const int64_t second = ember_twell_words_per_row(300, 16) + 16; /* row 1, tile 1: 44 neurons wide */
    for (int damage = 0; damage < 5; damage++) {
        ember_twell packed = make(3, 300, 16, 900);
        check_ok(ember_twell_pack(&packed, g, 1));
        if (damage == 0) packed.words[second] = 45;
        if (damage == 1) packed.words[second + 1] = 299 + 1;
        if (damage == 2) packed.words[second + 1] = 3;
        if (damage == 3) packed.spill_count--;
        if (damage == 4) packed.spill[packed.spill_count / 2].neuron = 70000;
        check_fails(ember_twell_unpack(dense, &packed, 2), EMBER_E_FORMAT, damage < 3 ? "token 1" : "token");
        check_fails(ember_twell_to_csr(&csr, &packed, 2), EMBER_E_FORMAT, "malformed");
        drop(&packed);
    }
    ember_twell packed = make(3, 300, 16, 900);
    check_ok(ember_twell_pack(&packed, g, 1));
    csr.n_rows = 4;
    check_fails(ember_twell_to_csr(&csr, &packed, 2), EMBER_E_SHAPE, "4 rows");
    drop(&packed);
    free(g);
    free(dense);
}

/* The level is chosen from the environment at each pack: plain and vector versions agree. */
static void levels_agree(void **state) {
    (void)state;
    float *g = random_g(40, 777, 0.1);
    const char *const levels[] = {"plain", "avx2", "avx512"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(setenv("EMBER_CPU", levels[i], 1), 0);
        check_all(40, 777, 8, g);
    }
    assert_int_equal(setenv("EMBER_CPU", "fast", 1), 0);
    ember_twell packed = make(40, 777, 8, 0);
    check_fails(ember_twell_pack(&packed, g, 1), EMBER_E_ARGUMENT, "fast");
    assert_int_equal(unsetenv("EMBER_CPU"), 0);
    drop(&packed);
    free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_and_compression),
        cmocka_unit_test(most_neurons),
        cmocka_unit_test(adversarial_tiles),
        cmocka_unit_test(special_values),
        cmocka_unit_test(spill_capacity),
        cmocka_unit_test(damaged_buffers),
        cmocka_unit_test(levels_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
