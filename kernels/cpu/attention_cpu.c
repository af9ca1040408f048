/* attention_cpu.c
 * Math   S = Q K^T / sqrt(D), P = softmax of S over keys max(document_start_i, 0) .. i, O = P V
 *        (forward); backward from lse: P = exp(S - lse), dP = dO V^T, dS = P (dP - rowsum(P dP)),
 *        dQ = dS K / sqrt(D), dK = dS^T Q / sqrt(D), dV = P^T dO (Dao et al. 2022, section 3.1 and B.2).
 * Shapes qkv, d_qkv [M, (H + 2 KV) D], out [M, H D], lse [B, H, T].
 * Map    K and V are packed once a (sequence, key/value head). Then a task is a block of 64 queries of one head
 *        (forward), or one (sequence, key/value head) (backward, so that dK and dV have one owner). A task
 *        holds a strip of 64 rows of S, never T x T; products run over groups of 16 queries, so at most
 *        15 hidden keys a row are computed.
 * Cost   4 D FLOP a visible pair forward, 10 D backward.
 * Order  softmax sums and products have a fixed order; dK and dV add heads, then blocks of queries, ascending.
 * Limits H a multiple of KV; scratch: two (three) packs of K's size shared, 64 T (128 T) values a thread. */
#include "kernels/cpu/attention_cpu.h"

#include <math.h>
#include <omp.h>

#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/softmax_cpu.h"
#include "kernels/cpu/tile_cpu.h"
#include "lib/base/status.h"

enum { GROUP = EMBER_TILE_COLUMNS }; /* queries, or keys, of one product at the diagonal */

static int64_t round_up(int64_t n) { return ember_ceil_div(n, EMBER_TILE_COLUMNS) * EMBER_TILE_COLUMNS; }

/* Values from row to row of a strip; the extra 16 keep rows off the same cache sets. */
static int64_t strip_row(int64_t sequence_length) { return round_up(sequence_length) + EMBER_TILE_COLUMNS; }

static size_t strip_bytes(int64_t sequence_length) {
    return (size_t)EMBER_QUERY_BLOCK * (size_t)strip_row(sequence_length) * sizeof(float);
}

/* A block of rows of Q or dO in panels, and what a panel's last row is read over. */
static size_t row_pack_bytes(int64_t head_dim) {
    return (size_t)(EMBER_QUERY_BLOCK * round_up(head_dim) + EMBER_TILE_COLUMNS) * sizeof(float);
}

size_t ember_attention_thread_scratch_bytes(const ember_workspace_shape *shape) {
    const size_t strip = ember_cpu_round(strip_bytes(shape->sequence_length));
    return shape->training ? 2 * strip + 2 * ember_cpu_round(row_pack_bytes(shape->head_dim)) : strip;
}

size_t ember_attention_shared_scratch_bytes(const ember_workspace_shape *shape) {
    const int64_t pack = shape->n_tokens * shape->n_kv_heads * round_up(shape->head_dim);
    return (size_t)((shape->training ? 3 : 2) * pack + EMBER_TILE_COLUMNS) * sizeof(float);
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
    int64_t key; /* first, a multiple of GROUP */
    int64_t n_keys;
    int64_t row;          /* values between rows of a strip */
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
    b.key = b.key / GROUP * GROUP;
    b.n_keys = b.query + b.n_queries - b.key;
    b.row = strip_row(args->sequence_length);
    return b;
}

/* Keys, from b->key on, that the queries of the group of query i may see. */
static int64_t visible(const block *b, int64_t i) { return b->query + ember_min64(i / GROUP * GROUP + GROUP, b->n_queries) - b->key; }

/* Strip of scores -> strip of unnormalised probabilities, zero where hidden; 1 / sum a row. */
EMBER_BODY softmax_strip(const block *b, float *s, float *inverse, float *lse) {
    for (int64_t i = 0; i < b->n_queries; i++) {
        float *row = s + i * b->row;
        const int64_t first = first_key(b->start, b->query + i) - b->key;
        const int64_t end = b->query + i + 1 - b->key;
        float max = 0;
        double sum = 0;
        ember_softmax_row(row + first, end - first, &max, &sum);
        memset(row, 0, (size_t)first * sizeof *row);
        memset(row + end, 0, (size_t)(visible(b, i) - end) * sizeof *row);
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
        float *p_row = p + i * b->row;
        float *ds_row = ds + i * b->row;
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
        memset(p_row + end, 0, (size_t)(visible(b, i) - end) * sizeof *p_row);
        memset(ds_row + end, 0, (size_t)(visible(b, i) - end) * sizeof *ds_row);
    }
}
EMBER_LEVELS(gradient_strip, (const block *b, float *p, float *ds, const float *lse), (b, p, ds, lse))

