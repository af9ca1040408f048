#include "train/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

double ember_rate(int64_t n_tokens, double elapsed_s) {
    const double shortest = 1e-6;
    const double elapsed = elapsed_s > shortest && isfinite(elapsed_s) ? elapsed_s : shortest;
    return (double)(n_tokens > 0 ? n_tokens : 1) / elapsed;
}

void ember_format_duration(char out[32], double seconds) {
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        (void)snprintf(out, 32, "?");
        return;
    }
    const long long s = (long long)(seconds + 0.5);
    if (s >= 3600) {
        (void)snprintf(out, 32, "%lldh%02lldm", s / 3600, s / 60 % 60);
    } else if (s >= 60) {
        (void)snprintf(out, 32, "%lldm%02llds", s / 60, s % 60);
    } else {
        (void)snprintf(out, 32, "%llds", s);
    }
}

ember_status ember_progress_format(ember_bytes *out, const ember_progress *progress) {
    char eta[32];
    ember_format_duration(eta, progress->eta_s);
    out->n = 0;
    return ember_bytes_printf(out, "step %lld/%lld  loss %.4f  nonzero %.2f %%  dead %lld  %.0f tokens/s  ETA %s",
                              (long long)progress->step, (long long)progress->steps, progress->loss, 100 * progress->nonzero_fraction,
                              (long long)progress->n_dead, progress->tokens_per_s, eta);
}

bool ember_progress_can_redraw(int fd, const char *term) { return term && term[0] != '\0' && strcmp(term, "dumb") != 0 && isatty(fd) == 1; }
