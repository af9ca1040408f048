/* ffn_auto.h - which FFN mode a layer runs in: a table of measured costs, and a decision that is a
 * pure function of that table and of integer counts (DESIGN section 4, "FFN modes"). Nothing
 * here looks at a clock after the calibration, so runs repeat bitwise. */
#ifndef EMBER_FFN_AUTO_H
#define EMBER_FFN_AUTO_H

#include "kernels/ops.h"

typedef struct ember_ffn_auto ember_ffn_auto;

typedef struct ember_ffn_auto_options {
    int64_t n_tokens;    /* M of a micro-batch */
    int64_t compression; /* C */
} ember_ffn_auto_options;

/* Every layer starts dense, without a table. */
EMBER_CHECKED ember_status ember_ffn_auto_create(ember_ffn_auto **out, const ember_hparams *hparams, const ember_ffn_auto_options *options);
void ember_ffn_auto_free(ember_ffn_auto *chooser);

/* The cost table as JSON: {"format": "ember-ffn-costs", "version": 1, "device": ..., "entries": [
 * {"hidden", "neurons", "kind", "activation", "compression", "tokens", "dense_ms", "forward_dense_ms",
 * "density": [...], "sparse_ms": [...], "forward_sparse_ms": [...]}]}. `name` stands for the path in
 * messages. Every layer's shape must be in it. Errors: EMBER_E_FORMAT, EMBER_E_NOT_FOUND. */
EMBER_CHECKED ember_status ember_ffn_auto_load(ember_ffn_auto *chooser, const char *json, size_t n, const char *name);
EMBER_CHECKED ember_status ember_ffn_auto_to_json(const ember_ffn_auto *chooser, ember_bytes *out);
/* True once every layer's shape has its costs. */
bool ember_ffn_auto_ready(const ember_ffn_auto *chooser);
/* Measures every distinct layer shape on `backend` (medians, forward and forward + backward, at
 * several densities), on at most 1,024 tokens. `should_stop` (may be NULL) is asked between
 * measurements; then EMBER_E_INTERRUPTED. */
EMBER_CHECKED ember_status ember_ffn_auto_calibrate(ember_ffn_auto *chooser, ember_backend *backend, bool (*should_stop)(void *user),
                                                    void *user);

/* Mode of the next step after a step (or window) with `nnz` firing pairs over `n_tokens` tokens.
 * Leaves dense when the sparse cost is below 0.90 of dense and the density is below 3/4 of what fits
 * without overflowing the spill limit, leaves twell above 1.00. */
ember_ffn_mode ember_ffn_auto_decide(ember_ffn_auto *chooser, int64_t layer, int64_t nnz, int64_t n_tokens);
/* The same question for a forward pass alone; no hysteresis and no state. n_tokens = 0: dense. */
ember_ffn_mode ember_ffn_auto_decide_forward(const ember_ffn_auto *chooser, int64_t layer, int64_t nnz, int64_t n_tokens);
/* Dense until the end of the run: its spill exceeded M h / 8. */
void ember_ffn_auto_pin_dense(ember_ffn_auto *chooser, int64_t layer);
/* Modelled cost in ms of forward + backward at nnz / (n_tokens h); for logs. */
double ember_ffn_auto_cost_ms(const ember_ffn_auto *chooser, int64_t layer, ember_ffn_mode mode, int64_t nnz, int64_t n_tokens);

/* One int64 a layer for /state: bit 0 the mode, bit 1 pinned. */
void ember_ffn_auto_state(const ember_ffn_auto *chooser, int64_t *out);
EMBER_CHECKED ember_status ember_ffn_auto_restore(ember_ffn_auto *chooser, const int64_t *state);

#endif
