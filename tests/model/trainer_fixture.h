/* trainer_fixture.h - small runs for the trainer's tests: a temporary folder with token shards, a config, a run,
 * and a comparison of two checkpoints dataset by dataset. */
#ifndef EMBER_TESTS_TRAINER_FIXTURE_H
#define EMBER_TESTS_TRAINER_FIXTURE_H

#include "tests/check.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/shard.h"
#include "lib/base/atomic_file.h"
#include "lib/base/philox.h"
#include "train/trainer.h"

/* A model that steps in milliseconds; the shards are made by make_shards. */
static const char base_config[] = "run: {name: fixture, output: run, threads: 1}\n"
                                  "model: {vocab_size: 40, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2,\n"
                                  "        num_attention_heads: 2, num_key_value_heads: 1, tie_word_embeddings: true}\n"
                                  "data: {train: ../train.h5, valid: ../valid.h5}\n"
                                  "train: {steps: 20, batch_size: 4, micro_batch_size: 2, sequence_length: 12, lr: 0.01, warmup_steps: 3}\n"
                                  "sparsity: {l1: 0.01, l1_warmup_steps: 4, dead_after_tokens: 200, window_tokens: 300}\n"
                                  "ffn: {mode: dense}\n"
                                  "eval: {every: 5}\n";

static char fixture_root[4096];

/* `n_tokens` ids below 40 in documents of uneven length; some of one token. */
static void make_shard(const char *path, int64_t n_tokens, uint64_t seed, int64_t longest_document) {
    ember_shard_writer *writer = NULL;
    check_ok(ember_shard_create(&writer, path, "none", "{}", 2, 40, 39));
    uint32_t previous = 0;
    for (int64_t i = 0; i < n_tokens;) {
        const int64_t wanted = 1 + (int64_t)(ember_philox_u32(seed, 77, (uint64_t)i) % (uint32_t)longest_document);
        const int64_t n = wanted < n_tokens - i ? wanted : n_tokens - i;
        check_ok(ember_shard_begin_document(writer));
        for (int64_t j = 0; j < n; j++, i++) {
            /* Half of the tokens follow from the one before, so there is something to learn. */
            const uint32_t word = ember_philox_u32(seed, 78, (uint64_t)i);
            previous = word & 1 ? (previous * 7 + 3) % 39 : (word >> 8) % 39;
            check_ok(ember_shard_append(writer, &previous, 1));
        }
    }
    check_ok(ember_shard_commit(writer, n_tokens * 3));
}

/* A temporary folder with shards; the working directory is in it from here on. */
static int fixture_set_up(void **state) {
    (void)state;
    char folder[] = "ember_trainer_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0 || !getcwd(fixture_root, sizeof fixture_root)) return -1;
    make_shard("train.h5", 487, 1, 30);
    make_shard("other.h5", 391, 2, 30);
    make_shard("valid.h5", 101, 3, 30);
    make_shard("single.h5", 300, 4, 1);
    return 0;
}

static int fixture_tear_down(void **state) {
    (void)state;
    char command[4200];
    if (chdir(fixture_root) != 0 || chdir("..") != 0) return -1;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", fixture_root);
    return system(command);
}

/* A fresh folder of that name below the root, and into it. */
static inline void enter(const char *name) {
    assert_int_equal(chdir(fixture_root), 0);
    if (mkdir(name, 0777) != 0) assert_int_equal(access(name, W_OK), 0);
    assert_int_equal(chdir(name), 0);
}

enum { FIXTURE_SETS = 16 };

/* What a run is told, and what is to happen in it. */
typedef struct fixture_run {
    const char *sets[FIXTURE_SETS]; /* "section.key=value", up to the first NULL */
    bool resume;
    const char *resume_path;
    const char *allowed[4];
    int64_t stop_at_call; /* should_stop says yes at this call (1, 2, ...); 0: never */
    /* filled */
    int64_t stop_calls;
    int n_warnings;
    int n_evals;
    char log[8192];
} fixture_run;

static bool fixture_should_stop(void *user) {
    fixture_run *run = user;
    run->stop_calls++;
    return run->stop_at_call > 0 && run->stop_calls >= run->stop_at_call;
}

static void fixture_log(void *user, ember_log_level level, const char *line) {
    fixture_run *run = user;
    if (level == EMBER_LOG_WARNING) run->n_warnings++;
    const size_t used = strlen(run->log);
    (void)snprintf(run->log + used, sizeof run->log - used, "%s\n", line);
}

static void fixture_eval(void *user, int64_t step, const ember_eval_result *result) {
    (void)step;
    assert_true(isfinite(result->loss) && result->n_targets > 0);
    ((fixture_run *)user)->n_evals++;
}

static inline ember_config *fixture_config(const fixture_run *run) {
    int n = 0;
    while (n < FIXTURE_SETS && run->sets[n])
        n++;
    ember_config *config = NULL;
    check_ok(ember_config_parse(&config, base_config, sizeof base_config - 1, "fixture.yaml", run->sets, n));
    return config;
}

