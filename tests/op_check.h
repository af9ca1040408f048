/* op_check.h - the checks that every operation's cases go through: against the reference in double,
 * at every instruction set, with 1, 2 and 4 threads, twice; bits may depend on neither. */
#ifndef EMBER_TESTS_OP_CHECK_H
#define EMBER_TESTS_OP_CHECK_H

#include "kernels/cases/op_problem.h"
#include "kernels/cpu/backend_cpu.h"
#include "tests/check.h"

static inline int64_t op_outputs_bytes(const ember_op_problem *problem) {
    size_t bytes = 0;
    for (int i = 0; i < problem->n_buffers; i++) {
        if (problem->buffers[i].kind != EMBER_OP_INPUT) bytes += (size_t)problem->buffers[i].n * problem->buffers[i].element_bytes;
    }
    return (int64_t)bytes;
}

static inline void op_copy_outputs(const ember_op_problem *problem, unsigned char *to) {
    for (int i = 0; i < problem->n_buffers; i++) {
        const ember_op_buffer *buffer = &problem->buffers[i];
        if (buffer->kind == EMBER_OP_INPUT) continue;
        memcpy(to, buffer->data, (size_t)buffer->n * buffer->element_bytes);
        to += (size_t)buffer->n * buffer->element_bytes;
    }
}

static inline void op_check_case(const ember_op_case *item, ember_cpu_isa isa) {
    static const int thread_counts[] = {1, 1, 2, 4};
    unsigned char *first = NULL;
    unsigned char *now = NULL;
    for (size_t run = 0; run < sizeof thread_counts / sizeof thread_counts[0]; run++) {
        ember_backend *backend = NULL;
        void *problem = NULL;
        check_ok(ember_cpu_backend_create(&backend, thread_counts[run]));
        ember_cpu_set_isa(backend, isa);
        check_ok(item->create(&problem, backend, 7));
        double worst = 0;
        const size_t bytes = (size_t)op_outputs_bytes(problem);
        if (run == 0) {
            check_ok(item->check(problem, &worst));
            print_message("%-24s %-34s %-6s worst %.2e of %.2e\n", item->name, item->shape, ember_cpu_isa_name(isa), worst,
                          item->tolerance);
            if (!(worst <= item->tolerance)) {
                fail_msg("%s, %s, %s: off by %g, allowed %g", item->name, item->shape, ember_cpu_isa_name(isa), worst, item->tolerance);
            }
            first = malloc(bytes + 1);
            now = malloc(bytes + 1);
            assert_non_null(first);
            assert_non_null(now);
            op_copy_outputs(problem, first);
        } else {
            check_ok(ember_op_problem_fresh_run(problem));
            check_ok(ember_op_problem_guards(problem));
            op_copy_outputs(problem, now);
            if (memcmp(first, now, bytes) != 0) {
                fail_msg("%s, %s, %s: other bits with %d threads", item->name, item->shape, ember_cpu_isa_name(isa), thread_counts[run]);
            }
        }
        item->free(problem);
        ember_backend_free(backend);
    }
    free(first);
    free(now);
}

/* Every case of a list, at every instruction set that this processor has. */
static inline void op_check_list(const ember_op_case_list *list) {
    assert_true(list->n > 0);
    for (int i = 0; i < list->n; i++) {
        for (int isa = EMBER_ISA_PLAIN; isa <= (int)ember_cpu_isa_best(); isa++)
            op_check_case(&list->items[i], (ember_cpu_isa)isa);
    }
}

#endif
