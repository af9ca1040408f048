/* schedule.h - the learning rate of a step, a pure function of its number. */
#ifndef EMBER_SCHEDULE_H
#define EMBER_SCHEDULE_H

#include "lib/config/settings.h"

typedef struct ember_schedule {
    ember_schedule_kind kind;
    double lr; /* the peak */
    int64_t steps;
    int64_t warmup_steps;
    int64_t decay_steps;      /* wsd: length of the decay at the end */
    double final_lr_fraction; /* of `lr`, what the decay falls to */
} ember_schedule;

ember_schedule ember_schedule_from(const ember_settings *settings);

/* Learning rate of step s = 1 .. steps (W warm-up, S steps, D decay, f final fraction):
 *   s <= W:    lr s / W
 *   constant:  lr
 *   linear:    lr (1 - (1 - f) p),                    p = (s - W) / (S - W)
 *   cosine:    lr (f + (1 - f) (1 + cos(pi p)) / 2),  p = (s - W) / (S - W)
 *   wsd:       lr until s = S - D, then as linear with p = (s - (S - D)) / D
 * So the last step of the warm-up runs at lr and step S at f lr; steps beyond S keep p = 1. */
double ember_schedule_lr(const ember_schedule *schedule, int64_t step);

#endif
