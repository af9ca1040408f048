/* main.c - dispatch to a subcommand, and status to exit code. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/status.h"
#include "train/cmd.h"

static const struct command {
    const char *name;
    ember_status (*run)(int argc, char **argv);
    const char *about;
} commands[] = {
    {"train", cmd_train, "train a model from a config file, or resume a run"},
    {"generate", cmd_generate, "continue a prompt with a checkpoint"},
    {"eval", cmd_eval, "loss, perplexity, bits per byte and L0 over a shard"},
    {"stats", cmd_stats, "sparsity statistics of a checkpoint or run"},
    {"import", cmd_import, "turn a Hugging Face folder into a checkpoint"},
    {"data", cmd_data, "prepare token shards from text; show what is in one"},
    {"inspect", cmd_inspect, "list and verify what a checkpoint or shard holds"},
    {"plan", cmd_plan, "memory, parameters and FLOP of a config, without allocating"},
    {"bench", cmd_bench, "time the FFN, a training step or single operations"},
    {"info", cmd_info, "version, backends, processor and libraries"},
    {"help", cmd_help, "this text; `ember help config` lists every config key"},
};
enum { N_COMMANDS = (int)(sizeof commands / sizeof commands[0]) };

static void print_usage(FILE *stream) {
    fprintf(stream,
            "ember %s: transformer language models whose feed-forward neurons are mostly silent\n\nusage: ember COMMAND [words and "
            "options]   (ember COMMAND --help)\n\n",
            ember_version());
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].about);
    fprintf(stream, "\nexit codes: 0 done, 1 failed, 2 usage or configuration\n");
}

static void print_line(void *user, ember_log_level level, const char *line) {
    (void)user;
    const char *prefix = level == EMBER_LOG_WARNING ? "warning: " : level == EMBER_LOG_NOTE ? "note: " : "";
    fprintf(stderr, "%s%s\n", prefix, line);
}

const ember_log *cmd_log(void) {
    static const ember_log log = {.sink = print_line};
    return &log;
}

/* The only place where a status becomes an exit code. Shapes come out of files here, not out of the command's words. */
static int exit_code(ember_status status) {
    if (status == EMBER_OK) return 0;
    if (status == EMBER_E_SHAPE) return 1;
    const int band = (int)status / 100;
    return (band == 1 && status != EMBER_E_INTERRUPTED) || band == 2 ? 2 : 1;
}

static ember_status dispatch(int argc, char **argv) {
    if (argc < 2) {
        print_usage(stderr);
        return ember_fail(EMBER_E_ARGUMENT, "no command was given");
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        printf("ember %s\n", ember_version());
        return EMBER_OK;
    }
    const bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (strcmp(name, "help") == 0 && argc == 2);
    if (help) {
        print_usage(stdout);
        return EMBER_OK;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) return commands[i].run(argc - 1, argv + 1);
    }
    return ember_fail(EMBER_E_ARGUMENT, "unknown command \"%s\"; `ember help` lists the commands", name);
}

/* A descriptor that the caller closed would go to the next file that is opened, and messages into a checkpoint. In its
 * place comes one on which every use fails. */
static void occupy_standard_descriptors(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

int main(int argc, char **argv) {
    occupy_standard_descriptors();
    /* A closed pipe or a file at its size limit is then an error from write, which is reported, not a death. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    ember_status status = dispatch(argc, argv);
    if (status == EMBER_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        status = ember_fail(EMBER_E_IO, "cannot write to standard output");
    }
    if (status != EMBER_OK) fprintf(stderr, "ember: %s\n", ember_last_error());
    return exit_code(status);
}
