/* golden_check FILE.h5 [--mode dense|twell] [--threads N] [--perturb PARAMETER]
 *
 * Runs the model of FILE.h5 and compares every quantity with the reference in it: one line a
 * quantity with distance and bound, then "N passed, M failed". Exit code 0 when all pass, 1 when
 * one does not or the file cannot be read, 2 on bad usage. --perturb multiplies one parameter by
 * 1.01 first: the comparison must then fail. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoints/hf_import.h"
#include "lib/base/status.h"
#include "lib/model/model.h"
#include "tests/golden/golden_file.h"

typedef struct check_run {
    const golden_file *golden;
    const char *mode_name;
    ember_model *model;
    ember_tracker *tracker;
    float *scratch; /* largest parameter */
    uint64_t l0_sum[EMBER_MAX_LAYERS];
    double l1_sum[EMBER_MAX_LAYERS];
    int64_t spill[EMBER_MAX_LAYERS];
    int64_t nnz[EMBER_MAX_LAYERS];
    ember_step_stats stats;
    int n_passed;
    int n_failed;
} check_run;

static void report(check_run *run, const char *quantity, double distance, double bound) {
    const bool passed = distance <= bound; /* NaN fails */
    run->n_passed += passed ? 1 : 0;
    run->n_failed += passed ? 0 : 1;
    printf("%-4s %-5s %-52s distance %9.3e  bound %9.3e\n", passed ? "ok" : "FAIL", run->mode_name, quantity, distance, bound);
}

/* |a - b| / |b|, over n values; |a| when b is zero. */
static double distance_f32(const float *a, const float *b, int64_t n) {
    double difference = 0.0, norm = 0.0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

static double relative(double a, double b) { return b == 0.0 ? fabs(a) : fabs(a - b) / fabs(b); }

/* The larger distance; once NaN, always NaN, which passes no bound. */
static double worse(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b); }

static ember_status load_weights(check_run *run, const char *perturb) {
    const ember_ops *ops = ember_model_backend(run->model)->ops;
    const int64_t n = ember_model_n_params(run->model);
    for (int64_t i = 0; i < n; i++) {
        const ember_param *param = ember_model_param(run->model, i);
        const int64_t count = ember_tensor_count(param->value);
        EMBER_TRY(ember_hf_read_param(run->golden->weights, &param->spec, run->scratch));
        const bool changed = perturb && strcmp(perturb, param->spec.name) == 0;
        for (int64_t k = 0; changed && k < count; k++)
            run->scratch[k] *= 1.01f;
        EMBER_TRY(ops->upload(ember_model_backend(run->model), param->value.data, run->scratch, (size_t)count * sizeof(float)));
    }
    return EMBER_OK;
}

static ember_micro_batch batch_of(const golden_file *golden) {
    return (ember_micro_batch){.n_sequences = golden->n_sequences,
                               .sequence_length = golden->sequence_length,
                               .input_ids = golden->input_ids,
                               .target_ids = golden->target_ids};
}

static ember_status compare_logits(check_run *run) {
    const golden_file *golden = run->golden;
    const int64_t n = golden->n_sequences * golden->sequence_length * golden->hparams.vocab_size;
    float *logits = NULL;
    EMBER_TRY(ember_allocate((void **)&logits, (size_t)n, sizeof(float), "logits"));
    const ember_micro_batch batch = batch_of(golden);
    int64_t full_layer = -1;
    const ember_status status = ember_model_logits(run->model, &batch, logits, &full_layer);
    double difference = 0.0, norm = 0.0;
    for (int64_t i = 0; status == EMBER_OK && i < n; i++) {
        difference += ((double)logits[i] - golden->logits[i]) * ((double)logits[i] - golden->logits[i]);
        norm += golden->logits[i] * golden->logits[i];
    }
    ember_release(logits);
    EMBER_TRY(status);
    report(run, "logits", sqrt(difference / norm), 1e-5);
    return EMBER_OK;
}

/* Forward and backward of the whole batch, gradients from zero; a spill array that is too small
 * grows and the step starts again. */
