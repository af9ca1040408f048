/* ffn_case.c - problems of the feed-forward block, their check and their cost. */
#include "kernels/cases/ffn_case.h"

#include <math.h>
#include <string.h>

#include "lib/base/philox.h"
#include "lib/base/status.h"

enum { ZONE_BYTES = EMBER_FFN_CASE_ZONE, STREAM = EMBER_STREAM_TENSOR };
static const unsigned char ZONE_FILL = 0xa5;

/* ---- making */

/* Quantile of the standard normal: bisection on erfc, a few dozen steps; ends at +-40. */
static double normal_quantile(double share) {
    double low = -40.0;
    double high = 40.0;
    for (int i = 0; i < 80; i++) {
        const double middle = 0.5 * (low + high);
        if (0.5 * erfc(-middle / sqrt(2.0)) < share) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return 0.5 * (low + high);
}

static ember_status add_input(ember_ffn_case *problem, const float **out, size_t n, double std, uint64_t seed) {
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, n, sizeof(float), "FFN case input"));
    problem->inputs[problem->n_inputs] = block;
    float *values = block;
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)std * ember_philox_normal(seed, (uint64_t)(STREAM + problem->n_inputs), i);
    }
    problem->n_inputs++;
    *out = values;
    return EMBER_OK;
}

static ember_status add_output(ember_ffn_case *problem, void *out, const char *name, size_t bytes, bool overwritten) {
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, bytes + 2 * ZONE_BYTES, 1, "FFN case output"));
    problem->outputs[problem->n_outputs].name = name;
    problem->outputs[problem->n_outputs].block = block;
    problem->outputs[problem->n_outputs].bytes = bytes;
    problem->outputs[problem->n_outputs].overwritten = overwritten;
    problem->n_outputs++;
    void *payload = (unsigned char *)block + ZONE_BYTES;
    memcpy(out, &payload, sizeof payload);
    return EMBER_OK;
}

/* One input of every token is 1 and its gate weight the quantile: the share of the normal that is above 0. */
static void shift_gate(ember_ffn_case *problem, const ember_ffn_case_spec *spec) {
    const int64_t d = spec->shape.hidden;
    float *x = problem->inputs[0];
    float *gate = problem->inputs[spec->shape.kind == EMBER_FFN_GATED ? 2 : 1];
    const float shift = (float)normal_quantile(spec->density);
    for (int64_t t = 0; t < spec->shape.n_tokens; t++)
        x[t * d] = 1.0F;
    for (int64_t j = 0; j < spec->shape.n_neurons; j++)
        gate[j * d] = shift;
}

static void fill_pattern(float *g, const ember_ffn_case_spec *spec) {
    const int64_t h = spec->shape.n_neurons;
    for (int64_t t = 0; t < spec->shape.n_tokens; t++) {
        const int64_t row = t % spec->pattern_rows;
        for (int64_t j = 0; j < h; j++) {
            g[t * h + j] = -fabsf(ember_philox_normal(spec->seed, STREAM + 16, (uint64_t)(t * h + j)));
        }
        for (int64_t k = spec->row_start[row]; k < spec->row_start[row + 1]; k++) {
            const int64_t at = t * h + spec->neurons[k];
            g[at] = -g[at] + 1e-3F;
        }
    }
}

