#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "checkpoints/checkpoint.h"
#include "checkpoints/hf_import.h"
#include "data/tokenizer.h"
#include "lib/base/status.h"
#include "train/cli.h"
#include "train/cmd.h"

static volatile sig_atomic_t stop_requested;

static void on_signal(int number) {
    (void)number;
    stop_requested = 1;
}

static bool is_cancelled(void *user) {
    (void)user;
    return stop_requested != 0;
}

/* A second signal ends the program at once. */
static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* What the library reports while it imports is this command's answer: it goes to stdout. */
static void print_line(void *user, ember_log_level level, const char *line) {
    (void)user;
    printf("%s%s\n", level == EMBER_LOG_INFO ? "" : level == EMBER_LOG_NOTE ? "note: " : "warning: ", line);
}

/* The text is kept as it is; whether this program can use it should not first be seen at `ember generate`. */
static void judge_tokenizer(const ember_checkpoint_meta *meta) {
    ember_tokenizer *tokenizer = NULL;
    if (meta->tokenizer_bytes == 0) return;
    if (ember_tokenizer_parse(&tokenizer, meta->tokenizer, meta->tokenizer_bytes, "tokenizer.json") != EMBER_OK) {
        printf("warning: this program cannot turn text into tokens with it: %s\n", ember_last_error());
    }
    ember_tokenizer_free(tokenizer);
}

static ember_status print_result(const char *path) {
    ember_checkpoint *checkpoint = NULL;
    EMBER_TRY(ember_checkpoint_open(&checkpoint, path, false));
    judge_tokenizer(ember_checkpoint_get_meta(checkpoint));
    const ember_hparams *hparams = ember_checkpoint_hparams(checkpoint);
    printf("%s: %lld parameters in %lld layers, %lld neurons a layer\n", path, (long long)ember_hparams_n_elements(hparams),
           (long long)hparams->num_hidden_layers, (long long)ember_hparams_max_neurons(hparams));
    ember_checkpoint_close(checkpoint);
    return EMBER_OK;
}

ember_status cmd_import(int argc, char **argv) {
    const char *words[1] = {NULL};
    const char *output = NULL;
    int n_words = 0;
    bool force = false;
    bool done = false;
    const cli_option options[] = {
        {"-o", CLI_TEXT, &output, "FILE", "the checkpoint to write (required)"},
        {"--force", CLI_FLAG, &force, NULL, "replace FILE when it exists"},
    };
    const cli_command command = {
        .usage = "ember import HF_FOLDER -o CHECKPOINT [options]",
        .about = "Makes a checkpoint of a Hugging Face folder: config.json (Llama or Qwen2), model.safetensors, and where they are there "
                 "tokenizer.json and generation_config.json. Weights are stored as float32.",
        .options = options,
        .n_options = sizeof options / sizeof options[0],
        .min_words = 1,
        .max_words = 1,
    };
    EMBER_TRY(cli_parse(&command, argc, argv, words, &n_words, &done));
    if (done) return EMBER_OK;
    if (!output) return ember_fail(EMBER_E_ARGUMENT, "import: -o FILE is missing; usage: %s", command.usage);
    if (!force && access(output, F_OK) == 0) return ember_fail(EMBER_E_IO, "%s: exists; --force replaces it", output);
    const ember_log log = {.sink = print_line};
    catch_signals();
    EMBER_TRY(ember_hf_import_until(words[0], output, &log, is_cancelled, NULL));
    return print_result(output);
}