static ember_status run_step(check_run *run) {
    const golden_file *golden = run->golden;
    const int64_t n_layers = golden->hparams.num_hidden_layers;
    const int64_t n_tokens = golden->n_sequences * golden->sequence_length;
    const ember_micro_batch batch = batch_of(golden);
    int64_t n_targets = 0;
    for (int64_t i = 0; i < n_tokens; i++)
        n_targets += golden->target_ids[i] >= 0 ? 1 : 0;
    double l1_scale[EMBER_MAX_LAYERS];
    for (int64_t layer = 0; layer < n_layers; layer++)
        l1_scale[layer] = golden->l1_coeff / (double)(n_layers * n_tokens);
    const ember_loss_scale scale = {.ce = 1.0 / (double)n_targets, .l1 = l1_scale};
    for (;;) {
        memset(run->l0_sum, 0, sizeof run->l0_sum);
        memset(run->l1_sum, 0, sizeof run->l1_sum);
        memset(run->spill, 0, sizeof run->spill);
        memset(run->nnz, 0, sizeof run->nnz);
        run->stats = (ember_step_stats){.l0_sum = run->l0_sum, .l1_sum = run->l1_sum, .spill = run->spill, .nnz = run->nnz};
        ember_tracker_drop_step(run->tracker);
        EMBER_TRY(ember_model_zero_grad(run->model));
        int64_t full_layer = -1;
        const ember_status status = ember_model_run(run->model, &batch, &scale, &run->stats, run->tracker, &full_layer);
        if (status != EMBER_E_CAPACITY) return status;
        int64_t entries = 0;
        EMBER_TRY(ember_model_grow_spill(run->model, full_layer, &entries));
    }
}

static double total_loss(const check_run *run) {
    const int64_t n_layers = run->golden->hparams.num_hidden_layers;
    double l1 = 0.0;
    for (int64_t layer = 0; layer < n_layers; layer++)
        l1 += run->l1_sum[layer] / (double)run->stats.n_inputs;
    return run->stats.ce_sum / (double)run->stats.n_targets + run->golden->l1_coeff * l1 / (double)n_layers;
}

static void compare_firing(check_run *run) {
    const golden_file *golden = run->golden;
    const int64_t n_layers = golden->hparams.num_hidden_layers;
    const int64_t n_neurons = golden->hparams.neurons[0];
    const double n_tokens = (double)run->stats.n_inputs;
    double l0_flips = 0.0, flips = 0.0;
    for (int64_t layer = 0; layer < n_layers; layer++) {
        l0_flips += fabs((double)run->l0_sum[layer] - golden->l0_per_layer[layer] * n_tokens);
        for (int64_t j = 0; j < n_neurons; j++) {
            flips += fabs((double)run->tracker->layers[layer].step_count[j] - golden->fired_per_neuron[layer * n_neurons + j] * n_tokens);
        }
    }
    const double pairs = (double)(n_layers * n_neurons) * n_tokens;
    const double bound = pairs / 1e5 > 1.0 ? pairs / 1e5 : 1.0;
    report(run, "l0_per_layer (flips)", l0_flips, bound + 1e-6);
    report(run, "fired_per_neuron (flips)", flips, bound + 1e-6);
}

