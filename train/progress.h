/* progress.h - the text of the line that long training shows. Nothing is printed here. */
#ifndef EMBER_PROGRESS_H
#define EMBER_PROGRESS_H

#include "lib/base/memory.h"

typedef struct ember_progress {
    int64_t step;
    int64_t steps; /* at which the run ends */
    double loss;
    double nonzero_fraction; /* of the model */
    double tokens_per_s;     /* of the steps since the last line */
    double eta_s;            /* negative: unknown */
    int64_t n_dead;
} ember_progress;

/* Tokens a second, finite and positive for any clock: an elapsed time of 0 or less, or not a
 * number, counts as one microsecond. */
double ember_rate(int64_t n_tokens, double elapsed_s);
/* "1h02m", "3m07s", "12s", "?" for negative or not finite. */
void ember_format_duration(char out[32], double seconds);
/* "step 12/600  loss 4.3210  nonzero 41.20 %  dead 0  12345 tokens/s  ETA 3m07s", one line without newline,
 * carriage return or escape. */
EMBER_CHECKED ember_status ember_progress_format(ember_bytes *out, const ember_progress *progress);
/* True when lines may be redrawn in place: `fd` is a terminal and `term` (the value of TERM) is not NULL, "" or "dumb". */
bool ember_progress_can_redraw(int fd, const char *term);

#endif
