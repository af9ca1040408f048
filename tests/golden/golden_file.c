#include "tests/golden/golden_file.h"

#include <stdio.h>
#include <string.h>

#include "checkpoints/hf_config.h"
#include "lib/base/status.h"

static ember_status read_bytes(ember_bytes *out, const ember_h5_reader *file, const char *object) {
    ember_h5_info info;
    EMBER_TRY(ember_h5_get_info(file, object, &info));
    EMBER_TRY(ember_bytes_reserve(out, (size_t)info.bytes));
    EMBER_TRY(ember_h5_get(file, object, ember_tensor_1d(out->data, EMBER_U8, info.dims[0])));
    out->n = (size_t)info.dims[0];
    return EMBER_OK;
}

static ember_status read_config(golden_file *golden, const char *path) {
    ember_bytes json = {0};
    ember_status status = ember_h5_get_text(golden->file, "/config.json", &json);
    if (status == EMBER_OK) status = ember_hf_config_parse(&golden->hparams, NULL, json.data, json.n, path);
    ember_bytes_free(&json);
    return status;
}

static ember_status read_batch(golden_file *golden) {
    ember_h5_info info;
    EMBER_TRY(ember_h5_get_info(golden->file, "/input_ids", &info));
    if (info.n_dims != 2) return ember_fail(EMBER_E_SHAPE, "input_ids has %d dimensions, not 2", info.n_dims);
    golden->n_sequences = info.dims[0];
    golden->sequence_length = info.dims[1];
    const size_t n = (size_t)(info.dims[0] * info.dims[1]);
    EMBER_TRY(ember_allocate((void **)&golden->input_ids, n, sizeof(int32_t), "input ids"));
    EMBER_TRY(ember_allocate((void **)&golden->target_ids, n, sizeof(int32_t), "target ids"));
    EMBER_TRY(ember_h5_get(golden->file, "/input_ids", ember_tensor_2d(golden->input_ids, EMBER_I32, info.dims[0], info.dims[1])));
    return ember_h5_get(golden->file, "/target_ids", ember_tensor_2d(golden->target_ids, EMBER_I32, info.dims[0], info.dims[1]));
}

static ember_status read_f64(const golden_file *golden, const char *object, double *out, int64_t n) {
    return ember_h5_get(golden->file, object, (ember_tensor){.data = out, .dtype = EMBER_F64, .n_dims = n > 0 ? 1 : 0, .dims = {n}});
}

static ember_status read_quantities(golden_file *golden) {
    const int64_t vocab_size = golden->hparams.vocab_size;
    const int64_t n_layers = golden->hparams.num_hidden_layers;
    const int64_t n_neurons = golden->hparams.neurons[0];
    const int64_t n = golden->n_sequences * golden->sequence_length;
    EMBER_TRY(ember_allocate((void **)&golden->logits, (size_t)(n * vocab_size), sizeof(double), "reference logits"));
    EMBER_TRY(ember_allocate((void **)&golden->fired_per_neuron, (size_t)(n_layers * n_neurons), sizeof(double), "reference firing rates"));
    EMBER_TRY(ember_h5_get(
        golden->file, "/logits",
        (ember_tensor){
            .data = golden->logits, .dtype = EMBER_F64, .n_dims = 3, .dims = {golden->n_sequences, golden->sequence_length, vocab_size}}));
    EMBER_TRY(ember_h5_get(golden->file, "/fired_per_neuron", ember_tensor_2d(golden->fired_per_neuron, EMBER_F64, n_layers, n_neurons)));
    EMBER_TRY(read_f64(golden, "/ce_loss", &golden->ce_loss, 0));
    EMBER_TRY(read_f64(golden, "/loss", &golden->loss, 0));
    EMBER_TRY(read_f64(golden, "/l1_per_layer", golden->l1_per_layer, n_layers));
    EMBER_TRY(read_f64(golden, "/l0_per_layer", golden->l0_per_layer, n_layers));
    EMBER_TRY(read_f64(golden, "/train_loss", golden->train_loss, GOLDEN_STEPS));
    return read_f64(golden, "/train_grad_norm", golden->train_grad_norm, GOLDEN_STEPS);
}

