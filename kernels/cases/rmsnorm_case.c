/* rmsnorm_case.c - rmsnorm_forward, rmsnorm_backward. */
#include <math.h>

#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: rows, columns, accumulate */
enum { X, W, Y, RSTD };                 /* forward */
enum { DY = 2, RSTD_IN, DX, D_WEIGHT }; /* backward: X and W as above */
static const double eps = 1e-5;

static double inverse_rms(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j] * (double)x[j];
    return 1.0 / sqrt(sum / (double)n + eps);
}

static ember_status forward(ember_op_problem *p) {
    const ember_rmsnorm_args args = {.n_rows = p->dims[0],
                                     .n_columns = p->dims[1],
                                     .eps = eps,
                                     .y = ember_op_f32(p, Y),
                                     .rstd = ember_op_f32(p, RSTD),
                                     .x = ember_op_f32(p, X),
                                     .weight = ember_op_f32(p, W)};
    return p->backend->ops->rmsnorm_forward(p->backend, &args);
}

static void forward_reference(ember_op_problem *p) {
    const int64_t n = p->dims[1];
    for (int64_t i = 0; i < p->dims[0]; i++) {
        const float *x = ember_op_first(p, X) + i * n;
        const double r = inverse_rms(x, n);
        p->buffers[RSTD].reference[i] = r;
        for (int64_t j = 0; j < n; j++)
            p->buffers[Y].reference[i * n + j] = (double)x[j] * r * (double)ember_op_first(p, W)[j];
    }
}

static ember_status backward(ember_op_problem *p) {
    const ember_rmsnorm_args args = {.n_rows = p->dims[0],
                                     .n_columns = p->dims[1],
                                     .eps = eps,
                                     .rstd = ember_op_f32(p, RSTD_IN),
                                     .x = ember_op_f32(p, X),
                                     .weight = ember_op_f32(p, W),
                                     .dy = ember_op_f32(p, DY),
                                     .dx = ember_op_f32(p, DX),
                                     .accumulate = p->dims[2] != 0,
                                     .d_weight = ember_op_f32(p, D_WEIGHT)};
    return p->backend->ops->rmsnorm_backward(p->backend, &args);
}

/* From the derivative of y_j = x_j r w_j with dr/dx_k = -r^3 x_k / n. */
static void backward_reference(ember_op_problem *p) {
    const int64_t n = p->dims[1];
    const float *w = ember_op_first(p, W);
    for (int64_t j = 0; j < n; j++)
        p->buffers[D_WEIGHT].reference[j] = (double)ember_op_first(p, D_WEIGHT)[j];
    for (int64_t i = 0; i < p->dims[0]; i++) {
        const float *x = ember_op_first(p, X) + i * n;
        const float *dy = ember_op_first(p, DY) + i * n;
        double *dx = p->buffers[DX].reference + i * n;
        const double r = inverse_rms(x, n);
        double dr = 0;
        for (int64_t j = 0; j < n; j++) {
            dr += (double)dy[j] * (double)w[j] * (double)x[j];
            p->buffers[D_WEIGHT].reference[j] += (double)dy[j] * (double)x[j] * r;
        }
        for (int64_t k = 0; k < n; k++) {
            dx[k] = (double)dy[k] * (double)w[k] * r - dr * r * r * r * (double)x[k] / (double)n;
            if (p->dims[2]) dx[k] += (double)ember_op_first(p, DX)[i * n + k];
        }
    }
}

static ember_status create_forward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    (*out)->launch = forward;
    (*out)->reference = forward_reference;
    ember_op_floats(*out, EMBER_OP_INPUT, n[0] * n[1], 1.5, 0.1);
    ember_op_floats(*out, EMBER_OP_INPUT, n[1], 0.3, 1);
    ember_op_floats(*out, EMBER_OP_OUTPUT, n[0] * n[1], 1, 0);
    ember_op_floats(*out, EMBER_OP_OUTPUT, n[0], 1, 0);
    return (*out)->status;
}

static ember_status create_backward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = backward;
    p->reference = backward_reference;
    ember_op_floats(p, EMBER_OP_INPUT, n[0] * n[1], 1.5, 0.1);
    ember_op_floats(p, EMBER_OP_INPUT, n[1], 0.3, 1);
    ember_op_floats(p, EMBER_OP_INPUT, n[0] * n[1], 1, 0);
    ember_op_floats(p, EMBER_OP_INPUT, n[0], 0, 0);
    ember_op_floats(p, n[2] ? EMBER_OP_UPDATED : EMBER_OP_OUTPUT, n[0] * n[1], 1, 0);
    ember_op_floats(p, EMBER_OP_UPDATED, n[1], 1, 0);
    if (p->status != EMBER_OK) return p->status;
    float *rstd = p->buffers[RSTD_IN].initial; /* what forward keeps */
    for (int64_t i = 0; i < n[0]; i++) {
        rstd[i] = (float)inverse_rms(ember_op_f32(p, X) + i * n[1], n[1]);
        ember_op_f32(p, RSTD_IN)[i] = rstd[i];
    }
    return EMBER_OK;
}

static const int64_t shapes[][3] = {{1, 1, 1}, {3, 7, 0}, {65, 33, 0}, {17, 257, 1}, {1024, 512, 0}};
#define CREATE_ALL(i)                                       \
    EMBER_OP_CREATE(forward_##i, create_forward, shapes[i]) \
    EMBER_OP_CREATE(backward_##i, create_backward, shapes[i])
CREATE_ALL(0)
CREATE_ALL(1)
CREATE_ALL(2)
CREATE_ALL(3)
CREATE_ALL(4)
/* Backward is a difference of two terms of magnitude |dy w r|, up to 3 here, which cancel wholly in one column: four
 * roundings in each (r, its cube, two products), so 12 ulp of 1, and the sum onto dx. */
#define ENTRIES(i, text, m, n)                                                                                       \
    EMBER_OP_CASE("rmsnorm_forward", text, forward_##i, EMBER_OP_TOLERANCE(4, 1), 8.0 * (m) * (n), 5.0 * (m) * (n)), \
        EMBER_OP_CASE("rmsnorm_backward", text, backward_##i, EMBER_OP_TOLERANCE(13, 1), 20.0 * (m) * (n), 12.0 * (m) * (n))

static const ember_op_case items[] = {
    ENTRIES(0, "rows 1 columns 1", 1.0, 1.0),           ENTRIES(1, "rows 3 columns 7", 3.0, 7.0),
    ENTRIES(2, "rows 65 columns 33", 65.0, 33.0),       ENTRIES(3, "rows 17 columns 257", 17.0, 257.0),
    ENTRIES(4, "rows 1024 columns 512", 1024.0, 512.0),
};

const ember_op_case_list ember_rmsnorm_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
