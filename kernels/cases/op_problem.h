/* op_problem.h - what every case of an operation shares: its buffers between red zones, their random
 * inputs, their references in double, and the comparison. */
#ifndef EMBER_OP_PROBLEM_H
#define EMBER_OP_PROBLEM_H

#include "kernels/cases/cases.h"

typedef enum ember_op_buffer_kind {
    EMBER_OP_INPUT = 0,   /* must come out unchanged */
    EMBER_OP_OUTPUT = 1,  /* NaN before a run */
    EMBER_OP_UPDATED = 2, /* added to, or changed in place: its first value is restored before a run */
} ember_op_buffer_kind;

enum { EMBER_OP_MAX_BUFFERS = 12, EMBER_OP_RED_ZONE = 256 };

typedef struct ember_op_buffer {
    ember_op_buffer_kind kind;
    int64_t n;
    size_t element_bytes;
    void *data;        /* inside `block`, red zones on both sides */
    void *initial;     /* first value; NULL for outputs */
    double *reference; /* [n] of outputs and updated buffers, filled by the case's reference */
    unsigned char *block;
} ember_op_buffer;

typedef struct ember_op_problem ember_op_problem;
struct ember_op_problem {
    ember_backend *backend;
    const int64_t *dims; /* the case's shape */
    uint64_t seed;
    ember_status status; /* of building: the first failure stays */
    bool has_reference;
    int n_buffers;
    ember_op_buffer buffers[EMBER_OP_MAX_BUFFERS];
    ember_status (*launch)(ember_op_problem *problem);
    void (*reference)(ember_op_problem *problem); /* from `initial` of the buffers to `reference` */
};

/* Building: each call adds the next buffer. Values are offset + amplitude * normal. */
EMBER_CHECKED ember_status ember_op_problem_create(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *dims);
void ember_op_floats(ember_op_problem *problem, ember_op_buffer_kind kind, int64_t n, double amplitude, double offset);
/* Integers in [low, high). */
void ember_op_ints(ember_op_problem *problem, int64_t n, int64_t low, int64_t high);
void ember_op_doubles(ember_op_problem *problem, ember_op_buffer_kind kind, int64_t n);

/* The three entries of ember_op_case. */
void ember_op_problem_free(void *problem);
EMBER_CHECKED ember_status ember_op_problem_run(void *problem);
EMBER_CHECKED ember_status ember_op_problem_check(void *problem, double *worst);

/* Outputs to NaN, updated buffers to their first value, then one run. */
EMBER_CHECKED ember_status ember_op_problem_fresh_run(ember_op_problem *problem);
/* EMBER_E_CORRUPT when a red zone or an input was written. */
EMBER_CHECKED ember_status ember_op_problem_guards(const ember_op_problem *problem);

static inline float *ember_op_f32(const ember_op_problem *problem, int buffer) { return problem->buffers[buffer].data; }
static inline int32_t *ember_op_i32(const ember_op_problem *problem, int buffer) { return problem->buffers[buffer].data; }
static inline const float *ember_op_first(const ember_op_problem *problem, int buffer) { return problem->buffers[buffer].initial; }

/* One create function of a shape table: EMBER_OP_CREATE(create_3, create, shapes[3]) */
#define EMBER_OP_CREATE(name, function, dims)                                     \
    static ember_status name(void **out, ember_backend *backend, uint64_t seed) { \
        return function((ember_op_problem **)out, backend, seed, dims);           \
    }
#define EMBER_OP_CASE(op, text, create_function, tolerance_, bytes_, flop_)                                               \
    {                                                                                                                     \
        .name = op, .shape = text, .create = create_function, .free = ember_op_problem_free, .run = ember_op_problem_run, \
        .check = ember_op_problem_check, .tolerance = tolerance_, .bytes = bytes_, .flop = flop_                          \
    }
/* k * ulp * sqrt(n) */
#define EMBER_OP_TOLERANCE(k, root_n) ((k)*5.9604644775390625e-8 * (root_n))

#endif
