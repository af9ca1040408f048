/* sparsity_report.h - what a checkpoint knows about which neurons fired: numbers of each layer, and
 * the texts that `ember stats` writes. */
#ifndef EMBER_SPARSITY_REPORT_H
#define EMBER_SPARSITY_REPORT_H

#include "checkpoints/checkpoint.h"

enum { EMBER_HOTTEST = 3 };
extern const double ember_hottest_shares[EMBER_HOTTEST]; /* 0.01, 0.05, 0.10 of the neurons */

typedef struct ember_layer_report {
    int64_t n_neurons;
    double l0;                     /* mean firing neurons a token, last step */
    double l0_window;              /* the same over the window; NaN when it covers no tokens */
    double l1;                     /* mean over tokens of sum |h|, last step */
    int64_t n_dead;                /* silent for dead_after_tokens or longer */
    int64_t n_nearly_dead;         /* alive, but fired for fewer than 1 in 100,000 tokens of the window */
    double hottest[EMBER_HOTTEST]; /* share of all firings of the window that its hottest 1, 5, 10 % have */
    uint64_t *fire_count;          /* [n_neurons] since the start */
    uint64_t *window_count;
    int64_t *last_fired;
} ember_layer_report;

typedef struct ember_sparsity_report {
    char *path; /* of the checkpoint */
    int64_t step;
    int64_t tokens_seen;
    int64_t window_tokens; /* that the window covers */
    int64_t dead_after_tokens;
    int64_t n_layers;
    ember_layer_report *layers;
} ember_sparsity_report;

/* EMBER_E_NOT_FOUND for a checkpoint without statistics (kind weights). Missing L1 or L0 are NaN. */
EMBER_CHECKED ember_status ember_sparsity_report_create(ember_sparsity_report **out, const ember_checkpoint *checkpoint);
void ember_sparsity_report_free(ember_sparsity_report *report);
/* Non-zero fraction of a mean number of firing neurons over all of them; 0 neurons: 0. */
double ember_report_fraction(double l0, int64_t n_neurons);

EMBER_CHECKED ember_status ember_sparsity_report_table(const ember_sparsity_report *report, ember_bytes *out);
/* Strict JSON: what is not a number is null. */
EMBER_CHECKED ember_status ember_sparsity_report_json(const ember_sparsity_report *report, ember_bytes *out);
/* One line a layer; what is not a number is an empty field. */
EMBER_CHECKED ember_status ember_sparsity_report_csv(const ember_sparsity_report *report, ember_bytes *out);
/* One line a neuron. */
EMBER_CHECKED ember_status ember_sparsity_report_neurons_csv(const ember_sparsity_report *report, ember_bytes *out);
/* /history of the checkpoint, one line a step. */
EMBER_CHECKED ember_status ember_history_csv(const ember_checkpoint *checkpoint, ember_bytes *out);

#endif
