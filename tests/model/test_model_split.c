/* rooms: model kernels base */
/* One batch cut differently, other numbers of threads, a spill array that grows half-way: the same
 * gradients, to rounding or to the bit. */
#include "tests/model/model_fixture.h"

static const double lambdas[FIXTURE_LAYERS] = {0.4, 0.9, 0, 0};

typedef struct step_result {
    float *grads; /* all parameters, one after the other */
    int64_t n;
    fixture_stats s;
    uint64_t *counts; /* fire counts, all layers */
    int64_t n_counts;
    int repeats;
} step_result;

static void result_free(step_result *r) {
    free(r->grads);
    free(r->counts);
}

static ember_hparams wide_hparams(void) {
    ember_hparams p = fixture_hparams();
    p.hidden_size = 16;
    p.neurons[0] = 300;
    p.neurons[1] = 130;
    p.vocab_size = 37;
    return p;
}

typedef struct step_setup {
    ember_ffn_mode mode;
    int64_t micro;   /* sequences at once */
    int64_t planned; /* sequences planned */
    int n_threads;
    int64_t compression;
    bool padding;
    const double *lambda;
    bool quiet_start; /* next to no neuron fires in the first two sequences */
} step_setup;

enum { QUIET_ID = 36 };

/* One ordinary token at the start of the first two sequences, then silent ones; none of these elsewhere. */
static void quieten(fixture_batch *batch) {
    for (int64_t i = 0; i < batch->n_sequences * batch->sequence_length; i++) {
        const bool quiet = i < 2 * batch->sequence_length && i % batch->sequence_length > 0;
        if (quiet || batch->input_ids[i] == QUIET_ID) batch->input_ids[i] = quiet ? QUIET_ID : 1;
    }
}

static step_result run(const step_setup *setup) {
    ember_hparams p = wide_hparams();
    ember_backend *backend = NULL;
    ember_model *model = NULL;
    ember_tracker *tracker = NULL;
    check_ok(ember_cpu_backend_create(&backend, setup->n_threads));
    const ember_model_options options = {.training = true,
                                         .n_sequences = setup->planned,
                                         .sequence_length = 9,
                                         .compression = setup->compression,
                                         .may_run_dense = true,
                                         .may_run_twell = true};
    check_ok(ember_model_create(&model, backend, &p, &options));
    const ember_tracker_options tracking = {.dead_after_tokens = 100, .window_tokens = 100, .tokens_per_step = 72};
    check_ok(ember_tracker_create(&tracker, &p, &tracking));
    for (int64_t layer = 0; layer < p.num_hidden_layers; layer++)
        check_ok(ember_model_set_mode(model, layer, setup->mode));
    fixture_fill(model);
    fixture_batch batch = fixture_batch_create(8, 9, p.vocab_size, setup->padding, false);
    if (setup->quiet_start) {
        fixture_silence(model, QUIET_ID);
        quieten(&batch);
    }
    step_result r = {.n = ember_hparams_n_elements(&p)};
    r.repeats = fixture_step(model, &batch, setup->micro, setup->lambda, &r.s, tracker);
    r.grads = calloc((size_t)r.n, sizeof(float));
    assert_non_null(r.grads);
    int64_t at = 0;
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        const ember_tensor grad = ember_model_param(model, i)->grad;
        memcpy(r.grads + at, grad.data, (size_t)ember_tensor_count(grad) * sizeof(float));
        at += ember_tensor_count(grad);
    }
    r.n_counts = p.neurons[0] + p.neurons[1];
    r.counts = calloc((size_t)r.n_counts, sizeof(uint64_t));
    assert_non_null(r.counts);
    memcpy(r.counts, tracker->layers[0].step_count, (size_t)p.neurons[0] * sizeof(uint64_t));
    memcpy(r.counts + p.neurons[0], tracker->layers[1].step_count, (size_t)p.neurons[1] * sizeof(uint64_t));
    fixture_batch_free(&batch);
    ember_tracker_free(tracker);
    ember_model_free(model);
    ember_backend_free(backend);
    return r;
}

static double distance(const step_result *a, const step_result *b) {
    double difference = 0.0, norm = 0.0;
    for (int64_t i = 0; i < a->n; i++) {
        difference += ((double)a->grads[i] - (double)b->grads[i]) * ((double)a->grads[i] - (double)b->grads[i]);
        norm += (double)b->grads[i] * (double)b->grads[i];
    }
    assert_true(norm > 0);
    return sqrt(difference / norm);
}

static void check_same_bits(const step_result *a, const step_result *b) {
    assert_memory_equal(a->grads, b->grads, (size_t)a->n * sizeof(float));
    assert_memory_equal(a->counts, b->counts, (size_t)a->n_counts * sizeof(uint64_t));
    assert_memory_equal(&a->s.stats.ce_sum, &b->s.stats.ce_sum, sizeof(double));
    assert_memory_equal(a->s.l1_sum, b->s.l1_sum, sizeof a->s.l1_sum);
    assert_memory_equal(a->s.l0_sum, b->s.l0_sum, sizeof a->s.l0_sum);
}

