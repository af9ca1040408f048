/* attention_case.c - attention_forward, attention_backward. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: B, T, H, KV, D, documents (0: no document starts; else a new one every so many tokens) */
enum { QKV, START, OUT, LSE };     /* forward */
enum { D_OUT = 2, LSE_IN, D_QKV }; /* backward: QKV and START as above */

typedef struct view {
    int64_t b, t, h, kv, d, width;
    double scale;
} view;

static view view_of(const ember_op_problem *p) {
    const int64_t *n = p->dims;
    return (view){
        .b = n[0], .t = n[1], .h = n[2], .kv = n[3], .d = n[4], .width = (n[2] + 2 * n[3]) * n[4], .scale = 1.0 / sqrt((double)n[4])};
}

static ember_attention_args args_of(const ember_op_problem *p) {
    const int64_t *n = p->dims;
    return (ember_attention_args){.n_sequences = n[0],
                                  .sequence_length = n[1],
                                  .n_heads = n[2],
                                  .n_kv_heads = n[3],
                                  .head_dim = n[4],
                                  .qkv = ember_op_f32(p, QKV),
                                  .document_start = n[5] ? ember_op_i32(p, START) : NULL};
}

static ember_status forward(ember_op_problem *p) {
    ember_attention_args args = args_of(p);
    args.out = ember_op_f32(p, OUT);
    args.lse = ember_op_f32(p, LSE);
    return p->backend->ops->attention_forward(p->backend, &args);
}

static ember_status backward(ember_op_problem *p) {
    ember_attention_args args = args_of(p);
    args.lse = ember_op_f32(p, LSE_IN);
    args.d_out = ember_op_f32(p, D_OUT);
    args.d_qkv = ember_op_f32(p, D_QKV);
    return p->backend->ops->attention_backward(p->backend, &args);
}

static const float *row_of(const ember_op_problem *p, const view *v, int64_t sequence, int64_t token, int64_t head) {
    return ember_op_first(p, QKV) + (sequence * v->t + token) * v->width + head * v->d;
}

/* Probabilities of query i of one head over keys first .. i, at prob[key]; returns log-sum-exp. */
static double probabilities(const ember_op_problem *p, const view *v, int64_t sequence, int64_t head, int64_t i, int64_t *first,
                            double *prob) {
    *first = p->dims[5] ? (int64_t)((const int32_t *)p->buffers[START].initial)[sequence * v->t + i] : 0;
    if (*first < 0) *first = 0;
    const float *q = row_of(p, v, sequence, i, head);
    double max = -INFINITY;
    for (int64_t j = *first; j <= i; j++) {
        const float *k = row_of(p, v, sequence, j, v->h + head / (v->h / v->kv));
        double s = 0;
        for (int64_t c = 0; c < v->d; c++)
            s += (double)q[c] * (double)k[c];
        prob[j] = s * v->scale;
        if (prob[j] > max) max = prob[j];
    }
    double sum = 0;
    for (int64_t j = *first; j <= i; j++)
        sum += exp(prob[j] - max);
    for (int64_t j = *first; j <= i; j++)
        prob[j] = exp(prob[j] - max) / sum;
    return max + log(sum);
}

static void forward_head(ember_op_problem *p, const view *v, int64_t sequence, int64_t head, double *prob) {
    for (int64_t i = 0; i < v->t; i++) {
        int64_t first = 0;
        p->buffers[LSE].reference[(sequence * v->h + head) * v->t + i] = probabilities(p, v, sequence, head, i, &first, prob);
        double *out = p->buffers[OUT].reference + ((sequence * v->t + i) * v->h + head) * v->d;
        for (int64_t c = 0; c < v->d; c++)
            out[c] = 0;
        for (int64_t j = first; j <= i; j++) {
            const float *value = row_of(p, v, sequence, j, v->h + v->kv + head / (v->h / v->kv));
            for (int64_t c = 0; c < v->d; c++)
                out[c] += prob[j] * (double)value[c];
        }
    }
}

static void forward_reference(ember_op_problem *p) {
    const view v = view_of(p);
    double *prob = malloc((size_t)v.t * sizeof *prob);
    for (int64_t task = 0; prob && task < v.b * v.h; task++)
        forward_head(p, &v, task / v.h, task % v.h, prob);
    free(prob);
}

/* From ds_ij = p_ij (dp_ij - sum_k p_ik dp_ik), dp_ij = dO_i V_j. */
static void backward_head(ember_op_problem *p, const view *v, int64_t sequence, int64_t head, double *prob, double *dp) {
    const int64_t shared = head / (v->h / v->kv);
    double *rows = p->buffers[D_QKV].reference + sequence * v->t * v->width;
    for (int64_t i = 0; i < v->t; i++) {
        int64_t first = 0;
        (void)probabilities(p, v, sequence, head, i, &first, prob);
        const float *d_out = ember_op_first(p, D_OUT) + ((sequence * v->t + i) * v->h + head) * v->d;
        double mean = 0;
        for (int64_t j = first; j <= i; j++) {
            const float *value = row_of(p, v, sequence, j, v->h + v->kv + shared);
            dp[j] = 0;
            for (int64_t c = 0; c < v->d; c++)
                dp[j] += (double)d_out[c] * (double)value[c];
            mean += prob[j] * dp[j];
        }
        const float *q = row_of(p, v, sequence, i, head);
        double *dq = rows + i * v->width + head * v->d;
        for (int64_t j = first; j <= i; j++) {
            const float *k = row_of(p, v, sequence, j, v->h + shared);
            double *dk = rows + j * v->width + (v->h + shared) * v->d;
            double *dv = rows + j * v->width + (v->h + v->kv + shared) * v->d;
            const double ds = prob[j] * (dp[j] - mean) * v->scale;
            for (int64_t c = 0; c < v->d; c++) {
                dq[c] += ds * (double)k[c];
                dk[c] += ds * (double)q[c];
                dv[c] += prob[j] * (double)d_out[c];
            }
        }
    }
}