static void compare_losses(check_run *run) {
    const golden_file *golden = run->golden;
    report(run, "ce_loss", relative(run->stats.ce_sum / (double)run->stats.n_targets, golden->ce_loss), 1e-6);
    report(run, "loss", relative(total_loss(run), golden->loss), 1e-5);
    double difference = 0.0, norm = 0.0;
    for (int64_t layer = 0; layer < golden->hparams.num_hidden_layers; layer++) {
        const double l1 = run->l1_sum[layer] / (double)run->stats.n_inputs;
        difference += (l1 - golden->l1_per_layer[layer]) * (l1 - golden->l1_per_layer[layer]);
        norm += golden->l1_per_layer[layer] * golden->l1_per_layer[layer];
    }
    report(run, "l1_per_layer", sqrt(difference / norm), 1e-5);
    compare_firing(run);
}

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Every parameter's gradient ("grad") or value ("after3"). */
static ember_status compare_params(check_run *run, const char *group, bool gradients) {
    int64_t n_stored = 0;
    EMBER_TRY(golden_count_params(run->golden, group, &n_stored));
    const int64_t n = ember_model_n_params(run->model);
    if (n_stored != n) {
        return ember_fail(EMBER_E_FORMAT, "group %s holds %lld parameters; the model has %lld", group, (long long)n_stored, (long long)n);
    }
    ember_backend *backend = ember_model_backend(run->model);
    float *mine = NULL;
    for (int64_t i = 0; i < n; i++) {
        const ember_param *param = ember_model_param(run->model, i);
        const int64_t count = ember_tensor_count(param->value);
        EMBER_TRY(ember_allocate((void **)&mine, (size_t)count, sizeof(float), "parameter"));
        ember_status status =
            backend->ops->download(backend, mine, gradients ? param->grad.data : param->value.data, (size_t)count * sizeof(float));
        if (status == EMBER_OK) status = golden_read_param(run->golden, group, &param->spec, run->scratch);
        const double distance = status == EMBER_OK ? distance_f32(mine, run->scratch, count) : 0.0;
        const bool flat = ends_with(param->spec.name, "k_proj.bias"); /* its gradient is nearly zero */
        const double bound = !gradients && flat ? 5e-3 : 1e-4;
        ember_release(mine);
        EMBER_TRY(status);
        char quantity[EMBER_NAME_BYTES + 16];
        (void)snprintf(quantity, sizeof quantity, "%s/%s", group, param->spec.name);
        report(run, quantity, distance, bound);
    }
    return EMBER_OK;
}

static ember_status gradient_norm(const check_run *run, double *norm) {
    ember_backend *backend = ember_model_backend(run->model);
    double sum = 0.0;
    for (int64_t i = 0; i < ember_model_n_params(run->model); i++) {
        const ember_tensor grad = ember_model_param(run->model, i)->grad;
        EMBER_TRY(backend->ops->sum_squares(backend, &sum, grad.data, ember_tensor_count(grad)));
    }
    *norm = sqrt(sum);
    return EMBER_OK;
}

static ember_status optimizer_step(const check_run *run, int64_t step, double grad_scale) {
    const golden_file *golden = run->golden;
    ember_backend *backend = ember_model_backend(run->model);
    for (int64_t i = 0; i < ember_model_n_params(run->model); i++) {
        const ember_param *param = ember_model_param(run->model, i);
        const ember_adamw_args args = {.n = ember_tensor_count(param->value),
                                       .param = param->value.data,
                                       .exp_avg = param->exp_avg.data,
                                       .exp_avg_sq = param->exp_avg_sq.data,
                                       .grad = param->grad.data,
                                       .grad_scale = grad_scale,
                                       .lr = golden->lr,
                                       .beta1 = golden->beta1,
                                       .beta2 = golden->beta2,
                                       .eps = golden->eps,
                                       .weight_decay = param->spec.decay ? golden->weight_decay : 0.0,
                                       .step = step};
        EMBER_TRY(backend->ops->adamw(backend, &args));
    }
    return EMBER_OK;
}

static ember_status compare_training(check_run *run) {
    double loss = 0.0, norm = 0.0;
    for (int64_t step = 0; step < GOLDEN_STEPS; step++) {
        EMBER_TRY(run_step(run));
        double this_norm = 0.0;
        EMBER_TRY(gradient_norm(run, &this_norm));
        loss = worse(loss, relative(total_loss(run), run->golden->train_loss[step]));
        norm = worse(norm, relative(this_norm, run->golden->train_grad_norm[step]));
        const double scale = run->golden->grad_clip / (this_norm + 1e-6);
        EMBER_TRY(optimizer_step(run, step + 1, scale < 1.0 ? scale : 1.0));
    }
    report(run, "train_loss", loss, 1e-5);
    report(run, "train_grad_norm", norm, 1e-4);
    return compare_params(run, "after3", false);
}

static ember_status compare_all(check_run *run, ember_ffn_mode mode, const char *perturb) {
    for (int64_t layer = 0; layer < run->golden->hparams.num_hidden_layers; layer++)
        EMBER_TRY(ember_model_set_mode(run->model, layer, mode));
    EMBER_TRY(load_weights(run, perturb));
    EMBER_TRY(compare_logits(run));
    EMBER_TRY(run_step(run));
    compare_losses(run);
    EMBER_TRY(compare_params(run, "grad", true));
    return compare_training(run);
}

