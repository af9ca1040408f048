/* attention_cpu.c
 * Math   S = Q K^T / sqrt(D), P = softmax of S over keys max(document_start_i, 0) .. i, O = P V
 *        (forward); backward from lse: P = exp(S - lse), dP = dO V^T, dS = P (dP - rowsum(P dP)),
 *        dQ = dS K / sqrt(D), dK = dS^T Q / sqrt(D), dV = P^T dO (Dao et al. 2022, section 3.1 and B.2).
 * Shapes qkv, d_qkv [M, (H + 2 KV) D], out [M, H D], lse [B, H, T].
 * Map    a task is a block of 64 queries of one head (forward), or one (sequence, key/value head) (backward,
 *        so that dK and dV have one owner). A task holds a strip of 64 rows of S, never T x T.
 * Cost   4 D FLOP a visible pair forward, 10 D backward, plus up to 63 hidden keys a row at the diagonal.
 * Order  softmax sums and products have a fixed order; dK and dV add heads, then blocks of queries, ascending.
 * Limits H a multiple of KV; scratch of 64 T values a thread (twice that for backward). */
#include "kernels/cpu/attention_cpu.h"

#include <math.h>
#include <omp.h>

#include "kernels/cpu/gemm_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/softmax_cpu.h"
#include "lib/base/status.h"

size_t ember_attention_thread_scratch_bytes(const ember_workspace_shape *shape) {
    const size_t strip = ember_cpu_round((size_t)EMBER_QUERY_BLOCK * (size_t)shape->sequence_length * sizeof(float));
    return shape->training ? 2 * strip : strip;
}

ember_status ember_attention_check(const char *op, int64_t n_heads, int64_t n_kv_heads, int64_t head_dim) {
    if (n_kv_heads < 1 || n_heads < 1 || n_heads % n_kv_heads != 0 || head_dim < 1) {
        return ember_fail(EMBER_E_SHAPE, "%s: %lld heads, %lld key/value heads, head_dim %lld; heads must be a multiple of key/value heads",
                          op, (long long)n_heads, (long long)n_kv_heads, (long long)head_dim);
    }
    return EMBER_OK;
}

/* A block of queries of one head of one sequence, and the keys that any of them sees. */
typedef struct block {
    int64_t query; /* first, in the sequence */
    int64_t n_queries;
    int64_t key; /* first */
    int64_t n_keys;
    const int32_t *start; /* document starts of the sequence, or NULL */
} block;

static int64_t first_key(const int32_t *start, int64_t query) {
    if (!start || start[query] < 0) return 0;
    return ember_min64(start[query], query);
}

static block block_of(const ember_attention_args *args, int64_t sequence, int64_t index) {
    block b = {.query = index * EMBER_QUERY_BLOCK};
    b.n_queries = ember_min64(EMBER_QUERY_BLOCK, args->sequence_length - b.query);
    b.start = args->document_start ? args->document_start + sequence * args->sequence_length : NULL;
    b.key = first_key(b.start, b.query);
    for (int64_t i = 1; i < b.n_queries; i++)
        b.key = ember_min64(b.key, first_key(b.start, b.query + i));
    b.n_keys = b.query + b.n_queries - b.key;
    return b;
}

/* Strip of scores -> strip of unnormalised probabilities, zero where hidden; 1 / sum a row. */
EMBER_BODY softmax_strip(const block *b, float *s, float *inverse, float *lse) {
    for (int64_t i = 0; i < b->n_queries; i++) {
        float *row = s + i * b->n_keys;
        const int64_t first = first_key(b->start, b->query + i) - b->key;
        const int64_t end = b->query + i + 1 - b->key;
        float max = 0;
        double sum = 0;
        ember_softmax_row(row + first, end - first, &max, &sum);
        memset(row, 0, (size_t)first * sizeof *row);
        memset(row + end, 0, (size_t)(b->n_keys - end) * sizeof *row);
        inverse[i] = (float)(1.0 / sum);
        if (lse) lse[i] = (float)((double)max + log(sum));
    }
}
EMBER_LEVELS(softmax_strip, (const block *b, float *s, float *inverse, float *lse), (b, s, inverse, lse))

EMBER_BODY scale_rows(int64_t n_rows, int64_t n, int64_t stride, float *rows, const float *factors) {
    for (int64_t i = 0; i < n_rows; i++) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            rows[i * stride + j] *= factors[i];
    }
}
EMBER_LEVELS(scale_rows, (int64_t n_rows, int64_t n, int64_t stride, float *rows, const float *factors), (n_rows, n, stride, rows, factors))

