#include "data/encode_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

enum { FREE = 0, FILLING, READY, ENCODING, DONE, TAKEN };
enum { KEEP_BYTES = 4 << 20 }; /* a larger buffer, left by a document that could not be cut, is given back */

struct encode_pool {
    const ember_tokenizer *tokenizer;
    int64_t bos;
    int64_t eos;
    int n_chunks;
    encode_chunk *chunks; /* a ring */
    int64_t n_begun;
    int64_t n_taken;
    int64_t n_encoding; /* chunks that a thread has picked */
    int n_threads;      /* started */
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t ready; /* a chunk became READY, or stop */
    pthread_cond_t done;  /* a chunk became DONE */
    bool stop;
};

static ember_status push_id(ember_ids *ids, uint32_t id) {
    if (ids->n == ids->capacity) {
        const size_t capacity = ids->capacity ? ids->capacity * 2 : 64;
        uint32_t *grown = realloc(ids->data, capacity * sizeof *grown);
        if (!grown) return ember_fail(EMBER_E_MEMORY, "token ids: the system refused %zu bytes", capacity * sizeof *grown);
        ids->data = grown;
        ids->capacity = capacity;
    }
    ids->data[ids->n++] = id;
    return EMBER_OK;
}

static ember_status encode(const encode_pool *pool, ember_encoder *encoder, encode_chunk *chunk) {
    size_t at = 0;
    chunk->ids.n = 0;
    for (size_t i = 0; i < chunk->n_segments; i++) {
        encode_segment *segment = &chunk->segments[i];
        const size_t before = chunk->ids.n;
        if (segment->begins && pool->bos >= 0) EMBER_TRY(push_id(&chunk->ids, (uint32_t)pool->bos));
        EMBER_TRY(ember_encode(encoder, chunk->text.data + at, segment->n_bytes, false, true, &chunk->ids));
        if (segment->ends && pool->eos >= 0) EMBER_TRY(push_id(&chunk->ids, (uint32_t)pool->eos));
        segment->n_ids = chunk->ids.n - before;
        at += segment->n_bytes;
    }
    return EMBER_OK;
}

static void keep_failure(encode_chunk *chunk, ember_status status) {
    chunk->status = status;
    chunk->error.n = 0;
    if (status == EMBER_OK) return;
    if (ember_bytes_append(&chunk->error, ember_last_error(), strlen(ember_last_error())) != EMBER_OK) chunk->error.n = 0;
}

static void *run(void *argument) {
    encode_pool *pool = argument;
    ember_encoder *encoder = NULL;
    const ember_status made = ember_encoder_create(&encoder, pool->tokenizer);
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        encode_chunk *chunk = &pool->chunks[pool->n_encoding % pool->n_chunks];
        while (!pool->stop && chunk->state != READY) {
            (void)pthread_cond_wait(&pool->ready, &pool->lock);
            chunk = &pool->chunks[pool->n_encoding % pool->n_chunks];
        }
        if (pool->stop) break;
        pool->n_encoding++;
        chunk->state = ENCODING;
        (void)pthread_mutex_unlock(&pool->lock);
        keep_failure(chunk, made == EMBER_OK ? encode(pool, encoder, chunk) : made);
        (void)pthread_mutex_lock(&pool->lock);
        chunk->state = DONE;
        (void)pthread_cond_signal(&pool->done);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    ember_encoder_free(encoder);
    return NULL;
}

static ember_status start_threads(encode_pool *pool, int n_threads) {
    EMBER_TRY(ember_allocate((void **)&pool->threads, (size_t)n_threads, sizeof *pool->threads, "encoder threads"));
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    while (pool->n_threads < n_threads && !failed) {
        failed = pthread_create(&pool->threads[pool->n_threads], NULL, run, pool);
        if (!failed) pool->n_threads++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pool->n_threads == 0) return ember_fail(EMBER_E_MEMORY, "cannot start an encoder thread: %s", strerror(failed));
    return EMBER_OK; /* fewer than asked for give the same result */
}

