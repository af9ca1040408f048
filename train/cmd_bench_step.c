/* cmd_bench_step.c - `ember bench step`: whole training steps of a config, without files: batch, forward, backward,
 * gradient norm, optimizer. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/loader.h"
#include "lib/base/atomic_file.h"
#include "lib/base/status.h"
#include "lib/config/config.h"
#include "lib/model/ffn_auto.h"
#include "lib/model/model.h"
#include "train/cmd_bench.h"
#include "train/optimizer.h"
#include "train/trainer.h"

typedef struct step_bench {
    const ember_config *config;
    const ember_settings *settings;
    const char *name; /* of the config, for the report */
    int64_t repeat;
    bool json;
    ember_loader *data;
    ember_backend *backend;
    ember_hparams *hparams;
    ember_model *model;
    ember_ffn_auto *chooser; /* under auto */
    ember_memory_plan plan;
    ember_step_stats stats;
    double *l1_scale;
    void *arrays;
    int64_t micro_batch;
    int64_t n_steps; /* done so far */
} step_bench;

static ember_status open_data(step_bench *bench) {
    ember_loader_options options = ember_trainer_loader_options(bench->settings);
    options.verify = false; /* a benchmark reads its data, it does not judge it */
    return ember_loader_open(&bench->data, &options);
}

static ember_status make_model(step_bench *bench, const char *device, int64_t threads) {
    const ember_settings *s = bench->settings;
    const ember_model_options options = ember_trainer_model_options(s);
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof *bench->hparams, "hyper-parameters"));
    bench->hparams = block;
    EMBER_TRY(ember_config_hparams(bench->config, ember_loader_vocab_size(bench->data), bench->hparams));
    EMBER_TRY(bench_backend(&bench->backend, device, threads > 0 ? threads : s->run.threads));
    EMBER_TRY(ember_model_plan(&bench->plan, bench->backend, bench->hparams, &options));
    EMBER_TRY(ember_model_create(&bench->model, bench->backend, bench->hparams, &options));
    EMBER_TRY(ember_model_init(bench->model, s->run.seed, s->init.std, s->init.residual_scaling));
    bench->micro_batch = options.n_sequences;
    const int64_t n_layers = bench->hparams->num_hidden_layers;
    EMBER_TRY(ember_allocate(&bench->arrays, 5 * (size_t)n_layers, sizeof(double), "step statistics"));
    double *at = bench->arrays;
    bench->l1_scale = at;
    bench->stats.l1_sum = at + n_layers;
    bench->stats.l0_sum = (uint64_t *)(void *)(at + 2 * n_layers);
    bench->stats.spill = (int64_t *)(void *)(at + 3 * n_layers);
    bench->stats.nnz = (int64_t *)(void *)(at + 4 * n_layers);
    return EMBER_OK;
}

static ember_status load_costs(step_bench *bench, const char *path) {
    ember_bytes text = {0};
    ember_status status = ember_read_file(&text, path, 1 << 24);
    if (status == EMBER_OK) status = ember_ffn_auto_load(bench->chooser, text.data ? text.data : "", text.n, path);
    ember_bytes_free(&text);
    return status;
}

/* Modes as a run has them: fixed, or those of a cost table (that of ffn.costs where it is there, else measured and not
 * kept), which starts dense. */
static ember_status set_modes(step_bench *bench) {
    const ember_ffn_setting mode = bench->settings->ffn.mode;
    if (mode == EMBER_FFN_AUTO) {
        const ember_ffn_auto_options options = {.n_tokens = bench->micro_batch * bench->settings->train.sequence_length,
                                                .compression = bench->settings->ffn.compression};
        const char *costs = bench->settings->ffn.costs;
        EMBER_TRY(ember_ffn_auto_create(&bench->chooser, bench->hparams, &options));
        if (costs[0] != '\0' && access(costs, F_OK) == 0) return load_costs(bench, costs);
        return ember_ffn_auto_calibrate(bench->chooser, bench->backend, NULL, NULL);
    }
    for (int64_t i = 0; i < bench->hparams->num_hidden_layers; i++) {
        EMBER_TRY(ember_model_set_mode(bench->model, i, mode == EMBER_FFN_TWELL ? EMBER_MODE_TWELL : EMBER_MODE_DENSE));
    }
    return EMBER_OK;
}

/* ---- one step */

