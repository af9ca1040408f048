/* rooms: checkpoints h5 base */
/* Folders made here, imported, and compared value for value; every refusal leaves nothing behind. */
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoints/checkpoint.h"
#include "checkpoints/hf_config.h"
#include "checkpoints/hf_import.h"
#include "lib/base/atomic_file.h"
#include "tests/check.h"

#define FOLDER "test_hf_import.tmp"
#define OUTPUT "test_hf_import.tmp.h5"
enum { D = 12, H = 37, V = 19, L = 2, MAX_TENSORS = 64 };

typedef struct tensor {
    char name[128];
    int n_dims;
    int64_t dims[2];
    const char *dtype;
    float *values;
} tensor;

typedef struct model {
    tensor items[MAX_TENSORS];
    int n;
} model;

static tensor *add(model *m, const char *name, int64_t rows, int64_t columns) {
    tensor *t = &m->items[m->n++];
    *t = (tensor){.n_dims = columns ? 2 : 1, .dims = {rows, columns}, .dtype = "F32"};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    const int64_t n = rows * (columns ? columns : 1);
    t->values = malloc((size_t)n * sizeof(float) + 1);
    assert_non_null(t->values);
    /* Few bits, so that bf16 and f16 hold them exactly. */
    for (int64_t i = 0; i < n; i++)
        t->values[i] = (float)((i * 7 + m->n * 13) % 251 - 125) / 64.0f;
    return t;
}

static void add_layer(model *m, int layer, const char *tail, int64_t rows, int64_t columns) {
    char name[128];
    (void)snprintf(name, sizeof name, "model.layers.%d.%s", layer, tail);
    (void)add(m, name, rows, columns);
}

static model *new_model(bool tied) {
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    if (!tied) (void)add(m, "lm_head.weight", V, D);
    (void)add(m, "model.embed_tokens.weight", V, D);
    for (int i = 0; i < L; i++) {
        add_layer(m, i, "input_layernorm.weight", D, 0);
        add_layer(m, i, "mlp.down_proj.weight", D, H);
        add_layer(m, i, "mlp.gate_proj.weight", H, D);
        add_layer(m, i, "mlp.up_proj.weight", H, D);
        add_layer(m, i, "post_attention_layernorm.weight", D, 0);
        add_layer(m, i, "self_attn.k_proj.weight", 4, D);
        add_layer(m, i, "self_attn.o_proj.weight", D, 12);
        add_layer(m, i, "self_attn.q_proj.weight", 12, D);
        add_layer(m, i, "self_attn.v_proj.weight", 4, D);
    }
    (void)add(m, "model.norm.weight", D, 0);
    return m;
}

static void free_model(model *m) {
    for (int i = 0; i < m->n; i++)
        free(m->items[i].values);
    free(m);
}

static tensor *find(model *m, const char *name) {
    for (int i = 0; i < m->n; i++) {
        if (strcmp(m->items[i].name, name) == 0) return &m->items[i];
    }
    return NULL;
}

static int64_t count_of(const tensor *t) { return t->dims[0] * (t->n_dims == 2 ? t->dims[1] : 1); }

/* Exact for the values used here. */
static uint16_t f16_of(float value) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        if ((bits & 0x7c00u) != 0x7c00u && ember_f32_from_f16((uint16_t)bits) == value) return (uint16_t)bits;
    }
    fail_msg("%g is no f16", (double)value);
    return 0;
}

