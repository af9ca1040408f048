/* rooms: kernels base */
/* test_ffn.c - the feed-forward block, dense and twell, against the definition in double: every token row and
 * neuron row at shapes and densities of every kind, the same bits twice and for any number of threads. */
#include "tests/kernel/ffn_check.h"

static void densities(void **state) {
    (void)state;
    const double shares[] = {0.0, 0.001, 0.01, 0.1, 0.5, 1.0};
    open_backend(2, EMBER_ISA_AVX512);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        for (int kind = 0; kind < 2; kind++) {
            for (int activation = 0; activation < 2; activation++) {
                ember_ffn_case_spec spec = spec_of(65, 40, 515, 0.0);
                spec.shape.kind = (ember_ffn_kind)kind;
                spec.shape.activation = (ember_activation)activation;
                spec.with_mask = (i + (size_t)kind) % 2 == 0;
                spec.l1_scale = activation == 0 ? 1e-2F : 0.0F;
                char what[96];
                (void)snprintf(what, sizeof what, "density %g kind %d activation %d", shares[i], kind, activation);
                check_given(spec, shares[i], what);
            }
        }
    }
    close_backend();
}

static void one_nonzero_row_and_column(void **state) {
    (void)state;
    const int64_t m = 66;
    const int64_t h = 700;
    open_backend(2, EMBER_ISA_AVX512);
    for (int which = 0; which < 3; which++) {
        float *g = random_g(m, h, 0.0);
        if (which == 0) g[33 * h + 699] = 1.5F;
        for (int64_t j = 0; which == 1 && j < h; j++)
            g[65 * h + j] = 0.5F;
        for (int64_t t = 0; which == 2 && t < m; t++)
            g[t * h + 256] = 0.25F;
        ember_ffn_case_spec spec = spec_of(m, 33, h, 0.0);
        spec.given_g = g;
        spec.l1_scale = 1e-3F;
        check_problem(&spec, which == 0 ? "one non-zero" : which == 1 ? "one full row" : "one full column");
        free(g);
    }
    close_backend();
}

static void token_counts(void **state) {
    (void)state;
    const int64_t tokens[] = {1, 2, 7, 8, 9, 31, 63, 64, 65, 255, 256, 257, 513};
    open_backend(3, EMBER_ISA_AVX512);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        ember_ffn_case_spec spec = spec_of(tokens[i], 24, 300, 0.0);
        spec.with_mask = true;
        spec.l1_scale = 1e-3F;
        char what[64];
        (void)snprintf(what, sizeof what, "%lld tokens", (long long)tokens[i]);
        check_given(spec, 0.08, what);
    }
    close_backend();
}

static void neuron_counts(void **state) {
    (void)state;
    const int64_t neurons[] = {1, 2, 172, 255, 256, 257, 2048, 65536};
    open_backend(2, EMBER_ISA_AVX512);
    for (size_t i = 0; i < sizeof neurons / sizeof neurons[0]; i++) {
        ember_ffn_case_spec spec = spec_of(neurons[i] > 10000 ? 3 : 37, 10, neurons[i], 0.0);
        char what[64];
        (void)snprintf(what, sizeof what, "%lld neurons", (long long)neurons[i]);
        check_given(spec, 0.2, what);
    }
    ember_ffn_case *problem = NULL;
    const ember_ffn_case_spec too_many = spec_of(1, 1, 65537, 0.0);
    check_ok(ember_ffn_case_create(&problem, backend, &too_many));
    check_fails(ember_ffn_case_forward(problem, EMBER_MODE_TWELL), EMBER_E_SHAPE, "65537");
    check_fails(ember_ffn_case_forward(problem, EMBER_MODE_DENSE), EMBER_E_SHAPE, "65537");
    ember_ffn_case_free(problem);
    close_backend();
}

