/* cmd_bench_ffn.c - `ember bench ffn`: bare products, Ember's dense FFN, its sparse one and what `auto` takes, on the same
 * problem in the same run, alternating. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cases/ffn_case.h"
#include "kernels/cpu/gemm_cpu.h"
#include "lib/base/parse.h"
#include "lib/base/status.h"
#include "lib/h5/h5.h"
#include "lib/model/ffn_auto.h"
#include "train/cmd_bench.h"

enum { MAX_LIST = 64 };

typedef struct ffn_options {
    bool json;
    bool forward_only;
    const char *device;
    const char *density;
    const char *nnz;
    const char *pattern;
    const char *kind;
    const char *activation;
    const char *costs;
    int64_t hidden;
    int64_t neurons;
    int64_t tokens;
    int64_t compression;
    int64_t repeat;
    int64_t threads;
    uint64_t seed;
    ember_ffn_shape shape;
    int64_t n_shares;
    double shares[MAX_LIST];
} ffn_options;

/* One line: milliseconds are medians; index 0 forward, 1 forward + backward. */
typedef struct ffn_figures {
    double density; /* NaN: a pattern */
    double nnz;     /* a token */
    int64_t entries;
    double max_rel_err;
    double gemm_ms[2];
    double dense_ms[2];
    double sparse_ms[2];
    double auto_ms[2];
    const char *auto_mode[2]; /* NULL: a sum */
} ffn_figures;

typedef struct ffn_bench {
    const ffn_options *options;
    ember_backend *backend;
    ember_ffn_auto *chooser;
    ffn_figures sum; /* over the layers of a pattern */
} ffn_bench;

/* ---- the bare products */

static void products(ember_ffn_case *problem, bool backward) {
    const ember_ffn_args *a = &problem->args;
    const ember_backend *backend = problem->backend;
    const int64_t m = problem->shape.n_tokens;
    const int64_t d = problem->shape.hidden;
    const int64_t h = problem->shape.n_neurons;
    const int n_in = problem->shape.kind == EMBER_FFN_GATED ? 2 : 1;
    float *wide = problem->saved[EMBER_MODE_DENSE].block; /* [M, h] */
    if (!backward) {
        for (int i = 0; i < n_in; i++)
            ember_sgemm(backend, false, true, m, h, d, 1.0F, a->x, d, a->up, d, 0.0F, wide, h);
        ember_sgemm(backend, false, false, m, d, h, 1.0F, wide, h, a->down, d, 0.0F, a->y, d);
        return;
    }
    ember_sgemm(backend, false, true, m, h, d, 1.0F, a->dy, d, a->down, d, 0.0F, wide, h);
    ember_sgemm(backend, true, false, h, d, m, 1.0F, wide, h, a->dy, d, 1.0F, a->d_down, d);
    for (int i = 0; i < n_in; i++) {
        ember_sgemm(backend, true, false, h, d, m, 1.0F, wide, h, a->x, d, 1.0F, a->d_up, d);
        ember_sgemm(backend, false, false, m, d, h, 1.0F, wide, h, a->up, d, i == 0 ? 0.0F : 1.0F, a->dx, d);
    }
}

/* ---- correctness of what is timed */

static double relative_error(const float *a, const float *b, int64_t n) {
    double difference = 0.0;
    double size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return difference == 0.0 ? 0.0 : sqrt(difference / size);
}