static ember_status make_inputs(ember_ffn_case *problem, const ember_ffn_case_spec *spec) {
    ember_ffn_args *a = &problem->args;
    const size_t rows = (size_t)(spec->shape.n_tokens * spec->shape.hidden);
    const size_t weights = (size_t)(spec->shape.n_neurons * spec->shape.hidden);
    const size_t pairs = (size_t)(spec->shape.n_tokens * spec->shape.n_neurons);
    const double std = 1.0 / sqrt((double)spec->shape.hidden);
    EMBER_TRY(add_input(problem, &a->x, rows, 1.0, spec->seed));
    EMBER_TRY(add_input(problem, &a->up, weights, std, spec->seed));
    if (spec->shape.kind == EMBER_FFN_GATED) EMBER_TRY(add_input(problem, &a->gate, weights, std, spec->seed));
    EMBER_TRY(add_input(problem, &a->down, weights, std, spec->seed));
    if (spec->backward) EMBER_TRY(add_input(problem, &a->dy, rows, 1.0, spec->seed));
    if (spec->given_g || spec->row_start) {
        const float *g = NULL;
        EMBER_TRY(add_input(problem, &g, pairs, 0.0, spec->seed));
        problem->given_g = problem->inputs[problem->n_inputs - 1];
        a->given_g = g;
        if (spec->given_g) {
            memcpy(problem->given_g, spec->given_g, pairs * sizeof *g);
        } else {
            fill_pattern(problem->given_g, spec);
        }
    } else {
        shift_gate(problem, spec);
    }
    if (spec->with_mask) {
        void *block = NULL;
        EMBER_TRY(ember_allocate(&block, (size_t)spec->shape.n_tokens, 1, "FFN case mask"));
        problem->inputs[problem->n_inputs++] = block;
        uint8_t *mask = block;
        for (int64_t t = 0; t < spec->shape.n_tokens; t++)
            mask[t] = t % 5 != 3;
        a->mask = mask;
    }
    return EMBER_OK;
}

static ember_status make_outputs(ember_ffn_case *problem, const ember_ffn_case_spec *spec) {
    ember_ffn_args *a = &problem->args;
    const size_t rows = (size_t)(spec->shape.n_tokens * spec->shape.hidden) * sizeof(float);
    const size_t weights = (size_t)(spec->shape.n_neurons * spec->shape.hidden) * sizeof(float);
    EMBER_TRY(add_output(problem, &a->y, "y", rows, true));
    EMBER_TRY(add_output(problem, &a->fire_count, "fire_count", (size_t)spec->shape.n_neurons * sizeof(uint64_t), false));
    EMBER_TRY(add_output(problem, &a->token_l0, "token_l0", (size_t)spec->shape.n_tokens * sizeof(uint32_t), true));
    a->l0_sum = &problem->l0_sum;
    a->l1_sum = &problem->l1_sum;
    if (!spec->backward) return EMBER_OK;
    EMBER_TRY(add_output(problem, &a->dx, "dx", rows, true));
    if (spec->shape.kind == EMBER_FFN_GATED) EMBER_TRY(add_output(problem, &a->d_gate, "d_gate", weights, false));
    EMBER_TRY(add_output(problem, &a->d_up, "d_up", weights, false));
    return add_output(problem, &a->d_down, "d_down", weights, false);
}

ember_status ember_ffn_case_create(ember_ffn_case **out, ember_backend *backend, const ember_ffn_case_spec *spec) {
    *out = NULL;
    ember_status status = EMBER_OK;
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_ffn_case), "FFN case"));
    ember_ffn_case *problem = block;
    problem->backend = backend;
    problem->shape = spec->shape;
    problem->args.shape = spec->shape;
    problem->args.l1_scale = spec->l1_scale;
    EMBER_TRY_GOTO(make_inputs(problem, spec), failed);
    EMBER_TRY_GOTO(make_outputs(problem, spec), failed);
    EMBER_TRY_GOTO(ember_ffn_case_plan(problem, EMBER_MODE_DENSE, 0), failed);
    if (spec->shape.activation != EMBER_SILU) {
        EMBER_TRY_GOTO(ember_ffn_case_plan(problem, EMBER_MODE_TWELL, spec->spill_capacity), failed);
    }
    *out = problem;
    return EMBER_OK;
failed:
    ember_ffn_case_free(problem);
    return status;
}

