/* backend_cpu.h - what the CPU operations share: instruction set, threads, planned scratch.
 *
 * Scratch is one block: a shared part, then a part for every thread. Each operation exports what it
 * needs for a workspace shape; prepare() plans the largest and allocates once, so that an operation
 * never allocates. An operation asks with ember_cpu_need() before it touches scratch. */
#ifndef EMBER_BACKEND_CPU_H
#define EMBER_BACKEND_CPU_H

#include "kernels/cpu/cpu_isa.h"
#include "kernels/ops.h"

typedef struct ember_cpu_backend {
    ember_backend base;
    ember_cpu_isa isa;
    unsigned char *scratch;
    size_t shared_bytes; /* multiple of EMBER_ALIGNMENT */
    size_t thread_bytes; /* of one thread, multiple of EMBER_ALIGNMENT */
} ember_cpu_backend;

/* Level in use. Tests lower it with ember_cpu_set_isa (above what the processor has: its best). */
ember_cpu_isa ember_cpu_isa_of(const ember_backend *backend);
void ember_cpu_set_isa(ember_backend *backend, ember_cpu_isa isa);

/* 64-byte aligned; `thread` is omp_get_thread_num() inside a region of backend->n_threads threads. */
void *ember_cpu_scratch(ember_backend *backend, int thread);
void *ember_cpu_shared_scratch(ember_backend *backend);
size_t ember_cpu_scratch_bytes(const ember_backend *backend);
size_t ember_cpu_shared_scratch_bytes(const ember_backend *backend);

/* EMBER_E_STATE naming `op` when the planned scratch is smaller than this. */
EMBER_CHECKED ember_status ember_cpu_need(const ember_backend *backend, const char *op, size_t thread_bytes, size_t shared_bytes);

static inline size_t ember_cpu_round(size_t bytes) { return (bytes + 63) / 64 * 64; }
static inline int64_t ember_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ember_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ember_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