/* Both modes on one stored g; the distance by norm of every output, the largest counts. */
static ember_status compare_modes(ember_ffn_case *problem, double *max_rel_err) {
    ember_ffn_args *a = &problem->args;
    const size_t pairs = (size_t)(problem->shape.n_tokens * problem->shape.n_neurons);
    const float *before = a->given_g;
    void *g = NULL;
    void *copies[8] = {NULL};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_ffn_case_run(problem, EMBER_MODE_DENSE), done);
    EMBER_TRY_GOTO(ember_allocate(&g, pairs, sizeof(float), "gate values"), done);
    memcpy(g, problem->saved[EMBER_MODE_DENSE].block, pairs * sizeof(float)); /* g comes first */
    a->given_g = g;
    for (int i = 0; i < problem->n_outputs; i++) {
        EMBER_TRY_GOTO(ember_allocate(&copies[i], problem->outputs[i].bytes, 1, "dense result"), done);
        memcpy(copies[i], ember_ffn_case_output(problem, i), problem->outputs[i].bytes);
    }
    EMBER_TRY_GOTO(ember_ffn_case_run(problem, EMBER_MODE_TWELL), done);
    *max_rel_err = 0.0;
    for (int i = 0; i < problem->n_outputs; i++) {
        const void *output = ember_ffn_case_output(problem, i);
        if (output == a->fire_count || output == a->token_l0) {
            if (memcmp(output, copies[i], problem->outputs[i].bytes) == 0) continue;
            status = ember_fail(EMBER_E_NUMERIC, "bench: %s of dense and sparse differ", problem->outputs[i].name);
            goto done;
        }
        const double error = relative_error(output, copies[i], (int64_t)(problem->outputs[i].bytes / sizeof(float)));
        if (!(error <= *max_rel_err)) *max_rel_err = error;
    }
done:
    a->given_g = before;
    ember_release(g);
    for (int i = 0; i < 8; i++)
        ember_release(copies[i]);
    return status;
}

static ember_status check_entries(const ember_ffn_case *problem, int64_t *entries) {
    const ember_ffn_saved *saved = &problem->saved[EMBER_MODE_TWELL];
    for (int pass = problem->shape.kind == EMBER_FFN_GATED ? 0 : 1; pass < (problem->args.dy ? EMBER_N_PASSES : EMBER_PASS_DH); pass++) {
        if (saved->entries[pass] != saved->nnz) {
            return ember_fail(EMBER_E_NUMERIC, "bench: pass %d consumed %lld entries of %lld", pass, (long long)saved->entries[pass],
                              (long long)saved->nnz);
        }
    }
    *entries = saved->nnz;
    return EMBER_OK;
}

/* ---- time */

/* One timed call of a mode. Dense speed does not depend on what fires, so it runs on its own product. */
static ember_status time_mode(ember_ffn_case *problem, ember_ffn_mode mode, double ms[2]) {
    ember_ffn_args *a = &problem->args;
    const float *given_g = a->given_g;
    if (mode == EMBER_MODE_DENSE) a->given_g = NULL;
    a->time_gate = true;
    const double start = ember_seconds();
    ember_status status = ember_ffn_case_forward(problem, mode);
    const double middle = ember_seconds();
    if (status == EMBER_OK && a->dy) status = ember_ffn_case_backward(problem, mode);
    ms[0] = 1e3 * (middle - start);
    ms[1] = 1e3 * (ember_seconds() - start);
    a->given_g = given_g;
    a->time_gate = false;
    return status;
}

static void time_products(ember_ffn_case *problem, double ms[2]) {
    const double start = ember_seconds();
    products(problem, false);
    const double middle = ember_seconds();
    if (problem->args.dy) products(problem, true);
    ms[0] = 1e3 * (middle - start);
    ms[1] = 1e3 * (ember_seconds() - start);
}

/* What a run that starts dense takes for this problem: earlier problems leave no trace in the choice, and a layer whose
 * spill array would pass the limit of auto trains dense. A forward pass alone has no such limit. */
static ember_status choose(const ffn_bench *bench, const ember_ffn_case *problem, ember_ffn_mode chosen[2]) {
    const int64_t dense = 0;
    const ember_ffn_saved *saved = &problem->saved[EMBER_MODE_TWELL];
    const ember_ffn_shape *shape = &problem->shape;
    EMBER_TRY(ember_ffn_auto_restore(bench->chooser, &dense));
    if (saved->spill_count > shape->n_tokens * shape->n_neurons / 8) ember_ffn_auto_pin_dense(bench->chooser, 0);
    chosen[0] = ember_ffn_auto_decide_forward(bench->chooser, 0, saved->nnz, shape->n_tokens);
    chosen[1] = ember_ffn_auto_decide(bench->chooser, 0, saved->nnz, shape->n_tokens);
    return EMBER_OK;
}

