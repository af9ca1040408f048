/* rooms: train */
#include "tests/model/trainer_fixture.h"

/* 20 steps in one go, and 10 and 10, in sibling folders with the same relative paths; every dataset equal. */
static void check_resume(const char *name, const char *const *sets) {
    char straight[64];
    char broken[64];
    char a[128];
    char b[128];
    fixture_run run = {0};
    fixture_run first = {0};
    fixture_run second = {.resume = true};
    int n = 0;
    for (; sets[n]; n++) {
        run.sets[n] = sets[n];
        first.sets[n] = sets[n];
        second.sets[n] = sets[n];
    }
    first.sets[n] = "train.stop_after=10";
    (void)snprintf(straight, sizeof straight, "%s_straight", name);
    (void)snprintf(broken, sizeof broken, "%s_broken", name);
    enter(straight);
    check_ok(fixture_train(&run));
    enter(broken);
    check_ok(fixture_train(&first));
    assert_int_equal(access("run/step_10.h5", F_OK), 0);
    assert_int_equal(access("run/step_20.h5", F_OK), -1);
    check_ok(fixture_train(&second));
    (void)snprintf(a, sizeof a, "%s/%s/run/step_20.h5", "..", straight);
    (void)snprintf(b, sizeof b, "run/step_20.h5");
    check_identical(a, b);
    assert_int_equal(first.n_evals + second.n_evals, run.n_evals);
}

static void dense(void **state) {
    (void)state;
    const char *const sets[] = {"ffn.mode=dense", NULL};
    check_resume("dense", sets);
}

static void twell_with_controller_and_revival(void **state) {
    (void)state;
    const char *const sets[] = {"ffn.mode=twell",     "sparsity.target=0.2", "sparsity.target_rate=0.3", "sparsity.revive_every=3",
                                "train.schedule=wsd", "train.decay_steps=8", "ffn.compression=16",       NULL};
    check_resume("twell", sets);
}

static void mixture_with_documents(void **state) {
    (void)state;
    const char *const sets[] = {"data.train=[../train.h5, ../other.h5]", "data.weights=[2, 1]", "data.mask_documents=true",
                                "checkpoint.every=4", NULL};
    check_resume("mixture", sets);
}

/* The modes follow from counts and from one table, which the second run finds and the third restores. */
static void automatic_with_shared_costs(void **state) {
    (void)state;
    const char *const sets[] = {"ffn.mode=auto", "ffn.costs=../costs.json", "sparsity.l1=0.5", NULL};
    check_resume("auto", sets);
}

static void plain_relu2_untied(void **state) {
    (void)state;
    const char *const sets[] = {"ffn.mode=twell",
                                "ffn.kind=plain",
                                "ffn.activation=relu2",
                                "model.tie_word_embeddings=false",
                                "model.qkv_bias=true",
                                "model.qk_norm=true",
                                NULL};
    check_resume("plain", sets);
}

/* Stopped at any moment at which the trainer asks: between steps, inside an evaluation. The step in
 * progress is saved, and the run that goes on ends in the same bits. */
static void stopped_anywhere(void **state) {
    (void)state;
    enter("stop_straight");
    fixture_run straight = {.stop_at_call = 0};
    check_ok(fixture_train(&straight));
    assert_true(straight.stop_calls > 25);
    for (int64_t call = 2; call <= straight.stop_calls; call += 3) {
        char name[64];
        (void)snprintf(name, sizeof name, "stop_%d", (int)call);
        enter(name);
        fixture_run run = {.stop_at_call = call};
        check_fails(fixture_train(&run), EMBER_E_INTERRUPTED, "stopped after step");
        fixture_run rest = {.resume = true};
        check_ok(fixture_train(&rest));
        check_identical("../stop_straight/run/step_20.h5", "run/step_20.h5");
        assert_true(run.n_evals + rest.n_evals == straight.n_evals);
    }
}

static void stopped_before_anything(void **state) {
    (void)state;
    enter("stop_first");
    fixture_run run = {.stop_at_call = 1};
    check_fails(fixture_train(&run), EMBER_E_INTERRUPTED, "nothing to save");
    fixture_run calibration = {.sets = {"ffn.mode=auto", "run.output=calibration"}, .stop_at_call = 1};
    check_fails(fixture_train(&calibration), EMBER_E_INTERRUPTED, "");
    assert_int_equal(access("calibration", F_OK), -1);
}

