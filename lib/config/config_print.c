/* config_print.c - the table and the values as text. */
#include <stdio.h>
#include <string.h>

#include "lib/base/status.h"
#include "lib/config/config_state.h"

/* The section part of a key: "model.rope_scaling" of "model.rope_scaling.type". */
static size_t section_length(const char *key) { return (size_t)(strrchr(key, '.') - key); }

static bool same_section(const char *a, const char *b) {
    const size_t n = section_length(a);
    return n == section_length(b) && memcmp(a, b, n) == 0;
}

/* Opens the mappings that lead to `key` and were not open for `previous`; returns the indent of the key itself. */
static ember_status open_sections(ember_bytes *out, const char *previous, const char *key, int *indent) {
    *indent = 0;
    for (const char *at = key;;) {
        const char *dot = strchr(at, '.');
        if (!dot) return EMBER_OK;
        const size_t through = (size_t)(dot - key) + 1;
        if (strncmp(previous, key, through) != 0) EMBER_TRY(ember_bytes_printf(out, "%*s%.*s:\n", *indent, "", (int)(dot - at), at));
        *indent += 2;
        at = dot + 1;
    }
}

ember_status ember_config_to_yaml(const ember_config *config, ember_bytes *out) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    const char *previous = "";
    for (int row = 0; row < n; row++) {
        int indent = 0;
        EMBER_TRY(open_sections(out, previous, rows[row].key, &indent));
        EMBER_TRY(ember_bytes_printf(out, "%*s%s: ", indent, "", strrchr(rows[row].key, '.') + 1));
        EMBER_TRY(ember_schema_format(&rows[row], &config->settings, out));
        EMBER_TRY(ember_bytes_append(out, "\n", 1));
        previous = rows[row].key;
    }
    return EMBER_OK;
}

static ember_status describe_row(const ember_config *config, int row, ember_bytes *value, ember_bytes *origin, ember_bytes *out) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    EMBER_TRY(ember_schema_format(&rows[row], &config->settings, value));
    if (rows[row].unit) EMBER_TRY(ember_bytes_printf(value, " %s", rows[row].unit));
    EMBER_TRY(ember_config_origin(config, row, origin));
    return ember_bytes_printf(out, "%-52s %-28s from %-28s read by %s\n", rows[row].key, value->data, origin->data, rows[row].reader);
}

ember_status ember_config_describe(const ember_config *config, ember_bytes *out) {
    int n = 0;
    (void)ember_schema_rows(&n);
    ember_status status = EMBER_OK;
    for (int row = 0; row < n && status == EMBER_OK; row++) {
        ember_bytes value = {0};
        ember_bytes origin = {0};
        status = describe_row(config, row, &value, &origin, out);
        ember_bytes_free(&value);
        ember_bytes_free(&origin);
    }
    return status;
}

/* "required", "0.1", "empty (fresh weights)". */
static ember_status append_default(const ember_schema_row *row, ember_bytes *out) {
    if (!row->initial) return ember_bytes_printf(out, "%s", row->initial_note ? row->initial_note : "none, must be given");
    EMBER_TRY(ember_bytes_printf(out, "%s", row->initial));
    return row->initial_note ? ember_bytes_printf(out, " (%s)", row->initial_note) : EMBER_OK;
}

static ember_status help_row(const ember_schema_row *row, ember_bytes *out) {
    EMBER_TRY(ember_bytes_printf(out, "%s\n    %s%s%s. Default: ", row->key, ember_schema_type_name(row->type), row->unit ? ", " : "",
                                 row->unit ? row->unit : ""));
    EMBER_TRY(append_default(row, out));
    EMBER_TRY(ember_bytes_printf(out, ". Allowed: "));
    const size_t before = out->n;
    EMBER_TRY(ember_schema_bounds(row, out));
    if (out->n == before) EMBER_TRY(ember_bytes_printf(out, "any"));
    return ember_bytes_printf(out, ".\n    %s\n    Read by: %s.\n", row->help, row->reader);
}

ember_status ember_config_help(ember_bytes *out) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    EMBER_TRY(
        ember_bytes_printf(out, "Every key of a config. In a file, \"section:\" and indented below it \"key: value\"; on the command line\n"
                                "--set section.key=value, later ones win. A list is [a, b], or one value for a list of one.\n\n"));
    for (int row = 0; row < n; row++)
        EMBER_TRY(help_row(&rows[row], out));
    return EMBER_OK;
}

/* A table cell: the bars inside are escaped, angle brackets would be taken for HTML. */
static ember_status append_cell(ember_bytes *out, const char *text) {
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (strchr("|<>*_", text[i])) EMBER_TRY(ember_bytes_append(out, "\\", 1));
        EMBER_TRY(ember_bytes_append(out, text + i, 1));
    }
    return EMBER_OK;
}