static void backward_reference(ember_op_problem *p) {
    const view v = view_of(p);
    double *prob = malloc((size_t)v.t * 2 * sizeof *prob);
    for (int64_t task = 0; prob && task < v.b * v.h; task++)
        backward_head(p, &v, task / v.h, task % v.h, prob, prob + v.t);
    free(prob);
}

/* What forward keeps; d_qkv serves as its output. */
static ember_status keep_lse(ember_op_problem *p) {
    ember_attention_args args = args_of(p);
    args.out = ember_op_f32(p, D_QKV);
    args.lse = p->buffers[LSE_IN].initial;
    EMBER_TRY(p->backend->ops->attention_forward(p->backend, &args));
    memcpy(ember_op_f32(p, LSE_IN), args.lse, (size_t)p->buffers[LSE_IN].n * sizeof(float));
    return EMBER_OK;
}

static ember_status create(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n, bool is_backward) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    const view v = view_of(p);
    p->launch = is_backward ? backward : forward;
    p->reference = is_backward ? backward_reference : forward_reference;
    ember_op_floats(p, EMBER_OP_INPUT, v.b * v.t * v.width, 1.3, 0);
    ember_op_ints(p, v.b * v.t, 0, 1);
    ember_op_floats(p, is_backward ? EMBER_OP_INPUT : EMBER_OP_OUTPUT, v.b * v.t * v.h * v.d, 1, 0);
    ember_op_floats(p, is_backward ? EMBER_OP_INPUT : EMBER_OP_OUTPUT, v.b * v.h * v.t, 0, 0);
    if (is_backward) ember_op_floats(p, EMBER_OP_OUTPUT, v.b * v.t * v.width, 1, 0);
    if (p->status != EMBER_OK) return p->status;
    for (int64_t i = 0; n[5] && i < v.b * v.t; i++) { /* the second sequence is cut elsewhere than the first */
        const int64_t token = i % v.t;
        const int64_t shift = i / v.t * 3 % n[5];
        const int64_t start = (token + shift) / n[5] * n[5] - shift; /* negative: before the sequence */
        ((int32_t *)p->buffers[START].initial)[i] = ember_op_i32(p, START)[i] = (int32_t)start;
    }
    const ember_workspace_shape shape = {.n_tokens = v.b * v.t,
                                         .sequence_length = v.t,
                                         .n_heads = v.h,
                                         .n_kv_heads = v.kv,
                                         .head_dim = v.d,
                                         .hidden = v.h * v.d,
                                         .n_neurons = 1,
                                         .vocab_size = 1,
                                         .compression = 8,
                                         .training = true};
    EMBER_TRY(backend->ops->prepare(backend, &shape));
    return is_backward ? keep_lse(p) : EMBER_OK;
}

static ember_status create_forward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    return create(out, backend, seed, n, false);
}
static ember_status create_backward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    return create(out, backend, seed, n, true);
}

static const int64_t shapes[][6] = {{1, 1, 1, 1, 2, 0},    {2, 7, 2, 1, 6, 0},      {2, 65, 6, 2, 10, 13}, {1, 131, 3, 3, 34, 0},
                                    {3, 64, 4, 1, 16, 64}, {2, 256, 4, 2, 64, 100}, {8, 256, 4, 4, 64, 0}};
#define CREATE_ALL(i)                                       \
    EMBER_OP_CREATE(forward_##i, create_forward, shapes[i]) \
    EMBER_OP_CREATE(backward_##i, create_backward, shapes[i])
CREATE_ALL(0)
CREATE_ALL(1)
CREATE_ALL(2)
CREATE_ALL(3)
CREATE_ALL(4)
CREATE_ALL(5)
CREATE_ALL(6)
/* visible pairs of all heads, elements of the arrays of M H D */
#define ENTRIES(i, text, pairs, d, elements)                                                                                  \
    EMBER_OP_CASE("attention_forward", text, forward_##i, EMBER_OP_TOLERANCE(12, 8), 16.0 * (elements), 4.0 * (pairs) * (d)), \
        EMBER_OP_CASE("attention_backward", text, backward_##i, EMBER_OP_TOLERANCE(24, 8), 32.0 * (elements), 10.0 * (pairs) * (d))

static const ember_op_case items[] = {
    ENTRIES(0, "B 1 T 1 H 1 KV 1 D 2", 1.0, 2.0, 2.0),
    ENTRIES(1, "B 2 T 7 H 2 KV 1 D 6", 112.0, 6.0, 168.0),
    ENTRIES(2, "B 2 T 65 H 6 KV 2 D 10 docs 13", 5460.0, 10.0, 7800.0),
    ENTRIES(3, "B 1 T 131 H 3 KV 3 D 34", 25938.0, 34.0, 13362.0),
    ENTRIES(4, "B 3 T 64 H 4 KV 1 D 16 docs 64", 24960.0, 16.0, 12288.0),
    ENTRIES(5, "B 2 T 256 H 4 KV 2 D 64 docs 100", 103000.0, 64.0, 131072.0),
    ENTRIES(6, "B 8 T 256 H 4 KV 4 D 64", 1052672.0, 64.0, 524288.0),
};

const ember_op_case_list ember_attention_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
