/* ffn_costs.h - the cost table behind ffn_auto: one entry a distinct layer shape. */
#ifndef EMBER_FFN_COSTS_H
#define EMBER_FFN_COSTS_H

#include "kernels/ops.h"

enum { EMBER_COST_POINTS = 4 };

/* Densities at which the sparse mode is measured; between them its cost is linear, beyond the last
 * it goes on with the last slope. */
extern const double ember_cost_densities[EMBER_COST_POINTS];

/* Milliseconds for shape.n_tokens tokens; [0] forward + backward, [1] forward alone. */
typedef struct ember_ffn_cost {
    ember_ffn_shape shape; /* n_tokens: of the measurement */
    bool measured;
    double dense_ms[2];
    double sparse_ms[2][EMBER_COST_POINTS];
} ember_ffn_cost;

typedef struct ember_ffn_costs {
    int64_t n;
    ember_ffn_cost *entry;
} ember_ffn_costs;

enum { EMBER_COST_TRAIN = 0, EMBER_COST_FORWARD = 1 };

/* Equal in everything but the number of tokens. */
bool ember_ffn_costs_same_shape(const ember_ffn_shape *a, const ember_ffn_shape *b);
/* Sparse cost in ms of the measured tokens at `density` = nnz / (tokens h). */
double ember_ffn_cost_sparse(const ember_ffn_cost *cost, int direction, double density);

EMBER_CHECKED ember_status ember_ffn_costs_to_json(const ember_ffn_costs *costs, ember_bytes *out);
/* Fills the entries of `costs` (shapes given) from a table; a shape that the table lacks is
 * EMBER_E_NOT_FOUND, anything malformed EMBER_E_FORMAT. Changes nothing on failure. */
EMBER_CHECKED ember_status ember_ffn_costs_from_json(ember_ffn_costs *costs, const char *json, size_t n, const char *name);
/* Measures one entry on a backend that was prepared for nothing in particular. */
EMBER_CHECKED ember_status ember_ffn_cost_measure(ember_ffn_cost *cost, ember_backend *backend, bool (*should_stop)(void *user),
                                                  void *user);

#endif
