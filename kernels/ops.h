/* ops.h - the operations a backend provides. The model calls nothing else, so a backend is a
 * table of functions. Shape letters: M tokens, B sequences, T tokens of a sequence, d hidden,
 * h neurons, V vocabulary, H heads, KV key/value heads, D head size. Buffers are row-major and
 * contiguous in the backend's memory; on the CPU all are float32 unless said otherwise. Outputs come first.
 * Every operation gives the same bits for the same input whatever the number of threads. */
#ifndef EMBER_OPS_H
#define EMBER_OPS_H

#include "kernels/twell.h"
#include "lib/base/hparams.h"
#include "lib/base/tensor.h"

typedef struct ember_backend ember_backend;

/* ---- feed-forward */
typedef enum ember_ffn_mode { EMBER_MODE_DENSE = 0, EMBER_MODE_TWELL = 1 } ember_ffn_mode;

typedef struct ember_ffn_shape {
    int64_t n_tokens;  /* M */
    int64_t hidden;    /* d */
    int64_t n_neurons; /* h */
    ember_ffn_kind kind;
    ember_activation activation;
    int64_t compression; /* C */
} ember_ffn_shape;

/* The passes whose consumed support entries are counted. */
typedef enum ember_ffn_pass {
    EMBER_PASS_UP = 0,
    EMBER_PASS_DOWN,
    EMBER_PASS_DH,
    EMBER_PASS_DX,
    EMBER_PASS_DU_DG,
    EMBER_PASS_DD,
    EMBER_N_PASSES
} ember_ffn_pass;

/* What forward keeps for backward; `block` holds ember_ops.ffn_saved_bytes bytes. */
typedef struct ember_ffn_saved {
    void *block;
    size_t block_bytes;
    int64_t spill_capacity;          /* entries planned in the block (twell) */
    ember_ffn_mode mode;             /* of the forward that filled it */
    int64_t nnz;                     /* firing (token, neuron) pairs, padding tokens included */
    int64_t spill_count;             /* entries that needed the spill array */
    int64_t entries[EMBER_N_PASSES]; /* support entries multiplied, by pass (twell) */
} ember_ffn_saved;

typedef struct ember_ffn_args {
    ember_ffn_shape shape;
    ember_ffn_mode mode;
    ember_ffn_saved *saved;
    const float *x;       /* [M, d] */
    const float *gate;    /* [h, d]; NULL for plain */
    const float *up;      /* [h, d] */
    const float *down;    /* [h, d] */
    const uint8_t *mask;  /* [M], 0 = padding; NULL: all real */
    const float *given_g; /* tests: [M, h] replaces the gate product (plain: the up product) */
    bool time_gate;       /* benchmarks: with given_g the product is computed as well, and dropped */
    /* forward */
    float *y; /* [M, d]: overwritten, or added to when `accumulate` */
    bool accumulate;
    uint64_t *fire_count; /* [h] += non-padding tokens that fired; NULL: not wanted */
    uint32_t *token_l0;   /* [M] firing neurons of each token, 0 for padding; NULL: not wanted */
    uint64_t *l0_sum;     /* += over non-padding tokens */
    double *l1_sum;       /* += over non-padding tokens of sum |h_j| */
    /* backward */
    const float *dy; /* [M, d] */
    float *dx;       /* [M, d] overwritten */
    float *d_gate;   /* [h, d] += */
    float *d_up;     /* [h, d] += */
    float *d_down;   /* [h, d] += */
    float l1_scale;  /* lambda' = lambda / (layers * non-padding input tokens of the step) */
} ember_ffn_args;

/* ---- attention: q, k, v lie in one array [M, (H + 2 KV) * D], after RoPE. Query i of a sequence
 * sees keys max(document_start[i], 0) .. i. Scale 1/sqrt(D). */
typedef struct ember_attention_args {
    int64_t n_sequences;     /* B */
    int64_t sequence_length; /* T; M = B T */
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;
    const float *qkv;
    const int32_t *document_start; /* [M] or NULL */
    float *out;                    /* [M, H * D] */
    float *lse;                    /* [B, H, T] log-sum-exp, kept for backward; NULL: inference */
    /* backward */
    const float *d_out; /* [M, H * D] */
    float *d_qkv;       /* [M, (H + 2 KV) * D] overwritten */
} ember_attention_args;

