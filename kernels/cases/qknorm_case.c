/* qknorm_case.c - qknorm_forward, qknorm_backward. */
#include <math.h>

#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: M, H, KV, D */
enum { QKV, Q_WEIGHT, K_WEIGHT, X_QK, RSTD }; /* forward: qkv updated, x_qk and rstd out; backward: qkv is d_qkv, both in */
enum { D_Q_WEIGHT = 5, D_K_WEIGHT };          /* backward */
static const double eps = 1e-6;

static double inverse_rms(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j] * (double)x[j];
    return 1.0 / sqrt(sum / (double)n + eps);
}

static ember_status launch(ember_op_problem *p, bool backward) {
    ember_qknorm_args args = {.n_tokens = p->dims[0],
                              .n_heads = p->dims[1],
                              .n_kv_heads = p->dims[2],
                              .head_dim = p->dims[3],
                              .eps = eps,
                              .x_qk = ember_op_f32(p, X_QK),
                              .rstd = ember_op_f32(p, RSTD),
                              .q_weight = ember_op_f32(p, Q_WEIGHT),
                              .k_weight = ember_op_f32(p, K_WEIGHT)};
    if (!backward) {
        args.qkv = ember_op_f32(p, QKV);
        return p->backend->ops->qknorm_forward(p->backend, &args);
    }
    args.d_qkv = ember_op_f32(p, QKV);
    args.d_q_weight = ember_op_f32(p, D_Q_WEIGHT);
    args.d_k_weight = ember_op_f32(p, D_K_WEIGHT);
    return p->backend->ops->qknorm_backward(p->backend, &args);
}
static ember_status forward(ember_op_problem *p) { return launch(p, false); }
static ember_status backward(ember_op_problem *p) { return launch(p, true); }

static void forward_reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const int64_t d = n[3];
    const int64_t heads = n[1] + 2 * n[2];
    for (int64_t i = 0; i < n[0] * heads * d; i++)
        p->buffers[QKV].reference[i] = (double)ember_op_first(p, QKV)[i];
    for (int64_t i = 0; i < n[0]; i++) {
        for (int64_t head = 0; head < n[1] + n[2]; head++) {
            const float *x = ember_op_first(p, QKV) + (i * heads + head) * d;
            const float *w = ember_op_first(p, head < n[1] ? Q_WEIGHT : K_WEIGHT);
            const int64_t normed = i * (n[1] + n[2]) + head;
            const double r = inverse_rms(x, d);
            p->buffers[RSTD].reference[normed] = r;
            for (int64_t j = 0; j < d; j++) {
                p->buffers[X_QK].reference[normed * d + j] = (double)x[j];
                p->buffers[QKV].reference[(i * heads + head) * d + j] = (double)x[j] * r * (double)w[j];
            }
        }
    }
}

static void backward_reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const int64_t d = n[3];
    const int64_t heads = n[1] + 2 * n[2];
    for (int64_t i = 0; i < n[0] * heads * d; i++)
        p->buffers[QKV].reference[i] = (double)ember_op_first(p, QKV)[i];
    for (int64_t j = 0; j < d; j++) {
        p->buffers[D_Q_WEIGHT].reference[j] = (double)ember_op_first(p, D_Q_WEIGHT)[j];
        p->buffers[D_K_WEIGHT].reference[j] = (double)ember_op_first(p, D_K_WEIGHT)[j];
    }
    for (int64_t i = 0; i < n[0]; i++) {
        for (int64_t head = 0; head < n[1] + n[2]; head++) {
            const float *x = ember_op_first(p, X_QK) + (i * (n[1] + n[2]) + head) * d;
            const float *du = ember_op_first(p, QKV) + (i * heads + head) * d;
            const float *w = ember_op_first(p, head < n[1] ? Q_WEIGHT : K_WEIGHT);
            double *dw = p->buffers[head < n[1] ? D_Q_WEIGHT : D_K_WEIGHT].reference;
            const double r = inverse_rms(x, d);
            double dr = 0;
            for (int64_t j = 0; j < d; j++) {
                dr += (double)du[j] * (double)w[j] * (double)x[j];
                dw[j] += (double)du[j] * (double)x[j] * r;
            }
            for (int64_t k = 0; k < d; k++) {
                p->buffers[QKV].reference[(i * heads + head) * d + k] =
                    (double)du[k] * (double)w[k] * r - dr * r * r * r * (double)x[k] / (double)d;
            }
        }
    }
}

static ember_status create(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n, bool is_backward) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = is_backward ? backward : forward;
    p->reference = is_backward ? backward_reference : forward_reference;
    const ember_op_buffer_kind kept = is_backward ? EMBER_OP_INPUT : EMBER_OP_OUTPUT;
    const int64_t normed = n[0] * (n[1] + n[2]);
    ember_op_floats(p, EMBER_OP_UPDATED, n[0] * (n[1] + 2 * n[2]) * n[3], 1, 0);
    ember_op_floats(p, EMBER_OP_INPUT, n[3], 0.3, 1);
    ember_op_floats(p, EMBER_OP_INPUT, n[3], 0.3, 1);
    ember_op_floats(p, kept, normed * n[3], 1.3, 0);
    ember_op_floats(p, kept, normed, 0, 0);
    if (!is_backward) return p->status;
    ember_op_floats(p, EMBER_OP_UPDATED, n[3], 1, 0);
    ember_op_floats(p, EMBER_OP_UPDATED, n[3], 1, 0);
    if (p->status != EMBER_OK) return p->status;
    float *rstd = p->buffers[RSTD].initial;
    for (int64_t i = 0; i < normed; i++) {
        rstd[i] = (float)inverse_rms(ember_op_f32(p, X_QK) + i * n[3], n[3]);
        ember_op_f32(p, RSTD)[i] = rstd[i];
    }
    return EMBER_OK;
}

static ember_status create_forward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    return create(out, backend, seed, n, false);
}
static ember_status create_backward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    return create(out, backend, seed, n, true);
}

static const int64_t shapes[][4] = {{1, 1, 1, 2}, {5, 6, 2, 10}, {33, 4, 4, 34}, {256, 8, 2, 64}};
#define CREATE_ALL(i)                                       \
    EMBER_OP_CREATE(forward_##i, create_forward, shapes[i]) \
    EMBER_OP_CREATE(backward_##i, create_backward, shapes[i])
CREATE_ALL(0)
CREATE_ALL(1)
CREATE_ALL(2)
CREATE_ALL(3)
#define ENTRIES(i, text, elements)                                                                                     \
    EMBER_OP_CASE("qknorm_forward", text, forward_##i, EMBER_OP_TOLERANCE(4, 1), 12.0 * (elements), 5.0 * (elements)), \
        EMBER_OP_CASE("qknorm_backward", text, backward_##i, EMBER_OP_TOLERANCE(8, 1), 20.0 * (elements), 12.0 * (elements))

static const ember_op_case items[] = {
    ENTRIES(0, "M 1 H 1 KV 1 D 2", 4.0),
    ENTRIES(1, "M 5 H 6 KV 2 D 10", 400.0),
    ENTRIES(2, "M 33 H 4 KV 4 D 34", 8976.0),
    ENTRIES(3, "M 256 H 8 KV 2 D 64", 163840.0),
};

const ember_op_case_list ember_qknorm_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
