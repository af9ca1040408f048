#include "kernels/cases/ffn_reference.h"

#include <math.h>
#include <string.h>

#include "lib/base/status.h"

ember_status ember_ffn_reference_create(ember_ffn_reference *out, const ember_ffn_shape *shape) {
    memset(out, 0, sizeof *out);
    const size_t rows = (size_t)(shape->n_tokens * shape->hidden);
    const size_t weights = (size_t)(shape->n_neurons * shape->hidden);
    const size_t counters = (size_t)(shape->n_neurons + shape->n_tokens); /* 8 bytes each */
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 4 * rows + 6 * weights + counters, sizeof(double), "FFN reference"));
    double *at = block;
    out->block = block;
    double **const row_arrays[] = {&out->y, &out->y_size, &out->dx, &out->dx_size};
    double **const weight_arrays[] = {&out->d_gate, &out->d_gate_size, &out->d_up, &out->d_up_size, &out->d_down, &out->d_down_size};
    for (int i = 0; i < 4; i++, at += rows)
        *row_arrays[i] = at;
    for (int i = 0; i < 6; i++, at += weights)
        *weight_arrays[i] = at;
    out->fire_count = (uint64_t *)(void *)at;
    out->token_l0 = (uint32_t *)(void *)(at + shape->n_neurons);
    return EMBER_OK;
}

void ember_ffn_reference_free(ember_ffn_reference *reference) {
    if (!reference) return;
    ember_release(reference->block);
    reference->block = NULL;
}

typedef struct product {
    double value;
    double size;
} product;

static product dot(const float *a, const float *b, int64_t n) {
    product p = {0.0, 0.0};
    for (int64_t j = 0; j < n; j++) {
        const double term = (double)a[j] * (double)b[j];
        p.value += term;
        p.size += fabs(term);
    }
    return p;
}

static void add_row(double *sum, double *size, product c, const float *row, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        sum[j] += c.value * (double)row[j];
        size[j] += c.size * fabs((double)row[j]);
    }
}

static double act(double g, ember_activation activation) {
    if (activation == EMBER_SILU) return g / (1.0 + exp(-g));
    return activation == EMBER_RELU2 ? g * g : g;
}

static double slope(double g, ember_activation activation) {
    const double s = 1.0 / (1.0 + exp(-g));
    if (activation == EMBER_SILU) return s * (1.0 + g * (1.0 - s));
    return activation == EMBER_RELU2 ? 2.0 * g : 1.0;
}

/* One firing (token, neuron). */
static void add_pair(ember_ffn_reference *out, const ember_ffn_args *a, int64_t t, int64_t j, double g, bool input) {
    const int64_t d = a->shape.hidden;
    const bool gated = a->shape.kind == EMBER_FFN_GATED;
    const float *x = a->x + t * d;
    const double act_g = act(g, a->shape.activation);
    const double slope_g = slope(g, a->shape.activation);
    const product up = gated ? dot(x, a->up + j * d, d) : (product){1.0, 1.0};
    const product h = {act_g * up.value, fabs(act_g) * up.size};
    add_row(out->y + t * d, out->y_size + t * d, h, a->down + j * d, d);
    out->nnz++;
    if (input) {
        out->fire_count[j]++;
        out->token_l0[t]++;
        out->l0_sum++;
        out->l1_sum += fabs(h.value);
    }
    if (!a->dy) return;
    const float *dy = a->dy + t * d;
    product dh = dot(dy, a->down + j * d, d);
    const double l1 = input ? (double)a->l1_scale : 0.0;
    dh.value += l1 * ((h.value > 0.0) - (h.value < 0.0));
    dh.size += fabs(l1);
    add_row(out->d_down + j * d, out->d_down_size + j * d, h, dy, d);
    const double to_up = gated ? act_g : slope_g;
    const product d_up = {dh.value * to_up, dh.size * fabs(to_up)};
    add_row(out->d_up + j * d, out->d_up_size + j * d, d_up, x, d);
    add_row(out->dx + t * d, out->dx_size + t * d, d_up, a->up + j * d, d);
    if (!gated) return;
    const product d_gate = {dh.value * up.value * slope_g, dh.size * up.size * fabs(slope_g)};
    add_row(out->d_gate + j * d, out->d_gate_size + j * d, d_gate, x, d);
    add_row(out->dx + t * d, out->dx_size + t * d, d_gate, a->gate + j * d, d);
}

void ember_ffn_reference_run(ember_ffn_reference *out, const ember_ffn_args *a) {
    const int64_t m = a->shape.n_tokens;
    const int64_t d = a->shape.hidden;
    const int64_t h = a->shape.n_neurons;
    memset(out->block, 0, (size_t)(4 * m * d + 6 * h * d + h + m) * sizeof(double));
    out->l0_sum = 0;
    out->l1_sum = 0.0;
    out->nnz = 0;
    const float *weight = a->shape.kind == EMBER_FFN_GATED ? a->gate : a->up;
    for (int64_t t = 0; t < m; t++) {
        for (int64_t j = 0; j < h; j++) {
            const float g = a->given_g ? a->given_g[t * h + j] : (float)dot(a->x + t * d, weight + j * d, d).value;
            if (a->shape.activation != EMBER_SILU && g <= 0.0F) continue;
            add_pair(out, a, t, j, (double)g, !a->mask || a->mask[t] != 0);
        }
    }
}