static void hidden_sizes(void **state) {
    (void)state;
    const int64_t hidden[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 53, 64, 97, 130, 257, 512};
    open_backend(2, EMBER_ISA_AVX512);
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        char what[64];
        (void)snprintf(what, sizeof what, "hidden %lld", (long long)hidden[i]);
        check_given(spec_of(19, hidden[i], 130, 0.0), 0.3, what);
    }
    close_backend();
}

static void compressions(void **state) {
    (void)state;
    const int64_t compression[] = {2, 4, 8, 16};
    open_backend(2, EMBER_ISA_AVX512);
    for (size_t i = 0; i < 4; i++) {
        for (int kind = 0; kind < 2; kind++) {
            ember_ffn_case_spec spec = spec_of(40, 12, 600, 0.0);
            spec.shape.compression = compression[i];
            spec.shape.kind = (ember_ffn_kind)kind;
            char what[64];
            (void)snprintf(what, sizeof what, "C %lld kind %d", (long long)compression[i], kind);
            check_given(spec, 0.15, what); /* overflows at 8 and 16 */
        }
    }
    ember_ffn_case *problem = NULL;
    ember_ffn_case_spec spec = spec_of(4, 4, 4, 0.0);
    check_ok(ember_ffn_case_create(&problem, backend, &spec));
    problem->args.shape.compression = 3;
    check_fails(ember_ffn_case_forward(problem, EMBER_MODE_TWELL), EMBER_E_ARGUMENT, "C = 3");
    ember_ffn_case_free(problem);
    close_backend();
}

static void silu_is_dense_only(void **state) {
    (void)state;
    open_backend(2, EMBER_ISA_AVX512);
    for (int kind = 0; kind < 2; kind++) {
        ember_ffn_case_spec spec = spec_of(33, 20, 70, 0.5);
        spec.shape.activation = EMBER_SILU;
        spec.shape.kind = (ember_ffn_kind)kind;
        spec.with_mask = true;
        spec.l1_scale = 1e-2F;
        check_given(spec, 0.5, "silu");
        ember_ffn_case *problem = NULL;
        check_ok(ember_ffn_case_create(&problem, backend, &spec));
        ember_ffn_args args = problem->args;
        args.mode = EMBER_MODE_TWELL;
        args.saved = &problem->saved[EMBER_MODE_DENSE];
        check_fails(backend->ops->ffn_forward(backend, &args), EMBER_E_UNSUPPORTED, "dense");
        ember_ffn_case_free(problem);
    }
    close_backend();
}

/* The same bits whatever the number of threads, in both modes, also where threads share a token. */
static void threads_give_the_same_bits(void **state) {
    (void)state;
    const int64_t tokens[] = {1, 3, 70, 300};
    const int n_threads[] = {1, 2, 4, 7};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        for (int mode = 0; mode < 2; mode++) {
            snapshot first = {0};
            for (size_t k = 0; k < sizeof n_threads / sizeof n_threads[0]; k++) {
                open_backend(n_threads[k], EMBER_ISA_AVX512);
                ember_ffn_case_spec spec = spec_of(tokens[i], 200, 900, 0.1);
                spec.with_mask = true;
                spec.l1_scale = 1e-3F;
                ember_ffn_case *problem = NULL;
                check_ok(ember_ffn_case_create(&problem, backend, &spec));
                check_ok(ember_ffn_case_run(problem, (ember_ffn_mode)mode));
                if (k == 0) {
                    first = take(problem);
                } else {
                    check_same(problem, &first, mode ? "twell over threads" : "dense over threads");
                }
                ember_ffn_case_free(problem);
                close_backend();
            }
            drop(&first);
        }
    }
}

/* Every instruction set against double; each level's bits do not depend on the threads either. */
static void instruction_sets(void **state) {
    (void)state;
    for (int isa = 0; isa <= (int)ember_cpu_isa_best(); isa++) {
        for (int n_threads = 1; n_threads <= 2; n_threads++) {
            open_backend(n_threads, (ember_cpu_isa)isa);
            assert_int_equal(ember_cpu_isa_of(backend), isa);
            ember_ffn_case_spec spec = spec_of(67, 83, 530, 0.0);
            spec.l1_scale = 1e-3F;
            check_given(spec, 0.13, ember_cpu_isa_name((ember_cpu_isa)isa));
            spec.shape.kind = EMBER_FFN_PLAIN;
            check_given(spec, 0.13, ember_cpu_isa_name((ember_cpu_isa)isa));
            close_backend();
        }
    }
}