/* An evaluation that a stop cut short is made up for, and the saved file says so until then. */
static void pending_evaluation(void **state) {
    (void)state;
    int64_t pending = -1;
    enter("pending");
    fixture_run run = {.sets = {"eval.every=3"}, .stop_at_call = 5};
    check_fails(fixture_train(&run), EMBER_E_INTERRUPTED, "step 3 of 20");
    fixture_get("run/step_3.h5", "state", "eval_pending", ember_tensor_1d(&pending, EMBER_I64, 1));
    assert_int_equal(pending, 1);
    fixture_run rest = {.sets = {"eval.every=3", "train.stop_after=4"}, .resume = true};
    check_ok(fixture_train(&rest));
    ember_history *history = fixture_history("run/step_4.h5");
    assert_true(isfinite(ember_history_at(history, 2).valid_loss));
    assert_true(isnan(ember_history_at(history, 3).valid_loss));
    ember_history_free(history);
}

/* One that the present config asks for no more is not waited for, and the step keeps its line. */
static void pending_evaluation_called_off(void **state) {
    (void)state;
    int64_t pending = -1;
    enter("called_off");
    fixture_run run = {.sets = {"eval.every=3"}, .stop_at_call = 5};
    check_fails(fixture_train(&run), EMBER_E_INTERRUPTED, "step 3 of 20");
    fixture_run rest = {.sets = {"eval.every=7", "train.stop_after=4"}, .resume = true};
    check_ok(fixture_train(&rest));
    assert_int_equal(rest.n_evals, 0);
    fixture_get("run/step_4.h5", "state", "eval_pending", ember_tensor_1d(&pending, EMBER_I64, 1));
    assert_int_equal(pending, 0);
    ember_bytes metrics = {0};
    int n_lines = 0;
    check_ok(ember_read_file(&metrics, "run/metrics.jsonl", 0));
    for (size_t i = 0; i < metrics.n; i++)
        n_lines += metrics.data[i] == '\n';
    ember_bytes_free(&metrics);
    assert_int_equal(n_lines, 4);
}

/* An evaluation that cannot be done stops the run; the steps before it are not lost. */
static void failed_evaluation_keeps_the_step(void **state) {
    (void)state;
    enter("failed_eval");
    fixture_run run = {.sets = {"data.valid=../single.h5", "data.mask_documents=true"}};
    check_fails(fixture_train(&run), EMBER_E_NUMERIC, "step 5 is saved as run/step_5.h5");
    fixture_run rest = {.sets = {"data.mask_documents=true"}, .resume = true};
    check_ok(fixture_train(&rest));
    assert_int_equal(rest.n_evals, 4);
    fixture_run straight = {.sets = {"data.mask_documents=true", "run.output=straight"}};
    check_ok(fixture_train(&straight));
    ember_history *a = fixture_history("run/step_20.h5");
    ember_history *b = fixture_history("straight/step_20.h5");
    assert_true(ember_history_at(a, 4).valid_loss == ember_history_at(b, 4).valid_loss);
    assert_true(ember_history_at(a, 19).loss == ember_history_at(b, 19).loss);
    ember_history_free(a);
    ember_history_free(b);
}

static void refuse(fixture_run run, const char *part) {
    run.resume = true;
    check_fails(fixture_train(&run), EMBER_E_CONFIG, part);
    assert_int_equal(access("run/step_5.h5", F_OK), -1);
}

static void changes_of_the_past_are_refused(void **state) {
    (void)state;
    enter("changes");
    fixture_run first = {.sets = {"train.stop_after=4"}};
    check_ok(fixture_train(&first));
    refuse((fixture_run){.sets = {"train.batch_size=2"}}, "train.batch_size: 4 -> 2");
    refuse((fixture_run){.sets = {"train.sequence_length=8"}}, "train.sequence_length");
    refuse((fixture_run){.sets = {"run.seed=9"}}, "run.seed");
    refuse((fixture_run){.sets = {"data.train=../other.h5"}}, "data.train");
    refuse((fixture_run){.sets = {"data.shuffle=false"}}, "--allow-change data.shuffle");
    refuse((fixture_run){.sets = {"ffn.activation=relu2"}}, "ffn.activation");
    refuse((fixture_run){.sets = {"model.intermediate_size=16"}}, "model.intermediate_size");
    /* Asked for by name, another shape is still no model that the weights fit. */
    refuse((fixture_run){.sets = {"model.intermediate_size=16"}, .allowed = {"model.intermediate_size"}}, "mlp.gate_proj.weight");
    fixture_run allowed = {
        .sets = {"train.batch_size=2", "train.stop_after=5"}, .resume = true, .allowed = {"run.seed", "train.batch_size"}};
    check_ok(fixture_train(&allowed));
    assert_non_null(strstr(allowed.log, "train.batch_size: 4 -> 2"));
    assert_int_equal(access("run/step_5.h5", F_OK), 0);
}