/* What the tasks of one call share. */
typedef struct call {
    const ember_attention_args *args;
    ember_cpu_isa isa;
    int64_t width; /* of a row of qkv */
    int64_t group; /* heads that share keys */
    float scale;
    /* packs, one after another by (sequence, key/value head) */
    float *k_transposed; /* forward: B of S */
    float *v_rows;       /* forward: B of O */
    float *v_transposed; /* backward: B of dP */
    float *k_rows;       /* backward: B of dQ */
    void (*softmax)(const block *, float *, float *, float *);
    void (*scale_rows)(int64_t, int64_t, int64_t, float *, const float *);
    void (*gradient)(const block *, float *, float *, const float *);
} call;

static call begin(ember_backend *backend, const ember_attention_args *args, bool backward) {
    const int64_t pack = args->n_sequences * args->sequence_length * args->n_kv_heads * round_up(args->head_dim);
    float *packs = ember_cpu_shared_scratch(backend);
    call c = {.args = args,
              .isa = ember_cpu_isa_of(backend),
              .width = (args->n_heads + 2 * args->n_kv_heads) * args->head_dim,
              .group = args->n_heads / args->n_kv_heads,
              .scale = (float)(1.0 / sqrt((double)args->head_dim)),
              .k_transposed = packs,
              .softmax = EMBER_LEVEL(backend, softmax_strip),
              .scale_rows = EMBER_LEVEL(backend, scale_rows),
              .gradient = EMBER_LEVEL(backend, gradient_strip)};
    if (backward) {
        c.v_transposed = packs + pack;
        c.k_rows = packs + 2 * pack;
    } else {
        c.v_rows = packs + pack;
    }
    return c;
}

/* Offset of the packs of one (sequence, key/value head). */
static int64_t pack_at(const call *c, int64_t sequence, int64_t kv) {
    return (sequence * c->args->n_kv_heads + kv) * c->args->sequence_length * round_up(c->args->head_dim);
}

static void pack(const call *c, int64_t sequence, int64_t kv) {
    const ember_attention_args *args = c->args;
    const int64_t t = args->sequence_length;
    const int64_t d = args->head_dim;
    const float *k = args->qkv + sequence * t * c->width + (args->n_heads + kv) * d;
    const float *v = k + args->n_kv_heads * d;
    const int64_t at = pack_at(c, sequence, kv);
    ember_tile_pack_transposed(c->k_transposed + at, t, d, k, c->width);
    if (c->v_rows) ember_tile_pack_rows(c->v_rows + at, t, d, v, c->width);
    if (c->v_transposed) ember_tile_pack_transposed(c->v_transposed + at, t, d, v, c->width);
    if (c->k_rows) ember_tile_pack_rows(c->k_rows + at, t, d, k, c->width);
}

/* strip = scale * rows [n_queries, D] times a transposed pack, up to what each group of queries sees. */
static void scores(const call *c, const block *b, float scale, const float *rows, int64_t row, const float *transposed, float *strip) {
    const int64_t d = c->args->head_dim;
    for (int64_t i = 0; i < b->n_queries; i += GROUP) {
        const ember_tile_product product = {.m = ember_min64(GROUP, b->n_queries - i),
                                            .n = visible(b, i),
                                            .k = d,
                                            .alpha = scale,
                                            .whole_tiles = true,
                                            .a = rows + i * row,
                                            .a_row = row,
                                            .a_column = 1,
                                            .b = transposed + b->key * d,
                                            .b_panel = d * EMBER_TILE_COLUMNS,
                                            .b_columns = c->args->sequence_length - b->key,
                                            .c = strip + i * b->row,
                                            .c_row = b->row};
        ember_tile_multiply(c->isa, &product);
    }
}

