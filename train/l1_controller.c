#include "train/l1_controller.h"

#include <math.h>

#include "lib/base/status.h"

/* lambda may leave its start by a factor of e^9.2 = 10^4 in either direction: wide enough for any
 * useful start, and an end to wind-up when the target cannot be reached. */
static const double max_log = 9.210340371976184;
/* Density follows lambda with a lag of tens to hundreds of steps. The integral alone then
 * oscillates; `damping` steps' worth of the error itself adds the phase that is missing, and the error is smoothed so
 * that the batch's noise is not amplified by the damping. */
static const double damping = 40;
static const double smoothing = 0.1;

ember_status ember_l1_controller_init(ember_l1_controller *out, const ember_settings *settings, int64_t n_layers) {
    const ember_number_list *l1 = &settings->sparsity.l1;
    if (n_layers < 1 || n_layers > EMBER_MAX_LAYERS)
        return ember_fail(EMBER_E_ARGUMENT, "%lld layers; the L1 controller takes 1 to %d", (long long)n_layers, EMBER_MAX_LAYERS);
    if (l1->n > 1 && l1->n != n_layers)
        return ember_fail(EMBER_E_CONFIG, "sparsity.l1 lists %lld values for %lld layers; give one value, or one a layer", (long long)l1->n,
                          (long long)n_layers);
    *out = (ember_l1_controller){.n_layers = n_layers,
                                 .start_step = settings->sparsity.l1_start_step,
                                 .warmup_steps = settings->sparsity.l1_warmup_steps,
                                 .target = settings->sparsity.target,
                                 .rate = settings->sparsity.target_rate};
    bool any = false;
    for (int64_t layer = 0; layer < n_layers; layer++) {
        out->base[layer] = l1->n == 0 ? 0 : l1->item[l1->n == 1 ? 0 : layer];
        any = any || out->base[layer] > 0;
    }
    if (out->target > 0 && !any)
        return ember_fail(EMBER_E_CONFIG,
                          "sparsity.target is %g, but sparsity.l1 is 0: the controller multiplies sparsity.l1, so give it a start above 0 "
                          "(1e-4 works for most models)",
                          out->target);
    return EMBER_OK;
}

static double ramp(const ember_l1_controller *controller, int64_t step) {
    const int64_t k = step - (controller->start_step > 1 ? controller->start_step : 1);
    if (k < 0) return 0;
    if (k < controller->warmup_steps) return (double)(k + 1) / (double)controller->warmup_steps;
    return 1;
}

static double within(double value, double limit) { return value < -limit ? -limit : value > limit ? limit : value; }

double ember_l1_controller_lambda(const ember_l1_controller *controller, int64_t step, double *lambda) {
    double gain = ramp(controller, step);
    if (controller->target > 0) gain *= exp(within(controller->state[0] + controller->rate * damping * controller->state[1], max_log));
    double sum = 0;
    for (int64_t layer = 0; layer < controller->n_layers; layer++) {
        lambda[layer] = controller->base[layer] * gain;
        sum += lambda[layer];
    }
    return sum / (double)controller->n_layers;
}

void ember_l1_controller_update(ember_l1_controller *controller, int64_t step, double nonzero_fraction) {
    if (controller->target <= 0 || ramp(controller, step) < 1) return;
    double error = nonzero_fraction > 0 ? within(log(nonzero_fraction / controller->target), 1) : -1;
    if (isnan(error)) error = 0;
    controller->state[0] = within(controller->state[0] + controller->rate * error, max_log);
    controller->state[1] += smoothing * (error - controller->state[1]);
}
