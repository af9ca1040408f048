/* rooms: kernels base */
/* test_ffn_losses.c - the ways in which published sparse feed-forward kernels lose values, each as a problem that must
 * come out exact here (FFN biases have no place in this model and are refused at import). */
#include "tests/kernel/ffn_check.h"

static float *silent_g(int64_t m, int64_t h) {
    float *g = malloc((size_t)(m * h) * sizeof *g);
    assert_non_null(g);
    for (int64_t i = 0; i < m * h; i++)
        g[i] = i % 3 == 0 ? 0.0F : i % 3 == 1 ? -0.0F : -1.0F;
    return g;
}

static void check_g(ember_ffn_case_spec spec, float *g, const char *what) {
    spec.given_g = g;
    check_problem(&spec, what);
    free(g);
}

/* Losses 1 and 2: more firing neurons in a tile than it has slots; L0 stays the true one. */
static void full_tiles(void **state) {
    (void)state;
    const int64_t firing[] = {31, 32, 33, 127, 128, 129, 255, 256};
    const int64_t compression[] = {2, 8, 16};
    const int64_t h = 256 + 256 + 70; /* a short last tile */
    open_backend(2, EMBER_ISA_AVX512);
    for (size_t c = 0; c < 3; c++) {
        for (size_t i = 0; i < sizeof firing / sizeof firing[0]; i++) {
            float *g = silent_g(5, h);
            for (int64_t k = 0; k < firing[i]; k++) {
                g[0 * h + k] = 0.5F + (float)k;                        /* the first tile of the first row */
                g[3 * h + 256 + 255 - k] = 0.25F;                      /* from the end of a middle tile */
                g[4 * h + 512 + (firing[i] < 70 ? k : k % 70)] = 0.1F; /* the short tile, up to all of it */
            }
            ember_ffn_case_spec spec = spec_of(5, 12, h, 0.0);
            spec.shape.compression = compression[c];
            spec.l1_scale = 1e-3F;
            char what[64];
            (void)snprintf(what, sizeof what, "%lld firing in a tile, C %lld", (long long)firing[i], (long long)compression[c]);
            check_g(spec, g, what);
        }
    }
    close_backend();
}

/* Loss 3: neurons beyond 8,192. */
static void many_neurons_learn(void **state) {
    (void)state;
    const int64_t h = 9000;
    float *g = silent_g(9, h);
    for (int64_t t = 0; t < 9; t++) {
        for (int64_t j = 8190; j < h; j += 3)
            g[t * h + j] = 0.5F;
    }
    open_backend(2, EMBER_ISA_AVX512);
    check_g(spec_of(9, 6, h, 0.0), g, "neurons beyond 8192");
    close_backend();
}

/* Loss 4: more than 2,048 tokens with more than 128 firing neurons each. */
static void many_full_tokens(void **state) {
    (void)state;
    open_backend(2, EMBER_ISA_AVX512);
    check_given(spec_of(2100, 2, 140, 0.0), 1.0, "2100 tokens with 140 firing");
    close_backend();
}

/* Loss 5: a neuron that fires for more than 256 tokens, beside full rows. */
static void busy_neuron(void **state) {
    (void)state;
    const int64_t m = 700;
    const int64_t h = 300;
    float *g = silent_g(m, h);
    for (int64_t t = 0; t < m; t++)
        g[t * h + 17] = g[t * h + 299] = 0.3F;
    for (int64_t j = 0; j < h; j++)
        g[j] = g[(m - 1) * h + j] = 0.2F;
    open_backend(2, EMBER_ISA_AVX512);
    check_g(spec_of(m, 5, h, 0.0), g, "a neuron of 700 tokens");
    close_backend();
}

