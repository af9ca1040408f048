#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "kernels/ops.h"
#include "lib/base/status.h"
#include "lib/h5/h5.h"
#include "train/cli.h"
#include "train/cmd.h"
#include "train/metrics.h"

/* One line of the table, one member of the object. */
typedef struct fact {
    const char *name;
    const char *value;
} fact;

static ember_status print_json(const fact *facts, size_t n, int n_threads) {
    ember_bytes text = {0};
    ember_status status = ember_bytes_append(&text, "{", 1);
    for (size_t i = 0; i < n && status == EMBER_OK; i++) {
        status = ember_bytes_printf(&text, "\"%s\": ", facts[i].name);
        if (status == EMBER_OK) status = ember_json_text(&text, facts[i].value, strlen(facts[i].value));
        if (status == EMBER_OK) status = ember_bytes_append(&text, ", ", 2);
    }
    if (status == EMBER_OK) status = ember_bytes_printf(&text, "\"threads\": %d, \"cuda\": false}", n_threads);
    if (status == EMBER_OK) printf("%s\n", text.data);
    ember_bytes_free(&text);
    return status;
}

static ember_status show(bool json) {
    ember_backend *backend = NULL;
    ember_bytes cpu = {0};
    char hdf5[32];
    char compiler[128];
    ember_status status;
    EMBER_TRY_GOTO(ember_cpu_backend_create(&backend, 0), done);
    EMBER_TRY_GOTO(ember_cpu_describe(backend, &cpu), done);
    ember_h5_library_version(hdf5);
#if defined(__clang__)
    (void)snprintf(compiler, sizeof compiler, "clang %s", __clang_version__);
#else
    (void)snprintf(compiler, sizeof compiler, "gcc %s", __VERSION__);
#endif
    const fact facts[] = {{"version", ember_version()}, {"backends", "cpu"}, {"build", EMBER_BUILD_NOTE},       {"compiler", compiler},
                          {"device", cpu.data},         {"hdf5", hdf5},      {"jansson", jansson_version_str()}};
    const size_t n = sizeof facts / sizeof facts[0];
    if (json) {
        EMBER_TRY_GOTO(print_json(facts, n, backend->n_threads), done);
    } else {
        for (size_t i = 0; i < n; i++)
            printf("%-10s %s\n", facts[i].name, facts[i].value);
        printf("%-10s %d\n", "threads", backend->n_threads);
    }
done:
    ember_bytes_free(&cpu);
    ember_backend_free(backend);
    return status;
}

ember_status cmd_info(int argc, char **argv) {
    bool json = false;
    const cli_option options[] = {{"--json", CLI_FLAG, &json, NULL, "one JSON object instead of the table"}};
    const cli_command command = {.usage = "ember info [--json]",
                                 .about = "Version, backends, processor and libraries of this build.",
                                 .options = options,
                                 .n_options = 1,
                                 .min_words = 0,
                                 .max_words = 0};
    const char *words[1] = {NULL};
    int n_words = 0;
    bool done = false;
    EMBER_TRY(cli_parse(&command, argc, argv, words, &n_words, &done));
    return done ? EMBER_OK : show(json);
}
