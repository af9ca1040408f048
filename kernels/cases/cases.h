/* cases.h - one case an operation: a problem of fixed shape, the operation under test, its
 * reference in double, its cost. Correctness tests and `ember bench ops` run the same cases.
 *
 * To add an operation: define its cases in <op>_case.c, export the list, name it in cases.c. */
#ifndef EMBER_CASES_H
#define EMBER_CASES_H

#include "kernels/ops.h"

typedef struct ember_op_case {
    const char *name;  /* stem of the operation and direction, "rmsnorm_backward" */
    const char *shape; /* "M 1024 d 512", for people */
    /* Inputs from `seed`, outputs, and the backend's scratch prepared. */
    ember_status (*create)(void **problem, ember_backend *backend, uint64_t seed);
    void (*free)(void *problem); /* NULL is fine */
    /* The operation once; this is what is timed. Outputs that accumulate may keep growing. */
    ember_status (*run)(void *problem);
    /* Clears outputs, runs once, compares with double: *worst = largest |difference| / scale over all
     * outputs (infinite where a NaN is on one side only), `scale` the case's own magnitude of the output. */
    ember_status (*check)(void *problem, double *worst);
    double tolerance; /* of *worst: k * 2^-24 * sqrt(reduction length) */
    double bytes;     /* read and written at least, by one run */
    double flop;      /* of one run */
} ember_op_case;

typedef struct ember_op_case_list {
    const ember_op_case *items;
    int n;
} ember_op_case_list;

/* Every case of every operation; NULL past the last. */
const ember_op_case *ember_op_case_at(int index);

/* The lists, one a file. */
extern const ember_op_case_list ember_ffn_cases;
extern const ember_op_case_list ember_linear_cases;
extern const ember_op_case_list ember_embedding_cases;
extern const ember_op_case_list ember_rmsnorm_cases;
extern const ember_op_case_list ember_qknorm_cases;
extern const ember_op_case_list ember_rope_cases;
extern const ember_op_case_list ember_attention_cases;
extern const ember_op_case_list ember_attention_cached_cases;
extern const ember_op_case_list ember_cross_entropy_cases;
extern const ember_op_case_list ember_adamw_cases;
extern const ember_op_case_list ember_sum_squares_cases;
extern const ember_op_case_list ember_add_cases;

#endif
