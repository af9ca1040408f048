/* rooms: train */
#include "tests/model/trainer_fixture.h"

#include "tests/model/model_fixture.h"

#include "lib/model/ffn_auto.h"

static ember_trainer *create(fixture_run *run, ember_config **config) {
    ember_trainer *trainer = NULL;
    *config = fixture_config(run);
    check_ok(fixture_create(&trainer, *config, run));
    return trainer;
}

/* Parameter of that name; on the CPU its data are host memory. */
static ember_param *param_of(ember_trainer *trainer, const char *name) {
    ember_model *model = ember_trainer_model(trainer);
    const int64_t index = ember_hparams_find(ember_model_hparams(model), name);
    assert_true(index >= 0);
    return ember_model_param(model, index);
}

static void near(double got, double wanted, double tolerance) {
    if (!(fabs(got - wanted) <= tolerance)) fail_msg("%.9g, not %.9g", got, wanted);
}

/* loss = ce + lambda(step) * mean L1, and what a row says about the layers. */
static void rows_fulfil_the_definitions(void **state) {
    (void)state;
    enter("rows");
    fixture_run run = {0};
    check_ok(fixture_train(&run));
    ember_history *history = fixture_history("run/step_20.h5");
    const double ramp[] = {0.25, 0.5, 0.75, 1, 1};
    assert_int_equal(ember_history_n(history), 20);
    int64_t seen = 0;
    for (int64_t i = 0; i < 20; i++) {
        const ember_history_row row = ember_history_at(history, i);
        double l1 = 0;
        for (int layer = 0; layer < 2; layer++) {
            l1 += (double)row.l1_per_layer[layer] / 2;
            assert_true(row.l0[layer] > 0 && row.l0[layer] <= 24);
        }
        near(row.lambda, 0.01 * (i < 5 ? ramp[i] : 1), 1e-15);
        near(row.l1, l1, 1e-6 * l1);
        near(row.loss, row.ce + row.lambda * row.l1, 1e-12);
        assert_true(row.grad_norm > 0 && row.tokens_per_s > 0 && isfinite(row.tokens_per_s));
        assert_true(row.tokens_seen > seen && row.tokens_seen <= seen + 48);
        seen = row.tokens_seen;
        assert_true(isnan(row.valid_loss) == ((i + 1) % 5 != 0));
    }
    near(ember_history_at(history, 0).lr, 0.01 / 3, 1e-15);
    assert_true(ember_history_at(history, 19).ce < ember_history_at(history, 0).ce);
    ember_history_free(history);
}

/* A list of coefficients: each layer is weighted with its own, and lambda 0 leaves a layer alone. */
static void one_lambda_a_layer(void **state) {
    (void)state;
    enter("lambdas");
    fixture_run run = {.sets = {"sparsity.l1=[0, 0.3]", "sparsity.l1_warmup_steps=0", "train.lr=0.02"}};
    check_ok(fixture_train(&run));
    ember_history *history = fixture_history("run/step_20.h5");
    for (int64_t i = 0; i < 20; i++) {
        const ember_history_row row = ember_history_at(history, i);
        near(row.lambda, 0.15, 1e-12);
        near(row.loss - row.ce, 0.3 * (double)row.l1_per_layer[1] / 2, 1e-6);
    }
    const ember_history_row last = ember_history_at(history, 19);
    assert_true(last.l1_per_layer[1] < 0.5f * last.l1_per_layer[0]);
    ember_history_free(history);
}

/* Every silu neuron fires for every token; auto has nothing to choose. */
static void silu_runs_dense(void **state) {
    (void)state;
    enter("silu");
    fixture_run first = {.sets = {"ffn.activation=silu", "ffn.mode=auto", "train.stop_after=3"}};
    check_ok(fixture_train(&first));
    assert_null(strstr(first.log, "measuring"));
    fixture_run rest = {.sets = {"ffn.activation=silu", "ffn.mode=auto", "train.stop_after=5"}, .resume = true};
    check_ok(fixture_train(&rest));
    ember_history *history = fixture_history("run/step_5.h5");
    for (int64_t i = 0; i < 5; i++) {
        assert_true(ember_history_at(history, i).l0[1] == 24.0f);
        assert_int_equal(ember_history_at(history, i).mode[1], EMBER_MODE_DENSE);
        assert_int_equal(ember_history_at(history, i).dead[1], 0);
    }
    ember_history_free(history);
}

