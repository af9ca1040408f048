/* rooms: checkpoints h5 base */
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoints/checkpoint.h"
#include "lib/base/atomic_file.h"
#include "lib/base/log.h"
#include "tests/check.h"

#define FILE_NAME "test_checkpoint.tmp.h5"
#define FOLDER "test_checkpoint.tmp"

static ember_hparams sample(void) {
    return (ember_hparams){.vocab_size = 11,
                           .hidden_size = 8,
                           .num_hidden_layers = 2,
                           .num_attention_heads = 2,
                           .num_key_value_heads = 1,
                           .head_dim = 4,
                           .max_position_embeddings = 16,
                           .neurons = {7, 5},
                           .ffn_kind = EMBER_FFN_GATED,
                           .activation = EMBER_RELU2,
                           .rms_norm_eps = 1e-5,
                           .rope_theta = 12345.5,
                           .rope_scaling = EMBER_ROPE_LLAMA3,
                           .rope_factor = 8,
                           .rope_low_freq_factor = 1,
                           .rope_high_freq_factor = 4,
                           .rope_original_max_position_embeddings = 8,
                           .tie_word_embeddings = false,
                           .qkv_bias = true,
                           .qk_norm = true,
                           .bos_token_id = 1,
                           .n_eos = 2,
                           .eos_token_ids = {2, 5}};
}

enum { MAX_ELEMENTS = 256 };

static ember_tensor values_of(const ember_param_spec *spec, float *values, int64_t seed) {
    ember_tensor tensor = {.data = values, .dtype = EMBER_F32, .n_dims = spec->n_dims, .dims = {spec->dims[0], spec->dims[1]}};
    const int64_t n = ember_tensor_count(tensor);
    assert_true(n <= MAX_ELEMENTS);
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(seed * 1000 + i) * 0.5f;
    return tensor;
}

static void write_checkpoint(const char *path, bool full, int64_t step, int64_t leave_out) {
    const ember_hparams hparams = sample();
    const ember_checkpoint_meta meta = {
        .full = full, .step = step, .tokens_seen = step * 100, .config = "run: {}\n", .tokenizer = "{\"a\":1}", .tokenizer_bytes = 7};
    ember_checkpoint_writer *writer = NULL;
    float values[MAX_ELEMENTS];
    float squares[MAX_ELEMENTS];
    uint64_t counts[7] = {1, 2, 3, 4, 5, 6, UINT64_MAX};
    check_ok(ember_checkpoint_create(&writer, path, &meta, &hparams));
    for (int64_t i = 0; i < ember_hparams_n_params(&hparams); i++) {
        const ember_param_spec spec = ember_hparams_param(&hparams, i);
        if (i == leave_out) continue;
        check_ok(ember_checkpoint_put_param(writer, &spec, values_of(&spec, values, i)));
        if (full)
            check_ok(ember_checkpoint_put_moments(writer, &spec, values_of(&spec, values, i + 50), values_of(&spec, squares, i + 90)));
    }
    check_ok(ember_checkpoint_put(writer, "sparsity/layer_0", "fire_count", ember_tensor_1d(counts, EMBER_U64, 7)));
    check_ok(ember_checkpoint_put_text(writer, "state", "ffn_costs", "{}", 2));
    if (leave_out >= 0) {
        check_fails(ember_checkpoint_commit(writer), EMBER_E_STATE, ember_hparams_param(&hparams, leave_out).name);
        assert_int_equal(access(path, F_OK), -1);
    } else {
        check_ok(ember_checkpoint_commit(writer));
    }
}

