/* ops_cpu.h - the operations of the CPU backend, one file each, and the scratch each asks for.
 * What a function does is said in kernels/ops.h. */
#ifndef EMBER_OPS_CPU_H
#define EMBER_OPS_CPU_H

#include "kernels/ops.h"

EMBER_CHECKED ember_status ember_linear_forward_cpu(ember_backend *backend, ember_tensor y, ember_tensor x, ember_tensor w,
                                                    const float *bias, float beta);
EMBER_CHECKED ember_status ember_linear_backward_input_cpu(ember_backend *backend, ember_tensor dx, ember_tensor dy, ember_tensor w,
                                                           float beta);
EMBER_CHECKED ember_status ember_linear_backward_weight_cpu(ember_backend *backend, ember_tensor dw, float *d_bias, ember_tensor dy,
                                                            ember_tensor x);

EMBER_CHECKED ember_status ember_embedding_forward_cpu(ember_backend *backend, ember_tensor y, ember_tensor table, const int32_t *ids);
EMBER_CHECKED ember_status ember_embedding_backward_cpu(ember_backend *backend, ember_tensor d_table, ember_tensor dy, const int32_t *ids);
EMBER_CHECKED ember_status ember_add_cpu(ember_backend *backend, float *y, const float *x, int64_t n);
EMBER_CHECKED ember_status ember_rmsnorm_forward_cpu(ember_backend *backend, const ember_rmsnorm_args *args);
EMBER_CHECKED ember_status ember_rmsnorm_backward_cpu(ember_backend *backend, const ember_rmsnorm_args *args);
EMBER_CHECKED ember_status ember_qknorm_forward_cpu(ember_backend *backend, const ember_qknorm_args *args);
EMBER_CHECKED ember_status ember_qknorm_backward_cpu(ember_backend *backend, const ember_qknorm_args *args);
EMBER_CHECKED ember_status ember_rope_cpu(ember_backend *backend, const ember_rope_args *args);
EMBER_CHECKED ember_status ember_attention_forward_cpu(ember_backend *backend, const ember_attention_args *args);
EMBER_CHECKED ember_status ember_attention_backward_cpu(ember_backend *backend, const ember_attention_args *args);
EMBER_CHECKED ember_status ember_attention_cached_cpu(ember_backend *backend, const ember_attention_cached_args *args);
EMBER_CHECKED ember_status ember_cross_entropy_cpu(ember_backend *backend, const ember_cross_entropy_args *args);
EMBER_CHECKED ember_status ember_adamw_cpu(ember_backend *backend, const ember_adamw_args *args);
EMBER_CHECKED ember_status ember_sum_squares_cpu(ember_backend *backend, double *out, const float *x, int64_t n);

size_t ember_attention_thread_scratch_bytes(const ember_workspace_shape *shape);
size_t ember_attention_shared_scratch_bytes(const ember_workspace_shape *shape);
size_t ember_attention_cached_thread_scratch_bytes(const ember_workspace_shape *shape);
size_t ember_cross_entropy_shared_scratch_bytes(const ember_workspace_shape *shape);

#endif
