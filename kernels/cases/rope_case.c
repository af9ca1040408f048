/* rope_case.c - rope, forward and backward. */
#include <math.h>

#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: M, H, KV, D, backward */
enum { QKV, POSITIONS, COSINE, SINE };
enum { N_POSITIONS = 97 };

static ember_status launch(ember_op_problem *p) {
    const ember_rope_args args = {.n_tokens = p->dims[0],
                                  .n_heads = p->dims[1],
                                  .n_kv_heads = p->dims[2],
                                  .head_dim = p->dims[3],
                                  .qkv = ember_op_f32(p, QKV),
                                  .positions = ember_op_i32(p, POSITIONS),
                                  .cos_table = ember_op_f32(p, COSINE),
                                  .sin_table = ember_op_f32(p, SINE),
                                  .backward = p->dims[4] != 0};
    return p->backend->ops->rope(p->backend, &args);
}

static void reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const int64_t half = n[3] / 2;
    const int64_t heads = n[1] + 2 * n[2];
    const double sign = n[4] ? -1 : 1;
    for (int64_t i = 0; i < n[0] * heads * n[3]; i++)
        p->buffers[QKV].reference[i] = (double)ember_op_first(p, QKV)[i];
    for (int64_t i = 0; i < n[0]; i++) {
        for (int64_t head = 0; head < n[1] + n[2]; head++) {
            for (int64_t j = 0; j < half; j++) {
                const int64_t at = (i * heads + head) * n[3] + j;
                const int64_t angle = ember_op_i32(p, POSITIONS)[i] * half + j;
                const double c = (double)ember_op_first(p, COSINE)[angle];
                const double s = sign * (double)ember_op_first(p, SINE)[angle];
                const double x = (double)ember_op_first(p, QKV)[at];
                const double y = (double)ember_op_first(p, QKV)[at + half];
                p->buffers[QKV].reference[at] = x * c - y * s;
                p->buffers[QKV].reference[at + half] = y * c + x * s;
            }
        }
    }
}

static ember_status create(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = launch;
    p->reference = reference;
    ember_op_floats(p, EMBER_OP_UPDATED, n[0] * (n[1] + 2 * n[2]) * n[3], 1, 0);
    ember_op_ints(p, n[0], 0, N_POSITIONS);
    ember_op_floats(p, EMBER_OP_INPUT, N_POSITIONS * n[3] / 2, 0, 0);
    ember_op_floats(p, EMBER_OP_INPUT, N_POSITIONS * n[3] / 2, 0, 0);
    if (p->status != EMBER_OK) return p->status;
    const int64_t half = n[3] / 2;
    for (int64_t i = 0; i < N_POSITIONS * half; i++) {
        const double angle = (double)(i / half) * pow(10000.0, -2.0 * (double)(i % half) / (double)n[3]);
        ((float *)p->buffers[COSINE].initial)[i] = ember_op_f32(p, COSINE)[i] = (float)cos(angle);
        ((float *)p->buffers[SINE].initial)[i] = ember_op_f32(p, SINE)[i] = (float)sin(angle);
    }
    return EMBER_OK;
}

static const int64_t shapes[][5] = {{1, 1, 1, 2, 0}, {7, 3, 1, 10, 1}, {33, 4, 2, 34, 0}, {512, 8, 2, 64, 0}, {512, 8, 2, 64, 1}};
EMBER_OP_CREATE(create_0, create, shapes[0])
EMBER_OP_CREATE(create_1, create, shapes[1])
EMBER_OP_CREATE(create_2, create, shapes[2])
EMBER_OP_CREATE(create_3, create, shapes[3])
EMBER_OP_CREATE(create_4, create, shapes[4])
#define ENTRY(i, op, text, elements) EMBER_OP_CASE(op, text, create_##i, EMBER_OP_TOLERANCE(4, 1), 8.0 * (elements), 3.0 * (elements))

static const ember_op_case items[] = {
    ENTRY(0, "rope_forward", "M 1 H 1 KV 1 D 2", 4.0),          ENTRY(1, "rope_backward", "M 7 H 3 KV 1 D 10", 280.0),
    ENTRY(2, "rope_forward", "M 33 H 4 KV 2 D 34", 6732.0),     ENTRY(3, "rope_forward", "M 512 H 8 KV 2 D 64", 327680.0),
    ENTRY(4, "rope_backward", "M 512 H 8 KV 2 D 64", 327680.0),
};

const ember_op_case_list ember_rope_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
