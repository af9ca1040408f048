/* cli.h - one table of options a subcommand drives its parser, its errors and its --help. */
#ifndef EMBER_CLI_H
#define EMBER_CLI_H

#include "lib/ember.h"

typedef enum cli_type {
    CLI_FLAG,    /* bool *; no value */
    CLI_TEXT,    /* const char ** */
    CLI_TEXTS,   /* cli_texts *; may be repeated */
    CLI_I64,     /* int64_t * */
    CLI_U64,     /* uint64_t * */
    CLI_F64,     /* double *; finite */
    CLI_OPTIONAL /* cli_optional *; takes the next word unless it starts with '-' */
} cli_type;

enum { CLI_MAX_TEXTS = 256 };

typedef struct cli_texts {
    int n;
    const char *item[CLI_MAX_TEXTS];
} cli_texts;

typedef struct cli_optional {
    bool given;
    const char *value; /* NULL: given without a value */
} cli_optional;

typedef struct cli_option {
    const char *name; /* "--seed"; short forms such as "-n" are names of their own */
    cli_type type;
    void *out;
    const char *value_name; /* "N", "FILE"; NULL for flags */
    const char *help;       /* with the default and the unit */
} cli_option;

typedef struct cli_command {
    const char *usage; /* "ember eval CHECKPOINT SHARD [options]" */
    const char *about; /* one or two sentences */
    const cli_option *options;
    int n_options;
    int min_words; /* positional words */
    int max_words;
} cli_command;

/* Fills the option targets and `words` (positional, in order, up to max_words; *n_words of them).
 * `--name=value` and `--name value` both work; `--` ends options. On --help prints the help to stdout, sets
 * *done and returns EMBER_OK: the caller returns at once. Bad usage: EMBER_E_ARGUMENT. */
EMBER_CHECKED ember_status cli_parse(const cli_command *command, int argc, char **argv, const char **words, int *n_words, bool *done);

#endif
