/* rooms: train config */
/* Every key of the config does something: two runs that differ in it alone differ in what they do. A key
 * that parses and has lost its code cannot pass, and a new key without a row here fails. */
#include "tests/model/trainer_fixture.h"

#include <dirent.h>

#include "lib/config/schema.h"

typedef struct key_case {
    const char *key;
    const char *value;      /* of the second run */
    const char *elsewhere;  /* the test that shows its effect instead of this one */
    const char *context[6]; /* of both runs */
} key_case;

#define LLAMA3 "model.rope_scaling.type=llama3", "model.rope_scaling.factor=4", "model.rope_scaling.original_max_position_embeddings=64"

static const key_case cases[] = {
    {"run.name", NULL, "test_config: names the default of run.output", {0}},
    {"run.output", "elsewhere", NULL, {0}},
    {"run.seed", "1", NULL, {0}},
    {"run.device", NULL, "test_trainer: refusals_leave_nothing", {0}},
    {"run.threads", "2", NULL, {0}},
    {"model.vocab_size", "41", NULL, {0}},
    {"model.hidden_size", "32", NULL, {0}},
    {"model.intermediate_size", "25", NULL, {0}},
    {"model.neurons_per_layer", "[24, 23]", NULL, {0}},
    {"model.num_hidden_layers", "1", NULL, {0}},
    {"model.num_attention_heads", "4", NULL, {0}},
    {"model.num_key_value_heads", "2", NULL, {0}},
    {"model.head_dim", "4", NULL, {0}},
    {"model.max_position_embeddings", "64", NULL, {0}},
    {"model.rms_norm_eps", "0.01", NULL, {0}},
    {"model.rope_theta", "100", NULL, {0}},
    {"model.rope_scaling.type", "llama3", NULL, {"model.rope_scaling.type=linear", "model.rope_scaling.factor=4"}},
    {"model.rope_scaling.factor", "2", NULL, {"model.rope_scaling.type=linear"}},
    {"model.rope_scaling.low_freq_factor", "0.5", NULL, {LLAMA3}},
    {"model.rope_scaling.high_freq_factor", "8", NULL, {LLAMA3}},
    {"model.rope_scaling.original_max_position_embeddings", "100", NULL, {LLAMA3}},
    {"model.tie_word_embeddings", "false", NULL, {0}},
    {"model.qkv_bias", "true", NULL, {0}},
    {"model.qk_norm", "true", NULL, {0}},
    {"data.train", "../other.h5", NULL, {0}},
    {"data.weights", "[5, 1]", NULL, {"data.train=[../train.h5, ../other.h5]", "data.weights=[1, 5]"}},
    {"data.valid", "../other.h5", NULL, {0}},
    {"data.mask_documents", "true", NULL, {0}},
    {"data.shuffle", "false", NULL, {0}},
    {"data.verify", NULL, "verify_reads_every_byte below", {0}},
    {"data.zipf_exponent", "2", NULL, {"data.train=synthetic", "data.valid=[]", "eval.every=0"}},
    {"train.steps", "9", NULL, {0}},
    {"train.stop_after", "4", NULL, {0}},
    {"train.batch_size", "6", NULL, {0}},
    {"train.micro_batch_size", "1", NULL, {0}},
    {"train.sequence_length", "11", NULL, {0}},
    {"train.lr", "0.02", NULL, {0}},
    {"train.schedule", "constant", NULL, {0}},
    {"train.warmup_steps", "2", NULL, {0}},
    {"train.decay_steps", "3", NULL, {"train.schedule=wsd", "train.decay_steps=2"}},
    {"train.final_lr_fraction", "0.5", NULL, {0}},
    {"train.beta1", "0.8", NULL, {0}},
    {"train.beta2", "0.9", NULL, {0}},
    {"train.eps", "0.001", NULL, {0}},
    {"train.weight_decay", "0.3", NULL, {0}},
    {"train.clip", "0.01", NULL, {0}},
    {"sparsity.l1", "0.02", NULL, {0}},
    {"sparsity.l1_start_step", "3", NULL, {0}},
    {"sparsity.l1_warmup_steps", "2", NULL, {0}},
    {"sparsity.target", "0.2", NULL, {0}},
    {"sparsity.target_rate", "0.1", NULL, {"sparsity.target=0.2"}},
    {"sparsity.dead_after_tokens", "1", NULL, {"sparsity.l1=10", "train.lr=0.1"}},
    {"sparsity.window_tokens", "50", NULL, {0}},
    {"sparsity.revive_every", "2", NULL, {"sparsity.l1=10", "train.lr=0.1", "sparsity.dead_after_tokens=1"}},
    {"ffn.kind", "plain", NULL, {0}},
    {"ffn.activation", "relu2", NULL, {0}},
    {"ffn.mode", "twell", NULL, {0}},
    {"ffn.compression", "16", NULL, {"ffn.mode=twell"}},
    {"ffn.costs", "here.json", NULL, {"ffn.mode=auto"}},
    {"checkpoint.every", "2", NULL, {0}},
    {"checkpoint.keep_last", "1", NULL, {"checkpoint.every=2"}},
    {"checkpoint.keep_best", "false", NULL, {0}},
    {"eval.every", "3", NULL, {0}},
    {"eval.sequences", "2", NULL, {0}},
    {"init.std", "0.05", NULL, {0}},
    {"init.residual_scaling", "false", NULL, {0}},
    {"init.from", "../weights/run/step_8.h5", NULL, {0}},
    {"log.every", NULL, "cli/train_progress.sh", {0}},
};
enum { N_CASES = (int)(sizeof cases / sizeof cases[0]) };

