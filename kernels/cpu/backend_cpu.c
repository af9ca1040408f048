/* backend_cpu.c - the CPU backend: its table of operations, its memory and its planned scratch. */
#include "kernels/cpu/backend_cpu.h"

#include <omp.h>
#include <string.h>

#include "kernels/cpu/ffn_cpu.h"
#include "kernels/cpu/gemm_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "lib/base/memory.h"
#include "lib/base/status.h"

enum { MAX_THREADS = 4096 };

static ember_cpu_backend *cpu(ember_backend *backend) { return (ember_cpu_backend *)backend; }
static const ember_cpu_backend *cpu_const(const ember_backend *backend) { return (const ember_cpu_backend *)backend; }

/* ---- memory */

static ember_status allocate(ember_backend *backend, void **out, size_t bytes, const char *what) {
    (void)backend;
    return ember_allocate(out, bytes, 1, what);
}

static void release(ember_backend *backend, void *block) {
    (void)backend;
    ember_release(block);
}

static ember_status copy(ember_backend *backend, void *to, const void *from, size_t bytes) {
    (void)backend;
    if (bytes) memcpy(to, from, bytes);
    return EMBER_OK;
}

static ember_status clear(ember_backend *backend, void *block, size_t bytes) {
    (void)backend;
    if (bytes) memset(block, 0, bytes);
    return EMBER_OK;
}

/* ---- scratch */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t thread_bytes_of(const ember_workspace_shape *shape) {
    size_t bytes = ember_attention_thread_scratch_bytes(shape);
    bytes = larger(bytes, ember_attention_cached_thread_scratch_bytes(shape));
    bytes = larger(bytes, ember_ffn_thread_scratch_bytes(shape));
    return ember_cpu_round(bytes);
}

static size_t shared_bytes_of(const ember_workspace_shape *shape) {
    size_t bytes = ember_cross_entropy_shared_scratch_bytes(shape);
    bytes = larger(bytes, ember_attention_shared_scratch_bytes(shape));
    bytes = larger(bytes, ember_ffn_shared_scratch_bytes(shape));
    return ember_cpu_round(bytes);
}

static size_t workspace_bytes(const ember_backend *backend, const ember_workspace_shape *shape) {
    return shared_bytes_of(shape) + (size_t)backend->n_threads * thread_bytes_of(shape);
}

static ember_status prepare(ember_backend *backend, const ember_workspace_shape *shape) {
    ember_cpu_backend *self = cpu(backend);
    const size_t shared_bytes = larger(self->shared_bytes, shared_bytes_of(shape));
    const size_t thread_bytes = larger(self->thread_bytes, thread_bytes_of(shape));
    if (self->scratch && shared_bytes == self->shared_bytes && thread_bytes == self->thread_bytes) return EMBER_OK;
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, shared_bytes + (size_t)backend->n_threads * thread_bytes, 1, "CPU scratch"));
    ember_release(self->scratch);
    self->scratch = block;
    self->shared_bytes = shared_bytes;
    self->thread_bytes = thread_bytes;
    return EMBER_OK;
}

void *ember_cpu_shared_scratch(ember_backend *backend) { return cpu(backend)->scratch; }
void *ember_cpu_scratch(ember_backend *backend, int thread) {
    ember_cpu_backend *self = cpu(backend);
    return self->scratch + self->shared_bytes + (size_t)thread * self->thread_bytes;
}
size_t ember_cpu_scratch_bytes(const ember_backend *backend) { return cpu_const(backend)->thread_bytes; }
size_t ember_cpu_shared_scratch_bytes(const ember_backend *backend) { return cpu_const(backend)->shared_bytes; }

ember_status ember_cpu_need(const ember_backend *backend, const char *op, size_t thread_bytes, size_t shared_bytes) {
    const ember_cpu_backend *self = cpu_const(backend);
    if (thread_bytes <= self->thread_bytes && shared_bytes <= self->shared_bytes) return EMBER_OK;
    return ember_fail(EMBER_E_STATE,
                      "%s: needs %zu bytes of scratch a thread and %zu shared, planned are %zu and %zu; prepare the backend "
                      "for this shape first",
                      op, thread_bytes, shared_bytes, self->thread_bytes, self->shared_bytes);
}

/* ---- instruction set */

ember_cpu_isa ember_cpu_isa_of(const ember_backend *backend) { return cpu_const(backend)->isa; }

void ember_cpu_set_isa(ember_backend *backend, ember_cpu_isa isa) {
    const ember_cpu_isa best = ember_cpu_isa_best();
    cpu(backend)->isa = isa < best ? isa : best;
}

/* ---- the table */

static const ember_ops cpu_ops = {
    .name = "cpu",
    .allocate = allocate,
    .release = release,
    .upload = copy,
    .download = copy,
    .clear = clear,
    .workspace_bytes = workspace_bytes,
    .prepare = prepare,
    .linear_forward = ember_linear_forward_cpu,
    .linear_backward_input = ember_linear_backward_input_cpu,
    .linear_backward_weight = ember_linear_backward_weight_cpu,
    .embedding_forward = ember_embedding_forward_cpu,
    .embedding_backward = ember_embedding_backward_cpu,
    .add = ember_add_cpu,
    .rmsnorm_forward = ember_rmsnorm_forward_cpu,
    .rmsnorm_backward = ember_rmsnorm_backward_cpu,
    .qknorm_forward = ember_qknorm_forward_cpu,
    .qknorm_backward = ember_qknorm_backward_cpu,
    .rope = ember_rope_cpu,
    .attention_forward = ember_attention_forward_cpu,
    .attention_backward = ember_attention_backward_cpu,
    .attention_cached = ember_attention_cached_cpu,
    .cross_entropy = ember_cross_entropy_cpu,
    .ffn_saved_bytes = ember_ffn_saved_bytes_cpu,
    .ffn_forward = ember_ffn_forward_cpu,
    .ffn_backward = ember_ffn_backward_cpu,
    .adamw = ember_adamw_cpu,
    .sum_squares = ember_sum_squares_cpu,
};

ember_status ember_cpu_backend_create(ember_backend **out, int n_threads) {
    *out = NULL;
    if (n_threads < 0 || n_threads > MAX_THREADS) {
        return ember_fail(EMBER_E_ARGUMENT, "CPU backend: %d threads; use 0 (all) to %d", n_threads, MAX_THREADS);
    }
    ember_cpu_isa isa = EMBER_ISA_PLAIN;
    EMBER_TRY(ember_cpu_isa_choose(&isa));
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_cpu_backend), "CPU backend"));
    ember_cpu_backend *self = block;
    self->base.ops = &cpu_ops;
    self->base.n_threads = n_threads > 0 ? n_threads : omp_get_max_threads(); /* honours affinity and OMP_NUM_THREADS */
    self->isa = isa;
    ember_blas_start();
    *out = &self->base;
    return EMBER_OK;
}

void ember_backend_free(ember_backend *backend) {
    if (!backend) return;
    ember_release(cpu(backend)->scratch);
    ember_release(backend);
}

ember_status ember_cpu_describe(const ember_backend *backend, ember_bytes *out) {
    char blas[96];
    ember_blas_describe(blas);
    return ember_bytes_printf(out, "cpu: %s, %s, %d thread%s", ember_cpu_isa_name(ember_cpu_isa_of(backend)), blas, backend->n_threads,
                              backend->n_threads == 1 ? "" : "s");
}
