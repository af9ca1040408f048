/* attention_cached_case.c - attention_cached. */
#include <math.h>
#include <stdlib.h>

#include "kernels/cases/op_problem.h"
#include "lib/base/status.h"

/* dims: n_new, n_past, capacity, H, KV, D */
enum { QKV, K_CACHE, V_CACHE, OUT };

static ember_status launch(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const ember_attention_cached_args args = {.n_new = n[0],
                                              .n_past = n[1],
                                              .capacity = n[2],
                                              .n_heads = n[3],
                                              .n_kv_heads = n[4],
                                              .head_dim = n[5],
                                              .qkv = ember_op_f32(p, QKV),
                                              .k_cache = ember_op_f32(p, K_CACHE),
                                              .v_cache = ember_op_f32(p, V_CACHE),
                                              .out = ember_op_f32(p, OUT)};
    return p->backend->ops->attention_cached(p->backend, &args);
}

/* The caches after the call, in double. */
static void store_reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const int64_t d = n[5];
    for (int cache = 0; cache < 2; cache++) {
        double *to = p->buffers[K_CACHE + cache].reference;
        for (int64_t i = 0; i < n[4] * n[2] * d; i++)
            to[i] = (double)ember_op_first(p, K_CACHE + cache)[i];
        for (int64_t i = 0; i < n[0] * n[4] * d; i++) {
            const int64_t token = i / (n[4] * d);
            const int64_t kv = i / d % n[4];
            const int64_t from = token * (n[3] + 2 * n[4]) * d + (n[3] + cache * n[4] + kv) * d + i % d;
            to[(kv * n[2] + n[1] + token) * d + i % d] = (double)ember_op_first(p, QKV)[from];
        }
    }
}

static void reference(ember_op_problem *p) {
    const int64_t *n = p->dims;
    const int64_t d = n[5];
    store_reference(p);
    double *prob = malloc((size_t)(n[0] + n[1]) * sizeof *prob);
    for (int64_t task = 0; prob && task < n[0] * n[3]; task++) {
        const int64_t i = task / n[3];
        const int64_t head = task % n[3];
        const int64_t at = head / (n[3] / n[4]) * n[2] * d;
        const int64_t n_keys = n[1] + i + 1;
        const float *q = ember_op_first(p, QKV) + i * (n[3] + 2 * n[4]) * d + head * d;
        double max = -INFINITY;
        for (int64_t j = 0; j < n_keys; j++) {
            prob[j] = 0;
            for (int64_t c = 0; c < d; c++)
                prob[j] += (double)q[c] * p->buffers[K_CACHE].reference[at + j * d + c] / sqrt((double)d);
            if (prob[j] > max) max = prob[j];
        }
        double sum = 0;
        for (int64_t j = 0; j < n_keys; j++)
            sum += exp(prob[j] - max);
        double *out = p->buffers[OUT].reference + task * d;
        for (int64_t c = 0; c < d; c++)
            out[c] = 0;
        for (int64_t j = 0; j < n_keys; j++) {
            for (int64_t c = 0; c < d; c++)
                out[c] += exp(prob[j] - max) / sum * p->buffers[V_CACHE].reference[at + j * d + c];
        }
    }
    free(prob);
}

static ember_status create(ember_op_problem **out, ember_backend *backend, uint64_t seed, const int64_t *n) {
    EMBER_TRY(ember_op_problem_create(out, backend, seed, n));
    ember_op_problem *p = *out;
    p->launch = launch;
    p->reference = reference;
    ember_op_floats(p, EMBER_OP_INPUT, n[0] * (n[3] + 2 * n[4]) * n[5], 1.3, 0);
    ember_op_floats(p, EMBER_OP_UPDATED, n[4] * n[2] * n[5], 1.3, 0);
    ember_op_floats(p, EMBER_OP_UPDATED, n[4] * n[2] * n[5], 1.3, 0);
    ember_op_floats(p, EMBER_OP_OUTPUT, n[0] * n[3] * n[5], 1, 0);
    if (p->status != EMBER_OK) return p->status;
    const ember_workspace_shape shape = {.n_tokens = n[0],
                                         .sequence_length = n[2],
                                         .n_heads = n[3],
                                         .n_kv_heads = n[4],
                                         .head_dim = n[5],
                                         .hidden = n[3] * n[5],
                                         .n_neurons = 1,
                                         .vocab_size = 1,
                                         .compression = 8};
    return backend->ops->prepare(backend, &shape);
}

static const int64_t shapes[][6] = {{1, 0, 1, 1, 1, 2},  {1, 36, 37, 6, 2, 10},     {7, 13, 64, 4, 4, 34},    {65, 66, 131, 3, 1, 16},
                                    {8, 0, 9, 2, 1, 64}, {1, 1023, 1024, 8, 2, 64}, {256, 256, 512, 8, 2, 64}};
EMBER_OP_CREATE(create_0, create, shapes[0])
EMBER_OP_CREATE(create_1, create, shapes[1])
EMBER_OP_CREATE(create_2, create, shapes[2])
EMBER_OP_CREATE(create_3, create, shapes[3])
EMBER_OP_CREATE(create_4, create, shapes[4])
EMBER_OP_CREATE(create_5, create, shapes[5])
EMBER_OP_CREATE(create_6, create, shapes[6])
#define ENTRY(i, text, keys, kv, d, pairs) \
    EMBER_OP_CASE("attention_cached", text, create_##i, EMBER_OP_TOLERANCE(12, 8), 8.0 * (keys) * (kv) * (d), 4.0 * (pairs) * (d))

static const ember_op_case items[] = {
    ENTRY(0, "new 1 past 0 H 1 KV 1 D 2", 1.0, 1.0, 2.0, 1.0),
    ENTRY(1, "new 1 past 36 H 6 KV 2 D 10", 37.0, 2.0, 10.0, 222.0),
    ENTRY(2, "new 7 past 13 H 4 KV 4 D 34", 20.0, 4.0, 34.0, 476.0),
    ENTRY(3, "new 65 past 66 H 3 KV 1 D 16", 131.0, 1.0, 16.0, 19305.0),
    ENTRY(4, "new 8 past 0 H 2 KV 1 D 64", 8.0, 1.0, 64.0, 72.0),
    ENTRY(5, "new 1 past 1023 H 8 KV 2 D 64", 1024.0, 2.0, 64.0, 8192.0),
    ENTRY(6, "new 256 past 256 H 8 KV 2 D 64", 512.0, 2.0, 64.0, 787456.0),
};

const ember_op_case_list ember_attention_cached_cases = {.items = items, .n = (int)(sizeof items / sizeof items[0])};