static ember_status add_file(ember_bytes *out, const char *name) {
    return name[0] == '.' ? EMBER_OK : ember_bytes_printf(out, "file %s\n", name);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Names of the files in a folder, in order. */
static void add_files(ember_bytes *out, const char *folder) {
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, NULL, by_name);
    for (int i = 0; i < n; i++) {
        check_ok(add_file(out, names[i]->d_name));
        free(names[i]);
    }
    free(names);
}

static void add_history(ember_bytes *out, const ember_history *history) {
    for (int64_t i = 0; i < ember_history_n(history); i++) {
        const ember_history_row row = ember_history_at(history, i);
        check_ok(ember_bytes_printf(out, "%lld %lld %a %a %a %a %a %a %a", (long long)row.step, (long long)row.tokens_seen, row.loss,
                                    row.ce, row.l1, row.valid_loss, row.lr, row.lambda, row.grad_norm));
        for (int64_t k = 0; k < ember_history_n_layers(history); k++)
            check_ok(ember_bytes_printf(out, " %a %a %d %d %lld", (double)row.l0[k], (double)row.l1_per_layer[k], (int)row.dead[k],
                                        (int)row.mode[k], (long long)row.spill[k]));
        check_ok(ember_bytes_append(out, "\n", 1));
    }
}

/* All that a run did, as text: plan, threads, hyper-parameters, history, window, files. */
static void observe(ember_bytes *out, const char *const *context, const char *set) {
    fixture_run run = {0};
    int n = 0;
    for (; n < 6 && context[n]; n++)
        run.sets[n] = context[n];
    run.sets[n] = set;
    ember_config *config = fixture_config(&run);
    ember_trainer *trainer = NULL;
    check_ok(fixture_create(&trainer, config, &run));
    check_ok(ember_trainer_run(trainer));
    const ember_memory_plan *plan = ember_trainer_plan(trainer);
    const ember_tracker *tracker = ember_trainer_tracker(trainer);
    ember_model *model = ember_trainer_model(trainer);
    const ember_hparams *hparams = ember_model_hparams(model);
    check_ok(ember_bytes_printf(out, "plan %zu threads %d positions %lld evals %d blocks %lld x %lld, checkpoint %s\n", plan->total_bytes,
                                ember_model_backend(model)->n_threads, (long long)hparams->max_position_embeddings, run.n_evals,
                                (long long)tracker->n_blocks, (long long)tracker->steps_per_block, ember_trainer_checkpoint(trainer)));
    /* The last update shows in the weights alone. */
    double sum = 0;
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        const ember_param *param = ember_model_param(model, i);
        for (int64_t j = 0; j < ember_tensor_count(param->value); j++)
            sum += fabs((double)((float *)param->value.data)[j]);
    }
    check_ok(ember_bytes_printf(out, "weights %a\n", sum));
    add_history(out, ember_trainer_history(trainer));
    add_files(out, ember_config_settings(config)->run.output);
    add_files(out, ".");
    ember_trainer_free(trainer);
    ember_config_free(config);
}

