/* embedding_case.c - embedding_forward, embedding_backward. */
#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: M, V, d. Buffers: forward table, y, ids; backward dy, d_table, ids. */
enum { FROM, TO, IDS };

static ember_status forward(ember_op_problem *p) {
    const int64_t *n = p->dims;
    return p->backend->ops->embedding_forward(p->backend, ember_tensor_2d(ember_op_f32(p, TO), EMBER_F32, n[0], n[2]),
                                              ember_tensor_2d(ember_op_f32(p, FROM), EMBER_F32, n[1], n[2]), ember_op_i32(p, IDS));
}

static ember_status backward(ember_op_problem *p) {
    const int64_t *n = p->dims;
    return p->backend->ops->embedding_backward(p->backend, ember_tensor_2d(ember_op_f32(p, TO), EMBER_F32, n[1], n[2]),
                                               ember_tensor_2d(ember_op_f32(p, FROM), EMBER_F32, n[0], n[2]), ember_op_i32(p, IDS));
}

static void forward_reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    for (int64_t i = 0; i < n[0]; i++) {
        for (int64_t j = 0; j < n[2]; j++) {
            p->buffers[TO].reference[i * n[2] + j] = (double)ember_op_first(p, FROM)[ember_op_i32(p, IDS)[i] * n[2] + j];
        }
    }
}

static void backward_reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    double *rows = p->buffers[TO].reference;
    for (int64_t i = 0; i < n[1] * n[2]; i++)
        rows[i] = (double)ember_op_first(p, TO)[i];
    for (int64_t i = 0; i < n[0]; i++) {
        for (int64_t j = 0; j < n[2]; j++)
            rows[ember_op_i32(p, IDS)[i] * n[2] + j] += (double)ember_op_first(p, FROM)[i * n[2] + j];
    }
}

static ember_status create_forward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    (*out)->launch = forward;
    (*out)->reference = forward_reference;
    ember_op_floats(*out, EMBER_OP_INPUT, n[1] * n[2], 1, 0);
    ember_op_floats(*out, EMBER_OP_OUTPUT, n[0] * n[2], 1, 0);
    ember_op_ints(*out, n[0], 0, n[1]);
    return (*out)->status;
}

static ember_status create_backward(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    (*out)->launch = backward;
    (*out)->reference = backward_reference;
    ember_op_floats(*out, EMBER_OP_INPUT, n[0] * n[2], 1, 0);
    ember_op_floats(*out, EMBER_OP_UPDATED, n[1] * n[2], 1, 0);
    ember_op_ints(*out, n[0], 0, n[1]);
    return (*out)->status;
}

static const int64_t shapes[][3] = {{1, 1, 1}, {37, 3, 33}, {1024, 259, 256}};
#define CREATE_ALL(i)                                       \
    EMBER_OP_CREATE(forward_##i, create_forward, shapes[i]) \
    EMBER_OP_CREATE(backward_##i, create_backward, shapes[i])
CREATE_ALL(0)
CREATE_ALL(1)
CREATE_ALL(2)
#define ENTRIES(i, text, m, d, root)                                                  \
    EMBER_OP_CASE("embedding_forward", text, forward_##i, 0.0, 8.0 * (m) * (d), 0.0), \
        EMBER_OP_CASE("embedding_backward", text, backward_##i, EMBER_OP_TOLERANCE(2, root), 12.0 * (m) * (d), (m) * (d))

static const ember_op_case items[] = {
    ENTRIES(0, "M 1 V 1 d 1", 1.0, 1.0, 1),
    ENTRIES(1, "M 37 V 3 d 33", 37.0, 33.0, 4),
    ENTRIES(2, "M 1024 V 259 d 256", 1024.0, 256.0, 4),
};

const ember_op_case_list ember_embedding_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
