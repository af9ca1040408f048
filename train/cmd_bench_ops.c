/* cmd_bench_ops.c - `ember bench ops`: every operation alone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cases/cases.h"
#include "lib/base/status.h"
#include "train/cmd_bench.h"

typedef struct ops_options {
    bool json;
    bool check;
    const char *device;
    const char *name; /* cases whose name holds this; NULL: all */
    int64_t threads;
    int64_t repeat;
} ops_options;

typedef struct ops_result {
    double ms;
    double worst; /* NaN: not checked */
} ops_result;

static ember_status measure(ops_result *out, ember_backend *backend, const ember_op_case *item, const ops_options *options) {
    void *problem = NULL;
    double times[BENCH_MAX_REPEAT];
    out->worst = NAN;
    ember_status status = item->create(&problem, backend, 1);
    if (status == EMBER_OK && options->check) status = item->check(problem, &out->worst);
    if (status == EMBER_OK) status = item->run(problem);
    for (int64_t i = 0; status == EMBER_OK && i < options->repeat; i++) {
        const double start = ember_seconds();
        status = item->run(problem);
        times[i] = 1e3 * (ember_seconds() - start);
    }
    item->free(problem);
    if (status != EMBER_OK) return ember_fail_context(status, "%s", item->name);
    out->ms = bench_median(times, options->repeat);
    return EMBER_OK;
}

static ember_status print_result(const ember_op_case *item, const ops_result *result, const ops_options *options) {
    const double gflops = item->flop / (result->ms * 1e6);
    const double gbytes = item->bytes / (result->ms * 1e6);
    const char *verdict = isnan(result->worst) ? "" : result->worst <= item->tolerance ? "ok" : "WRONG";
    if (!options->json) {
        printf("%-28s %-34s %10.4f ms %9.2f GFLOP/s %8.2f GB/s", item->name, item->shape, result->ms, gflops, gbytes);
        if (options->check) printf("   error %.3g of %.3g %s", result->worst, item->tolerance, verdict);
        printf("\n");
        return EMBER_OK;
    }
    json_t *line = json_object();
    (void)json_object_set_new(line, "device", json_string("cpu"));
    (void)json_object_set_new(line, "op", json_string(item->name));
    (void)json_object_set_new(line, "shape", json_string(item->shape));
    bench_set_number(line, "ms", result->ms);
    bench_set_number(line, "gflop_per_s", gflops);
    bench_set_number(line, "gbyte_per_s", gbytes);
    bench_set_number(line, "error", result->worst);
    bench_set_number(line, "tolerance", item->tolerance);
    return bench_print(line);
}

static ember_status run_all(ember_backend *backend, const ops_options *options) {
    int n_run = 0;
    int n_wrong = 0;
    const char *first_wrong = NULL;
    for (int i = 0; ember_op_case_at(i); i++) {
        const ember_op_case *item = ember_op_case_at(i);
        if (options->name && !strstr(item->name, options->name)) continue;
        ops_result result;
        EMBER_TRY(measure(&result, backend, item, options));
        EMBER_TRY(print_result(item, &result, options));
        n_run++;
        if (options->check && !(result.worst <= item->tolerance)) {
            if (!first_wrong) first_wrong = item->name;
            n_wrong++;
        }
    }
    if (n_run == 0) return ember_fail(EMBER_E_ARGUMENT, "--op: no operation has \"%s\" in its name", options->name);
    if (n_wrong > 0) {
        return ember_fail(EMBER_E_NUMERIC, "%d operation%s past the tolerance, first %s", n_wrong, n_wrong == 1 ? "" : "s", first_wrong);
    }
    return EMBER_OK;
}

ember_status cmd_bench_ops(int argc, char **argv) {
    ops_options o = {.device = "cpu", .repeat = 15};
    const cli_option options[] = {
        {"--json", CLI_FLAG, &o.json, NULL, "one JSON object a line instead of a table"},
        {"--check", CLI_FLAG, &o.check, NULL, "also compare each operation with its reference in double"},
        {"--op", CLI_TEXT, &o.name, "TEXT", "only operations whose name holds TEXT"},
        {"--device", CLI_TEXT, &o.device, "NAME", "cpu or auto (default cpu)"},
        {"--threads", CLI_I64, &o.threads, "N", "threads (default 0: all)"},
        {"--repeat", CLI_I64, &o.repeat, "N", "timed runs of each, the median counts (default 15)"},
    };
    const cli_command command = {.usage = "ember bench ops [options]",
                                 .about = "Times every operation of the backend at one fixed shape.",
                                 .options = options,
                                 .n_options = (int)(sizeof options / sizeof options[0])};
    int n_words = 0;
    bool done = false;
    EMBER_TRY(cli_parse(&command, argc, argv, NULL, &n_words, &done));
    if (done) return EMBER_OK;
    if (o.repeat < 1 || o.repeat > BENCH_MAX_REPEAT) {
        return ember_fail(EMBER_E_ARGUMENT, "--repeat: %lld; use 1 to %d", (long long)o.repeat, BENCH_MAX_REPEAT);
    }
    ember_backend *backend = NULL;
    EMBER_TRY(bench_backend(&backend, o.device, o.threads));
    const ember_status status = run_all(backend, &o);
    ember_backend_free(backend);
    return status;
}
