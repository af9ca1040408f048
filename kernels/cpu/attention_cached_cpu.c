/* attention_cached_cpu.c
 * Math   as attention_cpu.c's forward, for n_new queries at the end of n_past + n_new keys of a cache.
 * Shapes qkv [n_new, (H + 2 KV) D], caches [KV, capacity, D], out [n_new, H D].
 * Map    new keys and values are stored first; then a task is one query of one head (few queries), or a
 *        block of 64 queries of one head.
 * Cost   decoding reads n_past D keys and values a head once: memory-bound.
 * Order  a query's sums run over its keys in a fixed order.
 * Limits n_past + n_new <= capacity; H a multiple of KV; scratch of 64 (n_past + n_new) values a thread. */
#include <math.h>
#include <omp.h>

#include "kernels/cpu/attention_cpu.h"
#include "kernels/cpu/gemm_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/softmax_cpu.h"
#include "lib/base/status.h"

enum { FEW_QUERIES = 8 }; /* below: rows are too few for a matrix product to pay for its packing */

size_t ember_attention_cached_thread_scratch_bytes(const ember_workspace_shape *shape) {
    return (size_t)EMBER_QUERY_BLOCK * (size_t)shape->sequence_length * sizeof(float);
}

/* out = (P / sum) V for one query whose scores are in s. */
EMBER_BODY finish_query(int64_t n_keys, int64_t d, float *s, const float *v, float *out) {
    float max = 0;
    double sum = 0;
    ember_softmax_row(s, n_keys, &max, &sum);
    const float inverse = (float)(1.0 / sum);
    memset(out, 0, (size_t)d * sizeof *out);
    for (int64_t j = 0; j < n_keys; j++) {
        const float p = s[j];
#pragma omp simd
        for (int64_t c = 0; c < d; c++)
            out[c] += p * v[j * d + c];
    }
#pragma omp simd
    for (int64_t c = 0; c < d; c++)
        out[c] *= inverse;
}
EMBER_LEVELS(finish_query, (int64_t n_keys, int64_t d, float *s, const float *v, float *out), (n_keys, d, s, v, out))

/* Rows of scores of a block of queries: row i sees keys 0 .. n_keys - n_queries + i. */
EMBER_BODY softmax_block(int64_t n_queries, int64_t n_keys, float *s) {
    for (int64_t i = 0; i < n_queries; i++) {
        float *row = s + i * n_keys;
        const int64_t end = n_keys - n_queries + i + 1;
        float max = 0;
        double sum = 0;
        ember_softmax_row(row, end, &max, &sum);
        const float inverse = (float)(1.0 / sum);
#pragma omp simd
        for (int64_t j = 0; j < end; j++)
            row[j] *= inverse;
        memset(row + end, 0, (size_t)(n_keys - end) * sizeof *row);
    }
}
EMBER_LEVELS(softmax_block, (int64_t n_queries, int64_t n_keys, float *s), (n_queries, n_keys, s))

static void store(const ember_attention_cached_args *args) {
    const int64_t d = args->head_dim;
    const int64_t width = (args->n_heads + 2 * args->n_kv_heads) * d;
    for (int64_t i = 0; i < args->n_new; i++) {
        const float *k = args->qkv + i * width + args->n_heads * d;
        const float *v = k + args->n_kv_heads * d;
        for (int64_t kv = 0; kv < args->n_kv_heads; kv++) {
            const int64_t at = (kv * args->capacity + args->n_past + i) * d;
            memcpy(args->k_cache + at, k + kv * d, (size_t)d * sizeof *k);
            memcpy(args->v_cache + at, v + kv * d, (size_t)d * sizeof *v);
        }
    }
}

static void run_block(const ember_backend *backend, const ember_attention_cached_args *args, int64_t head, int64_t query, int64_t n_queries,
                      float *s) {
    const int64_t d = args->head_dim;
    const int64_t width = (args->n_heads + 2 * args->n_kv_heads) * d;
    const int64_t n_keys = args->n_past + query + n_queries;
    const int64_t at = head / (args->n_heads / args->n_kv_heads) * args->capacity * d;
    const float *q = args->qkv + query * width + head * d;
    float *out = args->out + (query * args->n_heads + head) * d;
    const float scale = (float)(1.0 / sqrt((double)d));
    if (n_queries == 1) {
        float scaled[EMBER_MAX_HEAD_DIM];
        for (int64_t c = 0; c < d; c++)
            scaled[c] = q[c] * scale;
        ember_sgemv_panel(backend, n_keys, d, args->k_cache + at, d, scaled, 0.0F, s);
        EMBER_LEVEL(backend, finish_query)(n_keys, d, s, args->v_cache + at, out);
        return;
    }
    ember_sgemm_panel(false, true, n_queries, n_keys, d, scale, q, width, args->k_cache + at, d, 0.0F, s, n_keys);
    EMBER_LEVEL(backend, softmax_block)(n_queries, n_keys, s);
    ember_sgemm_panel(false, false, n_queries, d, n_keys, 1.0F, s, n_keys, args->v_cache + at, d, 0.0F, out, args->n_heads * d);
}

ember_status ember_attention_cached_cpu(ember_backend *backend, const ember_attention_cached_args *args) {
    EMBER_TRY(ember_attention_check("attention_cached", args->n_heads, args->n_kv_heads, args->head_dim));
    if (args->head_dim > EMBER_MAX_HEAD_DIM) {
        return ember_fail(EMBER_E_SHAPE, "attention_cached: head_dim %lld is above %d", (long long)args->head_dim, EMBER_MAX_HEAD_DIM);
    }
    if (args->n_past < 0 || args->n_new < 0 || args->n_past + args->n_new > args->capacity) {
        return ember_fail(EMBER_E_ARGUMENT, "attention_cached: %lld past and %lld new tokens do not fit a cache of %lld",
                          (long long)args->n_past, (long long)args->n_new, (long long)args->capacity);
    }
    const ember_workspace_shape shape = {.sequence_length = args->n_past + args->n_new};
    EMBER_TRY(ember_cpu_need(backend, "attention_cached", ember_attention_cached_thread_scratch_bytes(&shape), 0));
    store(args);
    const int64_t length = args->n_new < FEW_QUERIES ? 1 : EMBER_QUERY_BLOCK;
    const int64_t n_blocks = ember_ceil_div(args->n_new, length);
    const int64_t n_tasks = n_blocks * args->n_heads;
    const bool parallel = (double)n_tasks * (double)length * (double)(args->n_past + args->n_new) * (double)args->head_dim > 65536;
#pragma omp parallel for num_threads(backend->n_threads) schedule(dynamic, 1) if (parallel)
    for (int64_t task = 0; task < n_tasks; task++) {
        const int64_t query = task / args->n_heads * length;
        run_block(backend, args, task % args->n_heads, query, ember_min64(length, args->n_new - query),
                  ember_cpu_scratch(backend, omp_get_thread_num()));
    }
    return EMBER_OK;
}