static inline ember_status fixture_create(ember_trainer **out, ember_config *config, fixture_run *run) {
    static ember_log log;
    int n_allowed = 0;
    while (n_allowed < 4 && run->allowed[n_allowed])
        n_allowed++;
    log = (ember_log){.sink = fixture_log, .user = run};
    const ember_trainer_options options = {.config = config,
                                           .resume = run->resume,
                                           .resume_path = run->resume_path,
                                           .allowed_changes = run->allowed,
                                           .n_allowed_changes = n_allowed,
                                           .log = &log,
                                           .events = {.user = run, .should_stop = fixture_should_stop, .eval_done = fixture_eval}};
    return ember_trainer_create(out, &options);
}

/* Creates, runs, frees. */
static inline ember_status fixture_train(fixture_run *run) {
    ember_config *config = fixture_config(run);
    ember_trainer *trainer = NULL;
    ember_status status = fixture_create(&trainer, config, run);
    if (status == EMBER_OK) status = ember_trainer_run(trainer);
    ember_trainer_free(trainer);
    ember_config_free(config);
    return status;
}

/* ---- comparison */

typedef struct comparison {
    const ember_h5_reader *other;
    const ember_h5_reader *file;
    char first[512]; /* path of the first difference, "" when there is none */
    int n_objects;
} comparison;

static inline void note_difference(comparison *c, const char *path) {
    if (c->first[0] == '\0') (void)snprintf(c->first, sizeof c->first, "%s", path);
}

static inline bool same_text(const comparison *c, const char *path) {
    ember_bytes a = {0};
    ember_bytes b = {0};
    check_ok(ember_h5_get_text(c->file, path, &a));
    check_ok(ember_h5_get_text(c->other, path, &b));
    const bool same = a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, a.n) == 0);
    ember_bytes_free(&a);
    ember_bytes_free(&b);
    return same;
}

static inline bool same_data(const comparison *c, const char *path, const ember_h5_info *info) {
    void *a = NULL;
    void *b = NULL;
    check_ok(ember_allocate(&a, (size_t)info->bytes, 1, "comparison"));
    check_ok(ember_allocate(&b, (size_t)info->bytes, 1, "comparison"));
    ember_tensor tensor = {.data = a, .dtype = info->dtype, .n_dims = info->n_dims};
    memcpy(tensor.dims, info->dims, sizeof tensor.dims);
    check_ok(ember_h5_get(c->file, path, tensor));
    tensor.data = b;
    check_ok(ember_h5_get(c->other, path, tensor));
    const bool same = memcmp(a, b, (size_t)info->bytes) == 0;
    ember_release(a);
    ember_release(b);
    return same;
}

static inline ember_status compare_object(void *user, const char *path, bool is_group, const ember_h5_info *info) {
    comparison *c = user;
    ember_h5_info theirs;
    c->n_objects++;
    if (!ember_h5_has(c->other, path)) {
        note_difference(c, path);
        return EMBER_OK;
    }
    if (is_group || strcmp(path, "/manifest") == 0 || strcmp(path, "/history/tokens_per_s") == 0) return EMBER_OK;
    check_ok(ember_h5_get_info(c->other, path, &theirs));
    const bool same_shape = theirs.is_text == info->is_text && theirs.dtype == info->dtype && theirs.n_dims == info->n_dims &&
                            memcmp(theirs.dims, info->dims, (size_t)info->n_dims * sizeof info->dims[0]) == 0;
    if (!same_shape || !(info->is_text ? same_text(c, path) : same_data(c, path, info))) note_difference(c, path);
    return EMBER_OK;
}

/* Path of the first object that differs between two checkpoints, "" when none does. Speeds are not compared. */
static inline void first_difference(char out[512], const char *a, const char *b) {
    ember_checkpoint *first = NULL;
    ember_checkpoint *second = NULL;
    check_ok(ember_checkpoint_open(&first, a, true));
    check_ok(ember_checkpoint_open(&second, b, true));
    comparison c = {.file = ember_checkpoint_file(first), .other = ember_checkpoint_file(second)};
    check_ok(ember_h5_walk(c.file, "/", (ember_h5_visit){.object = compare_object, .user = &c}));
    const int n = c.n_objects;
    comparison back = {.file = c.other, .other = c.file};
    check_ok(ember_h5_walk(back.file, "/", (ember_h5_visit){.object = compare_object, .user = &back}));
    if (back.n_objects != n) note_difference(&c, "the number of objects");
    assert_true(n > 50);
    (void)snprintf(out, 512, "%s", c.first);
    ember_checkpoint_close(first);
    ember_checkpoint_close(second);
}

static inline void check_identical(const char *a, const char *b) {
    char path[512];
    first_difference(path, a, b);
    if (path[0] != '\0') fail_msg("%s and %s differ in %s", a, b, path);
}

/* History of a checkpoint; free it. */
static inline ember_history *fixture_history(const char *path) {
    ember_checkpoint *checkpoint = NULL;
    ember_history *history = NULL;
    check_ok(ember_checkpoint_open(&checkpoint, path, true));
    check_ok(ember_history_create(&history, ember_checkpoint_hparams(checkpoint)->num_hidden_layers));
    check_ok(ember_history_load(history, checkpoint));
    ember_checkpoint_close(checkpoint);
    return history;
}

/* One small dataset of a checkpoint. */
static inline void fixture_get(const char *path, const char *group, const char *name, ember_tensor out) {
    ember_checkpoint *checkpoint = NULL;
    check_ok(ember_checkpoint_open(&checkpoint, path, true));
    check_ok(ember_checkpoint_get(checkpoint, group, name, out));
    ember_checkpoint_close(checkpoint);
}

#endif