static void clear_stats(step_bench *bench) {
    const int64_t n_layers = bench->hparams->num_hidden_layers;
    bench->stats.ce_sum = 0.0;
    bench->stats.n_targets = 0;
    bench->stats.n_inputs = 0;
    memset(bench->stats.l1_sum, 0, 4 * (size_t)n_layers * sizeof(double)); /* and the three behind it */
}

/* Under auto a layer that needs more spill entries than a run allows it; -1: none. */
static int64_t layer_over_limit(const step_bench *bench) {
    for (int64_t i = 0; bench->chooser && i < bench->hparams->num_hidden_layers; i++) {
        const bool sparse = ember_model_mode(bench->model, i) == EMBER_MODE_TWELL;
        if (sparse && ember_model_spill_needed(bench->model, i) > ember_trainer_spill_limit(bench->settings, bench->hparams->neurons[i]))
            return i;
    }
    return -1;
}

/* Room for the layer as a run makes it: a larger array, or under auto and over the limit, dense for good. */
static ember_status make_room(step_bench *bench, int64_t layer) {
    const int64_t needed = ember_model_spill_needed(bench->model, layer);
    int64_t entries = 0;
    if (!bench->chooser || needed <= ember_trainer_spill_limit(bench->settings, bench->hparams->neurons[layer]))
        return ember_model_grow_spill(bench->model, layer, &entries);
    ember_ffn_auto_pin_dense(bench->chooser, layer);
    return ember_model_set_mode(bench->model, layer, EMBER_MODE_DENSE);
}

static ember_status run_batch(step_bench *bench, const ember_batch *batch, int64_t *full_layer) {
    const ember_loss_scale scale = {.ce = 1.0 / (double)batch->n_targets, .l1 = bench->l1_scale};
    const double layers = (double)bench->hparams->num_hidden_layers;
    const ember_number_list *lambda = &bench->settings->sparsity.l1;
    for (int64_t i = 0; i < bench->hparams->num_hidden_layers; i++) {
        const double value = lambda->n == 0 ? 0.0 : lambda->item[lambda->n > 1 ? i : 0];
        bench->l1_scale[i] = value / (layers * (double)batch->n_inputs);
    }
    clear_stats(bench);
    EMBER_TRY(ember_model_zero_grad(bench->model));
    for (int64_t first = 0; first < batch->n_sequences; first += bench->micro_batch) {
        const int64_t at = first * batch->sequence_length;
        const int64_t left = batch->n_sequences - first;
        const ember_micro_batch micro = {.n_sequences = left < bench->micro_batch ? left : bench->micro_batch,
                                         .sequence_length = batch->sequence_length,
                                         .input_ids = batch->input_ids + at,
                                         .target_ids = batch->target_ids + at,
                                         .mask = batch->mask ? batch->mask + at : NULL,
                                         .document_start = batch->document_start ? batch->document_start + at : NULL};
        EMBER_TRY(ember_model_run(bench->model, &micro, &scale, &bench->stats, NULL, full_layer));
        *full_layer = layer_over_limit(bench);
        if (*full_layer >= 0) return EMBER_E_CAPACITY;
    }
    return EMBER_OK;
}

static ember_status step(step_bench *bench) {
    ember_batch batch;
    EMBER_TRY(ember_loader_next(bench->data, &batch));
    for (;;) {
        int64_t full_layer = -1;
        const ember_status status = run_batch(bench, &batch, &full_layer);
        if (status == EMBER_OK) break;
        if (status != EMBER_E_CAPACITY || full_layer < 0) return status;
        EMBER_TRY(make_room(bench, full_layer));
    }
    const ember_optimizer optimizer = ember_optimizer_from(bench->settings);
    double norm = 0.0;
    EMBER_TRY(ember_optimizer_grad_norm(bench->model, &norm));
    EMBER_TRY(ember_optimizer_step(&optimizer, bench->model, bench->settings->train.lr, ember_optimizer_clip_scale(&optimizer, norm),
                                   ++bench->n_steps));
    for (int64_t i = 0; bench->chooser && i < bench->hparams->num_hidden_layers; i++) {
        const ember_ffn_mode mode =
            ember_ffn_auto_decide(bench->chooser, i, bench->stats.nnz[i], batch.n_sequences * batch.sequence_length);
        EMBER_TRY(ember_model_set_mode(bench->model, i, mode));
    }
    return EMBER_OK;
}

/* ---- report */