/* 1 x 4, 2 x 2 and 4 x 1 sequences are one batch, short padded ones and masked documents included. */
static void splits_are_one_batch(void **state) {
    (void)state;
    const char *const micro[] = {"train.micro_batch_size=4", "train.micro_batch_size=2", "train.micro_batch_size=1"};
    const char *const modes[] = {"ffn.mode=dense", "ffn.mode=twell"};
    enter("splits");
    for (int mode = 0; mode < 2; mode++) {
        double reference[4] = {0};
        for (int i = 0; i < 3; i++) {
            char output[64];
            char path[128];
            (void)snprintf(output, sizeof output, "run.output=run_%d_%d", mode, i);
            /* data.shuffle false: the fourth step holds the padded end of the shard. */
            fixture_run run = {.sets = {micro[i], modes[mode], output, "data.mask_documents=true", "sparsity.l1=0.1", "train.steps=12"}};
            check_ok(fixture_train(&run));
            (void)snprintf(path, sizeof path, "run_%d_%d/step_12.h5", mode, i);
            ember_history *history = fixture_history(path);
            bool padded = false;
            for (int64_t s = 0; s < 12; s++) {
                const int64_t before = s > 0 ? ember_history_at(history, s - 1).tokens_seen : 0;
                padded = padded || ember_history_at(history, s).tokens_seen - before < 48;
            }
            assert_true(padded);
            const ember_history_row row = ember_history_at(history, 0);
            const double now[4] = {row.loss, row.l1, row.grad_norm, (double)row.l0[1]};
            for (int k = 0; k < 4; k++) {
                if (i == 0) reference[k] = now[k];
                near(now[k], reference[k], 1e-5 * fabs(reference[k]));
            }
            near(ember_history_at(history, 11).loss, 3.6, 1.0);
            ember_history_free(history);
        }
    }
}

/* The norm of the row is that of all gradients, the tied matrix once; clipping scales the step. */
static void norm_and_clipping(void **state) {
    (void)state;
    enter("norm");
    ember_config *config = NULL;
    fixture_run run = {.sets = {"train.stop_after=1", "train.clip=0", "data.valid=[]", "eval.every=0"}};
    ember_trainer *trainer = create(&run, &config);
    check_ok(ember_trainer_run(trainer));
    ember_model *model = ember_trainer_model(trainer);
    double sum = 0;
    int n_embeddings = 0;
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        const ember_param *param = ember_model_param(model, i);
        const float *grad = param->grad.data;
        n_embeddings += param->spec.role == EMBER_PARAM_EMBEDDING || param->spec.role == EMBER_PARAM_HEAD;
        for (int64_t j = 0; j < ember_tensor_count(param->grad); j++)
            sum += (double)grad[j] * (double)grad[j];
        /* First step: exp_avg = (1 - beta1) g, unclipped. */
        near((double)((float *)param->exp_avg.data)[0], 0.1 * (double)grad[0], 1e-9);
    }
    assert_int_equal(n_embeddings, 1);
    const double norm = ember_history_at(ember_trainer_history(trainer), 0).grad_norm;
    near(norm, sqrt(sum), 1e-6 * norm);
    ember_trainer_free(trainer);
    ember_config_free(config);

    fixture_run clipped = {.sets = {"train.stop_after=1", "train.clip=0.01", "data.valid=[]", "eval.every=0", "run.output=clipped"}};
    trainer = create(&clipped, &config);
    check_ok(ember_trainer_run(trainer));
    const ember_param *embedding = param_of(trainer, "model.embed_tokens.weight");
    near((double)((float *)embedding->exp_avg.data)[40], 0.1 * (double)((float *)embedding->grad.data)[40] * 0.01 / (norm + 1e-6), 1e-9);
    ember_trainer_free(trainer);
    ember_config_free(config);
}

/* Two first steps that differ in the decay alone: matrices, the embedding among them, move by lr * decay * p; norms and
 * biases not at all. */
static void decay_is_for_matrices(void **state) {
    (void)state;
    enter("decay");
    const char *const decay[] = {"train.weight_decay=0", "train.weight_decay=0.5"};
    const char *const output[] = {"run.output=without", "run.output=with"};
    ember_trainer *trainers[2];
    ember_config *configs[2];
    fixture_run runs[2] = {0};
    for (int i = 0; i < 2; i++) {
        const char *const sets[] = {decay[i], output[i], "train.stop_after=1", "model.qkv_bias=true", "model.qk_norm=true", "eval.every=0"};
        memcpy(runs[i].sets, sets, sizeof sets);
        trainers[i] = create(&runs[i], &configs[i]);
    }
    /* Before the step, to know p: both runs start from the same weights. */
    ember_model *model = ember_trainer_model(trainers[0]);
    float before[64];
    int64_t n = ember_model_n_params(model);
    assert_true(n < 64);
    for (int64_t i = 0; i < n; i++)
        before[i] = ((float *)ember_model_param(model, i)->value.data)[3];
    for (int i = 0; i < 2; i++)
        check_ok(ember_trainer_run(trainers[i]));
    const double lr = 0.01 / 3;
    int n_matrices = 0;
    for (int64_t i = 0; i < n; i++) {
        const ember_param *param = ember_model_param(model, i);
        const double without = (double)((float *)param->value.data)[3];
        const double with = (double)((float *)ember_model_param(ember_trainer_model(trainers[1]), i)->value.data)[3];
        n_matrices += param->spec.n_dims == 2;
        near(with - without, param->spec.n_dims == 2 ? -lr * 0.5 * (double)before[i] : 0, 1e-8);
    }
    assert_int_equal(n_matrices, 15);
    for (int i = 0; i < 2; i++) {
        ember_trainer_free(trainers[i]);
        ember_config_free(configs[i]);
    }
}