static const ember_ffn_mode modes[] = {EMBER_MODE_DENSE, EMBER_MODE_TWELL};

static void test_split(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        const step_setup whole = {
            .mode = modes[m], .micro = 8, .planned = 8, .n_threads = 2, .compression = 4, .padding = true, .lambda = lambdas};
        step_result reference = run(&whole);
        const int64_t micros[] = {4, 2, 1};
        for (int i = 0; i < 3; i++) {
            step_setup setup = whole;
            setup.micro = micros[i];
            setup.planned = micros[i];
            step_result r = run(&setup);
            if (!(distance(&r, &reference) <= 1e-5))
                fail_msg("%d x %d: gradients differ by %g", (int)(8 / micros[i]), (int)micros[i], distance(&r, &reference));
            assert_memory_equal(r.counts, reference.counts, (size_t)r.n_counts * sizeof(uint64_t));
            assert_memory_equal(r.s.l0_sum, reference.s.l0_sum, sizeof r.s.l0_sum);
            check_close(r.s.stats.ce_sum, reference.s.stats.ce_sum, 1e-5 * reference.s.stats.ce_sum);
            for (int layer = 0; layer < 2; layer++)
                check_close(r.s.l1_sum[layer], reference.s.l1_sum[layer], 1e-5 * reference.s.l1_sum[layer]);
            result_free(&r);
        }
        result_free(&reference);
    }
}

/* What lambda adds to the gradients is the same whatever the split, and it is not nothing. */
static void test_lambda_does_not_depend_on_the_split(void **state) {
    (void)state;
    const double none[FIXTURE_LAYERS] = {0};
    step_setup setup = {
        .mode = EMBER_MODE_TWELL, .micro = 8, .planned = 8, .n_threads = 2, .compression = 4, .padding = true, .lambda = lambdas};
    step_result with = run(&setup);
    setup.lambda = none;
    step_result without = run(&setup);
    setup.micro = 1;
    step_result without_split = run(&setup);
    setup.lambda = lambdas;
    step_result with_split = run(&setup);
    double difference = 0.0, effect = 0.0;
    for (int64_t i = 0; i < with.n; i++) {
        const double whole = (double)with.grads[i] - (double)without.grads[i];
        const double split = (double)with_split.grads[i] - (double)without_split.grads[i];
        difference += (whole - split) * (whole - split);
        effect += whole * whole;
    }
    assert_true(effect > 1e-6);
    assert_true(sqrt(difference / effect) <= 1e-5);
    result_free(&with);
    result_free(&without);
    result_free(&without_split);
    result_free(&with_split);
}

static void test_threads_same_bits(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        const int counts[] = {1, 2, 4};
        step_setup setup = {.mode = modes[m], .micro = 4, .planned = 4, .compression = 8, .padding = true, .lambda = lambdas};
        step_result r[3];
        for (int i = 0; i < 3; i++) {
            setup.n_threads = counts[i];
            r[i] = run(&setup);
        }
        check_same_bits(&r[1], &r[0]);
        check_same_bits(&r[2], &r[0]);
        for (int i = 0; i < 3; i++)
            result_free(&r[i]);
    }
}

/* Half of 300 neurons fire, and 15 words a tile hold none of that. The first micro-batch is nearly silent and fits;
 * a later one asks for more than planned, when there are gradients, sums and fire counts of the first already. The
 * step starts again, and its bits are those of a run planned for many times the tokens (whose default fits). */
static void test_spill_growth_same_bits(void **state) {
    (void)state;
    step_setup setup = {.mode = EMBER_MODE_TWELL,
                        .micro = 2,
                        .planned = 2,
                        .n_threads = 2,
                        .compression = 16,
                        .padding = true,
                        .lambda = lambdas,
                        .quiet_start = true};
    step_result grown = run(&setup);
    assert_true(grown.repeats > 0);
    assert_true(grown.s.full_micro[0] >= 1);
    assert_true(grown.s.full_micro[1] >= 1);
    assert_true(grown.s.spill[0] > 0);
    setup.planned = 1000;
    step_result planned = run(&setup);
    assert_int_equal(planned.repeats, 0);
    assert_int_equal(planned.s.full_micro[0], -1);
    assert_memory_equal(planned.s.spill, grown.s.spill, sizeof grown.s.spill);
    assert_memory_equal(planned.s.nnz, grown.s.nnz, sizeof grown.s.nnz);
    check_same_bits(&grown, &planned);
    result_free(&grown);
    result_free(&planned);
}

