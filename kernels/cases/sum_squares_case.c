/* sum_squares_case.c - sum_squares, and add: the two passes over flat arrays. */
#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: n */
enum { X, OUT };

static ember_status sum_squares(ember_op_problem *p) {
    return p->backend->ops->sum_squares(p->backend, p->buffers[OUT].data, ember_op_f32(p, X), p->dims[0]);
}

static void sum_squares_reference(ember_op_problem *p) {
    long double sum = (long double)((double *)p->buffers[OUT].initial)[0];
    for (int64_t i = 0; i < p->dims[0]; i++)
        sum += (long double)ember_op_first(p, X)[i] * (long double)ember_op_first(p, X)[i];
    p->buffers[OUT].reference[0] = (double)sum;
}

static ember_status create_sum_squares(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    (*out)->launch = sum_squares;
    (*out)->reference = sum_squares_reference;
    ember_op_floats(*out, EMBER_OP_INPUT, n[0], 1, 0);
    ember_op_doubles(*out, EMBER_OP_UPDATED, 1);
    return (*out)->status;
}

static ember_status add(ember_op_problem *p) {
    return p->backend->ops->add(p->backend, ember_op_f32(p, OUT), ember_op_f32(p, X), p->dims[0]);
}

static void add_reference(ember_op_problem *p) {
    for (int64_t i = 0; i < p->dims[0]; i++) {
        p->buffers[OUT].reference[i] = (double)ember_op_first(p, OUT)[i] + (double)ember_op_first(p, X)[i];
    }
}

static ember_status create_add(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    (*out)->launch = add;
    (*out)->reference = add_reference;
    ember_op_floats(*out, EMBER_OP_INPUT, n[0], 1, 0);
    ember_op_floats(*out, EMBER_OP_UPDATED, n[0], 1, 0);
    return (*out)->status;
}

static const int64_t shapes[][1] = {{1}, {63}, {40009}, {1 << 20}};
#define CREATE_ALL(i)                                               \
    EMBER_OP_CREATE(sum_squares_##i, create_sum_squares, shapes[i]) \
    EMBER_OP_CREATE(add_##i, create_add, shapes[i])
CREATE_ALL(0)
CREATE_ALL(1)
CREATE_ALL(2)
CREATE_ALL(3)
#define SUM(i, text, n) EMBER_OP_CASE("sum_squares", text, sum_squares_##i, 1e-13, 4.0 * (n), 2.0 * (n)) /* in double */
#define ADD(i, text, n) EMBER_OP_CASE("add", text, add_##i, EMBER_OP_TOLERANCE(1, 1), 12.0 * (n), (n))

static const ember_op_case sum_items[] = {SUM(0, "n 1", 1.0), SUM(1, "n 63", 63.0), SUM(2, "n 40009", 40009.0),
                                          SUM(3, "n 1048576", 1048576.0)};
static const ember_op_case add_items[] = {ADD(0, "n 1", 1.0), ADD(1, "n 63", 63.0), ADD(2, "n 40009", 40009.0),
                                          ADD(3, "n 1048576", 1048576.0)};

const ember_op_case_list ember_sum_squares_cases = {.items = sum_items, .n = (int)(sizeof sum_items / sizeof sum_items[0])};
const ember_op_case_list ember_add_cases = {.items = add_items, .n = (int)(sizeof add_items / sizeof add_items[0])};