/* Evaluating after every step, or never: the same training. */
static void evaluation_leaves_no_trace(void **state) {
    (void)state;
    enter("trace");
    fixture_run often = {.sets = {"eval.every=1", "run.output=often", "ffn.mode=twell"}};
    fixture_run never = {.sets = {"data.valid=[]", "eval.every=0", "run.output=never", "ffn.mode=twell"}};
    fixture_run some = {.sets = {"eval.every=7", "eval.sequences=3", "run.output=some", "ffn.mode=twell"}};
    check_ok(fixture_train(&often));
    check_ok(fixture_train(&never));
    check_ok(fixture_train(&some));
    assert_int_equal(often.n_evals, 20);
    assert_int_equal(never.n_evals, 0);
    ember_history *a = fixture_history("often/step_20.h5");
    ember_history *b = fixture_history("never/step_20.h5");
    ember_history *c = fixture_history("some/step_20.h5");
    for (int64_t i = 0; i < 20; i++) {
        assert_true(ember_history_at(a, i).loss == ember_history_at(b, i).loss);
        assert_true(ember_history_at(a, i).grad_norm == ember_history_at(b, i).grad_norm);
        assert_true(ember_history_at(a, i).loss == ember_history_at(c, i).loss);
    }
    /* Three sequences are not the whole set. */
    assert_true(ember_history_at(a, 6).valid_loss != ember_history_at(c, 6).valid_loss);
    uint64_t counts[2][24];
    fixture_get("often/step_20.h5", "sparsity/layer_1", "fire_count", ember_tensor_1d(counts[0], EMBER_U64, 24));
    fixture_get("never/step_20.h5", "sparsity/layer_1", "fire_count", ember_tensor_1d(counts[1], EMBER_U64, 24));
    assert_memory_equal(counts[0], counts[1], sizeof counts[0]);
    ember_history_free(a);
    ember_history_free(b);
    ember_history_free(c);
}

/* The lowest validation loss has its own file, and old checkpoints go. */
static void best_and_last_are_kept(void **state) {
    (void)state;
    enter("kept");
    fixture_run run = {.sets = {"eval.every=1", "checkpoint.every=2", "checkpoint.keep_last=3", "train.lr=0.05"}};
    check_ok(fixture_train(&run));
    for (int step = 1; step <= 20; step++) {
        char path[64];
        (void)snprintf(path, sizeof path, "run/step_%d.h5", step);
        assert_int_equal(access(path, F_OK), step >= 16 && step % 2 == 0 ? 0 : -1);
    }
    ember_history *history = fixture_history("run/step_20.h5");
    ember_history *best = fixture_history("run/best.h5");
    const int64_t n = ember_history_n(best);
    for (int64_t i = 0; i < 20; i++)
        assert_true(ember_history_at(history, i).valid_loss >= ember_history_at(best, n - 1).valid_loss);
    double stored[2];
    fixture_get("run/step_20.h5", "state", "best", ember_tensor_1d(stored, EMBER_F64, 2));
    assert_true(stored[0] == ember_history_at(best, n - 1).valid_loss && (int64_t)stored[1] == n);
    ember_history_free(best);
    ember_history_free(history);
}

/* A weight that is no number: the step stops, names it, leaves a dump and the last checkpoint. */
static void not_a_number_stops_the_run(void **state) {
    (void)state;
    enter("nan");
    ember_config *config = NULL;
    fixture_run first = {.sets = {"train.stop_after=2"}};
    check_ok(fixture_train(&first));
    fixture_run run = {.resume = true};
    ember_trainer *trainer = create(&run, &config);
    ((float *)param_of(trainer, "model.layers.1.mlp.up_proj.weight")->value.data)[7] = (float)NAN;
    check_fails(ember_trainer_run(trainer), EMBER_E_NUMERIC, "weight of model.layers.1.mlp.up_proj.weight");
    assert_non_null(strstr(ember_last_error(), "run/step_2.h5"));
    check_fails(ember_trainer_save(trainer, "run/bad.h5"), EMBER_E_NUMERIC, "up_proj");
    assert_int_equal(access("run/bad.h5", F_OK), -1);
    assert_int_equal(access("run/step_3.h5", F_OK), -1);
    ember_trainer_free(trainer);
    ember_config_free(config);
    ember_bytes dump = {0};
    check_ok(ember_read_file(&dump, "run/nonfinite_step_3.json", 0));
    assert_non_null(strstr(dump.data, "\"step\": 3"));
    assert_non_null(strstr(dump.data, "\"tensor\": \"model.layers.1.mlp.up_proj.weight\""));
    assert_non_null(strstr(dump.data, "\"first_sequence\": 8, \"end_sequence\": 12"));
    assert_non_null(strstr(dump.data, "null"));
    assert_null(strstr(dump.data, "nan"));
    ember_bytes_free(&dump);
    fixture_run good = {.sets = {"train.stop_after=3"}, .resume = true};
    check_ok(fixture_train(&good));
}

