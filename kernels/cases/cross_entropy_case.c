/* cross_entropy_case.c - cross_entropy with gradient, and loss alone. */
#include <math.h>
#include <stdlib.h>

#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: M, V, d, gradient */
enum { X, W, TARGETS, LOSS, LOSS_SUM, DX, D_WEIGHT };
static const float scale = 0.0625F;

static ember_status launch(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const ember_cross_entropy_args args = {.n_tokens = n[0],
                                           .vocab_size = n[1],
                                           .hidden = n[2],
                                           .x = ember_op_f32(p, X),
                                           .weight = ember_op_f32(p, W),
                                           .targets = ember_op_i32(p, TARGETS),
                                           .loss = ember_op_f32(p, LOSS),
                                           .loss_sum = p->buffers[LOSS_SUM].data,
                                           .scale = scale,
                                           .dx = n[3] ? ember_op_f32(p, DX) : NULL,
                                           .d_weight = n[3] ? ember_op_f32(p, D_WEIGHT) : NULL};
    return p->backend->ops->cross_entropy(p->backend, &args);
}

/* Row i of logits -> softmax - onehot, times scale; returns the loss. Zero for a token without a target. */
static double gradient_row(const ember_op_problem *p, int64_t i, double *row) {
    const int64_t *n = p->dims;
    const int32_t target = ((const int32_t *)p->buffers[TARGETS].initial)[i];
    double max = -INFINITY;
    for (int64_t v = 0; v < n[1]; v++) {
        row[v] = 0;
        if (target < 0) continue;
        for (int64_t k = 0; k < n[2]; k++)
            row[v] += (double)ember_op_first(p, X)[i * n[2] + k] * (double)ember_op_first(p, W)[v * n[2] + k];
        if (row[v] > max) max = row[v];
    }
    if (target < 0) return 0;
    double sum = 0;
    for (int64_t v = 0; v < n[1]; v++)
        sum += exp(row[v] - max);
    const double loss = max + log(sum) - row[target];
    for (int64_t v = 0; v < n[1]; v++)
        row[v] = (exp(row[v] - max) / sum - (v == target ? 1.0 : 0.0)) * (double)scale;
    return loss;
}

static void reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    double *rows = malloc((size_t)(n[0] * n[1]) * sizeof *rows);
    if (!rows) return;
#pragma omp parallel for
    for (int64_t i = 0; i < n[0]; i++) {
        p->buffers[LOSS].reference[i] = gradient_row(p, i, rows + i * n[1]);
        for (int64_t k = 0; n[3] && k < n[2]; k++)
            p->buffers[DX].reference[i * n[2] + k] = 0;
        for (int64_t v = 0; n[3] && v < n[1]; v++) {
            for (int64_t k = 0; k < n[2]; k++)
                p->buffers[DX].reference[i * n[2] + k] += rows[i * n[1] + v] * (double)ember_op_first(p, W)[v * n[2] + k];
        }
    }
    double *sum = p->buffers[LOSS_SUM].reference;
    *sum = *(double *)p->buffers[LOSS_SUM].initial;
    for (int64_t i = 0; i < n[0]; i++)
        *sum += p->buffers[LOSS].reference[i];
#pragma omp parallel for
    for (int64_t v = 0; v < (n[3] ? n[1] : 0); v++) {
        double *dw = p->buffers[D_WEIGHT].reference + v * n[2];
        for (int64_t k = 0; k < n[2]; k++)
            dw[k] = (double)ember_op_first(p, D_WEIGHT)[v * n[2] + k];
        for (int64_t i = 0; i < n[0]; i++) {
            for (int64_t k = 0; k < n[2]; k++)
                dw[k] += rows[i * n[1] + v] * (double)ember_op_first(p, X)[i * n[2] + k];
        }
    }
    free(rows);
}

static ember_status create(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = launch;
    p->reference = reference;
    ember_op_floats(p, EMBER_OP_INPUT, n[0] * n[2], 1, 0);
    ember_op_floats(p, EMBER_OP_INPUT, n[1] * n[2], 2.0 / sqrt((double)n[2]), 0);
    ember_op_ints(p, n[0], 0, n[1]);
    ember_op_floats(p, EMBER_OP_OUTPUT, n[0], 1, 0);
    ember_op_doubles(p, EMBER_OP_UPDATED, 1);
    if (n[3]) ember_op_floats(p, EMBER_OP_OUTPUT, n[0] * n[2], 1, 0);
    if (n[3]) ember_op_floats(p, EMBER_OP_UPDATED, n[1] * n[2], 0.02, 0);
    if (p->status != EMBER_OK) return p->status;
    for (int64_t i = 3; i < n[0]; i += 5)
        ((int32_t *)p->buffers[TARGETS].initial)[i] = ember_op_i32(p, TARGETS)[i] = -1;
    const ember_workspace_shape shape = {.n_tokens = n[0],
                                         .sequence_length = 1,
                                         .n_heads = 1,
                                         .n_kv_heads = 1,
                                         .head_dim = 2,
                                         .hidden = n[2],
                                         .n_neurons = 1,
                                         .vocab_size = n[1],
                                         .compression = 8,
                                         .training = n[3] != 0};
    return backend->ops->prepare(backend, &shape);
}

static const int64_t shapes[][4] = {{1, 1, 1, 1},      {5, 3, 7, 1},       {131, 257, 33, 1},  {67, 16411, 16, 1},
                                    {1100, 97, 24, 1}, {67, 16411, 16, 0}, {2048, 256, 256, 1}};
EMBER_OP_CREATE(create_0, create, shapes[0])
EMBER_OP_CREATE(create_1, create, shapes[1])
EMBER_OP_CREATE(create_2, create, shapes[2])
EMBER_OP_CREATE(create_3, create, shapes[3])
EMBER_OP_CREATE(create_4, create, shapes[4])
EMBER_OP_CREATE(create_5, create, shapes[5])
EMBER_OP_CREATE(create_6, create, shapes[6])
#define ENTRY(i, op, text, m, v, d, products)                                                                  \
    EMBER_OP_CASE(op, text, create_##i, EMBER_OP_TOLERANCE(8, 16), 4.0 * ((m) * (d) + (v) * (d)) * (products), \
                  2.0 * (m) * (v) * (d) * (products))

static const ember_op_case items[] = {
    ENTRY(0, "cross_entropy", "M 1 V 1 d 1", 1.0, 1.0, 1.0, 3.0),
    ENTRY(1, "cross_entropy", "M 5 V 3 d 7", 5.0, 3.0, 7.0, 3.0),
    ENTRY(2, "cross_entropy", "M 131 V 257 d 33", 131.0, 257.0, 33.0, 3.0),
    ENTRY(3, "cross_entropy", "M 67 V 16411 d 16", 67.0, 16411.0, 16.0, 3.0),
    ENTRY(4, "cross_entropy", "M 1100 V 97 d 24", 1100.0, 97.0, 24.0, 3.0),
    ENTRY(5, "cross_entropy_loss", "M 67 V 16411 d 16", 67.0, 16411.0, 16.0, 1.0),
    ENTRY(6, "cross_entropy", "M 2048 V 256 d 256", 2048.0, 256.0, 256.0, 3.0),
};

const ember_op_case_list ember_cross_entropy_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