/* Strips of scores and of dP -> strips of P and of dS. */
EMBER_BODY gradient_strip(const block *b, float *p, float *ds, const float *lse) {
    for (int64_t i = 0; i < b->n_queries; i++) {
        float *p_row = p + i * b->n_keys;
        float *ds_row = ds + i * b->n_keys;
        const int64_t first = first_key(b->start, b->query + i) - b->key;
        const int64_t end = b->query + i + 1 - b->key;
        const float log_sum = lse[i];
        double dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t j = first; j < end; j++) {
            p_row[j] = ember_exp(p_row[j] - log_sum);
            dot += (double)p_row[j] * (double)ds_row[j];
        }
        const float delta = (float)dot;
#pragma omp simd
        for (int64_t j = first; j < end; j++)
            ds_row[j] = p_row[j] * (ds_row[j] - delta);
        memset(p_row, 0, (size_t)first * sizeof *p_row);
        memset(ds_row, 0, (size_t)first * sizeof *ds_row);
        memset(p_row + end, 0, (size_t)(b->n_keys - end) * sizeof *p_row);
        memset(ds_row + end, 0, (size_t)(b->n_keys - end) * sizeof *ds_row);
    }
}
EMBER_LEVELS(gradient_strip, (const block *b, float *p, float *ds, const float *lse), (b, p, ds, lse))

typedef struct levels {
    void (*softmax)(const block *, float *, float *, float *);
    void (*scale)(int64_t, int64_t, int64_t, float *, const float *);
    void (*gradient)(const block *, float *, float *, const float *);
} levels;

static levels levels_of(const ember_backend *backend) {
    return (levels){.softmax = EMBER_LEVEL(backend, softmax_strip),
                    .scale = EMBER_LEVEL(backend, scale_rows),
                    .gradient = EMBER_LEVEL(backend, gradient_strip)};
}

static void forward_block(const ember_attention_args *args, const levels *run, int64_t sequence, int64_t head, const block *b, float *s) {
    const int64_t d = args->head_dim;
    const int64_t width = (args->n_heads + 2 * args->n_kv_heads) * d;
    const int64_t kv = head / (args->n_heads / args->n_kv_heads);
    const float *rows = args->qkv + sequence * args->sequence_length * width;
    const float *q = rows + b->query * width + head * d;
    const float *k = rows + b->key * width + (args->n_heads + kv) * d;
    const float *v = k + args->n_kv_heads * d;
    float *out = args->out + ((sequence * args->sequence_length + b->query) * args->n_heads + head) * d;
    float *lse = args->lse ? args->lse + (sequence * args->n_heads + head) * args->sequence_length + b->query : NULL;
    const float scale = (float)(1.0 / sqrt((double)d));
    float inverse[EMBER_QUERY_BLOCK];
    ember_sgemm_panel(false, true, b->n_queries, b->n_keys, d, scale, q, width, k, width, 0.0F, s, b->n_keys);
    run->softmax(b, s, inverse, lse);
    ember_sgemm_panel(false, false, b->n_queries, d, b->n_keys, 1.0F, s, b->n_keys, v, width, 0.0F, out, args->n_heads * d);
    run->scale(b->n_queries, d, args->n_heads * d, out, inverse);
}

ember_status ember_attention_forward_cpu(ember_backend *backend, const ember_attention_args *args) {
    EMBER_TRY(ember_attention_check("attention_forward", args->n_heads, args->n_kv_heads, args->head_dim));
    const ember_workspace_shape shape = {.sequence_length = args->sequence_length};
    EMBER_TRY(ember_cpu_need(backend, "attention_forward", ember_attention_thread_scratch_bytes(&shape), 0));
    const levels run = levels_of(backend);
    const int64_t n_blocks = ember_ceil_div(args->sequence_length, EMBER_QUERY_BLOCK);
    const int64_t n_tasks = args->n_sequences * args->n_heads * n_blocks;
#pragma omp parallel for num_threads(backend->n_threads) schedule(dynamic, 1)
    for (int64_t task = 0; task < n_tasks; task++) {
        const int64_t index = n_blocks - 1 - task % n_blocks; /* longest strips first: better balance */
        const int64_t head = task / n_blocks % args->n_heads;
        const int64_t sequence = task / n_blocks / args->n_heads;
        const block b = block_of(args, sequence, index);
        forward_block(args, &run, sequence, head, &b, ember_cpu_scratch(backend, omp_get_thread_num()));
    }
    return EMBER_OK;
}