ember_status encode_pool_create(encode_pool **out, const ember_tokenizer *tokenizer, int n_threads, int64_t bos, int64_t eos) {
    *out = NULL;
    encode_pool *pool = NULL;
    EMBER_TRY(ember_allocate((void **)&pool, 1, sizeof *pool, "encoder pool"));
    if (pthread_mutex_init(&pool->lock, NULL) != 0 || pthread_cond_init(&pool->ready, NULL) != 0 ||
        pthread_cond_init(&pool->done, NULL) != 0) {
        ember_release(pool);
        return ember_fail(EMBER_E_MEMORY, "encoder pool: cannot make a lock");
    }
    pool->tokenizer = tokenizer;
    pool->bos = bos;
    pool->eos = eos;
    pool->n_chunks = 2 * n_threads + 2;
    ember_status status = ember_allocate((void **)&pool->chunks, (size_t)pool->n_chunks, sizeof *pool->chunks, "encoder chunks");
    if (status == EMBER_OK) status = start_threads(pool, n_threads);
    if (status != EMBER_OK) {
        encode_pool_free(pool);
        return status;
    }
    *out = pool;
    return EMBER_OK;
}

/* The state is left alone: other threads look at it under the lock. */
static void empty_chunk(encode_chunk *chunk) {
    ember_bytes_free(&chunk->text);
    ember_bytes_free(&chunk->error);
    ember_ids_free(&chunk->ids);
    chunk->ids = (ember_ids){0};
    free(chunk->segments);
    chunk->segments = NULL;
    chunk->n_segments = 0;
    chunk->capacity = 0;
}

void encode_pool_free(encode_pool *pool) {
    if (!pool) return;
    (void)pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    (void)pthread_cond_broadcast(&pool->ready);
    (void)pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_threads; i++)
        (void)pthread_join(pool->threads[i], NULL);
    for (int i = 0; pool->chunks && i < pool->n_chunks; i++)
        empty_chunk(&pool->chunks[i]);
    ember_release(pool->chunks);
    ember_release(pool->threads);
    (void)pthread_cond_destroy(&pool->done);
    (void)pthread_cond_destroy(&pool->ready);
    (void)pthread_mutex_destroy(&pool->lock);
    ember_release(pool);
}

static void set_state(encode_pool *pool, encode_chunk *chunk, int state) {
    (void)pthread_mutex_lock(&pool->lock);
    chunk->state = state;
    if (state == READY) (void)pthread_cond_signal(&pool->ready);
    (void)pthread_mutex_unlock(&pool->lock);
}

encode_chunk *encode_pool_begin(encode_pool *pool) {
    if (pool->n_begun - pool->n_taken >= pool->n_chunks) return NULL;
    encode_chunk *chunk = &pool->chunks[pool->n_begun++ % pool->n_chunks];
    chunk->text.n = 0;
    chunk->n_segments = 0;
    set_state(pool, chunk, FILLING);
    return chunk;
}

void encode_pool_submit(encode_pool *pool, encode_chunk *chunk) { set_state(pool, chunk, READY); }

encode_chunk *encode_pool_take(encode_pool *pool, bool wait) {
    encode_chunk *chunk = &pool->chunks[pool->n_taken % pool->n_chunks];
    (void)pthread_mutex_lock(&pool->lock);
    const bool submitted = pool->n_taken < pool->n_begun && chunk->state != FILLING;
    while (submitted && wait && chunk->state != DONE)
        (void)pthread_cond_wait(&pool->done, &pool->lock);
    const bool ready = submitted && chunk->state == DONE;
    if (ready) chunk->state = TAKEN;
    (void)pthread_mutex_unlock(&pool->lock);
    return ready ? chunk : NULL;
}

void encode_pool_give_back(encode_pool *pool, encode_chunk *chunk) {
    if (chunk->text.capacity > KEEP_BYTES || chunk->ids.capacity > KEEP_BYTES) empty_chunk(chunk);
    set_state(pool, chunk, FREE);
    pool->n_taken++;
}

ember_status encode_chunk_add_segment(encode_chunk *chunk, encode_segment segment) {
    if (chunk->n_segments == chunk->capacity) {
        const size_t capacity = chunk->capacity ? chunk->capacity * 2 : 16;
        encode_segment *grown = realloc(chunk->segments, capacity * sizeof *grown);
        if (!grown) return ember_fail(EMBER_E_MEMORY, "document list: the system refused %zu bytes", capacity * sizeof *grown);
        chunk->segments = grown;
        chunk->capacity = capacity;
    }
    chunk->segments[chunk->n_segments++] = segment;
    return EMBER_OK;
}
