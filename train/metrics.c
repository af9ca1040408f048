#include "train/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "kernels/ops.h"
#include "lib/base/parse.h"
#include "lib/base/status.h"

struct ember_metrics {
    int file;
    ember_bytes line; /* reused */
    ember_bytes path;
};

ember_status ember_json_number(ember_bytes *out, double value) {
    if (!isfinite(value)) return ember_bytes_append(out, "null", 4);
    char text[32];
    ember_format_f64(text, value);
    return ember_bytes_append(out, text, strlen(text));
}

/* Length of the well-formed UTF-8 sequence at `s`, 0 when there is none. */
static size_t utf8_length(const unsigned char *s, size_t n) {
    if (s[0] < 0x80) return 1;
    const size_t length = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
    if (length == 0 || length > n) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
    }
    const bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    const bool outside = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
    return overlong || outside ? 0 : length;
}

ember_status ember_json_text(ember_bytes *out, const char *text, size_t n) {
    EMBER_TRY(ember_bytes_append(out, "\"", 1));
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < n;) {
        const size_t length = utf8_length(s + i, n - i);
        if (length == 0) {
            EMBER_TRY(ember_bytes_append(out, "\xEF\xBF\xBD", 3));
            i++;
        } else if (s[i] == '"' || s[i] == '\\') {
            EMBER_TRY(ember_bytes_printf(out, "\\%c", s[i++]));
        } else if (s[i] < 0x20 || s[i] == 0x7F) {
            EMBER_TRY(ember_bytes_printf(out, "\\u%04x", (unsigned)s[i++]));
        } else {
            EMBER_TRY(ember_bytes_append(out, s + i, length));
            i += length;
        }
    }
    return ember_bytes_append(out, "\"", 1);
}

/* The step of one line, or -1 when the line is not an object with one. */
static int64_t line_step(const char *line, size_t n) {
    json_error_t error;
    json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES, &error);
    json_t *step = object ? json_object_get(object, "step") : NULL;
    const int64_t value = json_is_integer(step) ? (int64_t)json_integer_value(step) : -1;
    json_decref(object);
    return value;
}

/* Bytes of the lines to keep. */
static size_t kept_bytes(const ember_bytes *text, int64_t last_step) {
    size_t kept = 0;
    while (kept < text->n) {
        const char *start = text->data + kept;
        const char *end = memchr(start, '\n', text->n - kept);
        if (!end) break;
        const int64_t step = line_step(start, (size_t)(end - start));
        if (step < 0 || step > last_step) break;
        kept += (size_t)(end - start) + 1;
    }
    return kept;
}

ember_status ember_metrics_open(ember_metrics **out, const char *path, int64_t last_step) {
    *out = NULL;
    void *block = NULL;
    ember_bytes text = {0};
    ember_status status;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_metrics), "metrics file"));
    ember_metrics *metrics = block;
    metrics->file = -1;
    EMBER_TRY_GOTO(ember_bytes_append(&metrics->path, path, strlen(path)), done);
    EMBER_TRY_GOTO(ember_bytes_reserve(&metrics->line, 4096), done);
    metrics->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (metrics->file < 0) {
        status = ember_fail(EMBER_E_IO, "%s: cannot open for writing: %s", path, strerror(errno));
        goto done;
    }
    EMBER_TRY_GOTO(ember_read_file(&text, path, 0), done);
    const size_t kept = kept_bytes(&text, last_step);
    if (kept < text.n && ftruncate(metrics->file, (off_t)kept) != 0)
        status = ember_fail(EMBER_E_IO, "%s: cannot cut off the lines after step %lld: %s", path, (long long)last_step, strerror(errno));
done:
    ember_bytes_free(&text);
    if (status != EMBER_OK) {
        ember_metrics_close(metrics);
        return status;
    }
    *out = metrics;
    return EMBER_OK;
}

