/* linear_case.c - linear_forward, linear_backward_input, linear_backward_weight. */
#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: M, N, K */
enum { A, B, C, D }; /* buffers, in order of creation */

static ember_tensor matrix(const ember_op_problem *p, int buffer, int64_t rows, int64_t columns) {
    return ember_tensor_2d(p->buffers[buffer].data, EMBER_F32, rows, columns);
}

/* ---- forward: A x [M, K], B w [N, K], C y [M, N] updated (beta 1), D bias */
static ember_status forward(ember_op_problem *p) {
    const int64_t *n = p->dims;
    return p->backend->ops->linear_forward(p->backend, matrix(p, C, n[0], n[1]), matrix(p, A, n[0], n[2]), matrix(p, B, n[1], n[2]),
                                           ember_op_f32(p, D), n[3] ? 1.0F : 0.0F);
}

static void forward_reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const float *x = ember_op_first(p, A);
    const float *w = ember_op_first(p, B);
#pragma omp parallel for
    for (int64_t i = 0; i < n[0]; i++) {
        for (int64_t j = 0; j < n[1]; j++) {
            double sum = (double)ember_op_first(p, D)[j] + (n[3] ? (double)ember_op_first(p, C)[i * n[1] + j] : 0.0);
            for (int64_t k = 0; k < n[2]; k++)
                sum += (double)x[i * n[2] + k] * (double)w[j * n[2] + k];
            p->buffers[C].reference[i * n[1] + j] = sum;
        }
    }
}

static ember_status create_forward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = forward;
    p->reference = forward_reference;
    ember_op_floats(p, EMBER_OP_INPUT, n[0] * n[2], 1, 0);
    ember_op_floats(p, EMBER_OP_INPUT, n[1] * n[2], 1, 0);
    ember_op_floats(p, n[3] ? EMBER_OP_UPDATED : EMBER_OP_OUTPUT, n[0] * n[1], 1, 0);
    ember_op_floats(p, EMBER_OP_INPUT, n[1], 1, 0);
    return p->status;
}

/* ---- backward, input: A dy [M, N], B w [N, K], C dx [M, K] */
static ember_status backward_input(ember_op_problem *p) {
    const int64_t *n = p->dims;
    return p->backend->ops->linear_backward_input(p->backend, matrix(p, C, n[0], n[2]), matrix(p, A, n[0], n[1]), matrix(p, B, n[1], n[2]),
                                                  n[3] ? 1.0F : 0.0F);
}

static void backward_input_reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const float *dy = ember_op_first(p, A);
    const float *w = ember_op_first(p, B);
#pragma omp parallel for
    for (int64_t i = 0; i < n[0]; i++) {
        double *row = p->buffers[C].reference + i * n[2];
        for (int64_t k = 0; k < n[2]; k++)
            row[k] = n[3] ? (double)ember_op_first(p, C)[i * n[2] + k] : 0.0;
        for (int64_t j = 0; j < n[1]; j++) {
            for (int64_t k = 0; k < n[2]; k++)
                row[k] += (double)dy[i * n[1] + j] * (double)w[j * n[2] + k];
        }
    }
}

static ember_status create_backward_input(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = backward_input;
    p->reference = backward_input_reference;
    ember_op_floats(p, EMBER_OP_INPUT, n[0] * n[1], 1, 0);
    ember_op_floats(p, EMBER_OP_INPUT, n[1] * n[2], 1, 0);
    ember_op_floats(p, n[3] ? EMBER_OP_UPDATED : EMBER_OP_OUTPUT, n[0] * n[2], 1, 0);
    return p->status;
}

/* ---- backward, weight: A dy [M, N], B x [M, K], C dw [N, K], D d_bias [N] */
static ember_status backward_weight(ember_op_problem *p) {
    const int64_t *n = p->dims;
    return p->backend->ops->linear_backward_weight(p->backend, matrix(p, C, n[1], n[2]), ember_op_f32(p, D), matrix(p, A, n[0], n[1]),
                                                   matrix(p, B, n[0], n[2]));
}

static void backward_weight_reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const float *dy = ember_op_first(p, A);
    const float *x = ember_op_first(p, B);
#pragma omp parallel for
    for (int64_t j = 0; j < n[1]; j++) {
        double *row = p->buffers[C].reference + j * n[2];
        double bias = (double)ember_op_first(p, D)[j];
        for (int64_t k = 0; k < n[2]; k++)
            row[k] = (double)ember_op_first(p, C)[j * n[2] + k];
        for (int64_t i = 0; i < n[0]; i++) {
            bias += (double)dy[i * n[1] + j];
            for (int64_t k = 0; k < n[2]; k++)
                row[k] += (double)dy[i * n[1] + j] * (double)x[i * n[2] + k];
        }
        p->buffers[D].reference[j] = bias;
    }
}

static ember_status create_backward_weight(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = backward_weight;
    p->reference = backward_weight_reference;
    ember_op_floats(p, EMBER_OP_INPUT, n[0] * n[1], 1, 0);
    ember_op_floats(p, EMBER_OP_INPUT, n[0] * n[2], 1, 0);
    ember_op_floats(p, EMBER_OP_UPDATED, n[1] * n[2], 1, 0);
    ember_op_floats(p, EMBER_OP_UPDATED, n[1], 1, 0);
    return p->status;
}

/* ---- the table: M, N, K, beta */
static const int64_t shapes[][4] = {{1, 1, 1, 0},      {1, 999, 515, 1},  {7, 13, 5, 1},
                                    {241, 513, 31, 0}, {129, 49, 257, 1}, {512, 768, 256, 0}};

#define CREATE_ALL(i)                                                     \
    EMBER_OP_CREATE(forward_##i, create_forward, shapes[i])               \
    EMBER_OP_CREATE(backward_input_##i, create_backward_input, shapes[i]) \
    EMBER_OP_CREATE(backward_weight_##i, create_backward_weight, shapes[i])
CREATE_ALL(0)
CREATE_ALL(1)
CREATE_ALL(2)
CREATE_ALL(3)
CREATE_ALL(4)
CREATE_ALL(5)

#define ENTRY(op, function, text, m, n, k, root) \
    EMBER_OP_CASE(op, text, function, EMBER_OP_TOLERANCE(4, root), 4.0 * ((m) * (n) + (n) * (k) + (m) * (k)), 2.0 * (m) * (n) * (k))
#define ENTRIES(i, text, m, n, k, root_m, root_n, root_k)                          \
    ENTRY("linear_forward", forward_##i, text, m, n, k, root_k),                   \
        ENTRY("linear_backward_input", backward_input_##i, text, m, n, k, root_n), \
        ENTRY("linear_backward_weight", backward_weight_##i, text, m, n, k, root_m)

static const ember_op_case items[] = {
    ENTRIES(0, "M 1 N 1 K 1", 1.0, 1.0, 1.0, 1, 1, 1),
    ENTRIES(1, "M 1 N 999 K 515", 1.0, 999.0, 515.0, 1, 32, 23),
    ENTRIES(2, "M 7 N 13 K 5", 7.0, 13.0, 5.0, 3, 4, 3),
    ENTRIES(3, "M 241 N 513 K 31", 241.0, 513.0, 31.0, 16, 23, 6),
    ENTRIES(4, "M 129 N 49 K 257", 129.0, 49.0, 257.0, 12, 7, 16),
    ENTRIES(5, "M 512 N 768 K 256", 512.0, 768.0, 256.0, 23, 28, 16),
};

const ember_op_case_list ember_linear_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
