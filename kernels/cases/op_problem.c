/* op_problem.c - buffers, references and comparison of the cases. */
#include "kernels/cases/op_problem.h"

#include <math.h>
#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/philox.h"
#include "lib/base/status.h"

enum { RED = 0xA5 };

ember_status ember_op_problem_create(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *dims) {
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_op_problem), "case"));
    *out = block;
    (*out)->backend = backend;
    (*out)->seed = seed;
    (*out)->dims = dims;
    return EMBER_OK;
}

static ember_op_buffer *add_buffer(ember_op_problem *problem, ember_op_buffer_kind kind, int64_t n, size_t element_bytes) {
    if (problem->status != EMBER_OK) return NULL;
    if (problem->n_buffers == EMBER_OP_MAX_BUFFERS) {
        problem->status = ember_fail(EMBER_E_CAPACITY, "a case has at most %d buffers", EMBER_OP_MAX_BUFFERS);
        return NULL;
    }
    ember_op_buffer *buffer = &problem->buffers[problem->n_buffers++];
    *buffer = (ember_op_buffer){.kind = kind, .n = n, .element_bytes = element_bytes};
    const size_t bytes = (size_t)n * element_bytes;
    void *block = NULL;
    problem->status = ember_allocate(&block, bytes + (size_t)2 * EMBER_OP_RED_ZONE, 1, "case buffer");
    if (problem->status != EMBER_OK) return NULL;
    buffer->block = block;
    memset(buffer->block, RED, bytes + (size_t)2 * EMBER_OP_RED_ZONE);
    buffer->data = buffer->block + EMBER_OP_RED_ZONE;
    if (kind != EMBER_OP_OUTPUT) problem->status = ember_allocate(&buffer->initial, (size_t)n, element_bytes, "case buffer");
    if (problem->status == EMBER_OK && kind != EMBER_OP_INPUT) {
        void *reference = NULL;
        problem->status = ember_allocate(&reference, (size_t)n, sizeof(double), "case reference");
        buffer->reference = reference;
    }
    return problem->status == EMBER_OK ? buffer : NULL;
}

static void keep(ember_op_buffer *buffer) { memcpy(buffer->initial, buffer->data, (size_t)buffer->n * buffer->element_bytes); }

void ember_op_floats(ember_op_problem *problem, ember_op_buffer_kind kind, int64_t n, double amplitude, double offset) {
    ember_op_buffer *buffer = add_buffer(problem, kind, n, sizeof(float));
    if (!buffer || kind == EMBER_OP_OUTPUT) return;
    const uint64_t stream = EMBER_STREAM_TENSOR + (uint64_t)problem->n_buffers;
    float *values = buffer->data;
#pragma omp parallel for schedule(static) if (n > 65536)
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(offset + amplitude * (double)ember_philox_normal(problem->seed, stream, (uint64_t)i));
    keep(buffer);
}

void ember_op_ints(ember_op_problem *problem, int64_t n, int64_t low, int64_t high) {
    ember_op_buffer *buffer = add_buffer(problem, EMBER_OP_INPUT, n, sizeof(int32_t));
    if (!buffer) return;
    const uint64_t stream = EMBER_STREAM_TENSOR + (uint64_t)problem->n_buffers;
    int32_t *values = buffer->data;
    for (int64_t i = 0; i < n; i++) {
        values[i] = (int32_t)(low + (int64_t)(ember_philox_uniform(problem->seed, stream, (uint64_t)i) * (double)(high - low)));
    }
    keep(buffer);
}

void ember_op_doubles(ember_op_problem *problem, ember_op_buffer_kind kind, int64_t n) {
    ember_op_buffer *buffer = add_buffer(problem, kind, n, sizeof(double));
    if (!buffer) return;
    double *values = buffer->data;
    for (int64_t i = 0; i < n; i++)
        values[i] = 0.5;
    if (kind != EMBER_OP_OUTPUT) keep(buffer);
}

void ember_op_problem_free(void *opaque) {
    ember_op_problem *problem = opaque;
    if (!problem) return;
    for (int i = 0; i < problem->n_buffers; i++) {
        ember_release(problem->buffers[i].reference);
        ember_release(problem->buffers[i].initial);
        ember_release(problem->buffers[i].block);
    }
    ember_release(problem);
}

ember_status ember_op_problem_run(void *opaque) {
    ember_op_problem *problem = opaque;
    return problem->launch(problem);
}

ember_status ember_op_problem_fresh_run(ember_op_problem *problem) {
    for (int i = 0; i < problem->n_buffers; i++) {
        const ember_op_buffer *buffer = &problem->buffers[i];
        const size_t bytes = (size_t)buffer->n * buffer->element_bytes;
        if (buffer->kind == EMBER_OP_UPDATED) memcpy(buffer->data, buffer->initial, bytes);
        if (buffer->kind == EMBER_OP_OUTPUT) memset(buffer->data, 0xFF, bytes); /* a NaN of either width */
    }
    return problem->launch(problem);
}

ember_status ember_op_problem_guards(const ember_op_problem *problem) {
    for (int i = 0; i < problem->n_buffers; i++) {
        const ember_op_buffer *buffer = &problem->buffers[i];
        const size_t bytes = (size_t)buffer->n * buffer->element_bytes;
        for (int k = 0; k < EMBER_OP_RED_ZONE; k++) {
            if (buffer->block[k] != RED || buffer->block[EMBER_OP_RED_ZONE + bytes + (size_t)k] != RED) {
                return ember_fail(EMBER_E_CORRUPT, "buffer %d of %lld elements was written outside its bounds", i, (long long)buffer->n);
            }
        }
        if (buffer->kind == EMBER_OP_INPUT && memcmp(buffer->data, buffer->initial, bytes) != 0) {
            return ember_fail(EMBER_E_CORRUPT, "buffer %d is an input and was changed", i);
        }
    }
    return EMBER_OK;
}

/* |difference| / (|reference| + root mean square of the buffer): near-zero elements of a sum are judged
 * by the size of its terms. */
static double distance(const ember_op_buffer *buffer) {
    double squares = 0;
    for (int64_t i = 0; i < buffer->n; i++)
        squares += buffer->reference[i] * buffer->reference[i];
    const double rms = buffer->n ? sqrt(squares / (double)buffer->n) : 0;
    double worst = 0;
    for (int64_t i = 0; i < buffer->n; i++) {
        const double value = buffer->element_bytes == sizeof(double) ? ((double *)buffer->data)[i] : (double)((float *)buffer->data)[i];
        const double expected = buffer->reference[i];
        if (isnan(value) != isnan(expected)) return INFINITY;
        if (isnan(value) || value == expected) continue;
        const double d = fabs(value - expected) / (fabs(expected) + rms);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

ember_status ember_op_problem_check(void *opaque, double *worst) {
    ember_op_problem *problem = opaque;
    if (!problem->has_reference) problem->reference(problem);
    problem->has_reference = true;
    EMBER_TRY(ember_op_problem_fresh_run(problem));
    *worst = 0;
    for (int i = 0; i < problem->n_buffers; i++) {
        if (problem->buffers[i].kind == EMBER_OP_INPUT) continue;
        const double d = distance(&problem->buffers[i]);
        if (!(d <= *worst)) *worst = d;
    }
    return ember_op_problem_guards(problem);
}