/* out [n_queries, D] = scale * strip times a pack of rows. */
static void weighted_rows(const call *c, const block *b, float scale, const float *strip, const float *pack_rows, float *out, int64_t row) {
    const int64_t d = c->args->head_dim;
    for (int64_t i = 0; i < b->n_queries; i += GROUP) {
        const ember_tile_product product = {.m = ember_min64(GROUP, b->n_queries - i),
                                            .n = d,
                                            .k = visible(b, i),
                                            .alpha = scale,
                                            .a = strip + i * b->row,
                                            .a_row = b->row,
                                            .a_column = 1,
                                            .b = pack_rows + b->key * EMBER_TILE_COLUMNS,
                                            .b_panel = c->args->sequence_length * EMBER_TILE_COLUMNS,
                                            .b_columns = round_up(d),
                                            .c = out + i * row,
                                            .c_row = row};
        ember_tile_multiply(c->isa, &product);
    }
}

/* out [n_keys, D] += scale * strip^T times packed rows of the block's queries; a group of keys starts at
 * the first query that may see it. */
static void add_to_keys(const call *c, const block *b, float scale, const float *strip, const float *pack_rows, float *out) {
    const int64_t before = b->query - b->key; /* keys that every query may see */
    for (int64_t j = 0; j < b->n_keys; j += j < before ? before : GROUP) {
        const int64_t i = ember_max64(j - before, 0);
        const ember_tile_product product = {.m = j < before ? before : ember_min64(GROUP, b->n_keys - j),
                                            .n = c->args->head_dim,
                                            .k = b->n_queries - i,
                                            .alpha = scale,
                                            .add = true,
                                            .a = strip + i * b->row + j,
                                            .a_row = 1,
                                            .a_column = b->row,
                                            .b = pack_rows + i * EMBER_TILE_COLUMNS,
                                            .b_panel = b->n_queries * EMBER_TILE_COLUMNS,
                                            .b_columns = round_up(c->args->head_dim),
                                            .c = out + j * c->width,
                                            .c_row = c->width};
        ember_tile_multiply(c->isa, &product);
    }
}

static void forward_block(const call *c, int64_t sequence, int64_t head, const block *b, float *s) {
    const ember_attention_args *args = c->args;
    const int64_t d = args->head_dim;
    const int64_t token = sequence * args->sequence_length + b->query;
    const int64_t at = pack_at(c, sequence, head / c->group);
    float *out = args->out + (token * args->n_heads + head) * d;
    float *lse = args->lse ? args->lse + (sequence * args->n_heads + head) * args->sequence_length + b->query : NULL;
    float inverse[EMBER_QUERY_BLOCK];
    scores(c, b, c->scale, args->qkv + token * c->width + head * d, c->width, c->k_transposed + at, s);
    c->softmax(b, s, inverse, lse);
    weighted_rows(c, b, 1.0F, s, c->v_rows + at, out, args->n_heads * d);
    c->scale_rows(b->n_queries, d, args->n_heads * d, out, inverse);
}

static ember_status check(const ember_backend *backend, const char *op, const ember_attention_args *args, bool training) {
    EMBER_TRY(ember_attention_check(op, args->n_heads, args->n_kv_heads, args->head_dim));
    const ember_workspace_shape shape = {.n_tokens = args->n_sequences * args->sequence_length,
                                         .sequence_length = args->sequence_length,
                                         .n_kv_heads = args->n_kv_heads,
                                         .head_dim = args->head_dim,
                                         .training = training};
    return ember_cpu_need(backend, op, ember_attention_thread_scratch_bytes(&shape), ember_attention_shared_scratch_bytes(&shape));
}

ember_status ember_attention_forward_cpu(ember_backend *backend, const ember_attention_args *args) {
    EMBER_TRY(check(backend, "attention_forward", args, false));
    const call c = begin(backend, args, false);
    const int64_t n_packs = args->n_sequences * args->n_kv_heads;
    const int64_t n_blocks = ember_ceil_div(args->sequence_length, EMBER_QUERY_BLOCK);
    const int64_t n_tasks = args->n_sequences * args->n_heads * n_blocks;
#pragma omp parallel num_threads(backend->n_threads)
    {
#pragma omp for schedule(static) /* ends with a barrier */
        for (int64_t i = 0; i < n_packs; i++)
            pack(&c, i / args->n_kv_heads, i % args->n_kv_heads);
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < n_tasks; task++) {
            const int64_t head = task / n_blocks % args->n_heads;
            const int64_t sequence = task / n_blocks / args->n_heads;
            const block b = block_of(args, sequence, n_blocks - 1 - task % n_blocks); /* longest strips first: better balance */
            forward_block(&c, sequence, head, &b, ember_cpu_scratch(backend, omp_get_thread_num()));
        }
    }
    return EMBER_OK;
}