static const key_case *find_case(const char *key) {
    for (int i = 0; i < N_CASES; i++) {
        if (strcmp(cases[i].key, key) == 0) return &cases[i];
    }
    return NULL;
}

static void check_key(int index, const key_case *c) {
    char folder[64];
    char set[256];
    ember_bytes without = {0};
    ember_bytes with = {0};
    const char *context[7] = {"train.steps=8"};
    memcpy(context + 1, c->context, 5 * sizeof context[0]);
    (void)snprintf(set, sizeof set, "%s=%s", c->key, c->value);
    (void)snprintf(folder, sizeof folder, "key_%d_without", index);
    enter(folder);
    observe(&without, context, NULL);
    (void)snprintf(folder, sizeof folder, "key_%d_with", index);
    enter(folder);
    observe(&with, context, set);
    if (strcmp(without.data, with.data) == 0) fail_msg("%s has no effect", set);
    ember_bytes_free(&without);
    ember_bytes_free(&with);
}

static void every_key_has_an_effect(void **state) {
    (void)state;
    enter("weights");
    fixture_run run = {.sets = {"train.steps=8", "run.seed=5"}};
    check_ok(fixture_train(&run));
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    for (int i = 0; i < n; i++) {
        const key_case *c = find_case(rows[i].key);
        if (!c) fail_msg("%s has no row in this test", rows[i].key);
        if (c->value) check_key(i, c);
    }
    for (int i = 0; i < N_CASES; i++) {
        if (ember_schema_find(cases[i].key) < 0) fail_msg("%s is no key any more", cases[i].key);
    }
}

/* The same run twice is the same text: a difference above is the key's. */
static void the_observation_repeats(void **state) {
    (void)state;
    const char *const context[7] = {"train.steps=8"};
    ember_bytes first = {0};
    ember_bytes second = {0};
    enter("repeat_1");
    observe(&first, context, NULL);
    enter("repeat_2");
    observe(&second, context, NULL);
    assert_string_equal(first.data, second.data);
    ember_bytes_free(&first);
    ember_bytes_free(&second);
}

static void verify_reads_every_byte(void **state) {
    (void)state;
    enter("verify");
    ember_bytes shard = {0};
    check_ok(ember_read_file(&shard, "../train.h5", 0));
    ember_shard *open = NULL;
    uint32_t ids[8];
    check_ok(ember_shard_open(&open, "../train.h5", true));
    check_ok(ember_shard_read(open, 200, 8, ids));
    ember_shard_close(open);
    uint16_t wanted[8];
    for (int i = 0; i < 8; i++)
        wanted[i] = (uint16_t)ids[i];
    char *at = NULL;
    for (size_t i = 0; i + sizeof wanted <= shard.n && !at; i++) {
        if (memcmp(shard.data + i, wanted, sizeof wanted) == 0) at = shard.data + i;
    }
    assert_non_null(at);
    at[0] = (char)(wanted[0] == 5 ? 6 : 5);
    check_ok(ember_write_file("damaged.h5", shard.data, shard.n));
    ember_bytes_free(&shard);
    fixture_run strict = {.sets = {"data.train=damaged.h5", "data.verify=true", "train.steps=3"}};
    check_fails(fixture_train(&strict), EMBER_E_CORRUPT, "damaged.h5");
    fixture_run trusting = {.sets = {"data.train=damaged.h5", "data.verify=false", "train.steps=3"}};
    check_ok(fixture_train(&trusting));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_observation_repeats),
        cmocka_unit_test(every_key_has_an_effect),
        cmocka_unit_test(verify_reads_every_byte),
    };
    return cmocka_run_group_tests(tests, fixture_set_up, fixture_tear_down);
}
