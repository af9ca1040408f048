/* adamw_case.c - adamw. */
#include <math.h>

#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: n, step */
enum { PARAM, EXP_AVG, EXP_AVG_SQ, GRAD };

static ember_adamw_args args_of(const ember_op_problem *p) {
    return (ember_adamw_args){.n = p->dims[0],
                              .param = ember_op_f32(p, PARAM),
                              .exp_avg = ember_op_f32(p, EXP_AVG),
                              .exp_avg_sq = ember_op_f32(p, EXP_AVG_SQ),
                              .grad = ember_op_f32(p, GRAD),
                              .grad_scale = 0.37,
                              .lr = 3e-3,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .weight_decay = 0.1,
                              .step = p->dims[1]};
}

static ember_status launch(ember_op_problem *p) {
    const ember_adamw_args args = args_of(p);
    return p->backend->ops->adamw(p->backend, &args);
}

static void reference(ember_op_problem *p) {
    const ember_adamw_args a = args_of(p);
    for (int64_t i = 0; i < a.n; i++) {
        const double g = (double)ember_op_first(p, GRAD)[i] * a.grad_scale;
        const double m = a.beta1 * (double)ember_op_first(p, EXP_AVG)[i] + (1 - a.beta1) * g;
        const double v = a.beta2 * (double)ember_op_first(p, EXP_AVG_SQ)[i] + (1 - a.beta2) * g * g;
        const double m_hat = m / (1 - pow(a.beta1, (double)a.step));
        const double v_hat = v / (1 - pow(a.beta2, (double)a.step));
        const double decayed = (double)ember_op_first(p, PARAM)[i] * (1 - a.lr * a.weight_decay);
        p->buffers[PARAM].reference[i] = decayed - a.lr * m_hat / (sqrt(v_hat) + a.eps);
        p->buffers[EXP_AVG].reference[i] = m;
        p->buffers[EXP_AVG_SQ].reference[i] = v;
    }
}

static ember_status create(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = launch;
    p->reference = reference;
    const bool first = n[1] == 1; /* moments are zero then */
    ember_op_floats(p, EMBER_OP_UPDATED, n[0], 0.05, 0);
    ember_op_floats(p, EMBER_OP_UPDATED, n[0], first ? 0 : 0.01, 0);
    ember_op_floats(p, EMBER_OP_UPDATED, n[0], first ? 0 : 0.01, 0);
    ember_op_floats(p, EMBER_OP_INPUT, n[0], 0.1, 0);
    if (p->status != EMBER_OK) return p->status;
    for (int64_t i = 0; i < n[0]; i++) { /* second moments are not negative */
        const float v = ember_op_f32(p, EXP_AVG_SQ)[i] * ember_op_f32(p, EXP_AVG_SQ)[i];
        ((float *)p->buffers[EXP_AVG_SQ].initial)[i] = ember_op_f32(p, EXP_AVG_SQ)[i] = v;
    }
    return EMBER_OK;
}

static const int64_t shapes[][2] = {{1, 1}, {4099, 1}, {131, 7}, {1 << 18, 1000}};
EMBER_OP_CREATE(create_0, create, shapes[0])
EMBER_OP_CREATE(create_1, create, shapes[1])
EMBER_OP_CREATE(create_2, create, shapes[2])
EMBER_OP_CREATE(create_3, create, shapes[3])
#define ENTRY(i, text, n) EMBER_OP_CASE("adamw", text, create_##i, EMBER_OP_TOLERANCE(8, 1), 28.0 * (n), 14.0 * (n))

static const ember_op_case items[] = {
    ENTRY(0, "n 1 step 1", 1.0),
    ENTRY(1, "n 4099 step 1", 4099.0),
    ENTRY(2, "n 131 step 7", 131.0),
    ENTRY(3, "n 262144 step 1000", 262144.0),
};

const ember_op_case_list ember_adamw_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