/* Evaluation grows the spill array of its layer by itself, counts nothing, and changes no gradient. */
static void test_evaluation_leaves_training_alone(void **state) {
    (void)state;
    ember_hparams p = wide_hparams();
    ember_backend *backend = NULL;
    ember_model *model = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    const ember_model_options options = {
        .training = true, .n_sequences = 8, .sequence_length = 9, .compression = 16, .may_run_dense = false, .may_run_twell = true};
    check_ok(ember_model_create(&model, backend, &p, &options));
    assert_int_equal(ember_model_mode(model, 0), EMBER_MODE_TWELL);
    fixture_fill(model);
    fixture_batch batch = fixture_batch_create(8, 9, p.vocab_size, true, false);
    const ember_micro_batch all = fixture_micro(&batch, 0, 8);
    fixture_stats s;
    fixture_stats_clear(&s);
    int64_t full_layer = -1;
    check_ok(ember_model_run(model, &all, NULL, &s.stats, NULL, &full_layer));
    assert_int_equal(full_layer, -1);
    assert_true(s.spill[0] > 72 * 300 / 64 + 1024);
    fixture_stats trained;
    assert_int_equal(fixture_step(model, &batch, 8, lambdas, &trained, NULL), 0);
    assert_memory_equal(&s.stats.ce_sum, &trained.stats.ce_sum, sizeof(double));
    assert_memory_equal(s.l0_sum, trained.l0_sum, sizeof s.l0_sum);
    assert_memory_equal(s.l1_sum, trained.l1_sum, sizeof s.l1_sum);
    int64_t index = 0;
    check_ok(ember_model_find_nonfinite(model, true, &index));
    assert_int_equal(index, -1);
    fixture_batch_free(&batch);
    ember_model_free(model);
    ember_backend_free(backend);
}

static double loss_without_training(const fixture_batch *batch, bool may_run_dense, ember_ffn_mode mode, fixture_stats *s,
                                    int64_t *needed) {
    ember_hparams p = wide_hparams();
    ember_backend *backend = NULL;
    ember_model *model = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    const ember_model_options options = {
        .n_sequences = 8, .sequence_length = 9, .compression = 16, .may_run_dense = may_run_dense, .may_run_twell = true};
    check_ok(ember_model_create(&model, backend, &p, &options));
    for (int64_t layer = 0; layer < p.num_hidden_layers; layer++)
        check_ok(ember_model_set_mode(model, layer, mode));
    fixture_fill(model);
    const ember_micro_batch all = fixture_micro(batch, 0, 8);
    for (int repeat = 0; repeat < 2; repeat++) { /* before and after the growth */
        fixture_stats_clear(s);
        int64_t full_layer = -1;
        check_ok(ember_model_run(model, &all, NULL, &s->stats, NULL, &full_layer));
        assert_int_equal(full_layer, -1);
    }
    for (int64_t layer = 0; layer < p.num_hidden_layers; layer++) {
        assert_int_equal(ember_model_mode(model, layer), mode);
        needed[layer] = ember_model_spill_needed(model, layer);
    }
    ember_model_free(model);
    ember_backend_free(backend);
    return s->stats.ce_sum;
}

/* Half of the neurons fire, far more than the M h / 8 that a model without training plans to spill: where it may
 * run dense it does, else the block that its layers share grows and the sparse path runs all the same. */
static void test_twell_alone_never_runs_dense(void **state) {
    (void)state;
    const ember_hparams p = wide_hparams();
    fixture_batch batch = fixture_batch_create(8, 9, p.vocab_size, true, false);
    fixture_stats dense, either, sparse;
    int64_t needed[3][2] = {{0}};
    const double loss = loss_without_training(&batch, true, EMBER_MODE_DENSE, &dense, needed[0]);
    check_close(loss_without_training(&batch, true, EMBER_MODE_TWELL, &either, needed[1]), loss, 1e-6 * loss);
    check_close(loss_without_training(&batch, false, EMBER_MODE_TWELL, &sparse, needed[2]), loss, 1e-6 * loss);
    for (int layer = 0; layer < 2; layer++) {
        const int64_t all = 72 * p.neurons[layer];
        assert_true(sparse.nnz[layer] > all * 2 / 5);
        assert_int_equal(needed[0][layer], 0);
        assert_int_equal(needed[1][layer], 0);
        assert_true(needed[2][layer] > all / 8);
        assert_true(needed[2][layer] <= sparse.nnz[layer]);
        assert_int_equal(sparse.spill[layer], needed[2][layer]);
        assert_int_equal(sparse.l0_sum[layer], dense.l0_sum[layer]);
    }
    fixture_batch_free(&batch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_lambda_does_not_depend_on_the_split),
        cmocka_unit_test(test_threads_same_bits),
        cmocka_unit_test(test_spill_growth_same_bits),
        cmocka_unit_test(test_evaluation_leaves_training_alone),
        cmocka_unit_test(test_twell_alone_never_runs_dense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