static void test_round_trip(void **state) {
    (void)state;
    const ember_hparams hparams = sample();
    ember_checkpoint *c = NULL;
    float values[MAX_ELEMENTS];
    float back[MAX_ELEMENTS];
    float back_sq[MAX_ELEMENTS];
    uint64_t counts[7];
    ember_bytes text = {0};
    ember_h5_info info;
    write_checkpoint(FILE_NAME, true, 3, -1);
    check_ok(ember_checkpoint_open(&c, FILE_NAME, true));
    const ember_hparams *read = ember_checkpoint_hparams(c);
    assert_int_equal(ember_hparams_n_params(read), ember_hparams_n_params(&hparams));
    assert_memory_equal(read->neurons, hparams.neurons, sizeof hparams.neurons);
    assert_true(read->activation == EMBER_RELU2 && read->rope_scaling == EMBER_ROPE_LLAMA3 && read->rope_theta == 12345.5);
    assert_true(read->qk_norm && read->qkv_bias && !read->tie_word_embeddings && read->n_eos == 2 && read->eos_token_ids[1] == 5);
    assert_true(read->rope_factor == 8 && read->rope_low_freq_factor == 1 && read->rope_high_freq_factor == 4);
    assert_true(read->rope_original_max_position_embeddings == 8 && read->bos_token_id == 1 && read->rms_norm_eps == 1e-5);
    const ember_checkpoint_meta *meta = ember_checkpoint_get_meta(c);
    assert_true(meta->full && meta->step == 3 && meta->tokens_seen == 300 && meta->tokenizer_bytes == 7);
    assert_string_equal(meta->config, "run: {}\n");
    for (int64_t i = 0; i < ember_hparams_n_params(&hparams); i++) {
        const ember_param_spec spec = ember_hparams_param(&hparams, i);
        const ember_tensor wanted = values_of(&spec, values, i);
        ember_tensor out = wanted;
        ember_tensor out_sq = wanted;
        out.data = back;
        out_sq.data = back_sq;
        const size_t bytes = (size_t)ember_tensor_count(wanted) * sizeof(float);
        check_ok(ember_checkpoint_get_param(c, &spec, out));
        assert_memory_equal(back, values, bytes);
        check_ok(ember_checkpoint_get_moments(c, &spec, out, out_sq));
        (void)values_of(&spec, values, i + 50);
        assert_memory_equal(back, values, bytes);
        (void)values_of(&spec, values, i + 90);
        assert_memory_equal(back_sq, values, bytes);
    }
    check_ok(ember_checkpoint_get(c, "sparsity/layer_0", "fire_count", ember_tensor_1d(counts, EMBER_U64, 7)));
    assert_true(counts[6] == UINT64_MAX);
    check_ok(ember_checkpoint_info(c, "sparsity/layer_0", "fire_count", &info));
    assert_int_equal(info.dims[0], 7);
    assert_true(ember_checkpoint_has(c, "state", "ffn_costs") && !ember_checkpoint_has(c, "state", "none"));
    check_ok(ember_checkpoint_get_text(c, "state", "ffn_costs", &text));
    assert_string_equal(text.data, "{}");
    ember_bytes_free(&text);
    check_fails(ember_checkpoint_get_text(c, "state", "none", &text), EMBER_E_NOT_FOUND, "/state/none");
    ember_checkpoint_close(c);
    assert_int_equal(unlink(FILE_NAME), 0);
}

static void test_incomplete_writers(void **state) {
    (void)state;
    write_checkpoint(FILE_NAME, false, 1, 4);
    const ember_hparams hparams = sample();
    const ember_checkpoint_meta meta = {.full = true};
    ember_checkpoint_writer *writer = NULL;
    float values[MAX_ELEMENTS];
    check_ok(ember_checkpoint_create(&writer, FILE_NAME, &meta, &hparams));
    for (int64_t i = 0; i < ember_hparams_n_params(&hparams); i++) {
        const ember_param_spec spec = ember_hparams_param(&hparams, i);
        check_ok(ember_checkpoint_put_param(writer, &spec, values_of(&spec, values, i)));
    }
    check_fails(ember_checkpoint_commit(writer), EMBER_E_STATE, "moments");
    assert_int_equal(access(FILE_NAME, F_OK), -1);
    check_ok(ember_checkpoint_create(&writer, FILE_NAME, &meta, &hparams));
    ember_param_spec spec = ember_hparams_param(&hparams, 0);
    spec.dims[0]++;
    check_fails(ember_checkpoint_put_param(writer, &spec, values_of(&spec, values, 0)), EMBER_E_SHAPE, spec.name);
    (void)snprintf(spec.name, sizeof spec.name, "model.none");
    check_fails(ember_checkpoint_put_param(writer, &spec, values_of(&spec, values, 0)), EMBER_E_ARGUMENT, "model.none");
    ember_checkpoint_abort(writer);
}

static void test_weights_cannot_resume(void **state) {
    (void)state;
    const ember_hparams hparams = sample();
    const ember_param_spec spec = ember_hparams_param(&hparams, 0);
    ember_checkpoint *c = NULL;
    float values[MAX_ELEMENTS];
    write_checkpoint(FILE_NAME, false, 1, -1);
    check_ok(ember_checkpoint_open(&c, FILE_NAME, false));
    const ember_tensor out = values_of(&spec, values, 0);
    check_fails(ember_checkpoint_get_moments(c, &spec, out, out), EMBER_E_STATE, "init.from");
    ember_checkpoint_close(c);
    assert_int_equal(unlink(FILE_NAME), 0);
}

/* ---- files that another program might have made: written here through the plain HDF5 wrapper */