static void fill(const ember_param *param, float value) {
    for (int64_t i = 0; i < ember_tensor_count(param->value); i++)
        ((float *)param->value.data)[i] = value;
}

/* Finite loss, infinite gradient: the values are 0 whatever their huge inputs, but d v_proj = dv^T x is beyond float32. */
static void infinite_gradient_is_named(void **state) {
    (void)state;
    enter("infinite");
    ember_config *config = NULL;
    fixture_run run = {.sets = {"train.clip=1"}};
    ember_trainer *trainer = create(&run, &config);
    fill(param_of(trainer, "model.layers.0.input_layernorm.weight"), 5e37f);
    fill(param_of(trainer, "model.layers.0.self_attn.q_proj.weight"), 0);
    fill(param_of(trainer, "model.layers.0.self_attn.k_proj.weight"), 0);
    fill(param_of(trainer, "model.layers.0.self_attn.v_proj.weight"), 0);
    const ember_param *o = param_of(trainer, "model.layers.0.self_attn.o_proj.weight");
    for (int64_t i = 0; i < ember_tensor_count(o->value); i++)
        ((float *)o->value.data)[i] *= 1e6f;
    check_fails(ember_trainer_run(trainer), EMBER_E_NUMERIC, "gradient of model.layers.0.self_attn.v_proj.weight");
    assert_null(strstr(ember_last_error(), "loss nan"));
    assert_int_equal(ember_trainer_step(trainer), 0);
    ember_trainer_free(trainer);
    ember_config_free(config);
    assert_int_equal(access("run/nonfinite_step_1.json", F_OK), 0);
}

/* Documents of one token each, masked: no token has a target. */
static void a_step_without_targets_is_an_error(void **state) {
    (void)state;
    enter("targets");
    fixture_run run = {.sets = {"data.train=../single.h5", "data.mask_documents=true"}};
    check_fails(fixture_train(&run), EMBER_E_NUMERIC, "has a target token");
    /* A micro-batch without targets inside a step that has some is fine. */
    fixture_run some = {.sets = {"data.train=[../single.h5, ../train.h5]", "data.weights=[3, 1]", "data.mask_documents=true",
                                 "train.micro_batch_size=1", "run.output=some", "train.batch_size=8", "train.steps=8"}};
    check_ok(fixture_train(&some));
    ember_history *history = fixture_history("some/step_8.h5");
    for (int64_t i = 0; i < 8; i++)
        assert_true(isfinite(ember_history_at(history, i).loss));
    ember_history_free(history);
}

/* The loss of a fresh model is ln V + d sigma^2 / 2; a head with other weights is noticed. */
static void the_first_loss_is_checked(void **state) {
    (void)state;
    enter("first_loss");
    ember_config *config = NULL;
    fixture_run good = {.sets = {"train.stop_after=1"}};
    ember_trainer *trainer = create(&good, &config);
    check_ok(ember_trainer_run(trainer));
    assert_int_equal(good.n_warnings, 0);
    near(ember_history_at(ember_trainer_history(trainer), 0).ce, log(40.0) + 16 * 0.02 * 0.02 / 2, 0.1);
    ember_trainer_free(trainer);
    ember_config_free(config);
    fixture_run bad = {.sets = {"train.stop_after=1", "run.output=bad", "model.tie_word_embeddings=false"}};
    trainer = create(&bad, &config);
    ember_param *head = param_of(trainer, "lm_head.weight");
    for (int64_t i = 0; i < ember_tensor_count(head->value); i++)
        ((float *)head->value.data)[i] *= 50;
    check_ok(ember_trainer_run(trainer));
    assert_int_equal(bad.n_warnings, 1);
    assert_non_null(strstr(bad.log, "ln(vocabulary)"));
    ember_trainer_free(trainer);
    ember_config_free(config);
}