void ember_metrics_close(ember_metrics *metrics) {
    if (!metrics) return;
    if (metrics->file >= 0) (void)close(metrics->file);
    ember_bytes_free(&metrics->line);
    ember_bytes_free(&metrics->path);
    ember_release(metrics);
}

static ember_status put_number(ember_bytes *line, const char *name, double value) {
    EMBER_TRY(ember_bytes_printf(line, ", \"%s\": ", name));
    return ember_json_number(line, value);
}

/* Opens the list of one value a layer. */
static ember_status begin_list(ember_bytes *line, const char *name) { return ember_bytes_printf(line, ", \"%s\": [", name); }

static ember_status put_layers(ember_bytes *line, const ember_history_row *row, int64_t n_layers) {
    EMBER_TRY(begin_list(line, "l0"));
    for (int64_t i = 0; i < n_layers; i++) {
        if (i > 0) EMBER_TRY(ember_bytes_append(line, ", ", 2));
        EMBER_TRY(ember_json_number(line, (double)row->l0[i]));
    }
    EMBER_TRY(ember_bytes_append(line, "]", 1));
    EMBER_TRY(begin_list(line, "l1_per_layer"));
    for (int64_t i = 0; i < n_layers; i++) {
        if (i > 0) EMBER_TRY(ember_bytes_append(line, ", ", 2));
        EMBER_TRY(ember_json_number(line, (double)row->l1_per_layer[i]));
    }
    EMBER_TRY(ember_bytes_append(line, "]", 1));
    EMBER_TRY(begin_list(line, "dead"));
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY(ember_bytes_printf(line, "%s%d", i > 0 ? ", " : "", (int)row->dead[i]));
    EMBER_TRY(ember_bytes_append(line, "]", 1));
    EMBER_TRY(begin_list(line, "mode"));
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY(ember_bytes_printf(line, "%s\"%s\"", i > 0 ? ", " : "", row->mode[i] == EMBER_MODE_TWELL ? "twell" : "dense"));
    EMBER_TRY(ember_bytes_append(line, "]", 1));
    EMBER_TRY(begin_list(line, "spill"));
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY(ember_bytes_printf(line, "%s%lld", i > 0 ? ", " : "", (long long)row->spill[i]));
    return ember_bytes_append(line, "]", 1);
}

static ember_status write_all(const ember_metrics *metrics) {
    for (size_t written = 0; written < metrics->line.n;) {
        const ssize_t n = write(metrics->file, metrics->line.data + written, metrics->line.n - written);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return ember_fail(EMBER_E_IO, "%s: cannot write: %s", metrics->path.data, strerror(errno));
        written += (size_t)n;
    }
    return EMBER_OK;
}

ember_status ember_metrics_write(ember_metrics *metrics, const ember_history_row *row, const int64_t *neurons, int64_t n_layers,
                                 double valid_bits_per_byte) {
    ember_bytes *line = &metrics->line;
    line->n = 0;
    double fired = 0;
    double all = 0;
    for (int64_t i = 0; i < n_layers; i++) {
        fired += (double)row->l0[i];
        all += (double)neurons[i];
    }
    EMBER_TRY(ember_bytes_printf(line, "{\"step\": %lld, \"tokens_seen\": %lld", (long long)row->step, (long long)row->tokens_seen));
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"loss", row->loss},
                   {"ce", row->ce},
                   {"l1", row->l1},
                   {"valid_loss", row->valid_loss},
                   {"valid_bits_per_byte", valid_bits_per_byte},
                   {"lr", row->lr},
                   {"lambda", row->lambda},
                   {"grad_norm", row->grad_norm},
                   {"nonzero", all > 0 ? fired / all : 0},
                   {"tokens_per_s", row->tokens_per_s}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        EMBER_TRY(put_number(line, numbers[i].name, numbers[i].value));
    EMBER_TRY(put_layers(line, row, n_layers));
    EMBER_TRY(ember_bytes_append(line, "}\n", 2));
    return write_all(metrics);
}
