/* l1_controller.h - lambda of a step: coefficient, start, warm-up, and a controller that steers the
 * model's non-zero fraction to a target. */
#ifndef EMBER_L1_CONTROLLER_H
#define EMBER_L1_CONTROLLER_H

#include "lib/config/settings.h"
#include "lib/ember.h"

enum { EMBER_L1_STATE = 2 }; /* numbers in ember_l1_controller.state */

typedef struct ember_l1_controller {
    int64_t n_layers;
    double base[EMBER_MAX_LAYERS]; /* sparsity.l1 of each layer */
    int64_t start_step;            /* lambda is 0 before this step */
    int64_t warmup_steps;
    double target; /* non-zero fraction of the model; 0: lambda is the schedule alone */
    double rate;   /* gain per step */
    /* What a checkpoint holds: [0] integral of the error, [1] smoothed error; both in log units. */
    double state[EMBER_L1_STATE];
} ember_l1_controller;

/* Errors: EMBER_E_CONFIG when sparsity.l1 is a list of another length than the layers, or is 0
 * where a target asks for a coefficient to steer. */
EMBER_CHECKED ember_status ember_l1_controller_init(ember_l1_controller *out, const ember_settings *settings, int64_t n_layers);

/* lambda of each layer for step s = 1, 2, ...; `lambda` holds n_layers values. With k = s - max(start, 1):
 *   ramp(k) = 0 for k < 0, (k + 1) / warmup for k < warmup, then 1
 *   lambda = base * ramp * exp(integral + rate * damping * smoothed error), the exponent within
 *   +-log(10^4). Returns their mean. */
double ember_l1_controller_lambda(const ember_l1_controller *controller, int64_t step, double *lambda);

/* After step s: its non-zero fraction. error = log(fraction / target), cut to -1..1, is what moves
 * log(lambda): doubling or halving the density moves it alike, and a step without any firing neuron does not
 * throw lambda away. Does nothing before the end of the warm-up or without a target. */
void ember_l1_controller_update(ember_l1_controller *controller, int64_t step, double nonzero_fraction);

#endif