/* Limits may change; the schedule is that of the new total from the restored step on. */
static void raised_limits_are_printed(void **state) {
    (void)state;
    enter("raised");
    fixture_run first = {.sets = {"train.steps=10", "train.schedule=linear"}};
    check_ok(fixture_train(&first));
    fixture_run done = {.sets = {"train.steps=10", "train.schedule=linear"}, .resume = true};
    check_ok(fixture_train(&done));
    assert_non_null(strstr(done.log, "nothing to do"));
    fixture_run more = {.sets = {"train.steps=20", "train.schedule=linear"}, .resume = true};
    check_ok(fixture_train(&more));
    assert_non_null(strstr(more.log, "train.steps: 10 -> 20 (from the restored step on"));
    ember_history *history = fixture_history("run/step_20.h5");
    assert_int_equal(ember_history_n(history), 20);
    const double p = (11.0 - 3.0) / (20.0 - 3.0);
    assert_true(fabs(ember_history_at(history, 10).lr - 0.01 * (1 - 0.9 * p)) < 1e-15);
    ember_history_free(history);
}

static void a_used_folder_is_not_overwritten(void **state) {
    (void)state;
    enter("used");
    fixture_run first = {.sets = {"train.steps=4"}};
    check_ok(fixture_train(&first));
    check_fails(fixture_train(&first), EMBER_E_CONFIG, "--resume");
    fixture_run nothing = {.sets = {"run.output=absent"}, .resume = true};
    check_fails(fixture_train(&nothing), EMBER_E_NOT_FOUND, "absent");
    assert_int_equal(access("absent", F_OK), -1);
    fixture_run foreign = {.sets = {"run.output=other", "train.steps=6"}, .resume = true, .resume_path = "run/step_4.h5"};
    check_ok(fixture_train(&foreign));
    assert_int_equal(access("other/step_6.h5", F_OK), 0);
    assert_int_equal(access("run/step_6.h5", F_OK), -1);
    check_fails(fixture_train(&foreign), EMBER_E_CONFIG, "other holds");
}

/* The newest is found by content: one that was cut off does not count. */
static void damaged_newest_is_skipped(void **state) {
    (void)state;
    enter("damaged");
    fixture_run first = {.sets = {"train.steps=9", "checkpoint.every=3"}};
    check_ok(fixture_train(&first));
    assert_int_equal(truncate("run/step_9.h5", 5000), 0);
    fixture_run rest = {.sets = {"train.steps=9", "checkpoint.every=3"}, .resume = true};
    check_ok(fixture_train(&rest));
    ember_history *history = fixture_history("run/step_9.h5");
    assert_int_equal(ember_history_n(history), 9);
    ember_history_free(history);
}