static ember_status measure(const ffn_bench *bench, ember_ffn_case *problem, ffn_figures *out) {
    static double times[4][2][BENCH_MAX_REPEAT]; /* bare, dense, sparse, auto */
    const int64_t repeat = bench->options->repeat;
    ember_ffn_mode chosen[2] = {EMBER_MODE_DENSE, EMBER_MODE_DENSE};
    EMBER_TRY(choose(bench, problem, chosen));
    for (int64_t i = -1; i < repeat; i++) { /* the first is warm-up */
        double ms[4][2];
        double again[2];
        time_products(problem, ms[0]);
        EMBER_TRY(time_mode(problem, EMBER_MODE_DENSE, ms[1]));
        EMBER_TRY(time_mode(problem, EMBER_MODE_TWELL, ms[2]));
        EMBER_TRY(time_mode(problem, chosen[1], ms[3]));
        if (chosen[0] != chosen[1]) {
            EMBER_TRY(time_mode(problem, chosen[0], again));
            ms[3][0] = again[0];
        }
        for (int k = 0; k < 4 && i >= 0; k++) {
            times[k][0][i] = ms[k][0];
            times[k][1][i] = ms[k][1];
        }
    }
    for (int direction = 0; direction < 2; direction++) {
        out->gemm_ms[direction] = bench_median(times[0][direction], repeat);
        out->dense_ms[direction] = bench_median(times[1][direction], repeat);
        out->sparse_ms[direction] = bench_median(times[2][direction], repeat);
        out->auto_mode[direction] = chosen[direction] == EMBER_MODE_TWELL ? "twell" : "dense";
        out->auto_ms[direction] = bench_median(times[3][direction], repeat);
    }
    return EMBER_OK;
}

/* ---- printing */

static ember_status print_json(const ffn_options *o, const ffn_figures *f, json_t *layer, int direction) {
    json_t *line = json_object();
    (void)json_object_set_new(line, "device", json_string("cpu"));
    (void)json_object_set_new(line, "hidden", json_integer(o->shape.hidden));
    (void)json_object_set_new(line, "neurons", json_integer(o->shape.n_neurons));
    (void)json_object_set_new(line, "tokens", json_integer(o->shape.n_tokens));
    (void)json_object_set(line, "layer", layer);
    (void)json_object_set_new(line, "direction", json_string(direction ? "forward_backward" : "forward"));
    bench_set_number(line, "density", f->density);
    bench_set_number(line, "nnz", f->nnz);
    bench_set_number(line, "gemm_ms", f->gemm_ms[direction]);
    bench_set_number(line, "dense_ms", f->dense_ms[direction]);
    bench_set_number(line, "sparse_ms", f->sparse_ms[direction]);
    bench_set_number(line, "auto_ms", f->auto_ms[direction]);
    (void)json_object_set_new(line, "auto_mode", f->auto_mode[direction] ? json_string(f->auto_mode[direction]) : json_null());
    bench_set_number(line, "speedup", f->dense_ms[direction] / f->sparse_ms[direction]);
    bench_set_number(line, "auto_over_gemm", f->gemm_ms[direction] / f->auto_ms[direction]);
    (void)json_object_set_new(line, "entries", json_integer(f->entries));
    bench_set_number(line, "max_rel_err", f->max_rel_err);
    return bench_print(line);
}