static void write_weights(const model *m) {
    ember_bytes header = {0};
    ember_bytes data = {0};
    ember_bytes all = {0};
    check_ok(ember_bytes_append(&header, "{", 1));
    for (int i = 0; i < m->n; i++) {
        const tensor *t = &m->items[i];
        const size_t begin = data.n;
        const bool wide = strcmp(t->dtype, "F32") == 0;
        for (int64_t k = 0; k < count_of(t); k++) {
            const uint16_t half = strcmp(t->dtype, "F16") == 0 ? f16_of(t->values[k]) : ember_bf16_from_f32(t->values[k]);
            check_ok(wide ? ember_bytes_append(&data, &t->values[k], 4) : ember_bytes_append(&data, &half, 2));
        }
        check_ok(ember_bytes_printf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", i ? "," : "", t->name, t->dtype,
                                    (long long)t->dims[0]));
        if (t->n_dims == 2) check_ok(ember_bytes_printf(&header, ",%lld", (long long)t->dims[1]));
        check_ok(ember_bytes_printf(&header, "],\"data_offsets\":[%zu,%zu]}", begin, data.n));
    }
    check_ok(ember_bytes_append(&header, "}", 1));
    const uint64_t length = header.n;
    check_ok(ember_bytes_append(&all, &length, 8));
    check_ok(ember_bytes_append(&all, header.data, header.n));
    if (data.n) check_ok(ember_bytes_append(&all, data.data, data.n));
    check_ok(ember_write_file(FOLDER "/model.safetensors", all.data, all.n));
    ember_bytes_free(&header);
    ember_bytes_free(&data);
    ember_bytes_free(&all);
}

static void write_text(const char *path, const char *text) { check_ok(ember_write_file(path, text, strlen(text))); }

static void write_config(bool tied) {
    ember_bytes text = {0};
    check_ok(ember_bytes_printf(&text,
                                "{\"model_type\":\"llama\",\"hidden_size\":%d,\"intermediate_size\":%d,\"num_hidden_layers\":%d,"
                                "\"num_attention_heads\":3,\"num_key_value_heads\":1,\"vocab_size\":%d,\"tie_word_embeddings\":%s}",
                                (int)D, (int)H, (int)L, (int)V, tied ? "true" : "false"));
    write_text(FOLDER "/config.json", text.data);
    ember_bytes_free(&text);
}

static int set_up(void **state) {
    (void)state;
    check_ok(ember_make_folders(FOLDER));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json",
                                        "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/%s", FOLDER, names[i]);
        (void)unlink(path);
    }
    (void)unlink(OUTPUT);
    return rmdir(FOLDER);
}

static void keep_line(void *user, ember_log_level level, const char *line) {
    (void)level;
    check_ok(ember_bytes_printf(user, "%s\n", line));
}

static void imports(const char *said) {
    ember_bytes lines = {0};
    const ember_log log = {.sink = keep_line, .user = &lines};
    check_ok(ember_hf_import(FOLDER, OUTPUT, &log));
    if (!strstr(lines.data, said)) fail_msg("\"%s\" was not said: %s", said, lines.data);
    ember_bytes_free(&lines);
}

static void assert_nothing_beside(void) {
    glob_t found = {0};
    assert_int_equal(glob("." OUTPUT ".*", 0, NULL, &found), GLOB_NOMATCH);
    globfree(&found);
}

static void refuses(ember_status wanted, const char *part) {
    check_fails(ember_hf_import(FOLDER, OUTPUT, NULL), wanted, part);
    assert_int_equal(access(OUTPUT, F_OK), -1);
    assert_nothing_beside();
}

/* Every parameter of the checkpoint equals its tensor, down_proj transposed. */
static void check_values(model *m) {
    ember_checkpoint *c = NULL;
    check_ok(ember_checkpoint_open(&c, OUTPUT, true));
    const ember_hparams *hparams = ember_checkpoint_hparams(c);
    for (int64_t p = 0; p < ember_hparams_n_params(hparams); p++) {
        const ember_param_spec spec = ember_hparams_param(hparams, p);
        const tensor *t = find(m, spec.name);
        assert_non_null(t);
        float values[V * H];
        ember_tensor out = {.data = values, .dtype = EMBER_F32, .n_dims = spec.n_dims, .dims = {spec.dims[0], spec.dims[1]}};
        assert_int_equal(ember_tensor_count(out), count_of(t));
        check_ok(ember_checkpoint_get_param(c, &spec, out));
        const int64_t columns = spec.n_dims == 2 ? spec.dims[1] : 1;
        for (int64_t i = 0; i < spec.dims[0]; i++) {
            for (int64_t j = 0; j < columns; j++) {
                const float wanted = spec.role == EMBER_PARAM_DOWN ? t->values[j * spec.dims[0] + i] : t->values[i * columns + j];
                if (values[i * columns + j] != wanted) fail_msg("%s[%d, %d]", spec.name, (int)i, (int)j);
            }
        }
    }
    ember_checkpoint_close(c);
}