/* Loss 6: nothing of an earlier batch is left in saved state or scratch; no L1. */
static void reused_memory(void **state) {
    (void)state;
    open_backend(2, EMBER_ISA_AVX512);
    const int64_t m = 60;
    const int64_t h = 520;
    float *full = random_g(m, h, 0.9);
    float *thin = random_g(m, h, 0.02);
    ember_ffn_case_spec spec = spec_of(m, 14, h, 0.0);
    spec.given_g = thin;
    ember_ffn_case *problem = NULL;
    check_ok(ember_ffn_case_create(&problem, backend, &spec));
    check_ok(ember_ffn_case_run(problem, EMBER_MODE_TWELL));
    snapshot fresh = take(problem);
    memcpy(problem->given_g, full, (size_t)(m * h) * sizeof *full);
    check_ok(ember_ffn_case_run(problem, EMBER_MODE_TWELL));
    memcpy(problem->given_g, thin, (size_t)(m * h) * sizeof *thin);
    check_ok(ember_ffn_case_run(problem, EMBER_MODE_TWELL));
    check_same(problem, &fresh, "thin, full, thin");
    drop(&fresh);
    ember_ffn_case_free(problem);
    free(full);
    free(thin);
    close_backend();
}

/* Loss 7: more than 65,536 tokens in a call. */
static void many_tokens(void **state) {
    (void)state;
    open_backend(2, EMBER_ISA_AVX512);
    ember_ffn_case_spec spec = spec_of(65600, 2, 3, 0.0);
    spec.with_mask = true;
    check_given(spec, 0.3, "65600 tokens");
    close_backend();
}

/* Losses 8 and 9: any number of tokens, any d and h; no multiples wanted. */
static void any_size(void **state) {
    (void)state;
    const int64_t sizes[][3] = {{1, 1, 1}, {1, 2048, 60}, {3, 31, 37}, {257, 3, 129}, {6, 100, 1000}};
    open_backend(2, EMBER_ISA_AVX512);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char what[64];
        (void)snprintf(what, sizeof what, "M %lld d %lld h %lld", (long long)sizes[i][0], (long long)sizes[i][1], (long long)sizes[i][2]);
        check_given(spec_of(sizes[i][0], sizes[i][1], sizes[i][2], 0.0), 0.4, what);
    }
    close_backend();
}

/* Loss 10: a NaN gate value fires, is counted, and reaches its token and its neuron, no other. */
static void nan_fires(void **state) {
    (void)state;
    const int64_t m = 9;
    const int64_t h = 300;
    for (int isa = 0; isa <= (int)ember_cpu_isa_best(); isa++) {
        open_backend(2, (ember_cpu_isa)isa);
        for (int mode = 0; mode < 2; mode++) {
            float *g = silent_g(m, h);
            g[2 * h + 270] = NAN;
            g[2 * h + 4] = g[5 * h + 270] = g[5 * h + 7] = 1.0F;
            ember_ffn_case_spec spec = spec_of(m, 11, h, 0.0);
            spec.given_g = g;
            ember_ffn_case *problem = NULL;
            check_ok(ember_ffn_case_create(&problem, backend, &spec));
            check_ok(ember_ffn_case_run(problem, (ember_ffn_mode)mode));
            const ember_ffn_args *a = &problem->args;
            assert_int_equal(problem->l0_sum, 4);
            assert_int_equal(a->fire_count[270], 2);
            assert_int_equal(a->token_l0[2], 2);
            assert_true(isnan(problem->l1_sum));
            for (int64_t c = 0; c < 11; c++) {
                assert_true(isnan(a->y[2 * 11 + c]));
                assert_true(isnan(a->d_gate[270 * 11 + c]) || isnan(a->d_up[270 * 11 + c]));
                assert_true(isfinite(a->y[5 * 11 + c]) && a->y[5 * 11 + c] != 0.0F);
                assert_true(isfinite(a->d_up[7 * 11 + c]) && isfinite(a->d_gate[4 * 11 + c]));
                if (mode == EMBER_MODE_TWELL) assert_true(a->y[0 * 11 + c] == 0.0F);
            }
            ember_ffn_case_free(problem);
            free(g);
        }
        close_backend();
    }
}

