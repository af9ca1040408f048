#include "train/cli.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/parse.h"
#include "lib/base/status.h"

static void print_help(const cli_command *command) {
    printf("usage: %s\n\n%s\n", command->usage, command->about);
    if (command->n_options > 0) printf("\noptions:\n");
    for (int i = 0; i < command->n_options; i++) {
        const cli_option *option = &command->options[i];
        char left[64];
        if (option->type == CLI_OPTIONAL) {
            (void)snprintf(left, sizeof left, "%s [%s]", option->name, option->value_name);
        } else {
            (void)snprintf(left, sizeof left, "%s%s%s", option->name, option->value_name ? " " : "",
                           option->value_name ? option->value_name : "");
        }
        printf("  %-26s %s\n", left, option->help);
    }
}

static ember_status usage_error(const cli_command *command, const char *problem, const char *word) {
    return ember_fail(EMBER_E_ARGUMENT, "%s%s%s\nusage: %s\n(--help lists the options)", problem, word ? " " : "", word ? word : "",
                      command->usage);
}

/* The words that must be given stand in the usage in capitals. */
static ember_status missing_word(const cli_command *command, int index) {
    const char *at = command->usage;
    for (int seen = 0; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " ")) {
        if (*at < 'A' || *at > 'Z') continue;
        if (seen++ < index) continue;
        return ember_fail(EMBER_E_ARGUMENT, "%.*s is missing\nusage: %s\n(--help lists the options)", (int)strcspn(at, " "), at,
                          command->usage);
    }
    return usage_error(command, "something is missing", NULL);
}

static ember_status bad_value(const cli_option *option, const char *value, const char *wanted) {
    return ember_fail(EMBER_E_ARGUMENT, "%s: \"%s\" is not %s", option->name, value, wanted);
}

static ember_status store(const cli_option *option, const char *value) {
    switch (option->type) {
    case CLI_TEXT: *(const char **)option->out = value; return EMBER_OK;
    case CLI_TEXTS: {
        cli_texts *texts = option->out;
        if (texts->n == CLI_MAX_TEXTS) return ember_fail(EMBER_E_ARGUMENT, "%s: given more than %d times", option->name, CLI_MAX_TEXTS);
        texts->item[texts->n++] = value;
        return EMBER_OK;
    }
    case CLI_I64: return ember_parse_i64(value, option->out) ? EMBER_OK : bad_value(option, value, "a whole number");
    case CLI_U64:
        return ember_parse_u64(value, option->out) ? EMBER_OK : bad_value(option, value, "a whole number from 0 to 18446744073709551615");
    case CLI_F64: return ember_parse_f64(value, option->out) ? EMBER_OK : bad_value(option, value, "a finite decimal number");
    case CLI_FLAG:
    case CLI_OPTIONAL: break;
    }
    return EMBER_OK;
}

static const cli_option *find_option(const cli_command *command, const char *word, size_t n) {
    for (int i = 0; i < command->n_options; i++) {
        const char *name = command->options[i].name;
        if (strlen(name) == n && memcmp(name, word, n) == 0) return &command->options[i];
    }
    return NULL;
}

/* One option at argv[*at]; advances *at over its value. */
static ember_status take_option(const cli_command *command, int argc, char **argv, int *at) {
    const char *word = argv[*at];
    const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    const cli_option *option = find_option(command, word, equals ? (size_t)(equals - word) : strlen(word));
    if (!option) return usage_error(command, "unknown option", word);
    const char *value = equals ? equals + 1 : NULL;
    if (option->type == CLI_FLAG) {
        if (value) return usage_error(command, "this option takes no value:", word);
        *(bool *)option->out = true;
        return EMBER_OK;
    }
    if (option->type == CLI_OPTIONAL) {
        if (!value && *at + 1 < argc && argv[*at + 1][0] != '-') value = argv[++*at];
        *(cli_optional *)option->out = (cli_optional){.given = true, .value = value};
        return EMBER_OK;
    }
    if (!value) {
        if (*at + 1 >= argc) return usage_error(command, "a value must follow", word);
        value = argv[++*at];
    }
    return store(option, value);
}

ember_status cli_parse(const cli_command *command, int argc, char **argv, const char **words, int *n_words, bool *done) {
    *n_words = 0;
    *done = false;
    bool options_ended = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!options_ended && strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (!options_ended && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            print_help(command);
            *done = true;
            return EMBER_OK;
        } else if (!options_ended && word[0] == '-' && word[1] != '\0') {
            EMBER_TRY(take_option(command, argc, argv, &i));
        } else {
            if (word[0] == '\0') return usage_error(command, "a word is empty", NULL);
            if (*n_words >= command->max_words) return usage_error(command, "one word too many:", word);
            words[(*n_words)++] = word;
        }
    }
    if (*n_words < command->min_words) return missing_word(command, *n_words);
    return EMBER_OK;
}