static ember_status markdown_row(const ember_schema_row *row, ember_bytes *cell, ember_bytes *out) {
    EMBER_TRY(ember_bytes_printf(out, "| `%s` | %s | ", strrchr(row->key, '.') + 1, ember_schema_type_name(row->type)));
    EMBER_TRY(append_default(row, cell));
    EMBER_TRY(append_cell(out, cell->data));
    EMBER_TRY(ember_bytes_append(out, " | ", 3));
    EMBER_TRY(ember_schema_bounds(row, out));
    EMBER_TRY(ember_bytes_printf(out, " | %s | ", row->unit ? row->unit : ""));
    EMBER_TRY(append_cell(out, row->help));
    return ember_bytes_printf(out, " | %s |\n", row->reader);
}

static const char markdown_head[] =
    "# Configs\n"
    "\n"
    "This page is written by `ember help config --markdown > configs/README.md`; a test compares the two.\n"
    "\n"
    "    ember train configs/quickstart.yaml                      # train\n"
    "    ember train configs/quickstart.yaml --dry-run            # every key, its value, and where it came from\n"
    "    ember train configs/quickstart.yaml --set train.lr=1e-3  # change one key\n"
    "    ember plan configs/1b.yaml                               # memory and FLOP, nothing is allocated\n"
    "\n"
    "| file | what it trains |\n"
    "|---|---|\n"
    "| `quickstart.yaml` | a byte-level model that learns English in two minutes on two processor cores (`sh train/quickstart.sh`) |\n"
    "| `tiny.yaml` | a small model on synthetic ids, for benchmarks |\n"
    "| `0p5b.yaml` `1b.yaml` `1p5b.yaml` `2b.yaml` | d 2048, h 5632, 8, 18, 28 and 38 layers, vocabulary 49152 |\n"
    "| `445m.yaml` | the 8-layer model with a vocabulary of 16384 |\n"
    "\n"
    "Rules: a config is one YAML document of sections and keys. Unknown, duplicate, out-of-range and ineffective keys are errors with "
    "file\n"
    "and line. Numbers stand without quotes and in plain decimal form (`0.5`, `1e-4`, `100`), whatever the locale. There are no tags, "
    "anchors,\n"
    "aliases or merge keys. A file has at most 1 MiB, and is UTF-8; so are paths in it. `--set section.key=value` reads the value as "
    "YAML,\n"
    "except that a text without quotes is taken as it stands; later ones win. A key of the file that a `--set` makes ineffective goes back "
    "to its\n"
    "default. Paths are relative to the working directory. The resolved config is stored in every checkpoint.\n";

static ember_status markdown_rows(ember_bytes *out) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    for (int row = 0; row < n; row++) {
        if (row == 0 || !same_section(rows[row - 1].key, rows[row].key)) {
            EMBER_TRY(ember_bytes_printf(out,
                                         "\n## %.*s\n\n| key | type | default | allowed | unit | meaning | read by |\n"
                                         "|---|---|---|---|---|---|---|\n",
                                         (int)section_length(rows[row].key), rows[row].key));
        }
        ember_bytes cell = {0};
        const ember_status status = markdown_row(&rows[row], &cell, out);
        ember_bytes_free(&cell);
        EMBER_TRY(status);
    }
    return EMBER_OK;
}

ember_status ember_config_markdown(ember_bytes *out) {
    EMBER_TRY(ember_bytes_append(out, markdown_head, sizeof markdown_head - 1));
    return markdown_rows(out);
}

static ember_status diff_row(const ember_schema_row *row, const ember_config *a, const ember_config *b, ember_bytes *left,
                             ember_bytes *right, ember_bytes *out) {
    EMBER_TRY(ember_schema_format(row, &a->settings, left));
    EMBER_TRY(ember_schema_format(row, &b->settings, right));
    if (strcmp(left->data, right->data) == 0) return EMBER_OK;
    return ember_bytes_printf(out, "%s: %s -> %s\n", row->key, left->data, right->data);
}

ember_status ember_config_diff(const ember_config *a, const ember_config *b, ember_bytes *out) {
    int n = 0;
    const ember_schema_row *rows = ember_schema_rows(&n);
    ember_status status = ember_bytes_append(out, "", 0);
    for (int row = 0; row < n && status == EMBER_OK; row++) {
        ember_bytes left = {0};
        ember_bytes right = {0};
        status = diff_row(&rows[row], a, b, &left, &right, out);
        ember_bytes_free(&left);
        ember_bytes_free(&right);
    }
    return status;
}
