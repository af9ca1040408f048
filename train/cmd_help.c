/* cmd_help.c - `ember help config` from the schema table, and `ember help COMMAND`. */
#include <stdio.h>
#include <string.h>

#include "lib/base/status.h"
#include "lib/config/config.h"
#include "train/cli.h"
#include "train/cmd.h"

static const struct topic {
    const char *name;
    ember_status (*run)(int argc, char **argv);
} topics[] = {
    {"train", cmd_train}, {"generate", cmd_generate}, {"eval", cmd_eval}, {"stats", cmd_stats}, {"import", cmd_import},
    {"data", cmd_data},   {"inspect", cmd_inspect},   {"plan", cmd_plan}, {"bench", cmd_bench}, {"info", cmd_info},
};
enum { N_TOPICS = (int)(sizeof topics / sizeof topics[0]) };

static ember_status print_config_help(bool markdown) {
    ember_bytes text = {0};
    const ember_status status = markdown ? ember_config_markdown(&text) : ember_config_help(&text);
    /* main.c checks stdout for errors at the end. */
    if (status == EMBER_OK) (void)fwrite(text.data, 1, text.n, stdout);
    ember_bytes_free(&text);
    return status;
}

/* The help of a subcommand is its own. */
static ember_status print_command_help(const char *name) {
    for (int i = 0; i < N_TOPICS; i++) {
        if (strcmp(topics[i].name, name) != 0) continue;
        char word[32];
        char option[] = "--help";
        (void)snprintf(word, sizeof word, "%s", name);
        char *arguments[] = {word, option, NULL};
        return topics[i].run(2, arguments);
    }
    return ember_fail(EMBER_E_ARGUMENT, "no help for \"%s\"; `ember help` lists the commands, `ember help config` the config keys", name);
}

ember_status cmd_help(int argc, char **argv) {
    bool markdown = false;
    const cli_option options[] = {
        {"--markdown", CLI_FLAG, &markdown, NULL, "config: write configs/README.md to standard output"},
    };
    const cli_command command = {
        .usage = "ember help [config [--markdown] | COMMAND]",
        .about = "Lists every config key with type, default, bounds and meaning, or the options of a command.",
        .options = options,
        .n_options = 1,
        .min_words = 1,
        .max_words = 1,
    };
    const char *words[1] = {NULL};
    int n_words = 0;
    bool done = false;
    EMBER_TRY(cli_parse(&command, argc, argv, words, &n_words, &done));
    if (done) return EMBER_OK;
    if (strcmp(words[0], "config") == 0) return print_config_help(markdown);
    if (markdown) return ember_fail(EMBER_E_ARGUMENT, "--markdown belongs to `ember help config`");
    return print_command_help(words[0]);
}