void ember_ffn_case_free(ember_ffn_case *problem) {
    if (!problem) return;
    for (int i = 0; i < problem->n_inputs; i++)
        ember_release(problem->inputs[i]);
    for (int i = 0; i < problem->n_outputs; i++)
        ember_release(problem->outputs[i].block);
    for (int mode = 0; mode < 2; mode++)
        ember_release(problem->saved[mode].block);
    ember_release(problem);
}

/* ---- running */

ember_status ember_ffn_case_plan(ember_ffn_case *problem, ember_ffn_mode mode, int64_t spill_capacity) {
    ember_ffn_saved *saved = &problem->saved[mode];
    const ember_ffn_shape *shape = &problem->shape;
    ember_release(saved->block);
    memset(saved, 0, sizeof *saved);
    saved->spill_capacity = spill_capacity;
    saved->block_bytes = problem->backend->ops->ffn_saved_bytes(shape, mode, spill_capacity);
    EMBER_TRY(ember_allocate(&saved->block, saved->block_bytes + 2 * ZONE_BYTES, 1, "FFN saved state"));
    memset((unsigned char *)saved->block + saved->block_bytes, ZONE_FILL, 2 * ZONE_BYTES);
    const ember_workspace_shape workspace = {.n_tokens = shape->n_tokens,
                                             .sequence_length = 1,
                                             .hidden = shape->hidden,
                                             .n_neurons = shape->n_neurons,
                                             .vocab_size = 1,
                                             .n_heads = 1,
                                             .n_kv_heads = 1,
                                             .head_dim = 2,
                                             .ffn_kind = shape->kind,
                                             .compression = shape->compression,
                                             .spill_capacity = spill_capacity,
                                             .training = problem->args.dy != NULL};
    return problem->backend->ops->prepare(problem->backend, &workspace);
}

void ember_ffn_case_reset(ember_ffn_case *problem, ember_ffn_mode mode) {
    for (int i = 0; i < problem->n_outputs; i++) {
        unsigned char *block = problem->outputs[i].block;
        const size_t bytes = problem->outputs[i].bytes;
        memset(block, ZONE_FILL, ZONE_BYTES);
        memset(block + ZONE_BYTES, problem->outputs[i].overwritten ? 0xff : 0, bytes); /* 0xffffffff is a NaN */
        memset(block + ZONE_BYTES + bytes, ZONE_FILL, ZONE_BYTES);
    }
    ember_ffn_saved *saved = &problem->saved[mode];
    memset(saved->block, 0xff, saved->block_bytes);
    problem->l0_sum = 0;
    problem->l1_sum = 0.0;
}

static bool is_zone(const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != ZONE_FILL) return false;
    }
    return true;
}

const char *ember_ffn_case_broken_zone(const ember_ffn_case *problem) {
    for (int i = 0; i < problem->n_outputs; i++) {
        const unsigned char *block = problem->outputs[i].block;
        if (!is_zone(block, ZONE_BYTES) || !is_zone(block + ZONE_BYTES + problem->outputs[i].bytes, ZONE_BYTES)) {
            return problem->outputs[i].name;
        }
    }
    for (int mode = 0; mode < 2; mode++) {
        const ember_ffn_saved *saved = &problem->saved[mode];
        if (saved->block && !is_zone((const unsigned char *)saved->block + saved->block_bytes, (size_t)2 * ZONE_BYTES))
            return "saved state";
    }
    return NULL;
}

ember_status ember_ffn_case_forward(ember_ffn_case *problem, ember_ffn_mode mode) {
    ember_ffn_args args = problem->args;
    args.mode = mode;
    args.saved = &problem->saved[mode];
    return problem->backend->ops->ffn_forward(problem->backend, &args);
}

ember_status ember_ffn_case_backward(ember_ffn_case *problem, ember_ffn_mode mode) {
    ember_ffn_args args = problem->args;
    args.mode = mode;
    args.saved = &problem->saved[mode];
    return problem->backend->ops->ffn_backward(problem->backend, &args);
}

