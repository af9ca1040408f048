/* rope_table.h - cosines and sines of the rotary embedding. */
#ifndef EMBER_ROPE_TABLE_H
#define EMBER_ROPE_TABLE_H

#include "lib/base/hparams.h"

/* Angle per position of pair `pair` (0 .. D/2 - 1): theta^(-2 pair / D), then the model's scaling:
 * linear divides by the factor; llama3 divides the wavelengths above original / low_freq_factor,
 * keeps those below original / high_freq_factor and blends between (Llama 3.1 model card). Radians, in double. */
double ember_rope_frequency(const ember_hparams *hparams, int64_t pair);

/* cos and sin of position * frequency for positions [0, n_positions): two arrays [n_positions, D / 2],
 * computed in double, rounded once. */
void ember_rope_table_fill(float *cos_table, float *sin_table, const ember_hparams *hparams, int64_t n_positions);

#endif