static void print_row(const ffn_figures *f, const char *name, int direction) {
    printf("%-8s %-4s %9.1f %10.2f %10.2f %10.2f %10.2f %8.2f %10.2f %12lld %10.2g\n", name, direction ? "f+b" : "f", f->nnz,
           f->gemm_ms[direction], f->dense_ms[direction], f->sparse_ms[direction], f->auto_ms[direction],
           f->dense_ms[direction] / f->sparse_ms[direction], f->gemm_ms[direction] / f->auto_ms[direction], (long long)f->entries,
           f->max_rel_err);
}

static void print_head(const ffn_options *o) {
    printf("cpu, %s %s, hidden %lld, neurons %lld, tokens %lld; milliseconds, medians of %lld\n", ember_ffn_kind_name(o->shape.kind),
           ember_activation_name(o->shape.activation), (long long)o->shape.hidden, (long long)o->shape.n_neurons,
           (long long)o->shape.n_tokens, (long long)o->repeat);
    printf("%-8s %-4s %9s %10s %10s %10s %10s %8s %10s %12s %10s\n", o->pattern ? "layer" : "density", "", "nnz/token", "gemm", "dense",
           "sparse", "auto", "speedup", "gemm/auto", "entries", "error");
}

/* `layer` < 0: a density, no layer; `is_sum`: the last line of a pattern. */
static ember_status print_figures(const ffn_options *o, const ffn_figures *f, int64_t layer, bool is_sum) {
    char name[32];
    (void)snprintf(name, sizeof name, "%lld", (long long)layer);
    if (layer < 0) (void)snprintf(name, sizeof name, "%.3g%%", 100.0 * f->density);
    if (is_sum) (void)snprintf(name, sizeof name, "sum");
    for (int direction = 0; direction < (o->forward_only ? 1 : 2); direction++) {
        if (!o->json) {
            print_row(f, name, direction);
            continue;
        }
        json_t *value = is_sum ? json_string("sum") : layer < 0 ? json_null() : json_integer(layer);
        const ember_status status = print_json(o, f, value, direction);
        json_decref(value);
        EMBER_TRY(status);
    }
    return EMBER_OK;
}

/* ---- problems */

static ember_status run_problem(ffn_bench *bench, const ember_ffn_case_spec *spec, int64_t layer) {
    const ffn_options *o = bench->options;
    ffn_figures f = {.density = spec->row_start ? (double)NAN : spec->density};
    ember_ffn_case *problem = NULL;
    EMBER_TRY(ember_ffn_case_create(&problem, bench->backend, spec));
    ember_status status = compare_modes(problem, &f.max_rel_err);
    if (status == EMBER_OK) status = check_entries(problem, &f.entries);
    if (status == EMBER_OK) {
        f.nnz = (double)f.entries / (double)o->shape.n_tokens;
        status = measure(bench, problem, &f);
    }
    ember_ffn_case_free(problem);
    EMBER_TRY(status);
    ffn_figures *sum = &bench->sum;
    sum->density = (double)NAN;
    sum->nnz += f.nnz;
    sum->entries += f.entries;
    sum->max_rel_err = fmax(sum->max_rel_err, f.max_rel_err);
    for (int i = 0; i < 2; i++) {
        sum->gemm_ms[i] += f.gemm_ms[i];
        sum->dense_ms[i] += f.dense_ms[i];
        sum->sparse_ms[i] += f.sparse_ms[i];
        sum->auto_ms[i] += f.auto_ms[i];
    }
    EMBER_TRY(print_figures(o, &f, layer, false));
    (void)fflush(stdout);
    return EMBER_OK;
}

static ember_status run_shares(ffn_bench *bench) {
    const ffn_options *o = bench->options;
    for (int64_t i = 0; i < o->n_shares; i++) {
        const ember_ffn_case_spec spec = {
            .shape = o->shape, .density = o->shares[i], .seed = o->seed, .backward = !o->forward_only, .l1_scale = 1e-6F};
        EMBER_TRY(run_problem(bench, &spec, -1));
    }
    return EMBER_OK;
}