/* 0 and -0 do not fire; the smallest positive number and infinity do. */
static void edge_values(void **state) {
    (void)state;
    open_backend(1, EMBER_ISA_AVX512);
    float *g = silent_g(1, 40);
    g[0] = 1e-45F;
    g[1] = 0.0F;
    g[2] = -0.0F;
    g[39] = -1e-45F;
    ember_ffn_case_spec spec = spec_of(1, 3, 40, 0.0);
    spec.given_g = g;
    ember_ffn_case *problem = NULL;
    for (int mode = 0; mode < 2; mode++) {
        check_ok(ember_ffn_case_create(&problem, backend, &spec));
        check_ok(ember_ffn_case_run(problem, (ember_ffn_mode)mode));
        assert_int_equal(problem->l0_sum, 1);
        assert_int_equal(problem->args.fire_count[0], 1);
        ember_ffn_case_free(problem);
    }
    free(g);
    close_backend();
}

/* Loss 12: the order of gradient sums is fixed: eight runs on four threads, the same bits. */
static void runs_agree(void **state) {
    (void)state;
    open_backend(4, EMBER_ISA_AVX512);
    ember_ffn_case_spec spec = spec_of(200, 64, 800, 0.2);
    ember_ffn_case *problem = NULL;
    check_ok(ember_ffn_case_create(&problem, backend, &spec));
    check_ok(ember_ffn_case_run(problem, EMBER_MODE_TWELL));
    snapshot first = take(problem);
    for (int i = 0; i < 8; i++) {
        check_ok(ember_ffn_case_run(problem, EMBER_MODE_TWELL));
        check_same(problem, &first, "eight runs");
    }
    drop(&first);
    ember_ffn_case_free(problem);
    close_backend();
}

/* A spill array that is too small is an error that says what is needed, at one entry less too; the
 * grown one gives the bits of one that was large from the start. */
static void spill_grows(void **state) {
    (void)state;
    open_backend(2, EMBER_ISA_AVX512);
    float *g = random_g(50, 600, 0.6);
    ember_ffn_case_spec spec = spec_of(50, 20, 600, 0.0);
    spec.given_g = g;
    spec.l1_scale = 1e-3F;
    spec.spill_capacity = 50 * 600;
    ember_ffn_case *ample = NULL;
    check_ok(ember_ffn_case_create(&ample, backend, &spec));
    check_ok(ember_ffn_case_run(ample, EMBER_MODE_TWELL));
    snapshot wanted = take(ample);
    const int64_t needed = ample->saved[EMBER_MODE_TWELL].spill_count;
    assert_true(needed > 1000);
    const int64_t capacities[] = {0, 1, needed / 2, needed - 1};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        ember_ffn_case *problem = NULL;
        spec.spill_capacity = capacities[i];
        check_ok(ember_ffn_case_create(&problem, backend, &spec));
        ember_ffn_case_reset(problem, EMBER_MODE_TWELL);
        char count[32];
        (void)snprintf(count, sizeof count, "%lld", (long long)needed);
        check_fails(ember_ffn_case_forward(problem, EMBER_MODE_TWELL), EMBER_E_CAPACITY, count);
        assert_int_equal(problem->saved[EMBER_MODE_TWELL].spill_count, needed);
        assert_null(ember_ffn_case_broken_zone(problem));
        check_ok(ember_ffn_case_plan(problem, EMBER_MODE_TWELL, needed));
        check_ok(ember_ffn_case_run(problem, EMBER_MODE_TWELL));
        assert_int_equal(problem->saved[EMBER_MODE_TWELL].spill_count, needed);
        check_same(problem, &wanted, "grown spill array");
        ember_ffn_case_free(problem);
    }
    drop(&wanted);
    ember_ffn_case_free(ample);
    free(g);
    close_backend();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_tiles),  cmocka_unit_test(many_neurons_learn), cmocka_unit_test(many_full_tokens),
        cmocka_unit_test(busy_neuron), cmocka_unit_test(reused_memory),      cmocka_unit_test(many_tokens),
        cmocka_unit_test(any_size),    cmocka_unit_test(nan_fires),          cmocka_unit_test(edge_values),
        cmocka_unit_test(runs_agree),  cmocka_unit_test(spill_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
