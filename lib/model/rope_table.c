#include "lib/model/rope_table.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

static double llama3_frequency(const ember_hparams *p, double frequency) {
    const double original = (double)p->rope_original_max_position_embeddings;
    const double wavelength = two_pi / frequency;
    if (wavelength < original / p->rope_high_freq_factor) return frequency;
    if (wavelength > original / p->rope_low_freq_factor) return frequency / p->rope_factor;
    const double share = (original / wavelength - p->rope_low_freq_factor) / (p->rope_high_freq_factor - p->rope_low_freq_factor);
    return (1.0 - share) * frequency / p->rope_factor + share * frequency;
}

double ember_rope_frequency(const ember_hparams *p, int64_t pair) {
    const double frequency = pow(p->rope_theta, -2.0 * (double)pair / (double)p->head_dim);
    switch (p->rope_scaling) {
    case EMBER_ROPE_LINEAR: return frequency / p->rope_factor;
    case EMBER_ROPE_LLAMA3: return llama3_frequency(p, frequency);
    case EMBER_ROPE_NONE: break;
    }
    return frequency;
}

void ember_rope_table_fill(float *cos_table, float *sin_table, const ember_hparams *p, int64_t n_positions) {
    const int64_t n_pairs = p->head_dim / 2;
    for (int64_t pair = 0; pair < n_pairs; pair++) {
        const double frequency = ember_rope_frequency(p, pair);
        for (int64_t position = 0; position < n_positions; position++) {
            const double angle = (double)position * frequency;
            cos_table[position * n_pairs + pair] = (float)cos(angle);
            sin_table[position * n_pairs + pair] = (float)sin(angle);
        }
    }
}