/* One layer of a pattern file as a CSR in memory. */
static ember_status run_layer(ffn_bench *bench, const ember_h5_reader *file, int64_t layer) {
    const ffn_options *o = bench->options;
    char rows_name[64];
    char neurons_name[64];
    (void)snprintf(rows_name, sizeof rows_name, "/layer%lld/row_ptr", (long long)layer);
    (void)snprintf(neurons_name, sizeof neurons_name, "/layer%lld/neuron", (long long)layer);
    ember_h5_info rows = {0};
    ember_h5_info neurons = {0};
    void *row_ptr = NULL;
    void *row_start = NULL;
    void *neuron = NULL;
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_h5_get_info(file, rows_name, &rows), done);
    EMBER_TRY_GOTO(ember_h5_get_info(file, neurons_name, &neurons), done);
    if (rows.n_dims != 1 || neurons.n_dims != 1 || rows.dims[0] < 2 || rows.dtype != EMBER_I32 || neurons.dtype != EMBER_U16) {
        status = ember_fail(EMBER_E_FORMAT, "%s: layer %lld needs row_ptr (int32) and neuron (uint16), one-dimensional",
                            ember_h5_path(file), (long long)layer);
        goto done;
    }
    EMBER_TRY_GOTO(ember_allocate(&row_ptr, (size_t)rows.dims[0], sizeof(int32_t), "pattern rows"), done);
    EMBER_TRY_GOTO(ember_allocate(&row_start, (size_t)rows.dims[0], sizeof(int64_t), "pattern rows"), done);
    EMBER_TRY_GOTO(ember_allocate(&neuron, (size_t)neurons.dims[0], sizeof(uint16_t), "pattern neurons"), done);
    EMBER_TRY_GOTO(ember_h5_get(file, rows_name, ember_tensor_1d(row_ptr, EMBER_I32, rows.dims[0])), done);
    EMBER_TRY_GOTO(ember_h5_get(file, neurons_name, ember_tensor_1d(neuron, EMBER_U16, neurons.dims[0])), done);
    for (int64_t t = 0; t < rows.dims[0]; t++) {
        const int64_t start = ((const int32_t *)row_ptr)[t];
        if (start < (t > 0 ? ((const int64_t *)row_start)[t - 1] : 0) || start > neurons.dims[0]) {
            status = ember_fail(EMBER_E_FORMAT, "%s: row_ptr[%lld] of layer %lld is out of order", ember_h5_path(file), (long long)t,
                                (long long)layer);
            goto done;
        }
        ((int64_t *)row_start)[t] = start;
    }
    for (int64_t k = 0; k < neurons.dims[0]; k++) {
        if (((const uint16_t *)neuron)[k] >= o->shape.n_neurons) {
            status = ember_fail(EMBER_E_FORMAT, "%s: neuron %d in layer %lld of %lld neurons", ember_h5_path(file),
                                ((const uint16_t *)neuron)[k], (long long)layer, (long long)o->shape.n_neurons);
            goto done;
        }
    }
    const ember_ffn_case_spec spec = {.shape = o->shape,
                                      .row_start = row_start,
                                      .neurons = neuron,
                                      .pattern_rows = rows.dims[0] - 1,
                                      .seed = o->seed,
                                      .backward = !o->forward_only,
                                      .l1_scale = 1e-6F};
    status = run_problem(bench, &spec, layer);
done:
    ember_release(row_ptr);
    ember_release(row_start);
    ember_release(neuron);
    return status;
}

static ember_status run_pattern(ffn_bench *bench, const ember_h5_reader *file) {
    int64_t n_layers = 0;
    EMBER_TRY(ember_h5_get_attribute_i64(file, "/", "layers", &n_layers));
    for (int64_t layer = 0; layer < n_layers; layer++)
        EMBER_TRY(run_layer(bench, file, layer));
    return print_figures(bench->options, &bench->sum, n_layers, true);
}

/* ---- the choice of `auto` */