static void test_untied_and_dtypes(void **state) {
    (void)state;
    model *m = new_model(false);
    write_config(false);
    write_weights(m);
    imports("21 of 21 tensors used, 21 of 21 parameters filled");
    check_values(m);
    for (int i = 0; i < m->n; i++)
        m->items[i].dtype = i % 3 == 0 ? "F32" : i % 3 == 1 ? "BF16" : "F16";
    write_weights(m);
    imports("21 of 21 tensors used");
    check_values(m);
    assert_int_equal(unlink(OUTPUT), 0);
    free_model(m);
}

static void test_head(void **state) {
    (void)state;
    model *m = new_model(true);
    write_config(true);
    write_weights(m);
    imports("20 of 20 tensors used");
    check_values(m);
    assert_int_equal(unlink(OUTPUT), 0);
    write_config(false);
    refuses(EMBER_E_NOT_FOUND, "\"lm_head.weight\" is missing");
    write_config(true);
    tensor *head = add(m, "lm_head.weight", V, D);
    memcpy(head->values, find(m, "model.embed_tokens.weight")->values, sizeof(float) * V * D);
    write_weights(m);
    imports("21 of 21 tensors used");
    assert_int_equal(unlink(OUTPUT), 0);
    head->values[V * D - 1] += 1;
    write_weights(m);
    refuses(EMBER_E_FORMAT, "differs from the embedding");
    head->dims[0]--;
    write_weights(m);
    refuses(EMBER_E_SHAPE, "lm_head.weight");
    free_model(m);
}

static void test_other_tensors(void **state) {
    (void)state;
    model *m = new_model(true);
    write_config(true);
    (void)add(m, "model.layers.0.self_attn.rotary_emb.inv_freq", 2, 0);
    (void)add(m, "model.layers.1.self_attn.rotary_emb.inv_freq", 2, 0);
    write_weights(m);
    imports("2 rotary_emb.inv_freq buffers are skipped");
    imports("20 of 20 tensors used");
    assert_int_equal(unlink(OUTPUT), 0);
    tensor *extra = add(m, "model.layers.1.self_attn.q_norm.weight", 4, 0);
    write_weights(m);
    refuses(EMBER_E_UNSUPPORTED, "q_norm");
    (void)snprintf(extra->name, sizeof extra->name, "nothing");
    extra->dims[0] = 0;
    write_weights(m);
    refuses(EMBER_E_UNSUPPORTED, "\"nothing\"");
    free_model(m);
    m = new_model(true);
    tensor *renamed = find(m, "model.layers.1.mlp.up_proj.weight");
    (void)snprintf(renamed->name, sizeof renamed->name, "model.layers.1.mlp.w3.weight");
    write_weights(m);
    refuses(EMBER_E_UNSUPPORTED, "model.layers.1.mlp.w3.weight");
    m->n--; /* the last: model.norm.weight */
    (void)snprintf(renamed->name, sizeof renamed->name, "model.layers.1.mlp.up_proj.weight");
    write_weights(m);
    refuses(EMBER_E_NOT_FOUND, "model.norm.weight");
    m->n++;
    tensor *down = find(m, "model.layers.1.mlp.down_proj.weight");
    down->dims[0] = H;
    down->dims[1] = D;
    write_weights(m);
    refuses(EMBER_E_SHAPE, "\"model.layers.1.mlp.down_proj.weight\" has shape [37, 12], config.json asks for [12, 37]");
    free_model(m);
}

