#include "train/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

ember_schedule ember_schedule_from(const ember_settings *settings) {
    return (ember_schedule){.kind = settings->train.schedule,
                            .lr = settings->train.lr,
                            .steps = settings->train.steps,
                            .warmup_steps = settings->train.warmup_steps,
                            .decay_steps = settings->train.decay_steps,
                            .final_lr_fraction = settings->train.final_lr_fraction};
}

/* (step - first) / length, kept in 0..1; a decay without length is over at once. */
static double progress(int64_t step, int64_t first, int64_t length) {
    if (step <= first) return 0;
    if (step - first >= length) return 1;
    return (double)(step - first) / (double)length;
}

double ember_schedule_lr(const ember_schedule *schedule, int64_t step) {
    const int64_t warmup = schedule->warmup_steps;
    const double f = schedule->final_lr_fraction;
    if (step <= warmup) return schedule->lr * (double)step / (double)warmup;
    const double p = progress(step, warmup, schedule->steps - warmup);
    switch (schedule->kind) {
    case EMBER_SCHEDULE_CONSTANT: break;
    case EMBER_SCHEDULE_LINEAR: return schedule->lr * (1 - (1 - f) * p);
    case EMBER_SCHEDULE_COSINE: return schedule->lr * (f + (1 - f) * 0.5 * (1 + cos(pi * p)));
    case EMBER_SCHEDULE_WSD: {
        const double q = progress(step, schedule->steps - schedule->decay_steps, schedule->decay_steps);
        return schedule->lr * (1 - (1 - f) * q);
    }
    }
    return schedule->lr;
}