/* Neurons with gate rows of zeros never fire; revival draws the rows anew and forgets their moments. */
static void dead_neurons_are_revived(void **state) {
    (void)state;
    const char *const kinds[] = {"ffn.kind=gated", "ffn.kind=plain"};
    const char *const outputs[] = {"run.output=gated", "run.output=plain"};
    const char *const names[] = {"model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight"};
    enter("revive");
    for (int kind = 0; kind < 2; kind++) {
        ember_config *config = NULL;
        fixture_run run = {.sets = {kinds[kind], outputs[kind], "sparsity.revive_every=8", "sparsity.dead_after_tokens=250",
                                    "train.stop_after=8", "train.weight_decay=0"}};
        ember_trainer *trainer = create(&run, &config);
        ember_param *param = param_of(trainer, names[kind]);
        float *rows = (float *)param->value.data + 3 * 16;
        memset(rows, 0, 2 * 16 * sizeof(float));
        check_ok(ember_trainer_run(trainer));
        assert_non_null(strstr(run.log, "dead neurons revived"));
        const ember_history_row last = ember_history_at(ember_trainer_history(trainer), 7);
        assert_true(last.dead[1] >= 2);
        double sum = 0;
        for (int i = 0; i < 32; i++) {
            sum += (double)rows[i] * (double)rows[i];
            assert_true(((float *)param->exp_avg.data)[48 + i] == 0);
            assert_true(((float *)param->exp_avg_sq.data)[48 + i] == 0);
        }
        assert_true(sqrt(sum / 32) > 0.01 && sqrt(sum / 32) < 0.04);
        assert_true(memcmp(rows, rows + 16, 16 * sizeof(float)) != 0);
        const ember_tracker *tracker = ember_trainer_tracker(trainer);
        assert_int_equal(ember_tracker_n_dead(tracker, 1), 0);
        assert_int_equal(tracker->layers[1].last_fired[3], tracker->tokens_seen);
        ember_trainer_free(trainer);
        ember_config_free(config);
    }
}

/* A forward pass alone grows the spill arrays, here to more than the fixture's batches need, before the first step. */
static void plan_for_everything(ember_trainer *trainer) {
    enum { N = 24 };
    int32_t ids[N];
    for (int i = 0; i < N; i++)
        ids[i] = i;
    const ember_micro_batch batch = {.n_sequences = 2, .sequence_length = 12, .input_ids = ids, .target_ids = ids};
    int64_t spill[2] = {0}, nnz[2] = {0}, full_layer = -1;
    uint64_t l0[2] = {0};
    double l1[2] = {0};
    ember_step_stats stats = {.l0_sum = l0, .l1_sum = l1, .spill = spill, .nnz = nnz};
    check_ok(ember_model_run(ember_trainer_model(trainer), &batch, NULL, &stats, NULL, &full_layer));
    assert_true(spill[0] > 3000 && spill[1] > 3000);
}

enum { QUIET_ID = 39 }; /* not in the shards of make_shard */

static void make_quiet_shard(const char *path) {
    ember_shard_writer *writer = NULL;
    check_ok(ember_shard_create(&writer, path, "none", "{}", 2, 40, 39));
    check_ok(ember_shard_begin_document(writer));
    for (uint32_t i = 0; i < 13; i++) {
        const uint32_t id = i == 0 ? 5 : QUIET_ID;
        check_ok(ember_shard_append(writer, &id, 1));
    }
    check_ok(ember_shard_commit(writer, 13));
}

/* A run of a model to which QUIET_ID is silent, with room in its spill arrays or not. */
static void run_quietened(fixture_run *run, bool plan) {
    ember_config *config = NULL;
    ember_trainer *trainer = create(run, &config);
    fixture_silence(ember_trainer_model(trainer), QUIET_ID);
    if (plan) plan_for_everything(trainer);
    check_ok(ember_trainer_run(trainer));
    ember_trainer_free(trainer);
    ember_config_free(config);
}

/* A wide layer with a small plan. Next to nothing fires in the first micro-batch, which fits; in the second half of
 * the neurons do, so the spill array grows in the middle of the accumulated step. The result is to the bit that of a
 * run that had the room from the start, and to rounding that of the dense run. */
static void spill_growth_repeats_the_step(void **state) {
    (void)state;
    enter("growth");
    make_quiet_shard("shard_1.h5");
    make_quiet_shard("shard_2.h5");
    /* The first micro-batch alone: it spills, and nothing grows. */
    fixture_run quiet = {.sets = {"model.intermediate_size=1100", "ffn.mode=twell", "run.output=quiet", "train.stop_after=1",
                                  "ffn.compression=16", "data.train=shard_*.h5", "data.shuffle=false", "train.lr=0.001",
                                  "train.batch_size=2", "data.valid=[]", "eval.every=0"}};
    run_quietened(&quiet, false);
    assert_null(strstr(quiet.log, "grown"));
    ember_history *a = fixture_history("quiet/step_1.h5");
    assert_int_equal(ember_history_at(a, 0).tokens_seen, 24);
    assert_true(ember_history_at(a, 0).spill[0] > 0);
    ember_history_free(a);

    make_shard("shard_3.h5", 487, 1, 30);
    fixture_run dense = {.sets = {"model.intermediate_size=1100", "ffn.mode=dense", "run.output=dense", "train.stop_after=3",
                                  "data.train=shard_*.h5", "data.shuffle=false", "train.lr=0.001"}};
    fixture_run twell = {.sets = {"model.intermediate_size=1100", "ffn.mode=twell", "run.output=twell", "train.stop_after=3",
                                  "ffn.compression=16", "data.train=shard_*.h5", "data.shuffle=false", "train.lr=0.001"}};
    fixture_run planned = twell;
    run_quietened(&dense, false);
    run_quietened(&twell, false);
    assert_non_null(strstr(twell.log, "step 1: spill array of layer 0 grown"));
    assert_non_null(strstr(twell.log, "step 1: spill array of layer 1 grown"));
    assert_int_equal(rename("twell", "grown"), 0);
    run_quietened(&planned, true);
    assert_null(strstr(planned.log, "grown"));
    check_identical("grown/step_3.h5", "twell/step_3.h5");

    a = fixture_history("dense/step_3.h5");
    ember_history *b = fixture_history("grown/step_3.h5");
    /* The two quiet sequences are in the first step, so in its first micro-batch: data come in order. */
    assert_true(ember_history_at(b, 0).l0[0] < 0.35f * 1100);
    for (int64_t i = 0; i < 3; i++) {
        assert_true(ember_history_at(b, i).spill[0] > (i == 0 ? 3000 : 0));
        near(ember_history_at(b, i).loss, ember_history_at(a, i).loss, 1e-4);
        assert_int_equal(ember_history_at(b, i).tokens_seen, ember_history_at(a, i).tokens_seen);
    }
    near((double)ember_history_at(b, 0).l0[0], (double)ember_history_at(a, 0).l0[0], 1e-3 * 1100);
    ember_history_free(a);
    ember_history_free(b);
}