/* Attention over a cache: n_new queries at positions n_past .. n_past + n_new - 1 of one sequence,
 * aligned to the end of the keys. Caches are [KV, capacity, D]; keys and values of the new
 * tokens are stored at their positions first. */
typedef struct ember_attention_cached_args {
    int64_t n_new;
    int64_t n_past;
    int64_t capacity;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;
    const float *qkv; /* [n_new, (H + 2 KV) * D] after RoPE */
    float *k_cache;
    float *v_cache;
    float *out; /* [n_new, H * D] */
} ember_attention_cached_args;

/* ---- RMSNorm: y = x * rsqrt(mean(x^2) + eps) * weight, row-wise over n columns. */
typedef struct ember_rmsnorm_args {
    int64_t n_rows;
    int64_t n_columns;
    double eps;
    float *y;    /* forward */
    float *rstd; /* [n_rows]; kept for backward */
    const float *x;
    const float *weight; /* [n_columns] */
    const float *dy;     /* backward */
    float *dx;           /* backward: overwritten, or added to when `accumulate` */
    bool accumulate;
    float *d_weight; /* backward: += */
} ember_rmsnorm_args;

/* RMSNorm of each head of q and k inside the qkv array, in place (Qwen3 style), before RoPE. */
typedef struct ember_qknorm_args {
    int64_t n_tokens;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;
    double eps;
    float *qkv;            /* forward: in place; backward: the normalised values are recovered from x_qk */
    float *x_qk;           /* [M, (H + KV) * D] values before the norm, kept for backward */
    float *rstd;           /* [M, H + KV] */
    const float *q_weight; /* [D] */
    const float *k_weight; /* [D] */
    float *d_qkv;          /* backward: in place */
    float *d_q_weight;     /* += */
    float *d_k_weight;     /* += */
} ember_qknorm_args;

/* Rotary embedding of the q and k parts of a qkv array, in place; half-split pairs. */
typedef struct ember_rope_args {
    int64_t n_tokens;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;
    float *qkv;
    const int32_t *positions; /* [M] */
    const float *cos_table;   /* [max position, D / 2] */
    const float *sin_table;
    bool backward; /* rotates by the negative angle */
} ember_rope_args;

/* ---- LM head and cross-entropy, in chunks of tokens: the logits of a micro-batch never exist
 * at once. loss_i = logsumexp(x_i W^T) - (x_i W^T)[target_i], 0 where target_i < 0. */
typedef struct ember_cross_entropy_args {
    int64_t n_tokens;
    int64_t hidden;
    int64_t vocab_size;
    const float *x;      /* [M, d] */
    const float *weight; /* [V, d] */
    const int32_t *targets;
    float *loss;      /* [M] */
    double *loss_sum; /* += over targets, in token order */
    float scale;      /* of the gradient: 1 / targets of the optimizer step */
    float *dx;        /* [M, d] overwritten; NULL: loss only */
    float *d_weight;  /* [V, d] +=; NULL with dx */
} ember_cross_entropy_args;

/* ---- AdamW on one tensor (Loshchilov, Hutter 2019, as torch.optim.AdamW):
 * g = grad * grad_scale; p -= lr * weight_decay * p; m, v moments; p -= lr * mhat / (sqrt(vhat) + eps). */
typedef struct ember_adamw_args {
    int64_t n;
    float *param;
    float *exp_avg;
    float *exp_avg_sq;
    const float *grad;
    double grad_scale;
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay; /* 0 for norms and biases */
    int64_t step;        /* 1 for the first */
} ember_adamw_args;

/* Largest shapes that will be asked of a backend; its scratch is planned from them. */
typedef struct ember_workspace_shape {
    int64_t n_tokens; /* M of one micro-batch */
    int64_t sequence_length;
    int64_t hidden;
    int64_t n_neurons; /* largest layer */
    int64_t vocab_size;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;
    ember_ffn_kind ffn_kind;
    int64_t compression;
    int64_t spill_capacity; /* largest of any layer */
    bool training;
} ember_workspace_shape;