ember_status ember_ffn_case_run(ember_ffn_case *problem, ember_ffn_mode mode) {
    ember_ffn_case_reset(problem, mode);
    ember_status status = ember_ffn_case_forward(problem, mode);
    if (status == EMBER_E_CAPACITY) {
        EMBER_TRY(ember_ffn_case_plan(problem, mode, problem->saved[mode].spill_count));
        ember_ffn_case_reset(problem, mode);
        status = ember_ffn_case_forward(problem, mode);
    }
    EMBER_TRY(status);
    return problem->args.dy ? ember_ffn_case_backward(problem, mode) : EMBER_OK;
}

/* ---- distance to double */

/* `terms`: the longest chain of roundings behind an element. */
static void compare(ember_ffn_distance *worst, const char *name, const float *values, const double *reference, const double *size,
                    int64_t rows, int64_t columns, int64_t terms) {
    const double unit = ldexp(1.0, -24) * sqrt((double)terms);
    for (int64_t i = 0; i < rows * columns; i++) {
        const double value = (double)values[i];
        double distance = fabs(value - reference[i]) / (unit * size[i] + 1e-37); /* a sum without terms is exactly 0 */
        if (isnan(reference[i])) distance = isnan(value) ? 0.0 : INFINITY;
        if (isnan(value) != isnan(reference[i])) distance = INFINITY;
        if (distance <= worst->worst) continue;
        *worst = (ember_ffn_distance){
            .worst = distance, .output = name, .row = i / columns, .column = i % columns, .value = value, .reference = reference[i]};
    }
}

ember_ffn_distance ember_ffn_case_distance(const ember_ffn_case *problem, const ember_ffn_reference *r) {
    const ember_ffn_args *a = &problem->args;
    const int64_t m = problem->shape.n_tokens;
    const int64_t d = problem->shape.hidden;
    const int64_t h = problem->shape.n_neurons;
    ember_ffn_distance worst = {.output = "none"};
    compare(&worst, "y", a->y, r->y, r->y_size, m, d, d + h);
    if (!a->dy) return worst;
    compare(&worst, "dx", a->dx, r->dx, r->dx_size, m, d, d + 2 * h);
    compare(&worst, "d_up", a->d_up, r->d_up, r->d_up_size, h, d, d + m);
    compare(&worst, "d_down", a->d_down, r->d_down, r->d_down_size, h, d, d + m);
    if (a->d_gate) compare(&worst, "d_gate", a->d_gate, r->d_gate, r->d_gate_size, h, d, 2 * d + m);
    return worst;
}

double ember_ffn_case_flop(const ember_ffn_case *problem, ember_ffn_mode mode) {
    const ember_ffn_shape *shape = &problem->shape;
    const double product_flop = 2.0 * (double)shape->n_tokens * (double)shape->hidden * (double)shape->n_neurons;
    const bool gated = shape->kind == EMBER_FFN_GATED;
    const double forward = gated ? 3.0 : 2.0;
    const double n_products = problem->args.dy ? 3.0 * forward : forward;
    if (mode == EMBER_MODE_DENSE) return n_products * product_flop;
    return product_flop + (n_products - 1.0) * 2.0 * (double)problem->saved[mode].nnz * (double)shape->hidden;
}

/* ---- the table of `ember bench ops` */

typedef struct bench_problem {
    ember_ffn_case *problem;
    ember_ffn_mode mode;
    bool backward;
} bench_problem;

static void free_bench(void *block) {
    bench_problem *bench = block;
    if (!bench) return;
    ember_ffn_case_free(bench->problem);
    ember_release(bench);
}

