/* encode_pool.h - threads that encode chunks of text; chunks come back in the order they went in. */
#ifndef EMBER_ENCODE_POOL_H
#define EMBER_ENCODE_POOL_H

#include "data/tokenizer.h"

/* A document, or a part of one, inside a chunk. */
typedef struct encode_segment {
    size_t n_bytes;
    size_t n_ids; /* result, separators included */
    bool begins;  /* the document begins here */
    bool ends;
    bool held_out; /* the caller's; passed through */
} encode_segment;

typedef struct encode_chunk {
    ember_bytes text; /* of its segments, one after the other */
    encode_segment *segments;
    size_t n_segments;
    size_t capacity;
    ember_ids ids; /* result */
    ember_status status;
    ember_bytes error; /* message of `status` */
    int state;         /* the pool's */
} encode_chunk;

typedef struct encode_pool encode_pool;

/* `bos` and `eos` go before and after each document; -1: not. Memory is bounded: 2 n_threads + 2 chunks. */
EMBER_CHECKED ember_status encode_pool_create(encode_pool **out, const ember_tokenizer *tokenizer, int n_threads, int64_t bos, int64_t eos);
void encode_pool_free(encode_pool *pool); /* waits for chunks that are being encoded */

/* All of the following from one thread. */
/* An empty chunk to fill, or NULL while all are in use: take one first. */
encode_chunk *encode_pool_begin(encode_pool *pool);
void encode_pool_submit(encode_pool *pool, encode_chunk *chunk);
/* The oldest submitted chunk, encoded; NULL when there is none, or when it is not ready and !wait. */
encode_chunk *encode_pool_take(encode_pool *pool, bool wait);
void encode_pool_give_back(encode_pool *pool, encode_chunk *chunk);
EMBER_CHECKED ember_status encode_chunk_add_segment(encode_chunk *chunk, encode_segment segment);

#endif