typedef struct variant {
    const char *without_layout; /* this dataset lacks the attribute */
    const char *other_layout;
    const char *wrong_shape;
    const char *missing;
    const char *extra;
    const char *kind;
} variant;

/* Follows a good checkpoint object by object. */
typedef struct copy_user {
    const ember_h5_reader *from;
    ember_h5_writer *to;
    const variant *v;
} copy_user;

static bool is(const char *path, const char *wanted) { return wanted && strcmp(path, wanted) == 0; }

static ember_status copy_object(void *user, const char *path, bool is_group, const ember_h5_info *info) {
    copy_user *u = user;
    static double buffer[4096];
    ember_bytes text = {0};
    if (is_group) return ember_h5_put_group(u->to, path);
    if (is(path, u->v->missing)) return EMBER_OK;
    if (info->is_text) {
        check_ok(ember_h5_get_text(u->from, path, &text));
        const ember_status status = ember_h5_put_text(u->to, path, text.data, text.n);
        ember_bytes_free(&text);
        return status;
    }
    ember_tensor tensor = {.data = buffer, .dtype = info->dtype, .n_dims = info->n_dims};
    memcpy(tensor.dims, info->dims, sizeof tensor.dims);
    check_ok(ember_h5_get(u->from, path, tensor));
    if (is(path, u->v->wrong_shape)) tensor.dims[0]--;
    check_ok(ember_h5_put(u->to, path, tensor));
    if (strstr(path, "/mlp/") && !is(path, u->v->without_layout)) {
        return ember_h5_put_attribute_text(u->to, path, "layout", is(path, u->v->other_layout) ? "hidden_major" : "neuron_major");
    }
    return EMBER_OK;
}

static void write_variant(const variant *v) {
    copy_user user = {.v = v};
    ember_h5_reader *from = NULL;
    static const char *const integers[] = {"vocab_size",
                                           "hidden_size",
                                           "num_hidden_layers",
                                           "num_attention_heads",
                                           "num_key_value_heads",
                                           "head_dim",
                                           "intermediate_size",
                                           "max_position_embeddings",
                                           "tie_word_embeddings",
                                           "qkv_bias",
                                           "qk_norm",
                                           "bos_token_id",
                                           "rope_original_max_position_embeddings"};
    static const char *const texts[] = {"ffn_kind", "activation", "rope_scaling"};
    static const char *const reals[] = {"rms_norm_eps", "rope_theta", "rope_factor", "rope_low_freq_factor", "rope_high_freq_factor"};
    static const char *const lists[] = {"neurons_per_layer", "eos_token_ids"};
    write_checkpoint(FILE_NAME, true, 3, -1);
    check_ok(ember_h5_open(&from, FILE_NAME, "ember-checkpoint", 1, true));
    user.from = from;
    check_ok(ember_h5_create(&user.to, FILE_NAME ".new", "ember-checkpoint", 1));
    check_ok(ember_h5_put_attribute_text(user.to, "/", "kind", v->kind ? v->kind : "full"));
    check_ok(ember_h5_put_attribute_i64(user.to, "/", "step", 3));
    check_ok(ember_h5_put_attribute_i64(user.to, "/", "tokens_seen", 3));
    check_ok(ember_h5_walk(from, "/", (ember_h5_visit){.object = copy_object, .user = &user}));
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        int64_t value = 0;
        check_ok(ember_h5_get_attribute_i64(from, "/model", integers[i], &value));
        check_ok(ember_h5_put_attribute_i64(user.to, "/model", integers[i], value));
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value = 0;
        check_ok(ember_h5_get_attribute_f64(from, "/model", reals[i], &value));
        check_ok(ember_h5_put_attribute_f64(user.to, "/model", reals[i], value));
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ember_bytes value = {0};
        check_ok(ember_h5_get_attribute_text(from, "/model", texts[i], &value));
        check_ok(ember_h5_put_attribute_text(user.to, "/model", texts[i], value.data));
        ember_bytes_free(&value);
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        int64_t values[8];
        size_t n = 0;
        check_ok(ember_h5_get_attribute_i64s(from, "/model", lists[i], values, 8, &n));
        check_ok(ember_h5_put_attribute_i64s(user.to, "/model", lists[i], values, n));
    }
    if (v->extra) check_ok(ember_h5_put_text(user.to, v->extra, "x", 1));
    ember_h5_close(from);
    check_ok(ember_h5_commit(user.to));
    assert_int_equal(rename(FILE_NAME ".new", FILE_NAME), 0);
}

