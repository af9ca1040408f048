/* metrics.h - metrics.jsonl: one JSON object a line, one line a step. Not-a-number and infinity
 * are written as null, so every line is strict JSON. */
#ifndef EMBER_METRICS_H
#define EMBER_METRICS_H

#include "train/history.h"

typedef struct ember_metrics ember_metrics;

/* Opens `path` for appending and cuts off every line of a step above `last_step` (a resumed run
 * writes them again) together with anything behind the first line that is not such an object.
 * Errors: EMBER_E_IO. */
EMBER_CHECKED ember_status ember_metrics_open(ember_metrics **out, const char *path, int64_t last_step);
void ember_metrics_close(ember_metrics *metrics);
/* Appends one line with one write. `neurons` [n_layers] turns L0 into the non-zero fraction.
 * `valid_bits_per_byte` NaN: null. Errors: EMBER_E_IO (a full disk; the line may be cut). */
EMBER_CHECKED ember_status ember_metrics_write(ember_metrics *metrics, const ember_history_row *row, const int64_t *neurons,
                                               int64_t n_layers, double valid_bits_per_byte);
/* Appends `value` as a JSON number, or null when it is not finite. */
EMBER_CHECKED ember_status ember_json_number(ember_bytes *out, double value);
/* Appends `n` bytes as a JSON string; bytes that are not UTF-8 become U+FFFD. */
EMBER_CHECKED ember_status ember_json_text(ember_bytes *out, const char *text, size_t n);

#endif
