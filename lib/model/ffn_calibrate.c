/* ffn_calibrate.c - times the dense and the sparse FFN of one shape on a random problem whose
 * neurons fire at a chosen rate: the first input feature is 1 and the first gate weight is the
 * normal quantile of that rate, the rest is noise of unit variance. */
#include <math.h>
#include <stdlib.h>

#include "lib/base/philox.h"
#include "lib/base/status.h"
#include "lib/model/ffn_costs.h"

enum { N_REPEATS = 5 };

typedef struct problem {
    ember_backend *backend;
    ember_ffn_args args;
    ember_ffn_saved saved;
    float *x, *gate, *up, *down, *y, *dy, *dx, *d_gate, *d_up, *d_down;
    float *host; /* staging of the largest array */
    bool (*should_stop)(void *user);
    void *user;
} problem;

/* z with P(N(0,1) > z) = rate, by bisection: the table has four rates, so speed is no matter. */
static double upper_quantile(double rate) {
    double low = -10;
    double high = 10;
    for (int i = 0; i < 100; i++) {
        const double middle = 0.5 * (low + high);
        if (0.5 * erfc(middle / sqrt(2.0)) > rate) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static ember_status fill(problem *p, float *to, int64_t n, uint64_t stream, double scale) {
    for (int64_t i = 0; i < n; i++)
        p->host[i] = (float)scale * ember_philox_normal(0, stream, (uint64_t)i);
    return p->backend->ops->upload(p->backend, to, p->host, (size_t)n * sizeof(float));
}

/* Rows of n_columns normals with `first` in column 0. */
static ember_status fill_rows(problem *p, float *to, int64_t n_rows, int64_t n_columns, uint64_t stream, double scale, double first) {
    for (int64_t i = 0; i < n_rows * n_columns; i++) {
        p->host[i] = i % n_columns == 0 ? (float)first : (float)scale * ember_philox_normal(0, stream, (uint64_t)i);
    }
    return p->backend->ops->upload(p->backend, to, p->host, (size_t)(n_rows * n_columns) * sizeof(float));
}

static ember_status set_rate(problem *p, double rate) {
    const ember_ffn_shape *s = &p->args.shape;
    const double noise = s->hidden > 1 ? 1.0 / sqrt((double)s->hidden - 1) : 0;
    float *keys = s->kind == EMBER_FFN_GATED ? p->gate : p->up;
    return fill_rows(p, keys, s->n_neurons, s->hidden, 2, noise, -upper_quantile(rate));
}

static ember_status run_once(problem *p, bool backward) {
    EMBER_TRY(p->backend->ops->ffn_forward(p->backend, &p->args));
    return backward ? p->backend->ops->ffn_backward(p->backend, &p->args) : EMBER_OK;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static ember_status median_ms(problem *p, ember_ffn_mode mode, bool backward, double *out) {
    p->args.mode = mode;
    EMBER_TRY(run_once(p, backward));
    double times[N_REPEATS];
    for (int i = 0; i < N_REPEATS; i++) {
        if (p->should_stop && p->should_stop(p->user)) return ember_fail(EMBER_E_INTERRUPTED, "stopped while measuring the FFN costs");
        const double start = ember_seconds();
        EMBER_TRY(run_once(p, backward));
        times[i] = 1e3 * (ember_seconds() - start);
    }
    qsort(times, N_REPEATS, sizeof times[0], by_value);
    *out = times[N_REPEATS / 2] > 1e-6 ? times[N_REPEATS / 2] : 1e-6;
    return EMBER_OK;
}

static ember_status measure(problem *p, ember_ffn_cost *cost) {
    for (int k = 0; k < 2; k++) {
        const bool backward = k == EMBER_COST_TRAIN;
        for (int i = 0; i < EMBER_COST_POINTS; i++) {
            EMBER_TRY(set_rate(p, ember_cost_densities[i]));
            EMBER_TRY(median_ms(p, EMBER_MODE_TWELL, backward, &cost->sparse_ms[k][i]));
        }
        EMBER_TRY(median_ms(p, EMBER_MODE_DENSE, backward, &cost->dense_ms[k]));
    }
    cost->measured = true;
    return EMBER_OK;
}

static ember_status allocate_problem(problem *p, const ember_ffn_shape *s) {
    const int64_t token_array = s->n_tokens * s->hidden;
    const int64_t neuron_array = s->n_neurons * s->hidden;
    const struct {
        float **at;
        int64_t n;
    } arrays[] = {{&p->x, token_array},     {&p->y, token_array},      {&p->dy, token_array},    {&p->dx, token_array},
                  {&p->gate, neuron_array}, {&p->up, neuron_array},    {&p->down, neuron_array}, {&p->d_gate, neuron_array},
                  {&p->d_up, neuron_array}, {&p->d_down, neuron_array}};
    const ember_ops *ops = p->backend->ops;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        void *block = NULL;
        EMBER_TRY(ops->allocate(p->backend, &block, (size_t)arrays[i].n * sizeof(float), "FFN cost measurement"));
        *arrays[i].at = block;
    }
    /* At a quarter firing most tiles overflow: plan for every pair once. */
    p->saved.spill_capacity = s->n_tokens * s->n_neurons;
    const size_t dense = ops->ffn_saved_bytes(s, EMBER_MODE_DENSE, 0);
    const size_t twell = ops->ffn_saved_bytes(s, EMBER_MODE_TWELL, p->saved.spill_capacity);
    p->saved.block_bytes = dense > twell ? dense : twell;
    EMBER_TRY(ops->allocate(p->backend, &p->saved.block, p->saved.block_bytes, "FFN cost measurement"));
    void *host = NULL;
    EMBER_TRY(
        ember_allocate(&host, (size_t)(token_array > neuron_array ? token_array : neuron_array), sizeof(float), "FFN cost measurement"));
    p->host = host;
    const ember_workspace_shape workspace = {.n_tokens = s->n_tokens,
                                             .sequence_length = 1,
                                             .hidden = s->hidden,
                                             .n_neurons = s->n_neurons,
                                             .vocab_size = 2,
                                             .n_heads = 1,
                                             .n_kv_heads = 1,
                                             .head_dim = 2,
                                             .ffn_kind = s->kind,
                                             .compression = s->compression,
                                             .spill_capacity = p->saved.spill_capacity,
                                             .training = true};
    return ops->prepare(p->backend, &workspace);
}

static ember_status fill_problem(problem *p, const ember_ffn_shape *s) {
    const double scale = 1.0 / sqrt((double)s->hidden);
    EMBER_TRY(fill_rows(p, p->x, s->n_tokens, s->hidden, 1, 1.0, 1.0));
    EMBER_TRY(fill(p, p->up, s->n_neurons * s->hidden, 3, scale));
    EMBER_TRY(fill(p, p->down, s->n_neurons * s->hidden, 4, scale));
    EMBER_TRY(fill(p, p->dy, s->n_tokens * s->hidden, 5, 1.0));
    p->args = (ember_ffn_args){.shape = *s,
                               .saved = &p->saved,
                               .x = p->x,
                               .gate = s->kind == EMBER_FFN_GATED ? p->gate : NULL,
                               .up = p->up,
                               .down = p->down,
                               .y = p->y,
                               .dy = p->dy,
                               .dx = p->dx,
                               .d_gate = s->kind == EMBER_FFN_GATED ? p->d_gate : NULL,
                               .d_up = p->d_up,
                               .d_down = p->d_down,
                               .l1_scale = 1e-6f};
    return EMBER_OK;
}

ember_status ember_ffn_cost_measure(ember_ffn_cost *cost, ember_backend *backend, bool (*should_stop)(void *user), void *user) {
    problem p = {.backend = backend, .should_stop = should_stop, .user = user};
    ember_status status = allocate_problem(&p, &cost->shape);
    if (status == EMBER_OK) status = fill_problem(&p, &cost->shape);
    if (status == EMBER_OK) status = measure(&p, cost);
    float *const arrays[] = {p.x, p.gate, p.up, p.down, p.y, p.dy, p.dx, p.d_gate, p.d_up, p.d_down};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        backend->ops->release(backend, arrays[i]);
    backend->ops->release(backend, p.saved.block);
    ember_release(p.host);
    return status;
}