static ember_status make_chooser(ffn_bench *bench) {
    const ffn_options *o = bench->options;
    void *block = NULL;
    ember_bytes text = {0};
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_hparams), "hyper-parameters"));
    ember_hparams *hparams = block;
    hparams->hidden_size = o->shape.hidden;
    hparams->num_hidden_layers = 1;
    hparams->neurons[0] = o->shape.n_neurons;
    hparams->ffn_kind = o->shape.kind;
    hparams->activation = o->shape.activation;
    const ember_ffn_auto_options options = {.n_tokens = o->shape.n_tokens, .compression = o->shape.compression};
    ember_status status = ember_ffn_auto_create(&bench->chooser, hparams, &options);
    if (status == EMBER_OK && o->costs) {
        status = ember_read_file(&text, o->costs, 1 << 24);
        if (status == EMBER_OK) status = ember_ffn_auto_load(bench->chooser, text.data, text.n, o->costs);
    } else if (status == EMBER_OK) {
        status = ember_ffn_auto_calibrate(bench->chooser, bench->backend, NULL, NULL);
    }
    ember_bytes_free(&text);
    ember_release(block);
    return status;
}

/* ---- options */

/* "0.01,0.05": numbers in low..high, times `scale`. */
static ember_status parse_list(ffn_options *o, const char *option, const char *text, double high, double scale) {
    char item[64];
    while (*text) {
        const size_t n = strcspn(text, ",");
        double value = 0.0;
        if (n >= sizeof item) return ember_fail(EMBER_E_ARGUMENT, "%s: an item of %zu characters is not a number", option, n);
        memcpy(item, text, n);
        item[n] = '\0';
        if (!ember_parse_f64(item, &value) || value < 0.0 || value > high) {
            return ember_fail(EMBER_E_ARGUMENT, "%s: \"%s\" is not a number from 0 to %g", option, item, high);
        }
        if (o->n_shares == MAX_LIST) return ember_fail(EMBER_E_ARGUMENT, "%s: more than %d items", option, MAX_LIST);
        o->shares[o->n_shares++] = value * scale;
        text += n;
        if (*text == ',') text++;
    }
    return o->n_shares > 0 ? EMBER_OK : ember_fail(EMBER_E_ARGUMENT, "%s: an empty list", option);
}

static ember_status check_range(const char *option, int64_t value, int64_t high) {
    if (value >= 1 && value <= high) return EMBER_OK;
    return ember_fail(EMBER_E_ARGUMENT, "%s: %lld; use 1 to %lld", option, (long long)value, (long long)high);
}

static ember_status resolve(ffn_options *o) {
    EMBER_TRY(check_range("--hidden", o->hidden, 1 << 20));
    EMBER_TRY(check_range("--neurons", o->neurons, EMBER_MAX_NEURONS));
    EMBER_TRY(check_range("--tokens", o->tokens, 1 << 24));
    EMBER_TRY(check_range("--repeat", o->repeat, BENCH_MAX_REPEAT));
    o->shape = (ember_ffn_shape){.n_tokens = o->tokens, .hidden = o->hidden, .n_neurons = o->neurons, .compression = o->compression};
    if (!ember_ffn_kind_parse(o->kind, &o->shape.kind)) {
        return ember_fail(EMBER_E_ARGUMENT, "--kind: \"%s\"; use gated or plain", o->kind);
    }
    if (!ember_activation_parse(o->activation, &o->shape.activation) || o->shape.activation == EMBER_SILU) {
        return ember_fail(EMBER_E_ARGUMENT, "--activation: \"%s\"; use relu or relu2", o->activation);
    }
    const int n_sources = (o->density != NULL) + (o->nnz != NULL) + (o->pattern != NULL);
    if (n_sources > 1) return ember_fail(EMBER_E_ARGUMENT, "--density, --nnz and --pattern exclude each other");
    if (o->nnz) return parse_list(o, "--nnz", o->nnz, (double)o->neurons, 1.0 / (double)o->neurons);
    return o->pattern ? EMBER_OK : parse_list(o, "--density", o->density ? o->density : "0.005,0.01,0.02,0.05,0.1,0.2,0.5", 1.0, 1.0);
}