/* Scratch of one thread in backward. */
typedef struct strips {
    float *p, *ds, *q_rows, *d_out_rows;
} strips;

static strips strips_of(ember_backend *backend, const ember_attention_args *args) {
    unsigned char *block_start = ember_cpu_scratch(backend, omp_get_thread_num());
    const size_t strip = ember_cpu_round(strip_bytes(args->sequence_length));
    strips s;
    s.p = (float *)(void *)block_start;
    s.ds = (float *)(void *)(block_start + strip);
    s.q_rows = (float *)(void *)(block_start + 2 * strip);
    s.d_out_rows = (float *)(void *)(block_start + 2 * strip + ember_cpu_round(row_pack_bytes(args->head_dim)));
    return s;
}

static void backward_block(const call *c, int64_t sequence, int64_t head, const block *b, const strips *s) {
    const ember_attention_args *args = c->args;
    const int64_t d = args->head_dim;
    const int64_t out_width = args->n_heads * d;
    const int64_t kv = head / c->group;
    const int64_t at = pack_at(c, sequence, kv);
    const int64_t token = sequence * args->sequence_length + b->query;
    const float *q = args->qkv + token * c->width + head * d;
    const float *d_out = args->d_out + token * out_width + head * d;
    float *dk = args->d_qkv + (sequence * args->sequence_length + b->key) * c->width + (args->n_heads + kv) * d;
    scores(c, b, c->scale, q, c->width, c->k_transposed + at, s->p);
    scores(c, b, 1.0F, d_out, out_width, c->v_transposed + at, s->ds);
    c->gradient(b, s->p, s->ds, args->lse + (sequence * args->n_heads + head) * args->sequence_length + b->query);
    ember_tile_pack_rows(s->q_rows, b->n_queries, d, q, c->width);
    ember_tile_pack_rows(s->d_out_rows, b->n_queries, d, d_out, out_width);
    add_to_keys(c, b, 1.0F, s->p, s->d_out_rows, dk + args->n_kv_heads * d);
    weighted_rows(c, b, c->scale, s->ds, c->k_rows + at, args->d_qkv + token * c->width + head * d, c->width);
    add_to_keys(c, b, c->scale, s->ds, s->q_rows, dk);
}

/* dK and dV of one (sequence, key/value head), and dQ of the heads that share it. */
static void backward_task(const call *c, int64_t sequence, int64_t kv, const strips *s) {
    const ember_attention_args *args = c->args;
    const int64_t d = args->head_dim;
    float *dk = args->d_qkv + sequence * args->sequence_length * c->width + (args->n_heads + kv) * d;
    for (int64_t t = 0; t < args->sequence_length; t++) {
        memset(dk + t * c->width, 0, (size_t)d * sizeof *dk);
        memset(dk + t * c->width + args->n_kv_heads * d, 0, (size_t)d * sizeof *dk);
    }
    pack(c, sequence, kv);
    const int64_t n_blocks = ember_ceil_div(args->sequence_length, EMBER_QUERY_BLOCK);
    for (int64_t head = kv * c->group; head < (kv + 1) * c->group; head++) {
        for (int64_t index = 0; index < n_blocks; index++) {
            const block b = block_of(args, sequence, index);
            backward_block(c, sequence, head, &b, s);
        }
    }
}

ember_status ember_attention_backward_cpu(ember_backend *backend, const ember_attention_args *args) {
    EMBER_TRY(check(backend, "attention_backward", args, true));
    const call c = begin(backend, args, true);
    const int64_t n_tasks = args->n_sequences * args->n_kv_heads;
#pragma omp parallel for num_threads(backend->n_threads) schedule(dynamic, 1)
    for (int64_t task = 0; task < n_tasks; task++) {
        const strips s = strips_of(backend, args);
        backward_task(&c, task / args->n_kv_heads, task % args->n_kv_heads, &s);
    }
    return EMBER_OK;
}