static void write_costs(const char *path, int64_t neurons, int64_t compression, double dense_ms) {
    char text[1024];
    const int n =
        snprintf(text, sizeof text,
                 "{\"format\": \"ember-ffn-costs\", \"version\": 1, \"device\": \"cpu\", \"entries\": [{\"hidden\": 16, \"neurons\": %d, "
                 "\"kind\": \"gated\", \"activation\": \"relu\", \"compression\": %d, \"tokens\": 24, \"density\": [0.002, 0.02, 0.08, "
                 "0.25], \"dense_ms\": %g, \"sparse_ms\": [1, 2, 3, 4], \"forward_dense_ms\": 1, \"forward_sparse_ms\": [1, 2, 3, 4]}]}",
                 (int)neurons, (int)compression, dense_ms);
    check_ok(ember_write_file(path, text, (size_t)n));
}

/* auto: the table decides after the first step; each switch is logged and is in the history. */
static void automatic_modes(void **state) {
    (void)state;
    enter("auto_modes");
    write_costs("cheap.json", 24, 8, 100);
    fixture_run cheap = {.sets = {"ffn.mode=auto", "ffn.costs=cheap.json", "run.output=cheap", "train.stop_after=4"}};
    check_ok(fixture_train(&cheap));
    assert_non_null(strstr(cheap.log, "dense -> twell"));
    ember_history *history = fixture_history("cheap/step_4.h5");
    assert_int_equal(ember_history_at(history, 0).mode[0], EMBER_MODE_DENSE);
    assert_int_equal(ember_history_at(history, 1).mode[0], EMBER_MODE_TWELL);
    ember_history_free(history);

    write_costs("dear.json", 24, 8, 1);
    fixture_run dear = {.sets = {"ffn.mode=auto", "ffn.costs=dear.json", "run.output=dear", "train.stop_after=4"}};
    check_ok(fixture_train(&dear));
    assert_null(strstr(dear.log, "->"));

    fixture_run other = {.sets = {"ffn.mode=auto", "ffn.costs=cheap.json", "run.output=misfit", "model.intermediate_size=32"}};
    check_fails(fixture_train(&other), EMBER_E_NOT_FOUND, "cheap.json");
    assert_int_equal(access("misfit", F_OK), -1);
}

/* Gate weights of layer 0 as given, whatever they were: with zeros no neuron fires, with noise half of them do. */
static void set_gates(ember_trainer *trainer, float scale) {
    const ember_param *gate = param_of(trainer, "model.layers.0.mlp.gate_proj.weight");
    for (int64_t i = 0; i < ember_tensor_count(gate->value); i++)
        ((float *)gate->value.data)[i] = scale * ember_philox_normal(3, 99, (uint64_t)i);
}

static ember_trainer *woken;
static void wake_up(void *user, const ember_step_report *report) {
    (void)user;
    if (report->row->step == 1) set_gates(woken, 0.1f);
}

/* A silent layer goes sparse, then half of its neurons fire at once: more than M h / 8 entries spill, the step is
 * repeated dense, and dense the layer stays, also after a resume. Half firing from the start never goes sparse. */