static void backward_block(const ember_attention_args *args, const levels *run, int64_t sequence, int64_t head, const block *b, float *p,
                           float *ds) {
    const int64_t d = args->head_dim;
    const int64_t width = (args->n_heads + 2 * args->n_kv_heads) * d;
    const int64_t out_width = args->n_heads * d;
    const int64_t kv = head / (args->n_heads / args->n_kv_heads);
    const int64_t q_at = (sequence * args->sequence_length + b->query) * width + head * d;
    const int64_t k_at = (sequence * args->sequence_length + b->key) * width + (args->n_heads + kv) * d;
    const int64_t v_at = k_at + args->n_kv_heads * d;
    const float *d_out = args->d_out + (sequence * args->sequence_length + b->query) * out_width + head * d;
    const float *lse = args->lse + (sequence * args->n_heads + head) * args->sequence_length + b->query;
    const float scale = (float)(1.0 / sqrt((double)d));
    ember_sgemm_panel(false, true, b->n_queries, b->n_keys, d, scale, args->qkv + q_at, width, args->qkv + k_at, width, 0.0F, p, b->n_keys);
    ember_sgemm_panel(false, true, b->n_queries, b->n_keys, d, 1.0F, d_out, out_width, args->qkv + v_at, width, 0.0F, ds, b->n_keys);
    run->gradient(b, p, ds, lse);
    ember_sgemm_panel(true, false, b->n_keys, d, b->n_queries, 1.0F, p, b->n_keys, d_out, out_width, 1.0F, args->d_qkv + v_at, width);
    ember_sgemm_panel(false, false, b->n_queries, d, b->n_keys, scale, ds, b->n_keys, args->qkv + k_at, width, 0.0F, args->d_qkv + q_at,
                      width);
    ember_sgemm_panel(true, false, b->n_keys, d, b->n_queries, scale, ds, b->n_keys, args->qkv + q_at, width, 1.0F, args->d_qkv + k_at,
                      width);
}

/* dK and dV of one (sequence, key/value head), and dQ of the heads that share it. */
static void backward_task(const ember_attention_args *args, const levels *run, int64_t sequence, int64_t kv, float *p, float *ds) {
    const int64_t d = args->head_dim;
    const int64_t width = (args->n_heads + 2 * args->n_kv_heads) * d;
    const int64_t group = args->n_heads / args->n_kv_heads;
    float *dk = args->d_qkv + sequence * args->sequence_length * width + (args->n_heads + kv) * d;
    for (int64_t t = 0; t < args->sequence_length; t++) {
        memset(dk + t * width, 0, (size_t)d * sizeof *dk);
        memset(dk + t * width + args->n_kv_heads * d, 0, (size_t)d * sizeof *dk);
    }
    const int64_t n_blocks = ember_ceil_div(args->sequence_length, EMBER_QUERY_BLOCK);
    for (int64_t head = kv * group; head < (kv + 1) * group; head++) {
        for (int64_t index = 0; index < n_blocks; index++) {
            const block b = block_of(args, sequence, index);
            backward_block(args, run, sequence, head, &b, p, ds);
        }
    }
}

ember_status ember_attention_backward_cpu(ember_backend *backend, const ember_attention_args *args) {
    EMBER_TRY(ember_attention_check("attention_backward", args->n_heads, args->n_kv_heads, args->head_dim));
    const ember_workspace_shape shape = {.sequence_length = args->sequence_length, .training = true};
    const size_t bytes = ember_attention_thread_scratch_bytes(&shape);
    EMBER_TRY(ember_cpu_need(backend, "attention_backward", bytes, 0));
    const levels run = levels_of(backend);
    const int64_t n_tasks = args->n_sequences * args->n_kv_heads;
#pragma omp parallel for num_threads(backend->n_threads) schedule(dynamic, 1)
    for (int64_t task = 0; task < n_tasks; task++) {
        float *p = ember_cpu_scratch(backend, omp_get_thread_num());
        backward_task(args, &run, task / args->n_kv_heads, task % args->n_kv_heads, p, p + bytes / 2 / sizeof *p);
    }
    return EMBER_OK;
}
