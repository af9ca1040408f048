/* ffn_cpu.h - the feed-forward operations of the CPU backend. */
#ifndef EMBER_FFN_CPU_H
#define EMBER_FFN_CPU_H

#include "kernels/ops.h"

/* The three entries of ember_ops. */
size_t ember_ffn_saved_bytes_cpu(const ember_ffn_shape *shape, ember_ffn_mode mode, int64_t spill_capacity);
EMBER_CHECKED ember_status ember_ffn_forward_cpu(ember_backend *backend, const ember_ffn_args *args);
EMBER_CHECKED ember_status ember_ffn_backward_cpu(ember_backend *backend, const ember_ffn_args *args);

/* Scratch that prepare() plans for: either mode, forward and (when training) backward. */
size_t ember_ffn_thread_scratch_bytes(const ember_workspace_shape *shape);
size_t ember_ffn_shared_scratch_bytes(const ember_workspace_shape *shape);

/* The support that a twell forward left in saved->block: rows of tokens, neurons ascending. */
typedef struct ember_ffn_support {
    const int64_t *row_start; /* [M + 1] */
    const uint16_t *neurons;  /* [nnz] */
    const float *g;           /* [nnz] the gate product's value (plain: the up product's) */
    const float *up;          /* [nnz]; NULL for plain */
} ember_ffn_support;
ember_ffn_support ember_ffn_saved_support(const ember_ffn_saved *saved, const ember_ffn_shape *shape);

#endif