/* Going on from an earlier checkpoint leaves a branch; its files are neither lost nor taken for the newest. */
static void an_earlier_checkpoint_starts_a_branch(void **state) {
    (void)state;
    enter("branch");
    fixture_run first = {.sets = {"train.steps=9", "checkpoint.every=3"}};
    check_ok(fixture_train(&first));
    fixture_run branch = {
        .sets = {"train.steps=9", "checkpoint.every=3", "train.stop_after=8"}, .resume = true, .resume_path = "run/step_6.h5"};
    check_ok(fixture_train(&branch));
    assert_int_equal(access("run/superseded_step_9.h5", F_OK), 0);
    assert_int_equal(access("run/step_9.h5", F_OK), -1);
    assert_int_equal(access("run/step_8.h5", F_OK), 0);
    ember_history *history = fixture_history("run/step_8.h5");
    assert_int_equal(ember_history_n(history), 8);
    ember_history_free(history);
    /* The best of the left branch, from step 9, is out of the way as well: the newest is the branch's. */
    assert_int_equal(access("run/superseded_best.h5", F_OK), 0);
    ember_bytes newest = {0};
    check_ok(ember_checkpoint_newest(&newest, "run", NULL));
    assert_string_equal(newest.data, "run/step_8.h5");
    ember_bytes_free(&newest);
    fixture_run rest = {.sets = {"train.steps=9", "checkpoint.every=3"}, .resume = true};
    check_ok(fixture_train(&rest));
    assert_non_null(strstr(rest.log, "train.stop_after: 8 -> 0"));
    /* A folder stands for its newest; a second branch does not overwrite what the first one left. */
    fixture_run again = {.sets = {"train.steps=9", "checkpoint.every=3", "run.output=other"}, .resume = true, .resume_path = "run"};
    check_ok(fixture_train(&again));
    assert_non_null(strstr(again.log, "nothing to do"));
    assert_int_equal(access("run/step_6.h5", F_OK), -1);
    branch.resume_path = "run/step_8.h5";
    branch.sets[2] = "train.stop_after=9";
    check_ok(fixture_train(&branch));
    assert_int_equal(access("run/superseded_step_9.h5", F_OK), 0);
    assert_int_equal(access("run/superseded_2_step_9.h5", F_OK), 0);
}

static void what_is_resumed_is_named(void **state) {
    (void)state;
    enter("named");
    fixture_run first = {.sets = {"train.steps=4"}};
    check_ok(fixture_train(&first));
    fixture_run run = {.sets = {"train.steps=4"}, .resume = true, .resume_path = "nothing.h5"};
    check_fails(fixture_train(&run), EMBER_E_NOT_FOUND, "nothing.h5");
    run.resume_path = "";
    check_fails(fixture_train(&run), EMBER_E_NOT_FOUND, "cannot open");
    run.resume_path = "../train.h5";
    check_fails(fixture_train(&run), EMBER_E_FORMAT, "../train.h5");
    run.resume_path = "..";
    check_fails(fixture_train(&run), EMBER_E_NOT_FOUND, "holds no complete checkpoint");
}

/* The parameters of a checkpoint alone, under either kind; with its own hyper-parameters or others of the same shapes. */
static ember_status write_params(const char *path, const char *from, bool full_kind, const ember_hparams *hparams) {
    ember_checkpoint *full = NULL;
    ember_checkpoint_writer *writer = NULL;
    check_ok(ember_checkpoint_open(&full, from, true));
    if (!hparams) hparams = ember_checkpoint_hparams(full);
    ember_checkpoint_meta meta = *ember_checkpoint_get_meta(full);
    meta.full = full_kind;
    check_ok(ember_checkpoint_create(&writer, path, &meta, hparams));
    for (int64_t i = 0; i < ember_hparams_n_params(hparams); i++) {
        const ember_param_spec spec = ember_hparams_param(hparams, i);
        ember_tensor tensor = {.dtype = EMBER_F32, .n_dims = spec.n_dims, .dims = {spec.dims[0], spec.dims[1]}};
        check_ok(ember_allocate(&tensor.data, (size_t)ember_tensor_count(tensor), sizeof(float), "parameter"));
        check_ok(ember_checkpoint_get_param(full, &spec, tensor));
        check_ok(ember_checkpoint_put_param(writer, &spec, tensor));
        ember_release(tensor.data);
    }
    const ember_status status = ember_checkpoint_commit(writer);
    ember_checkpoint_close(full);
    return status;
}

/* Tokens that began and ended text for the model that a run starts from still do, also after a resume. */
static void tokens_are_inherited(void **state) {
    (void)state;
    enter("tokens");
    fixture_run first = {.sets = {"train.steps=1", "train.warmup_steps=0"}};
    check_ok(fixture_train(&first));
    ember_checkpoint *checkpoint = NULL;
    check_ok(ember_checkpoint_open(&checkpoint, "run/step_1.h5", true));
    ember_hparams hparams = *ember_checkpoint_hparams(checkpoint);
    ember_checkpoint_close(checkpoint);
    assert_int_equal(hparams.eos_token_ids[0], 39); /* the shard's */
    hparams.bos_token_id = 7;
    hparams.n_eos = 2;
    hparams.eos_token_ids[0] = 12;
    hparams.eos_token_ids[1] = 39;
    check_ok(write_params("chat.h5", "run/step_1.h5", false, &hparams));
    fixture_run tuned = {.sets = {"run.output=tuned", "train.steps=4", "train.stop_after=2", "init.from=chat.h5"}};
    check_ok(fixture_train(&tuned));
    fixture_run rest = {.sets = {"run.output=tuned", "train.steps=4", "init.from=chat.h5"}, .resume = true};
    check_ok(fixture_train(&rest));
    check_ok(ember_checkpoint_open(&checkpoint, "tuned/step_4.h5", true));
    const ember_hparams *after = ember_checkpoint_hparams(checkpoint);
    assert_int_equal(after->bos_token_id, 7);
    assert_int_equal(after->n_eos, 2);
    assert_int_equal(after->eos_token_ids[0] + after->eos_token_ids[1], 12 + 39);
    ember_checkpoint_close(checkpoint);
}