static ember_status report(const step_bench *bench, double step_ms) {
    static const char *const mode_names[] = {"auto", "dense", "twell"};
    const double tokens = (double)(bench->settings->train.batch_size * bench->settings->train.sequence_length);
    const double tokens_per_s = tokens / (1e-3 * step_ms);
    const double tflops = 1e-12 * bench->plan.flop_per_token * tokens_per_s; /* of a dense step */
    const char *mode = mode_names[bench->settings->ffn.mode];
    if (!bench->json) {
        double fired = 0.0;
        double pairs = 0.0;
        for (int64_t i = 0; i < bench->hparams->num_hidden_layers; i++) {
            fired += (double)bench->stats.l0_sum[i];
            pairs += (double)bench->stats.n_inputs * (double)bench->hparams->neurons[i];
        }
        printf("%s, ffn.mode %s: %.0f tokens/s, %.1f ms a step of %.0f tokens, %.1f MiB, %.4f TFLOP/s (dense FLOP), non-zero %.2f %%\n",
               bench->name, mode, tokens_per_s, step_ms, tokens, (double)bench->plan.total_bytes / 1048576.0, tflops,
               pairs > 0.0 ? 100.0 * fired / pairs : 0.0);
        return EMBER_OK;
    }
    json_t *line = json_object();
    json_t *name = json_string(bench->name);
    (void)json_object_set_new(line, "config", name ? name : json_null()); /* a path that is not UTF-8 has no JSON */
    (void)json_object_set_new(line, "mode", json_string(mode));
    bench_set_number(line, "tokens_per_s", tokens_per_s);
    bench_set_number(line, "step_ms", step_ms);
    (void)json_object_set_new(line, "memory_bytes", json_integer((json_int_t)bench->plan.total_bytes));
    bench_set_number(line, "tflops", tflops);
    return bench_print(line);
}

static ember_status run(step_bench *bench, const char *device, int64_t threads) {
    enum { WARM_UP = 2 }; /* the first step grows what is too small and, under auto, chooses modes */
    double times[BENCH_MAX_REPEAT];
    EMBER_TRY(open_data(bench));
    EMBER_TRY(make_model(bench, device, threads));
    EMBER_TRY(set_modes(bench));
    for (int64_t i = -WARM_UP; i < bench->repeat; i++) {
        const double start = ember_seconds();
        EMBER_TRY(step(bench));
        if (i >= 0) times[i] = 1e3 * (ember_seconds() - start);
    }
    return report(bench, bench_median(times, bench->repeat));
}

ember_status cmd_bench_step(int argc, char **argv) {
    step_bench bench = {.repeat = 5};
    cli_texts sets = {0};
    const char *device = "cpu";
    int64_t threads = 0;
    const cli_option options[] = {
        {"--json", CLI_FLAG, &bench.json, NULL, "one JSON object instead of a sentence"},
        {"--set", CLI_TEXTS, &sets, "KEY=VALUE", "replace a value of the config; may be repeated"},
        {"--device", CLI_TEXT, &device, "NAME", "cpu or auto (default cpu)"},
        {"--threads", CLI_I64, &threads, "N", "threads (default 0: run.threads)"},
        {"--repeat", CLI_I64, &bench.repeat, "N", "timed steps, the median counts (default 5)"},
    };
    const cli_command command = {.usage = "ember bench step CONFIG [options]",
                                 .about =
                                     "Times whole training steps of a config (fresh weights, its data, its ffn.mode); writes no files.",
                                 .options = options,
                                 .n_options = (int)(sizeof options / sizeof options[0]),
                                 .min_words = 1,
                                 .max_words = 1};
    const char *words[1] = {NULL};
    int n_words = 0;
    bool done = false;
    EMBER_TRY(cli_parse(&command, argc, argv, words, &n_words, &done));
    if (done) return EMBER_OK;
    if (bench.repeat < 1 || bench.repeat > BENCH_MAX_REPEAT) {
        return ember_fail(EMBER_E_ARGUMENT, "--repeat: %lld; use 1 to %d", (long long)bench.repeat, BENCH_MAX_REPEAT);
    }
    ember_config *config = NULL;
    EMBER_TRY(ember_config_load(&config, words[0], sets.item, sets.n));
    bench.config = config;
    bench.settings = ember_config_settings(config);
    bench.name = words[0];
    const ember_status status = run(&bench, device, threads);
    ember_ffn_auto_free(bench.chooser);
    ember_model_free(bench.model);
    ember_backend_free(bench.backend);
    ember_loader_close(bench.data);
    ember_release(bench.hparams);
    ember_release(bench.arrays);
    ember_config_free(config);
    return status;
}