static void test_tokens(void **state) {
    (void)state;
    model *m = new_model(true);
    ember_checkpoint *c = NULL;
    write_config(true);
    write_weights(m);
    imports("tokenizer.json: is missing");
    const char *tokenizer = "{ \"model\" : {\"vocab\":{\"a\":18}},\"added_tokens\":[] }\n";
    write_text(FOLDER "/tokenizer.json", tokenizer);
    write_text(FOLDER "/generation_config.json", "{\"eos_token_id\":[2,7]}");
    imports("2 end-of-text ids");
    check_ok(ember_checkpoint_open(&c, OUTPUT, true));
    assert_string_equal(ember_checkpoint_get_meta(c)->tokenizer, tokenizer);
    assert_int_equal(ember_checkpoint_get_meta(c)->tokenizer_bytes, strlen(tokenizer));
    assert_false(ember_checkpoint_get_meta(c)->full);
    assert_int_equal(ember_checkpoint_hparams(c)->n_eos, 2);
    ember_checkpoint_close(c);
    assert_int_equal(unlink(OUTPUT), 0);
    write_text(FOLDER "/tokenizer.json", "{\"model\":{\"vocab\":{\"a\":18}},\"added_tokens\":[{\"id\":19,\"content\":\"<late>\"}]}");
    refuses(EMBER_E_FORMAT, "\"<late>\" has id 19");
    free_model(m);
}

static bool third_time(void *user) {
    int *n = user;
    return ++*n == 3;
}

/* Stopped between two pieces: no checkpoint, and nothing beside its name. */
static void test_cancelled(void **state) {
    (void)state;
    model *m = new_model(true);
    int n = 0;
    write_config(true);
    write_weights(m);
    check_fails(ember_hf_import_until(FOLDER, OUTPUT, NULL, third_time, &n), EMBER_E_INTERRUPTED, "no checkpoint was written");
    assert_int_equal(n, 3);
    assert_int_equal(access(OUTPUT, F_OK), -1);
    assert_nothing_beside();
    imports("parameters filled");
    free_model(m);
}

static void test_folders(void **state) {
    (void)state;
    check_fails(ember_hf_import("no/such/folder", OUTPUT, NULL), EMBER_E_NOT_FOUND, "no/such/folder/config.json");
    write_config(true);
    refuses(EMBER_E_NOT_FOUND, "model.safetensors");
    write_text(FOLDER "/model.safetensors.index.json", "{}");
    refuses(EMBER_E_UNSUPPORTED, "several files");
    model *m = new_model(true);
    write_weights(m);
    free_model(m);
    assert_int_equal(truncate(FOLDER "/model.safetensors", 3000), 0);
    refuses(EMBER_E_CORRUPT, "model.safetensors");
    /* An output that cannot be written leaves the old file as it was. */
    m = new_model(true);
    write_weights(m);
    free_model(m);
    check_fails(ember_hf_import(FOLDER, "no/such/folder/x.h5", NULL), EMBER_E_IO, "no/such/folder");
}

/* The entry for readers of a safetensors file in memory: golden files hold one. */
static void test_read_param(void **state) {
    (void)state;
    model *m = new_model(true);
    ember_safetensors *file = NULL;
    ember_bytes raw = {0};
    ember_bytes config = {0};
    ember_hparams hparams;
    write_config(true);
    write_weights(m);
    check_ok(ember_read_file(&raw, FOLDER "/model.safetensors", 0));
    check_ok(ember_read_file(&config, FOLDER "/config.json", 0));
    check_ok(ember_hf_config_parse(&hparams, NULL, config.data, config.n, "config.json"));
    check_ok(ember_safetensors_from_memory(&file, raw.data, raw.n, "memory"));
    float out[D * H];
    const ember_param_spec spec = ember_hparams_param(&hparams, ember_hparams_find(&hparams, "model.layers.1.mlp.down_proj.weight"));
    check_ok(ember_hf_read_param(file, &spec, out));
    const float *values = find(m, spec.name)->values;
    for (int i = 0; i < H; i++) {
        for (int j = 0; j < D; j++)
            assert_true(out[i * D + j] == values[j * H + i]);
    }
    ember_safetensors_close(file);
    ember_bytes_free(&raw);
    ember_bytes_free(&config);
    free_model(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_untied_and_dtypes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_head, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_tensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_param, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