static void test_foreign_makers(void **state) {
    (void)state;
    ember_checkpoint *c = NULL;
    const char *up = "/model/model/layers/1/mlp/up_proj/weight";
    write_variant(&(variant){0});
    check_ok(ember_checkpoint_open(&c, FILE_NAME, true)); /* the copy itself is good */
    ember_checkpoint_close(c);
    write_variant(&(variant){.without_layout = up});
    check_fails(ember_checkpoint_open(&c, FILE_NAME, true), EMBER_E_FORMAT, up);
    assert_non_null(strstr(ember_last_error(), "layout"));
    write_variant(&(variant){.other_layout = up});
    check_fails(ember_checkpoint_open(&c, FILE_NAME, true), EMBER_E_UNSUPPORTED, "hidden_major");
    write_variant(&(variant){.wrong_shape = up});
    check_fails(ember_checkpoint_open(&c, FILE_NAME, true), EMBER_E_SHAPE, up);
    write_variant(&(variant){.missing = up});
    check_fails(ember_checkpoint_open(&c, FILE_NAME, true), EMBER_E_CORRUPT, up);
    write_variant(&(variant){.missing = "/optimizer/exp_avg/model/norm/weight"});
    check_fails(ember_checkpoint_open(&c, FILE_NAME, true), EMBER_E_CORRUPT, "/optimizer/exp_avg/model/norm/weight");
    write_variant(&(variant){.extra = "/model/model/layers/1/mlp/extra"});
    check_fails(ember_checkpoint_open(&c, FILE_NAME, true), EMBER_E_FORMAT, "/model/model/layers/1/mlp/extra");
    write_variant(&(variant){.kind = "half"});
    check_fails(ember_checkpoint_open(&c, FILE_NAME, true), EMBER_E_FORMAT, "half");
    assert_int_equal(unlink(FILE_NAME), 0);
}

static void count_line(void *user, ember_log_level level, const char *line) {
    (void)level;
    (void)line;
    ++*(int *)user;
}

static void test_newest(void **state) {
    (void)state;
    ember_bytes path = {0};
    ember_bytes raw = {0};
    int n_notes = 0;
    const ember_log log = {.sink = count_line, .user = &n_notes};
    check_fails(ember_checkpoint_newest(&path, FOLDER, &log), EMBER_E_NOT_FOUND, FOLDER);
    check_ok(ember_make_folders(FOLDER));
    check_fails(ember_checkpoint_newest(&path, FOLDER, &log), EMBER_E_NOT_FOUND, FOLDER);
    write_checkpoint(FOLDER "/step_9.h5", true, 9, -1);
    write_checkpoint(FOLDER "/step_10.h5", true, 10, -1);
    write_checkpoint(FOLDER "/step_30.h5", true, 30, -1);
    write_checkpoint(FOLDER "/step_40.h5", false, 40, -1);
    check_ok(ember_read_file(&raw, FOLDER "/step_30.h5", 0));
    check_ok(ember_write_file(FOLDER "/.step_50.h5.1.tmp", raw.data, raw.n));
    check_ok(ember_write_file(FOLDER "/step_60.h5", raw.data, raw.n / 2));
    assert_int_equal(rename(FOLDER "/step_30.h5", FOLDER "/misnamed.h5"), 0);
    check_ok(ember_checkpoint_newest(&path, FOLDER, &log));
    assert_string_equal(path.data, FOLDER "/misnamed.h5");
    assert_int_equal(n_notes, 2); /* the short one, the one of weights */
    ember_bytes_free(&path);
    /* A flipped bit in the weights: the one before is taken. */
    ember_h5_reader *file = NULL;
    ember_h5_info info;
    check_ok(ember_h5_open(&file, FOLDER "/misnamed.h5", NULL, 1, false));
    check_ok(ember_h5_get_info(file, "/model/model/norm/weight", &info));
    ember_h5_close(file);
    raw.data[info.file_offset + 3] ^= 1;
    check_ok(ember_write_file(FOLDER "/misnamed.h5", raw.data, raw.n));
    check_ok(ember_checkpoint_newest(&path, FOLDER, &log));
    assert_string_equal(path.data, FOLDER "/step_10.h5");
    ember_bytes_free(&path);
    ember_bytes_free(&raw);
    static const char *const names[] = {"step_9.h5", "step_10.h5", "step_40.h5", ".step_50.h5.1.tmp", "step_60.h5", "misnamed.h5"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[256];
        (void)snprintf(name, sizeof name, "%s/%s", FOLDER, names[i]);
        assert_int_equal(unlink(name), 0);
    }
    assert_int_equal(rmdir(FOLDER), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_incomplete_writers),
        cmocka_unit_test(test_weights_cannot_resume),
        cmocka_unit_test(test_foreign_makers),
        cmocka_unit_test(test_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
