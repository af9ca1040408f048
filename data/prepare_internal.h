/* prepare_internal.h - what the files of `prepare` share: the run, its checks, its chunks. */
#ifndef EMBER_PREPARE_INTERNAL_H
#define EMBER_PREPARE_INTERNAL_H

#include "data/encode_pool.h"
#include "data/prepare.h"
#include "data/shard.h"

typedef struct prepare_run {
    const ember_prepare_options *options;
    ember_prepare_report *report;
    double started;
    int64_t total_bytes;
    int64_t done_bytes;
    int64_t bos; /* -1: not added */
    int64_t eos;
    int64_t unknown;
    encode_pool *pool;
    ember_splitter *splitter;
    ember_shard_writer *train;
    ember_shard_writer *valid;
    uint64_t *counts; /* [vocab] ids written, separators included */
    /* The chunk being filled. */
    encode_chunk *chunk;
    size_t segment_start; /* of the open document in chunk->text */
    size_t searched;      /* bytes of the open document in which no place to cut was found */
    bool open;            /* a document has begun and not ended */
    bool continued;       /* its beginning is in an earlier chunk */
    bool held_out;
    int64_t n_begun; /* documents */
    /* The document being written. */
    bool has_ids;
} prepare_run;

/* prepare_check.c */
EMBER_CHECKED ember_status prepare_check(prepare_run *run);
bool prepare_holds_out(const ember_prepare_options *options, int64_t document);
/* The report's shares; EMBER_E_FORMAT when the corpus is nearly one token, or mostly unknown, unless forced. */
EMBER_CHECKED ember_status prepare_judge(prepare_run *run);

/* prepare_chunks.c: the splitter's sink (user = prepare_run), and the way of chunks to the writers. */
ember_status prepare_text(void *user, const char *bytes, size_t n);
ember_status prepare_end(void *user);
/* Submits what is left and writes all chunks out. */
EMBER_CHECKED ember_status prepare_drain(prepare_run *run);

#endif