static void overflow_under_auto_means_dense(void **state) {
    (void)state;
    enter("overflow");
    write_costs("wide.json", 1100, 16, 100);
    fixture_run early = {.sets = {"ffn.mode=auto", "ffn.costs=wide.json", "run.output=early", "train.stop_after=3", "ffn.compression=16",
                                  "model.intermediate_size=1100"}};
    check_ok(fixture_train(&early));
    assert_null(strstr(early.log, "dense -> twell"));

    fixture_run run = {
        .sets = {"ffn.mode=auto", "ffn.costs=wide.json", "train.stop_after=4", "ffn.compression=16", "model.intermediate_size=1100"}};
    ember_config *config = fixture_config(&run);
    const ember_log log = {.sink = fixture_log, .user = &run};
    const ember_trainer_options options = {.config = config, .log = &log, .events = {.step_done = wake_up}};
    check_ok(ember_trainer_create(&woken, &options));
    set_gates(woken, 0);
    check_ok(ember_trainer_run(woken));
    assert_non_null(strstr(run.log, "layer 0 dense -> twell"));
    assert_non_null(strstr(run.log, "dense from here on"));
    ember_trainer_free(woken);
    ember_config_free(config);
    ember_history *history = fixture_history("run/step_4.h5");
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(ember_history_at(history, i).mode[0], EMBER_MODE_DENSE);
    assert_true((double)ember_history_at(history, 0).l0[0] == 0 && (double)ember_history_at(history, 1).l0[0] > 400);
    ember_history_free(history);
    int64_t modes[2];
    fixture_get("run/step_4.h5", "state", "ffn_modes", ember_tensor_1d(modes, EMBER_I64, 2));
    assert_int_equal(modes[0], 2);
    fixture_run rest = {
        .sets = {"ffn.mode=auto", "ffn.costs=wide.json", "train.stop_after=6", "ffn.compression=16", "model.intermediate_size=1100"},
        .resume = true};
    check_ok(fixture_train(&rest));
    fixture_get("run/step_6.h5", "state", "ffn_modes", ember_tensor_1d(modes, EMBER_I64, 2));
    assert_int_equal(modes[0], 2);
}

static void spoil(void *user, const ember_step_report *report) {
    (void)user;
    if (report->row->step == 2) ((float *)param_of(woken, "model.norm.weight")->value.data)[3] = (float)NAN;
}

/* Weights that are no numbers after a finished step: the dump is of that step and of its batch. */
static void a_finished_step_is_named(void **state) {
    (void)state;
    enter("spoilt");
    fixture_run run = {.sets = {"train.stop_after=2"}};
    ember_config *config = fixture_config(&run);
    const ember_log log = {.sink = fixture_log, .user = &run};
    const ember_trainer_options options = {.config = config, .log = &log, .events = {.step_done = spoil}};
    check_ok(ember_trainer_create(&woken, &options));
    check_fails(ember_trainer_run(woken), EMBER_E_NUMERIC, "step 2: the weight of model.norm.weight");
    ember_trainer_free(woken);
    ember_config_free(config);
    ember_bytes dump = {0};
    check_ok(ember_read_file(&dump, "run/nonfinite_step_2.json", 0));
    assert_non_null(strstr(dump.data, "\"step\": 2"));
    assert_non_null(strstr(dump.data, "\"first_sequence\": 4, \"end_sequence\": 8"));
    ember_bytes_free(&dump);
    assert_int_equal(access("run/nonfinite_step_3.json", F_OK), -1);
    assert_int_equal(access("run/step_2.h5", F_OK), -1);
}

/* A table that the config has named since the checkpoint goes before the stored one, and is read; one that the stored
 * table cannot replace, for its compression is another, is named or measured. */
static void costs_of_a_resumed_run(void **state) {
    (void)state;
    enter("costs_resumed");
    write_costs("cheap.json", 24, 8, 100);
    write_costs("dear.json", 24, 8, 1);
    write_costs("four.json", 24, 4, 1);
    check_ok(ember_write_file("bogus.json", "{}", 2));
    fixture_run first = {.sets = {"ffn.mode=auto", "ffn.costs=cheap.json", "train.stop_after=3"}};
    check_ok(fixture_train(&first));
    assert_non_null(strstr(first.log, "dense -> twell"));
    fixture_run bogus = {.sets = {"ffn.mode=auto", "ffn.costs=bogus.json", "train.stop_after=5"}, .resume = true};
    check_fails(fixture_train(&bogus), EMBER_E_FORMAT, "bogus.json");
    fixture_run dear = {.sets = {"ffn.mode=auto", "ffn.costs=dear.json", "train.stop_after=5"}, .resume = true};
    check_ok(fixture_train(&dear));
    assert_non_null(strstr(dear.log, "FFN cost table from dear.json"));
    assert_non_null(strstr(dear.log, "twell -> dense"));
    /* The name as before: the stored table, whatever has become of the file. */
    check_ok(ember_write_file("dear.json", "{}", 2));
    fixture_run same = {.sets = {"ffn.mode=auto", "ffn.costs=dear.json", "train.stop_after=6"}, .resume = true};
    check_ok(fixture_train(&same));
    assert_null(strstr(same.log, "FFN cost table from"));

    fixture_run four = {.sets = {"ffn.mode=auto", "ffn.costs=four.json", "ffn.compression=4", "train.stop_after=7"}, .resume = true};
    check_ok(fixture_train(&four));
    assert_non_null(strstr(four.log, "FFN cost table from four.json"));
    fixture_run two = {.sets = {"ffn.mode=auto", "ffn.compression=2", "train.stop_after=8"}, .resume = true};
    check_ok(fixture_train(&two));
    assert_non_null(strstr(two.log, "another table is taken"));
    assert_non_null(strstr(two.log, "measuring the FFN modes"));
    assert_int_equal(access("run/ffn_costs.json", F_OK), 0);
}

