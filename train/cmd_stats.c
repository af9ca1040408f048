#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/atomic_file.h"
#include "lib/base/status.h"
#include "train/cli.h"
#include "train/cmd.h"
#include "train/sparsity_report.h"

typedef struct outputs {
    const char *csv;
    const char *json;
    const char *neurons;
    const char *history;
} outputs;

/* A folder stands for its newest complete checkpoint. */
static ember_status find_checkpoint(ember_bytes *path, const char *word) {
    struct stat info;
    if (stat(word, &info) == 0 && S_ISDIR(info.st_mode)) return ember_checkpoint_newest(path, word, cmd_log());
    return ember_bytes_printf(path, "%s", word);
}

/* "-": stdout. */
static ember_status deliver(const ember_bytes *text, const char *path) {
    if (strcmp(path, "-") != 0) return ember_write_file(path, text->data, text->n);
    if (fwrite(text->data, 1, text->n, stdout) != text->n) return ember_fail(EMBER_E_IO, "cannot write to standard output");
    return EMBER_OK;
}

static ember_status write_text(const ember_sparsity_report *report, const char *path,
                               ember_status (*make)(const ember_sparsity_report *report, ember_bytes *out)) {
    if (!path) return EMBER_OK;
    ember_bytes text = {0};
    ember_status status = make(report, &text);
    if (status == EMBER_OK) status = deliver(&text, path);
    ember_bytes_free(&text);
    return status;
}

static ember_status write_history(const ember_checkpoint *checkpoint, const char *path) {
    if (!path) return EMBER_OK;
    ember_bytes text = {0};
    ember_status status = ember_history_csv(checkpoint, &text);
    if (status == EMBER_OK) status = deliver(&text, path);
    ember_bytes_free(&text);
    return status;
}

static bool is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

/* Each output is a file of its own, standard output has one reader, and what is read is not written over. */
static ember_status check_outputs(const outputs *to, const char *checkpoint) {
    const char *paths[] = {to->csv, to->json, to->neurons, to->history};
    const size_t n = sizeof paths / sizeof paths[0];
    struct stat read;
    struct stat written;
    const bool exists = stat(checkpoint, &read) == 0;
    for (size_t i = 0; i < n; i++) {
        if (!paths[i]) continue;
        if (exists && !is_stdout(paths[i]) && stat(paths[i], &written) == 0 && read.st_dev == written.st_dev &&
            read.st_ino == written.st_ino)
            return ember_fail(EMBER_E_ARGUMENT, "%s is the checkpoint that is read; write to another file", paths[i]);
        for (size_t j = i + 1; j < n; j++) {
            if (paths[j] && strcmp(paths[i], paths[j]) == 0)
                return ember_fail(EMBER_E_ARGUMENT, "%s was given for two outputs; they would mix", paths[i]);
        }
    }
    return EMBER_OK;
}

static ember_status show(const char *word, const outputs *to) {
    ember_bytes path = {0};
    ember_checkpoint *checkpoint = NULL;
    ember_sparsity_report *report = NULL;
    ember_status status;
    EMBER_TRY_GOTO(find_checkpoint(&path, word), done);
    EMBER_TRY_GOTO(check_outputs(to, path.data), done);
    EMBER_TRY_GOTO(ember_checkpoint_open(&checkpoint, path.data, false), done);
    EMBER_TRY_GOTO(ember_sparsity_report_create(&report, checkpoint), done);
    EMBER_TRY_GOTO(write_text(report, to->csv, ember_sparsity_report_csv), done);
    EMBER_TRY_GOTO(write_text(report, to->json, ember_sparsity_report_json), done);
    EMBER_TRY_GOTO(write_text(report, to->neurons, ember_sparsity_report_neurons_csv), done);
    EMBER_TRY_GOTO(write_history(checkpoint, to->history), done);
    const bool stdout_taken = is_stdout(to->csv) || is_stdout(to->json) || is_stdout(to->neurons) || is_stdout(to->history);
    if (!stdout_taken) EMBER_TRY_GOTO(write_text(report, "-", ember_sparsity_report_table), done);
done:
    ember_sparsity_report_free(report);
    ember_checkpoint_close(checkpoint);
    ember_bytes_free(&path);
    return status;
}

ember_status cmd_stats(int argc, char **argv) {
    outputs to = {0};
    const cli_option options[] = {
        {"--csv", CLI_TEXT, &to.csv, "FILE", "one line a layer (-: stdout instead of the table)"},
        {"--json", CLI_TEXT, &to.json, "FILE", "the same as one JSON object (-: stdout instead of the table)"},
        {"--neurons", CLI_TEXT, &to.neurons, "FILE", "one CSV line a neuron: counts, rates, tokens since it fired, dead or alive"},
        {"--history", CLI_TEXT, &to.history, "FILE", "one CSV line a training step"},
    };
    const cli_command command = {.usage = "ember stats CHECKPOINT|RUN_FOLDER [options]",
                                 .about =
                                     "Which neurons fire: per layer L0, non-zero share, L1, dead neurons and how much the hottest do. A "
                                     "run folder stands for its newest complete checkpoint.",
                                 .options = options,
                                 .n_options = (int)(sizeof options / sizeof options[0]),
                                 .min_words = 1,
                                 .max_words = 1};
    const char *words[1] = {NULL};
    int n_words = 0;
    bool done = false;
    EMBER_TRY(cli_parse(&command, argc, argv, words, &n_words, &done));
    return done ? EMBER_OK : show(words[0], &to);
}
