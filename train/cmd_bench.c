/* cmd_bench.c - `ember bench`: which benchmark, and what they share. */
#include "train/cmd_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

ember_status bench_backend(ember_backend **out, const char *device, int64_t n_threads) {
    *out = NULL;
    if (strcmp(device, "cpu") != 0 && strcmp(device, "auto") != 0) {
        if (strcmp(device, "cuda") == 0) return ember_fail(EMBER_E_DEVICE, "--device cuda: this build has the CPU backend alone; use cpu");
        return ember_fail(EMBER_E_ARGUMENT, "--device: \"%s\" is not a device; use cpu or auto", device);
    }
    if (n_threads < 0 || n_threads > 4096) {
        return ember_fail(EMBER_E_ARGUMENT, "--threads: %lld; use 0 (all) to 4096", (long long)n_threads);
    }
    return ember_cpu_backend_create(out, (int)n_threads);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

void bench_set_number(json_t *object, const char *key, double value) {
    (void)json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

ember_status bench_print(json_t *object) {
    char *text = object ? json_dumps(object, JSON_REAL_PRECISION(7)) : NULL;
    json_decref(object);
    if (!text) return ember_fail(EMBER_E_MEMORY, "bench: no memory for a line of JSON");
    printf("%s\n", text);
    free(text);
    return EMBER_OK;
}

ember_status cmd_bench(int argc, char **argv) {
    static const struct {
        const char *name;
        ember_status (*run)(int argc, char **argv);
        const char *about;
    } parts[] = {
        {"ffn", cmd_bench_ffn, "the feed-forward block, sparse against dense, over densities or a recorded pattern"},
        {"step", cmd_bench_step, "a whole training step of a config: forward, backward, optimizer"},
        {"ops", cmd_bench_ops, "every operation alone, with its distance to a double reference"},
    };
    const int n_parts = (int)(sizeof parts / sizeof parts[0]);
    for (int i = 0; argc > 1 && i < n_parts; i++) {
        if (strcmp(argv[1], parts[i].name) == 0) return parts[i].run(argc - 1, argv + 1);
    }
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("usage: ember bench ffn|step|ops [options]\n\n");
        for (int i = 0; i < n_parts; i++)
            printf("  %-6s %s\n", parts[i].name, parts[i].about);
        printf("\nember bench NAME --help lists the options of each\n");
        return EMBER_OK;
    }
    return ember_fail(EMBER_E_ARGUMENT, "bench: %s%s%s; use ffn, step or ops (ember bench --help)", argc > 1 ? "\"" : "no benchmark named",
                      argc > 1 ? argv[1] : "", argc > 1 ? "\" is not a benchmark" : "");
}