static ember_status check_mode(const golden_file *golden, ember_backend *backend, ember_ffn_mode mode, const char *perturb, int *n_passed,
                               int *n_failed) {
    const int64_t n_tokens = golden->n_sequences * golden->sequence_length;
    check_run run = {.golden = golden, .mode_name = mode == EMBER_MODE_DENSE ? "dense" : "twell"};
    const ember_model_options options = {.training = true,
                                         .n_sequences = golden->n_sequences,
                                         .sequence_length = golden->sequence_length,
                                         .compression = 8,
                                         .may_run_dense = mode == EMBER_MODE_DENSE,
                                         .may_run_twell = mode == EMBER_MODE_TWELL};
    const ember_tracker_options tracking = {.dead_after_tokens = n_tokens, .window_tokens = n_tokens, .tokens_per_step = n_tokens};
    size_t largest = 0;
    for (int64_t i = 0; i < ember_hparams_n_params(&golden->hparams); i++) {
        const ember_param_spec spec = ember_hparams_param(&golden->hparams, i);
        const size_t count = (size_t)(spec.dims[0] * spec.dims[1]);
        largest = count > largest ? count : largest;
    }
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_allocate((void **)&run.scratch, largest, sizeof(float), "scratch"), done);
    EMBER_TRY_GOTO(ember_model_create(&run.model, backend, &golden->hparams, &options), done);
    EMBER_TRY_GOTO(ember_tracker_create(&run.tracker, &golden->hparams, &tracking), done);
    EMBER_TRY_GOTO(compare_all(&run, mode, perturb), done);
done:
    ember_tracker_free(run.tracker);
    ember_model_free(run.model);
    ember_release(run.scratch);
    *n_passed += run.n_passed;
    *n_failed += run.n_failed;
    return status;
}

static int usage(void) {
    fprintf(stderr, "usage: golden_check FILE.h5 [--mode dense|twell] [--threads N] [--perturb PARAMETER]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *path = NULL, *mode = NULL, *perturb = NULL;
    int n_threads = 2;
    for (int i = 1; i < argc; i++) {
        const bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--mode") == 0 && has_value) {
            mode = argv[++i];
        } else if (strcmp(argv[i], "--threads") == 0 && has_value) {
            n_threads = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--perturb") == 0 && has_value) {
            perturb = argv[++i];
        } else if (argv[i][0] != '-' && !path) {
            path = argv[i];
        } else {
            return usage();
        }
    }
    if (!path || n_threads < 1 || (mode && strcmp(mode, "dense") != 0 && strcmp(mode, "twell") != 0)) return usage();
    golden_file golden = {0};
    ember_backend *backend = NULL;
    int n_passed = 0, n_failed = 0;
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(golden_open(&golden, path), done);
    if (perturb && ember_hparams_find(&golden.hparams, perturb) < 0) {
        status = ember_fail(EMBER_E_ARGUMENT, "%s: no parameter is called %s", path, perturb);
        goto done;
    }
    EMBER_TRY_GOTO(ember_cpu_backend_create(&backend, n_threads), done);
    if (!mode || strcmp(mode, "dense") == 0) {
        EMBER_TRY_GOTO(check_mode(&golden, backend, EMBER_MODE_DENSE, perturb, &n_passed, &n_failed), done);
    }
    if (golden.hparams.activation != EMBER_SILU && (!mode || strcmp(mode, "twell") == 0)) {
        EMBER_TRY_GOTO(check_mode(&golden, backend, EMBER_MODE_TWELL, perturb, &n_passed, &n_failed), done);
    }
done:
    if (status != EMBER_OK) fprintf(stderr, "golden_check: %s: %s\n", path, ember_last_error());
    printf("%d passed, %d failed\n", n_passed, n_failed);
    ember_backend_free(backend);
    golden_close(&golden);
    return status == EMBER_OK && n_failed == 0 && n_passed > 0 ? 0 : 1;
}
