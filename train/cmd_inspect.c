#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoints/checkpoint.h"
#include "lib/base/parse.h"
#include "lib/base/status.h"
#include "lib/h5/h5.h"
#include "train/cli.h"
#include "train/cmd.h"
#include "train/metrics.h"

enum { NEWEST_VERSION = 1 }; /* of every format that this program writes */

typedef struct inspector {
    const ember_h5_reader *file;
    bool verify;
    int64_t n_datasets;
    int64_t n_damaged;
    uint64_t bytes;
    ember_bytes first_damage; /* message */
    ember_bytes line;
    bool not_first;
} inspector;

static void shape_text(char out[96], const ember_h5_info *info) {
    size_t at = (size_t)snprintf(out, 96, "[");
    for (int i = 0; i < info->n_dims; i++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%" PRId64, i ? ", " : "", info->dims[i]);
    (void)snprintf(out + at, 96 - at, "]");
}

/* "ok", "damaged" (the first message is kept), "unchecked". */
static const char *check(inspector *in, const char *path, ember_status *status) {
    if (!in->verify) return "unchecked";
    const ember_status result = ember_h5_verify_dataset(in->file, path);
    if (result == EMBER_OK) return "ok";
    if (in->n_damaged++ == 0) *status = ember_bytes_printf(&in->first_damage, "%s", ember_last_error());
    return "damaged";
}

/* ---- the table */

static ember_status print_attribute(void *user, const char *name, const char *value) {
    const char *indent = user;
    printf("%s%-40s %s\n", indent, name, value);
    return EMBER_OK;
}

static ember_status print_dataset(void *user, const char *path, bool is_group, const ember_h5_info *info) {
    inspector *in = user;
    char shape[96];
    ember_status status = EMBER_OK;
    if (is_group) return EMBER_OK;
    const char *state = check(in, path, &status);
    shape_text(shape, info);
    printf("%-9s %-5s %-18s %14" PRIu64 "  %s\n", state, info->is_text ? "text" : ember_dtype_name(info->dtype), info->is_text ? "" : shape,
           info->bytes, path);
    in->n_datasets++;
    in->bytes += info->bytes;
    return status;
}

static ember_status print_attributes(const inspector *in) {
    char none[] = "";
    char indent[] = "  ";
    EMBER_TRY(ember_h5_walk_attributes(in->file, "/", (ember_h5_attribute_visit){.attribute = print_attribute, .user = none}));
    if (!ember_h5_has(in->file, "/model")) return EMBER_OK;
    printf("/model\n");
    return ember_h5_walk_attributes(in->file, "/model", (ember_h5_attribute_visit){.attribute = print_attribute, .user = indent});
}

static ember_status print_table(inspector *in) {
    printf("%s\n", ember_h5_path(in->file));
    EMBER_TRY(print_attributes(in));
    printf("\n%-9s %-5s %-18s %14s  %s\n", "hash", "dtype", "shape", "bytes", "dataset");
    EMBER_TRY(ember_h5_walk(in->file, "/", (ember_h5_visit){.object = print_dataset, .user = in}));
    printf("\n%" PRId64 " datasets, %" PRIu64 " bytes", in->n_datasets, in->bytes);
    if (in->verify) printf(", %" PRId64 " damaged", in->n_damaged);
    printf("\n");
    return EMBER_OK;
}

/* ---- the same as one JSON object */

static ember_status json_attribute(void *user, const char *name, const char *value) {
    inspector *in = user;
    double number = 0;
    EMBER_TRY(ember_bytes_printf(&in->line, "%s", in->not_first ? ", " : ""));
    in->not_first = true;
    EMBER_TRY(ember_json_text(&in->line, name, strlen(name)));
    EMBER_TRY(ember_bytes_append(&in->line, ": ", 2));
    if (ember_parse_f64(value, &number)) return ember_bytes_printf(&in->line, "%s", value);
    if (value[0] == '[') return ember_bytes_printf(&in->line, "%s", value);
    return ember_json_text(&in->line, value, strlen(value));
}

static ember_status json_attributes(inspector *in, const char *path) {
    in->not_first = false;
    EMBER_TRY(ember_bytes_printf(&in->line, "\"attributes\": {"));
    EMBER_TRY(ember_h5_walk_attributes(in->file, path, (ember_h5_attribute_visit){.attribute = json_attribute, .user = in}));
    return ember_bytes_append(&in->line, "}", 1);
}

static ember_status json_object(void *user, const char *path, bool is_group, const ember_h5_info *info) {
    inspector *in = user;
    char shape[96];
    ember_status status = EMBER_OK;
    EMBER_TRY(ember_bytes_printf(&in->line, "%s{\"path\": ", in->n_datasets++ ? ", " : ""));
    EMBER_TRY(ember_json_text(&in->line, path, strlen(path)));
    if (!is_group) {
        shape_text(shape, info);
        const char *state = check(in, path, &status);
        EMBER_TRY(status);
        EMBER_TRY(ember_bytes_printf(&in->line, ", \"dtype\": \"%s\", \"shape\": %s, \"bytes\": %" PRIu64 ", \"hash\": \"%s\"",
                                     info->is_text ? "text" : ember_dtype_name(info->dtype), shape, info->bytes, state));
    }
    EMBER_TRY(ember_bytes_append(&in->line, ", ", 2));
    EMBER_TRY(json_attributes(in, path));
    return ember_bytes_append(&in->line, "}", 1);
}

static ember_status print_json(inspector *in) {
    EMBER_TRY(ember_bytes_printf(&in->line, "{\"file\": "));
    EMBER_TRY(ember_json_text(&in->line, ember_h5_path(in->file), strlen(ember_h5_path(in->file))));
    EMBER_TRY(ember_bytes_append(&in->line, ", ", 2));
    EMBER_TRY(json_attributes(in, "/"));
    EMBER_TRY(ember_bytes_printf(&in->line, ", \"objects\": ["));
    EMBER_TRY(ember_h5_walk(in->file, "/", (ember_h5_visit){.object = json_object, .user = in}));
    printf("%s]}\n", in->line.data);
    return EMBER_OK;
}

/* ---- the stored texts */

static ember_status print_text(const ember_h5_reader *file, const char *object) {
    ember_bytes text = {0};
    EMBER_TRY(ember_h5_get_text(file, object, &text));
    (void)fwrite(text.data, 1, text.n, stdout);
    ember_bytes_free(&text);
    return EMBER_OK;
}

/* Beyond the hashes: what a reader of this format relies on is there. */
static ember_status check_format(const ember_h5_reader *file) {
    ember_checkpoint *checkpoint = NULL;
    if (strcmp(ember_h5_format(file), "ember-checkpoint") != 0) return EMBER_OK;
    EMBER_TRY(ember_checkpoint_open(&checkpoint, ember_h5_path(file), false));
    ember_checkpoint_close(checkpoint);
    return EMBER_OK;
}

static ember_status inspect(const ember_h5_reader *file, bool verify, bool json) {
    inspector in = {.file = file, .verify = verify};
    ember_status status = json ? print_json(&in) : print_table(&in);
    if (status == EMBER_OK && in.n_damaged > 0) status = ember_fail(EMBER_E_CORRUPT, "%s", in.first_damage.data);
    if (status == EMBER_OK) status = check_format(file);
    ember_bytes_free(&in.first_damage);
    ember_bytes_free(&in.line);
    return status;
}

ember_status cmd_inspect(int argc, char **argv) {
    const char *words[1] = {NULL};
    int n_words = 0;
    bool done = false;
    bool no_verify = false;
    bool json = false;
    bool config = false;
    bool tokenizer = false;
    const cli_option options[] = {
        {"--no-verify", CLI_FLAG, &no_verify, NULL, "do not read the data to compare its hashes"},
        {"--json", CLI_FLAG, &json, NULL, "one JSON object instead of the table"},
        {"--config", CLI_FLAG, &config, NULL, "print only the stored config"},
        {"--tokenizer", CLI_FLAG, &tokenizer, NULL, "print only the stored tokenizer.json"},
    };
    const cli_command command = {
        .usage = "ember inspect FILE [options]",
        .about = "Shows what a checkpoint or a token shard holds: attributes, hyper-parameters, every dataset with its dtype, shape and "
                 "size, and whether its bytes still have their hash. Fails and names the dataset when one has not.",
        .options = options,
        .n_options = sizeof options / sizeof options[0],
        .min_words = 1,
        .max_words = 1,
    };
    EMBER_TRY(cli_parse(&command, argc, argv, words, &n_words, &done));
    if (done) return EMBER_OK;
    if (config + tokenizer + json > 1) return ember_fail(EMBER_E_ARGUMENT, "inspect: --config, --tokenizer and --json exclude each other");
    ember_h5_reader *file = NULL;
    EMBER_TRY(ember_h5_open(&file, words[0], NULL, NEWEST_VERSION, false));
    const ember_status status = config      ? print_text(file, "/config")
                                : tokenizer ? print_text(file, "/tokenizer")
                                            : inspect(file, !no_verify, json);
    ember_h5_close(file);
    return status;
}