/* The real gate product: g within rounding of double, flips only where it may be 0, and then both modes on that g. */
static void gate_product(void **state) {
    (void)state;
    const int64_t tokens[] = {1, 5, 8, 9, 130};
    open_backend(2, EMBER_ISA_AVX512);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        ember_ffn_case_spec spec = spec_of(tokens[i], 120, 600, 0.1);
        ember_ffn_case *problem = NULL;
        check_ok(ember_ffn_case_create(&problem, backend, &spec));
        check_ok(ember_ffn_case_run(problem, EMBER_MODE_TWELL));
        const ember_ffn_support s = ember_ffn_saved_support(&problem->saved[EMBER_MODE_TWELL], &problem->shape);
        for (int64_t t = 0; t < tokens[i]; t++) {
            int64_t k = s.row_start[t];
            for (int64_t j = 0; j < 600; j++) {
                double g = 0.0;
                double size = 0.0;
                for (int64_t c = 0; c < 120; c++) {
                    const double term = (double)problem->args.x[t * 120 + c] * (double)problem->args.gate[j * 120 + c];
                    g += term;
                    size += fabs(term);
                }
                const double rounding = 8.0 * ldexp(1.0, -24) * size;
                const bool fired = k < s.row_start[t + 1] && s.neurons[k] == j;
                if (fired) {
                    if (fabs((double)s.g[k] - g) > rounding)
                        fail_msg("token %lld neuron %lld: g %.9g, not %.9g", (long long)t, (long long)j, (double)s.g[k], g);
                    k++;
                } else if (g > rounding) {
                    fail_msg("token %lld neuron %lld: g %.9g did not fire", (long long)t, (long long)j, g);
                }
            }
            assert_int_equal(k, s.row_start[t + 1]);
        }
        ember_ffn_case_free(problem);
    }
    close_backend();
}

/* y += in place of y =, for the residual stream. */
static void accumulate_adds_to_y(void **state) {
    (void)state;
    open_backend(2, EMBER_ISA_AVX512);
    for (int64_t m = 1; m <= 40; m += 39) {
        for (int mode = 0; mode < 2; mode++) {
            ember_ffn_case_spec spec = spec_of(m, 50, 300, 0.1);
            ember_ffn_case *problem = NULL;
            check_ok(ember_ffn_case_create(&problem, backend, &spec));
            check_ok(ember_ffn_case_run(problem, (ember_ffn_mode)mode));
            const size_t n = (size_t)(m * 50);
            float *plain = malloc(n * sizeof *plain);
            assert_non_null(plain);
            memcpy(plain, problem->args.y, n * sizeof *plain);
            for (size_t i = 0; i < n; i++)
                problem->args.y[i] = (float)i;
            problem->args.accumulate = true;
            check_ok(ember_ffn_case_forward(problem, (ember_ffn_mode)mode));
            for (size_t i = 0; i < n; i++) {
                const double wanted = (double)i + (double)plain[i];
                if (fabs((double)problem->args.y[i] - wanted) > 1e-6 * ((double)i + 1.0)) {
                    fail_msg("mode %d: y[%zu] = %.9g, not %.9g", mode, i, (double)problem->args.y[i], wanted);
                }
            }
            free(plain);
            ember_ffn_case_free(problem);
        }
    }
    close_backend();
}