static ember_status run(ffn_options *o) {
    ffn_bench bench = {.options = o};
    ember_h5_reader *file = NULL;
    ember_status status = EMBER_OK;
    if (o->pattern) {
        EMBER_TRY_GOTO(ember_h5_open_foreign(&file, o->pattern), done);
        EMBER_TRY_GOTO(ember_h5_get_attribute_i64(file, "/", "neurons", &o->shape.n_neurons), done);
        EMBER_TRY_GOTO(check_range("neurons of the pattern", o->shape.n_neurons, EMBER_MAX_NEURONS), done);
    }
    EMBER_TRY_GOTO(bench_backend(&bench.backend, o->device, o->threads), done);
    EMBER_TRY_GOTO(make_chooser(&bench), done);
    if (!o->json) print_head(o);
    status = file ? run_pattern(&bench, file) : run_shares(&bench);
done:
    ember_ffn_auto_free(bench.chooser);
    ember_backend_free(bench.backend);
    ember_h5_close(file);
    return status;
}

ember_status cmd_bench_ffn(int argc, char **argv) {
    ffn_options o = {.device = "cpu",
                     .kind = "gated",
                     .activation = "relu",
                     .hidden = 512,
                     .neurons = 2048,
                     .tokens = 1024,
                     .compression = 8,
                     .repeat = 9,
                     .seed = 1};
    const cli_option options[] = {
        {"--json", CLI_FLAG, &o.json, NULL, "one JSON object a line instead of a table"},
        {"--density", CLI_TEXT, &o.density, "LIST", "shares of (token, neuron) pairs that fire, 0.01,0.05 (default 0.005 to 0.5)"},
        {"--nnz", CLI_TEXT, &o.nnz, "LIST", "the same as firing neurons a token"},
        {"--pattern", CLI_TEXT, &o.pattern, "FILE", "recorded firings of a model's layers, HDF5; --neurons comes from it"},
        {"--forward-only", CLI_FLAG, &o.forward_only, NULL, "no backward"},
        {"--hidden", CLI_I64, &o.hidden, "N", "hidden size (default 512)"},
        {"--neurons", CLI_I64, &o.neurons, "N", "neurons (default 2048)"},
        {"--tokens", CLI_I64, &o.tokens, "N", "tokens (default 1024)"},
        {"--kind", CLI_TEXT, &o.kind, "NAME", "gated or plain (default gated)"},
        {"--activation", CLI_TEXT, &o.activation, "NAME", "relu or relu2 (default relu)"},
        {"--compression", CLI_I64, &o.compression, "C", "C of TwELL: 2, 4, 8 or 16 (default 8)"},
        {"--costs", CLI_TEXT, &o.costs, "FILE", "cost table for auto (default: measured first)"},
        {"--device", CLI_TEXT, &o.device, "NAME", "cpu or auto (default cpu)"},
        {"--threads", CLI_I64, &o.threads, "N", "threads (default 0: all)"},
        {"--repeat", CLI_I64, &o.repeat, "N", "timed runs, the median counts (default 9)"},
        {"--seed", CLI_U64, &o.seed, "N", "seed of the problem (default 1)"},
    };
    const cli_command command = {.usage = "ember bench ffn [options]",
                                 .about = "Times the feed-forward block: bare matrix products, dense, sparse and auto, with the sparse "
                                          "result compared with the dense one.",
                                 .options = options,
                                 .n_options = (int)(sizeof options / sizeof options[0])};
    int n_words = 0;
    bool done = false;
    EMBER_TRY(cli_parse(&command, argc, argv, NULL, &n_words, &done));
    if (done) return EMBER_OK;
    EMBER_TRY(resolve(&o));
    return run(&o);
}
