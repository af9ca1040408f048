/* ffn_check.h - the whole check of one feed-forward problem; for the test programs of this folder. */
#ifndef EMBER_TESTS_FFN_CHECK_H
#define EMBER_TESTS_FFN_CHECK_H

#include "tests/check.h"

#include <math.h>

#include "kernels/cases/ffn_case.h"
#include "kernels/cpu/backend_cpu.h"
#include "kernels/cpu/ffn_cpu.h"
#include "lib/base/philox.h"

static ember_backend *backend; /* of the test at hand */

static inline void open_backend(int n_threads, ember_cpu_isa isa) {
    check_ok(ember_cpu_backend_create(&backend, n_threads));
    ember_cpu_set_isa(backend, isa);
}

static inline void close_backend(void) {
    ember_backend_free(backend);
    backend = NULL;
}

static inline ember_ffn_case_spec spec_of(int64_t m, int64_t d, int64_t h, double density) {
    return (ember_ffn_case_spec){
        .shape = {.n_tokens = m, .hidden = d, .n_neurons = h, .compression = 8}, .density = density, .seed = 7, .backward = true};
}

/* Random gate values of which `share` fire: exactly as many as asked for at 0, 1 and one alone. */
static inline float *random_g(int64_t m, int64_t h, double share) {
    float *g = malloc((size_t)(m * h) * sizeof *g);
    assert_non_null(g);
    for (int64_t i = 0; i < m * h; i++) {
        const double u = ember_philox_uniform(3, EMBER_STREAM_TENSOR + 99, (uint64_t)i);
        const float size = 0.01F + fabsf(ember_philox_normal(4, EMBER_STREAM_TENSOR + 98, (uint64_t)i));
        g[i] = u < share ? size : -size;
    }
    return g;
}

static inline void check_mode(ember_ffn_case *problem, const ember_ffn_reference *reference, ember_ffn_mode mode, const char *what) {
    check_ok(ember_ffn_case_run(problem, mode));
    const char *zone = ember_ffn_case_broken_zone(problem);
    if (zone) fail_msg("%s mode %d: red zone of %s was written", what, (int)mode, zone);
    const ember_ffn_distance worst = ember_ffn_case_distance(problem, reference);
    if (worst.worst > EMBER_FFN_TOLERANCE) {
        fail_msg("%s mode %d: %s[%lld, %lld] = %.9g, not %.9g: %.3g tolerance units", what, (int)mode, worst.output, (long long)worst.row,
                 (long long)worst.column, worst.value, worst.reference, worst.worst);
    }
    const ember_ffn_args *a = &problem->args;
    assert_int_equal(problem->l0_sum, reference->l0_sum);
    assert_memory_equal(a->fire_count, reference->fire_count, (size_t)problem->shape.n_neurons * sizeof(uint64_t));
    assert_memory_equal(a->token_l0, reference->token_l0, (size_t)problem->shape.n_tokens * sizeof(uint32_t));
    if (fabs(problem->l1_sum - reference->l1_sum) > 1e-5 * reference->l1_sum) {
        fail_msg("%s mode %d: L1 %.9g, not %.9g", what, (int)mode, problem->l1_sum, reference->l1_sum);
    }
    assert_int_equal(problem->saved[mode].nnz, reference->nnz);
}

/* Entries consumed by each pass = sum of word 0. */
static inline void check_entries(const ember_ffn_case *problem, const ember_ffn_reference *reference, const char *what) {
    const ember_ffn_saved *saved = &problem->saved[EMBER_MODE_TWELL];
    for (int pass = 0; pass < EMBER_N_PASSES; pass++) {
        const bool unused =
            (pass == EMBER_PASS_UP && problem->shape.kind == EMBER_FFN_PLAIN) || (pass > EMBER_PASS_DOWN && !problem->args.dy);
        const int64_t wanted = unused ? 0 : reference->nnz;
        if (saved->entries[pass] != wanted) {
            fail_msg("%s: pass %d multiplied %lld entries of %lld", what, pass, (long long)saved->entries[pass], (long long)wanted);
        }
    }
}

/* A copy of every output, to compare bits. */
typedef struct snapshot {
    void *copy[8];
    uint64_t l0_sum;
    double l1_sum;
} snapshot;

static inline snapshot take(const ember_ffn_case *problem) {
    snapshot s = {.l0_sum = problem->l0_sum, .l1_sum = problem->l1_sum};
    for (int i = 0; i < problem->n_outputs; i++) {
        const size_t bytes = problem->outputs[i].bytes + 512;
        s.copy[i] = malloc(bytes);
        assert_non_null(s.copy[i]);
        memcpy(s.copy[i], problem->outputs[i].block, bytes);
    }
    return s;
}

static inline void check_same(const ember_ffn_case *problem, const snapshot *s, const char *what) {
    for (int i = 0; i < problem->n_outputs; i++) {
        if (memcmp(s->copy[i], problem->outputs[i].block, problem->outputs[i].bytes + 512) != 0) {
            fail_msg("%s: %s differs in its bits", what, problem->outputs[i].name);
        }
    }
    assert_true(s->l0_sum == problem->l0_sum);
    assert_memory_equal(&s->l1_sum, &problem->l1_sum, sizeof s->l1_sum);
}

static inline void drop(snapshot *s) {
    for (int i = 0; i < 8; i++)
        free(s->copy[i]);
}

/* The whole check of one problem: both modes against double, entries, the same bits twice. */
static inline void check_problem(const ember_ffn_case_spec *spec, const char *what) {
    ember_ffn_case *problem = NULL;
    ember_ffn_reference reference;
    check_ok(ember_ffn_case_create(&problem, backend, spec));
    check_ok(ember_ffn_reference_create(&reference, &spec->shape));
    ember_ffn_reference_run(&reference, &problem->args);
    check_mode(problem, &reference, EMBER_MODE_DENSE, what);
    snapshot first = take(problem);
    check_ok(ember_ffn_case_run(problem, EMBER_MODE_DENSE));
    check_same(problem, &first, what);
    drop(&first);
    if (spec->shape.activation != EMBER_SILU) {
        check_mode(problem, &reference, EMBER_MODE_TWELL, what);
        check_entries(problem, &reference, what);
        first = take(problem);
        check_ok(ember_ffn_case_run(problem, EMBER_MODE_TWELL));
        check_same(problem, &first, what);
        drop(&first);
    }
    ember_ffn_reference_free(&reference);
    ember_ffn_case_free(problem);
}

static inline void check_given(ember_ffn_case_spec spec, double share, const char *what) {
    float *g = random_g(spec.shape.n_tokens, spec.shape.n_neurons, share);
    spec.given_g = g;
    check_problem(&spec, what);
    free(g);
}

#endif