typedef struct ember_ops {
    const char *name; /* "cpu" */

    /* memory of the backend */
    ember_status (*allocate)(ember_backend *backend, void **out, size_t bytes, const char *what);
    void (*release)(ember_backend *backend, void *block);
    ember_status (*upload)(ember_backend *backend, void *to, const void *from, size_t bytes);
    ember_status (*download)(ember_backend *backend, void *to, const void *from, size_t bytes);
    ember_status (*clear)(ember_backend *backend, void *block, size_t bytes);
    /* scratch: bytes it takes; then one allocation. Preparing again for a larger shape grows it. */
    size_t (*workspace_bytes)(const ember_backend *backend, const ember_workspace_shape *shape);
    ember_status (*prepare)(ember_backend *backend, const ember_workspace_shape *shape);

    /* y[M,N] = beta y + x[M,K] w[N,K]^T (+ bias[N]); beta 0 or 1; bias may be NULL */
    ember_status (*linear_forward)(ember_backend *backend, ember_tensor y, ember_tensor x, ember_tensor w, const float *bias, float beta);
    /* dx[M,K] = beta dx + dy[M,N] w[N,K] */
    ember_status (*linear_backward_input)(ember_backend *backend, ember_tensor dx, ember_tensor dy, ember_tensor w, float beta);
    /* dw[N,K] += dy[M,N]^T x[M,K]; d_bias[N] += column sums of dy (NULL: none) */
    ember_status (*linear_backward_weight)(ember_backend *backend, ember_tensor dw, float *d_bias, ember_tensor dy, ember_tensor x);
    /* y[M,d] = table[ids] */
    ember_status (*embedding_forward)(ember_backend *backend, ember_tensor y, ember_tensor table, const int32_t *ids);
    /* d_table[ids] += dy, each row summed in token order */
    ember_status (*embedding_backward)(ember_backend *backend, ember_tensor d_table, ember_tensor dy, const int32_t *ids);
    ember_status (*add)(ember_backend *backend, float *y, const float *x, int64_t n); /* y += x */
    ember_status (*rmsnorm_forward)(ember_backend *backend, const ember_rmsnorm_args *args);
    ember_status (*rmsnorm_backward)(ember_backend *backend, const ember_rmsnorm_args *args);
    ember_status (*qknorm_forward)(ember_backend *backend, const ember_qknorm_args *args);
    ember_status (*qknorm_backward)(ember_backend *backend, const ember_qknorm_args *args);
    ember_status (*rope)(ember_backend *backend, const ember_rope_args *args);
    ember_status (*attention_forward)(ember_backend *backend, const ember_attention_args *args);
    ember_status (*attention_backward)(ember_backend *backend, const ember_attention_args *args);
    ember_status (*attention_cached)(ember_backend *backend, const ember_attention_cached_args *args);
    ember_status (*cross_entropy)(ember_backend *backend, const ember_cross_entropy_args *args);
    /* bytes of ember_ffn_saved.block for one layer and mode */
    size_t (*ffn_saved_bytes)(const ember_ffn_shape *shape, ember_ffn_mode mode, int64_t spill_capacity);
    /* EMBER_E_CAPACITY: saved->spill_count says what the spill array needs; y, counts and sums are
     * then undefined and the caller drops the step. */
    ember_status (*ffn_forward)(ember_backend *backend, const ember_ffn_args *args);
    ember_status (*ffn_backward)(ember_backend *backend, const ember_ffn_args *args);
    ember_status (*adamw)(ember_backend *backend, const ember_adamw_args *args);
    /* *out += sum of squares, in double, in a fixed order; NaN and infinity propagate */
    ember_status (*sum_squares)(ember_backend *backend, double *out, const float *x, int64_t n);
} ember_ops;

/* Every backend starts with this. */
struct ember_backend {
    const ember_ops *ops;
    int n_threads;
};

/* The CPU backend; n_threads 0: all that the process may use. */
EMBER_CHECKED ember_status ember_cpu_backend_create(ember_backend **out, int n_threads);
void ember_backend_free(ember_backend *backend);
/* One line for `ember info`: instruction set chosen, BLAS and its version, threads. */
EMBER_CHECKED ember_status ember_cpu_describe(const ember_backend *backend, ember_bytes *out);

#endif