static ember_status read_attributes(golden_file *golden) {
    const struct {
        const char *name;
        double *out;
    } rows[] = {
        {"l1_coeff", &golden->l1_coeff}, {"grad_clip", &golden->grad_clip}, {"lr", &golden->lr},  {"weight_decay", &golden->weight_decay},
        {"beta1", &golden->beta1},       {"beta2", &golden->beta2},         {"eps", &golden->eps}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        EMBER_TRY(ember_h5_get_attribute_f64(golden->file, "/", rows[i].name, rows[i].out));
    return EMBER_OK;
}

ember_status golden_open(golden_file *golden, const char *path) {
    *golden = (golden_file){0};
    ember_status status = ember_h5_open_foreign(&golden->file, path);
    if (status == EMBER_OK) status = read_config(golden, path);
    if (status == EMBER_OK) status = read_bytes(&golden->safetensors_bytes, golden->file, "/model.safetensors");
    if (status == EMBER_OK) {
        status = ember_safetensors_from_memory(&golden->weights, golden->safetensors_bytes.data, golden->safetensors_bytes.n, path);
    }
    if (status == EMBER_OK) status = read_batch(golden);
    if (status == EMBER_OK) status = read_quantities(golden);
    if (status == EMBER_OK) status = read_attributes(golden);
    if (status != EMBER_OK) golden_close(golden);
    return status;
}

void golden_close(golden_file *golden) {
    ember_release(golden->fired_per_neuron);
    ember_release(golden->logits);
    ember_release(golden->target_ids);
    ember_release(golden->input_ids);
    if (golden->weights) ember_safetensors_close(golden->weights);
    ember_bytes_free(&golden->safetensors_bytes);
    if (golden->file) ember_h5_close(golden->file);
    *golden = (golden_file){0};
}

ember_status golden_read_param(const golden_file *golden, const char *group, const ember_param_spec *spec, float *out) {
    char object[EMBER_NAME_BYTES + 32];
    (void)snprintf(object, sizeof object, "/%s/%s", group, spec->name);
    const int64_t rows = spec->dims[0];
    const int64_t columns = spec->dims[1];
    if (spec->role != EMBER_PARAM_DOWN) {
        return ember_h5_get(
            golden->file, object,
            (ember_tensor){.data = out, .dtype = EMBER_F32, .n_dims = spec->n_dims, .dims = {rows, spec->n_dims == 2 ? columns : 0}});
    }
    float *stored = NULL; /* [d, h] */
    EMBER_TRY(ember_allocate((void **)&stored, (size_t)(rows * columns), sizeof(float), "transposed reference"));
    const ember_status status = ember_h5_get(golden->file, object, ember_tensor_2d(stored, EMBER_F32, columns, rows));
    for (int64_t row = 0; status == EMBER_OK && row < rows; row++) {
        for (int64_t column = 0; column < columns; column++)
            out[row * columns + column] = stored[column * rows + row];
    }
    ember_release(stored);
    return status;
}

typedef struct counting {
    const golden_file *golden;
    size_t prefix;
    int64_t n;
} counting;

static ember_status count_one(void *user, const char *path, bool is_group, const ember_h5_info *info) {
    (void)info;
    counting *count = user;
    if (is_group) return EMBER_OK;
    const char *name = path + count->prefix;
    if (ember_hparams_find(&count->golden->hparams, name) < 0) {
        return ember_fail(EMBER_E_FORMAT, "%s is no parameter of the model that config.json describes", path);
    }
    count->n++;
    return EMBER_OK;
}

ember_status golden_count_params(const golden_file *golden, const char *group, int64_t *n) {
    char object[64];
    (void)snprintf(object, sizeof object, "/%s", group);
    counting count = {.golden = golden, .prefix = strlen(object) + 1};
    EMBER_TRY(ember_h5_walk(golden->file, object, (ember_h5_visit){.object = count_one, .user = &count}));
    *n = count.n;
    return EMBER_OK;
}
