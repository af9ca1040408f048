/* model_decode.c - one sequence, token by token or in chunks, with keys and values kept. */
#include "lib/base/status.h"
#include "lib/model/model_internal.h"
#include "lib/model/rope_table.h"

struct ember_kv_cache {
    ember_model *model;
    int64_t capacity; /* tokens */
    int64_t length;   /* tokens stored */
    int64_t stride;   /* floats of one layer's keys: KV * capacity * D */
    float *keys;      /* [L, KV, capacity, D] */
    float *values;    /* [L, KV, capacity, D] */
    float *cos_table; /* [capacity, D / 2]: a cache may be longer than the model's micro-batch */
    float *sin_table;
    float *logits; /* [V] */
    void *block;   /* holds all of them */
};

static void place_cache(ember_kv_cache *cache, placement *place) {
    const ember_hparams *p = &cache->model->hparams;
    const int64_t n_pairs = p->head_dim / 2;
    cache->keys = model_place(place, p->num_hidden_layers * cache->stride, sizeof(float));
    cache->values = model_place(place, p->num_hidden_layers * cache->stride, sizeof(float));
    cache->cos_table = model_place(place, cache->capacity * n_pairs, sizeof(float));
    cache->sin_table = model_place(place, cache->capacity * n_pairs, sizeof(float));
    cache->logits = model_place(place, p->vocab_size, sizeof(float));
}

static ember_status fill_tables(ember_kv_cache *cache) {
    ember_backend *backend = cache->model->backend;
    const int64_t n = cache->capacity * (cache->model->hparams.head_dim / 2);
    float *tables = NULL;
    EMBER_TRY(ember_allocate((void **)&tables, (size_t)n, 2 * sizeof(float), "rotary tables"));
    ember_rope_table_fill(tables, tables + n, &cache->model->hparams, cache->capacity);
    ember_status status = backend->ops->upload(backend, cache->cos_table, tables, (size_t)n * sizeof(float));
    if (status == EMBER_OK) status = backend->ops->upload(backend, cache->sin_table, tables + n, (size_t)n * sizeof(float));
    ember_release(tables);
    return status;
}

static ember_status build_cache(ember_kv_cache *cache) {
    ember_backend *backend = cache->model->backend;
    placement place = {0};
    place_cache(cache, &place);
    EMBER_TRY(backend->ops->allocate(backend, &cache->block, place.bytes, "KV cache"));
    /* Cleared, so that a vector load past the last key never meets a NaN of old memory. */
    EMBER_TRY(backend->ops->clear(backend, cache->block, place.bytes));
    place = (placement){.base = cache->block};
    place_cache(cache, &place);
    return fill_tables(cache);
}

ember_status ember_kv_cache_create(ember_kv_cache **out, ember_model *model, int64_t capacity) {
    *out = NULL;
    const ember_hparams *p = &model->hparams;
    if (capacity < 1 || capacity > p->max_position_embeddings) {
        return ember_fail(EMBER_E_ARGUMENT, "KV cache of %lld tokens; this model's context is 1 to %lld tokens", (long long)capacity,
                          (long long)p->max_position_embeddings);
    }
    ember_kv_cache *cache = NULL;
    EMBER_TRY(ember_allocate((void **)&cache, 1, sizeof *cache, "KV cache"));
    cache->model = model;
    cache->capacity = capacity;
    cache->stride = p->num_key_value_heads * capacity * p->head_dim;
    const ember_status status = build_cache(cache);
    if (status != EMBER_OK) {
        ember_kv_cache_free(cache);
        return status;
    }
    *out = cache;
    return EMBER_OK;
}

void ember_kv_cache_free(ember_kv_cache *cache) {
    if (!cache) return;
    cache->model->backend->ops->release(cache->model->backend, cache->block);
    ember_release(cache);
}

void ember_kv_cache_reset(ember_kv_cache *cache) { cache->length = 0; }
int64_t ember_kv_cache_length(const ember_kv_cache *cache) { return cache->length; }

/* At most the model's planned tokens at once. */
static ember_status decode_chunk(ember_model *model, ember_kv_cache *cache, const int32_t *ids, int64_t n) {
    const ember_ops *ops = model->backend->ops;
    for (int64_t i = 0; i < n; i++)
        model->host_positions[i] = (int32_t)(cache->length + i);
    EMBER_TRY(ops->upload(model->backend, model->positions, model->host_positions, (size_t)n * sizeof(int32_t)));
    EMBER_TRY(ops->upload(model->backend, model->input_ids, ids, (size_t)n * sizeof(int32_t)));
    model_pass pass = {.n_tokens = n,
                       .n_sequences = 1,
                       .sequence_length = n,
                       .cos_table = cache->cos_table,
                       .sin_table = cache->sin_table,
                       .full_layer = -1,
                       .n_past = cache->length,
                       .cache_capacity = cache->capacity,
                       .cache_stride = cache->stride,
                       .k_cache = cache->keys,
                       .v_cache = cache->values};
    EMBER_TRY(model_forward(model, &pass));
    cache->length += n;
    return EMBER_OK;
}

ember_status ember_model_decode(ember_model *model, ember_kv_cache *cache, const int32_t *ids, int64_t n, float *logits) {
    if (cache->model != model) return ember_fail(EMBER_E_ARGUMENT, "this KV cache belongs to another model");
    if (n < 1 || n > cache->capacity - cache->length) {
        return ember_fail(EMBER_E_ARGUMENT, "%lld tokens to decode; the KV cache holds %lld of %lld tokens, so 1 to %lld more fit",
                          (long long)n, (long long)cache->length, (long long)cache->capacity, (long long)(cache->capacity - cache->length));
    }
    EMBER_TRY(model_check_ids(model, "input", ids, n, 0));
    const int64_t before = cache->length;
    int64_t chunk = 0;
    for (int64_t first = 0; first < n; first += chunk) {
        chunk = n - first < model->max_tokens ? n - first : model->max_tokens;
        const ember_status status = decode_chunk(model, cache, ids + first, chunk);
        if (status != EMBER_OK) {
            cache->length = before;
            return status;
        }
    }
    if (!logits) return EMBER_OK;
    const ember_ops *ops = model->backend->ops;
    const int64_t d = model->hparams.hidden_size;
    EMBER_TRY(ops->linear_forward(model->backend, model_matrix(cache->logits, 1, model->hparams.vocab_size),
                                  model_matrix(model->normed_final + (chunk - 1) * d, 1, d), model_head(model)->value, NULL, 0.0f));
    return ops->download(model->backend, logits, cache->logits, (size_t)model->hparams.vocab_size * sizeof(float));
}