/* Seeds of all 64 bits; 0 is a seed like any other. */
static void seeds(void **state) {
    (void)state;
    enter("seeds");
    const char *const values[] = {"0", "0", "1", "4294967297", "1099511627777", "18446744073709551615"};
    double loss[6];
    for (int i = 0; i < 6; i++) {
        char seed[64];
        char output[64];
        char path[64];
        (void)snprintf(seed, sizeof seed, "run.seed=%s", values[i]);
        (void)snprintf(output, sizeof output, "run.output=seed_%d", i);
        (void)snprintf(path, sizeof path, "seed_%d/step_2.h5", i);
        fixture_run run = {.sets = {seed, output, "train.stop_after=2", "eval.every=0"}};
        check_ok(fixture_train(&run));
        ember_history *history = fixture_history(path);
        loss[i] = ember_history_at(history, 1).loss;
        ember_history_free(history);
    }
    assert_true(loss[0] == loss[1]);
    for (int i = 1; i < 6; i++) {
        for (int j = i + 1; j < 6; j++)
            assert_true(loss[i] != loss[j]);
    }
}

static void refusals_leave_nothing(void **state) {
    (void)state;
    enter("refusals");
    fixture_run cuda = {.sets = {"run.device=cuda"}};
    check_fails(fixture_train(&cuda), EMBER_E_DEVICE, "no GPU backend");
    fixture_run absent = {.sets = {"data.train=absent.h5"}};
    check_fails(fixture_train(&absent), EMBER_E_NOT_FOUND, "absent.h5");
    fixture_run vocabulary = {.sets = {"model.vocab_size=39"}};
    check_fails(fixture_train(&vocabulary), EMBER_E_CONFIG, "model.vocab_size");
    fixture_run list = {.sets = {"sparsity.l1=[1, 2, 3]"}};
    ember_config *config = NULL;
    check_fails(ember_config_parse(&config, base_config, sizeof base_config - 1, "fixture.yaml", list.sets, 1), EMBER_E_CONFIG,
                "sparsity.l1");
    fixture_run target = {.sets = {"sparsity.target=0.1", "sparsity.l1=0"}};
    check_fails(ember_config_parse(&config, base_config, sizeof base_config - 1, "fixture.yaml", target.sets, 2), EMBER_E_CONFIG,
                "sparsity.l1");
    fixture_run nowhere = {.sets = {"init.from=nowhere.h5"}};
    check_fails(fixture_train(&nowhere), EMBER_E_NOT_FOUND, "nowhere.h5");
    assert_int_equal(access("run", F_OK), -1);
}

/* Bounds of size from the smallest model up. */
static void the_smallest_model_trains(void **state) {
    (void)state;
    enter("smallest");
    fixture_run run = {.sets = {"model.vocab_size=41", "model.hidden_size=8", "model.intermediate_size=1", "model.num_hidden_layers=1",
                                "model.num_attention_heads=1", "model.num_key_value_heads=1", "train.sequence_length=1", "ffn.mode=twell",
                                "train.batch_size=1", "train.micro_batch_size=1"}};
    check_ok(fixture_train(&run));
    fixture_run prime = {.sets = {"model.hidden_size=26", "model.intermediate_size=257", "model.num_attention_heads=1", "run.output=prime",
                                  "model.num_key_value_heads=1", "train.sequence_length=13", "ffn.mode=twell", "train.stop_after=3"}};
    check_ok(fixture_train(&prime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_fulfil_the_definitions),
        cmocka_unit_test(one_lambda_a_layer),
        cmocka_unit_test(silu_runs_dense),
        cmocka_unit_test(splits_are_one_batch),
        cmocka_unit_test(norm_and_clipping),
        cmocka_unit_test(decay_is_for_matrices),
        cmocka_unit_test(evaluation_leaves_no_trace),
        cmocka_unit_test(best_and_last_are_kept),
        cmocka_unit_test(not_a_number_stops_the_run),
        cmocka_unit_test(infinite_gradient_is_named),
        cmocka_unit_test(a_step_without_targets_is_an_error),
        cmocka_unit_test(the_first_loss_is_checked),
        cmocka_unit_test(dead_neurons_are_revived),
        cmocka_unit_test(spill_growth_repeats_the_step),
        cmocka_unit_test(automatic_modes),
        cmocka_unit_test(overflow_under_auto_means_dense),
        cmocka_unit_test(a_finished_step_is_named),
        cmocka_unit_test(costs_of_a_resumed_run),
        cmocka_unit_test(seeds),
        cmocka_unit_test(refusals_leave_nothing),
        cmocka_unit_test(the_smallest_model_trains),
    };
    return cmocka_run_group_tests(tests, fixture_set_up, fixture_tear_down);
}
