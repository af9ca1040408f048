/* cases.c - the table of all operation cases. */
#include "kernels/cases/cases.h"

static const ember_op_case_list *const lists[] = {
    &ember_ffn_cases,           &ember_linear_cases, &ember_embedding_cases,   &ember_rmsnorm_cases,
    &ember_qknorm_cases,        &ember_rope_cases,   &ember_attention_cases,   &ember_attention_cached_cases,
    &ember_cross_entropy_cases, &ember_adamw_cases,  &ember_sum_squares_cases, &ember_add_cases,
};

const ember_op_case *ember_op_case_at(int index) {
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (index < lists[i]->n) return &lists[i]->items[index];
        index -= lists[i]->n;
    }
    return NULL;
}