static void weights_alone_cannot_resume(void **state) {
    (void)state;
    enter("weights");
    fixture_run first = {.sets = {"train.steps=2", "train.warmup_steps=0"}};
    check_ok(fixture_train(&first));
    check_ok(write_params("weights.h5", "run/step_2.h5", false, NULL));
    /* One that calls itself full and has lost the moments is not even written. */
    check_fails(write_params("lost.h5", "run/step_2.h5", true, NULL), EMBER_E_STATE, "moments");
    assert_int_equal(access("lost.h5", F_OK), -1);
    fixture_run resumed = {.sets = {"run.output=again"}, .resume = true, .resume_path = "weights.h5"};
    check_fails(fixture_train(&resumed), EMBER_E_CONFIG, "init.from");
    /* From weights everything but the weights starts anew. */
    fixture_run tuned = {.sets = {"run.output=tuned", "train.steps=3", "init.from=weights.h5"}};
    check_ok(fixture_train(&tuned));
    ember_history *history = fixture_history("tuned/step_3.h5");
    assert_int_equal(ember_history_n(history), 3);
    assert_int_equal(ember_history_at(history, 0).step, 1);
    ember_history_free(history);
    fixture_run scaled = {.sets = {"run.output=scaled", "train.steps=1", "train.warmup_steps=0", "model.rope_scaling.type=linear",
                                   "model.rope_scaling.factor=2"}};
    check_ok(fixture_train(&scaled));
    fixture_run other_scale = {
        .sets = {"run.output=wrong", "init.from=scaled/step_1.h5", "model.rope_scaling.type=linear", "model.rope_scaling.factor=8"}};
    check_fails(fixture_train(&other_scale), EMBER_E_CONFIG, "model.rope_scaling.factor is 8");
    fixture_run no_scale = {.sets = {"run.output=wrong", "init.from=scaled/step_1.h5"}};
    check_fails(fixture_train(&no_scale), EMBER_E_CONFIG, "model.rope_scaling.type is none");
    fixture_run wrong = {.sets = {"run.output=wrong", "init.from=weights.h5", "model.rope_theta=500"}};
    check_fails(fixture_train(&wrong), EMBER_E_CONFIG, "model.rope_theta is 500");
    fixture_run larger = {.sets = {"run.output=wrong", "init.from=weights.h5", "model.hidden_size=32"}};
    check_fails(fixture_train(&larger), EMBER_E_CONFIG, "model.embed_tokens.weight");
    assert_int_equal(access("wrong", F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense),
        cmocka_unit_test(twell_with_controller_and_revival),
        cmocka_unit_test(mixture_with_documents),
        cmocka_unit_test(automatic_with_shared_costs),
        cmocka_unit_test(plain_relu2_untied),
        cmocka_unit_test(stopped_anywhere),
        cmocka_unit_test(stopped_before_anything),
        cmocka_unit_test(pending_evaluation),
        cmocka_unit_test(pending_evaluation_called_off),
        cmocka_unit_test(failed_evaluation_keeps_the_step),
        cmocka_unit_test(changes_of_the_past_are_refused),
        cmocka_unit_test(raised_limits_are_printed),
        cmocka_unit_test(a_used_folder_is_not_overwritten),
        cmocka_unit_test(damaged_newest_is_skipped),
        cmocka_unit_test(an_earlier_checkpoint_starts_a_branch),
        cmocka_unit_test(what_is_resumed_is_named),
        cmocka_unit_test(tokens_are_inherited),
        cmocka_unit_test(weights_alone_cannot_resume),
    };
    return cmocka_run_group_tests(tests, fixture_set_up, fixture_tear_down);
}