/* Two micro-batches add to the same gradients and counters as one call over both. */
static void gradients_and_counters_accumulate(void **state) {
    (void)state;
    open_backend(2, EMBER_ISA_AVX512);
    for (int mode = 0; mode < 2; mode++) {
        ember_ffn_case_spec spec = spec_of(40, 30, 300, 0.1);
        ember_ffn_case *problem = NULL;
        check_ok(ember_ffn_case_create(&problem, backend, &spec));
        check_ok(ember_ffn_case_run(problem, (ember_ffn_mode)mode));
        snapshot one = take(problem);
        check_ok(ember_ffn_case_forward(problem, (ember_ffn_mode)mode));
        check_ok(ember_ffn_case_backward(problem, (ember_ffn_mode)mode));
        assert_int_equal(problem->l0_sum, 2 * one.l0_sum);
        assert_true(fabs(problem->l1_sum - 2.0 * one.l1_sum) <= 1e-12 * one.l1_sum);
        for (int i = 0; i < problem->n_outputs; i++) {
            if (problem->outputs[i].overwritten || strcmp(problem->outputs[i].name, "fire_count") == 0) continue;
            const float *before = (const float *)(const void *)((const char *)one.copy[i] + 256);
            const float *after = (const float *)(const void *)((const char *)problem->outputs[i].block + 256);
            for (size_t k = 0; k < problem->outputs[i].bytes / sizeof(float); k++) {
                if (fabsf(after[k] - 2.0F * before[k]) > 1e-5F * fabsf(before[k]) + 1e-6F) {
                    fail_msg("mode %d: %s[%zu] = %.9g after %.9g", mode, problem->outputs[i].name, k, (double)after[k], (double)before[k]);
                }
            }
        }
        drop(&one);
        ember_ffn_case_free(problem);
    }
    close_backend();
}

static void states_that_are_refused(void **state) {
    (void)state;
    open_backend(1, EMBER_ISA_AVX512);
    ember_ffn_case *problem = NULL;
    const ember_ffn_case_spec spec = spec_of(20, 8, 100, 0.1);
    check_ok(ember_ffn_case_create(&problem, backend, &spec));
    ember_ffn_args args = problem->args;
    args.mode = EMBER_MODE_TWELL;
    args.saved = &problem->saved[EMBER_MODE_DENSE];
    args.saved->mode = EMBER_MODE_DENSE;
    check_fails(backend->ops->ffn_backward(backend, &args), EMBER_E_STATE, "mode");
    args.saved->block_bytes = 16;
    check_fails(backend->ops->ffn_forward(backend, &args), EMBER_E_STATE, "16 bytes");
    args.shape.n_tokens = 0;
    check_fails(backend->ops->ffn_forward(backend, &args), EMBER_E_SHAPE, "0 tokens");
    args.shape.n_tokens = 20;
    args.shape.hidden = 0;
    check_fails(backend->ops->ffn_forward(backend, &args), EMBER_E_SHAPE, "hidden size 0");
    args.mode = (ember_ffn_mode)7;
    args.shape.hidden = 8;
    check_fails(backend->ops->ffn_forward(backend, &args), EMBER_E_ARGUMENT, "mode 7");
    ember_ffn_case_free(problem);
    close_backend();
    /* a backend that was prepared for less */
    open_backend(1, EMBER_ISA_AVX512);
    check_ok(ember_ffn_case_create(&problem, backend, &spec));
    ember_backend *bare = NULL;
    check_ok(ember_cpu_backend_create(&bare, 1));
    problem->backend = bare;
    check_fails(ember_ffn_case_forward(problem, EMBER_MODE_TWELL), EMBER_E_STATE, "prepare");
    ember_backend_free(bare);
    ember_ffn_case_free(problem);
    close_backend();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(densities),
        cmocka_unit_test(one_nonzero_row_and_column),
        cmocka_unit_test(token_counts),
        cmocka_unit_test(neuron_counts),
        cmocka_unit_test(hidden_sizes),
        cmocka_unit_test(compressions),
        cmocka_unit_test(silu_is_dense_only),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(instruction_sets),
        cmocka_unit_test(gate_product),
        cmocka_unit_test(accumulate_adds_to_y),
        cmocka_unit_test(gradients_and_counters_accumulate),
        cmocka_unit_test(states_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