static ember_status create_bench(void **out, ember_backend *backend, uint64_t seed, ember_ffn_mode mode, bool backward) {
    *out = NULL;
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(bench_problem), "FFN bench"));
    bench_problem *bench = block;
    bench->mode = mode;
    bench->backward = backward;
    const ember_ffn_case_spec spec = {
        .shape = {.n_tokens = 256, .hidden = 256, .n_neurons = 1024, .compression = 8}, .density = 0.02, .seed = seed, .backward = true};
    ember_status status = ember_ffn_case_create(&bench->problem, backend, &spec);
    if (status == EMBER_OK) status = ember_ffn_case_run(bench->problem, mode);
    if (status != EMBER_OK) {
        free_bench(bench);
        return status;
    }
    *out = bench;
    return EMBER_OK;
}

static ember_status create_dense_forward(void **out, ember_backend *backend, uint64_t seed) {
    return create_bench(out, backend, seed, EMBER_MODE_DENSE, false);
}
static ember_status create_dense_backward(void **out, ember_backend *backend, uint64_t seed) {
    return create_bench(out, backend, seed, EMBER_MODE_DENSE, true);
}
static ember_status create_twell_forward(void **out, ember_backend *backend, uint64_t seed) {
    return create_bench(out, backend, seed, EMBER_MODE_TWELL, false);
}
static ember_status create_twell_backward(void **out, ember_backend *backend, uint64_t seed) {
    return create_bench(out, backend, seed, EMBER_MODE_TWELL, true);
}

static ember_status run_bench(void *block) {
    bench_problem *bench = block;
    return bench->backward ? ember_ffn_case_backward(bench->problem, bench->mode) : ember_ffn_case_forward(bench->problem, bench->mode);
}

/* The gate values that the dense product stored become the given ones, so that support and reference agree. */
static ember_status check_bench(void *block, double *worst) {
    bench_problem *bench = block;
    ember_ffn_case *problem = bench->problem;
    ember_ffn_args *a = &problem->args;
    const size_t pairs = (size_t)(problem->shape.n_tokens * problem->shape.n_neurons);
    ember_ffn_reference reference = {0};
    void *g = NULL;
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_ffn_reference_create(&reference, &problem->shape), done);
    EMBER_TRY_GOTO(ember_allocate(&g, pairs, sizeof(float), "FFN gate values"), done);
    EMBER_TRY_GOTO(ember_ffn_case_run(problem, EMBER_MODE_DENSE), done);
    memcpy(g, problem->saved[EMBER_MODE_DENSE].block, pairs * sizeof(float)); /* g comes first */
    a->given_g = g;
    EMBER_TRY_GOTO(ember_ffn_case_run(problem, bench->mode), done);
    ember_ffn_reference_run(&reference, a);
    *worst = ember_ffn_case_distance(problem, &reference).worst;
done:
    a->given_g = NULL;
    ember_release(g);
    ember_ffn_reference_free(&reference);
    return status;
}

#define PRODUCT_FLOP (2.0 * 256 * 256 * 1024)
#define WEIGHT_BYTES (4.0 * 256 * 1024)
static const ember_op_case items[] = {
    {"ffn_dense_forward", "M 256 d 256 h 1024", create_dense_forward, free_bench, run_bench, check_bench, EMBER_FFN_TOLERANCE,
     3 * WEIGHT_BYTES, 3 * PRODUCT_FLOP},
    {"ffn_dense_backward", "M 256 d 256 h 1024", create_dense_backward, free_bench, run_bench, check_bench, EMBER_FFN_TOLERANCE,
     9 * WEIGHT_BYTES, 6 * PRODUCT_FLOP},
    {"ffn_twell_forward", "M 256 d 256 h 1024 2 %", create_twell_forward, free_bench, run_bench, check_bench, EMBER_FFN_TOLERANCE,
     3 * WEIGHT_BYTES, 1.04 * PRODUCT_FLOP},
    {"ffn_twell_backward", "M 256 d 256 h 1024 2 %", create_twell_backward, free_bench, run_bench, check_bench, EMBER_FFN_TOLERANCE,
     9 * WEIGHT_BYTES, 0.12 * PRODUCT_FLOP},
};
const ember_op_case_list ember_ffn_cases = {items, (int)(sizeof items / sizeof items[0])};
