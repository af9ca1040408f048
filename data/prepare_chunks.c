/* prepare_chunks.c - documents to chunks of about CHUNK_BYTES for the pool, and encoded chunks to the shards.
 * Where chunks are cut changes no id: a document is cut only where the tokenizer says that both parts
 * encode as the whole does. */
#include "data/prepare_internal.h"
#include "lib/base/status.h"

enum {
    CHUNK_BYTES = 256 << 10,
    LOOK_BYTES = 16 << 10,  /* text kept beyond the place of a cut */
    JUDGE_TOKENS = 1 << 22, /* a hopeless corpus is refused after these, not after hours */
    PIECE_BYTES = 64 << 10
};

static ember_status write_segment(prepare_run *run, const encode_segment *segment, const uint32_t *ids) {
    ember_shard_writer *writer = segment->held_out ? run->valid : run->train;
    ember_prepare_part *part = segment->held_out ? &run->report->valid : &run->report->train;
    if (segment->begins) {
        EMBER_TRY(ember_shard_begin_document(writer));
        run->has_ids = false;
    }
    EMBER_TRY(ember_shard_append(writer, ids, segment->n_ids));
    for (size_t i = 0; i < segment->n_ids; i++)
        run->counts[ids[i]]++;
    if (segment->n_ids > 0 && !run->has_ids) {
        run->has_ids = true;
        part->n_documents++;
    }
    part->n_tokens += (int64_t)segment->n_ids;
    part->source_bytes += (int64_t)segment->n_bytes;
    return EMBER_OK;
}

static ember_status write_chunk(prepare_run *run, const encode_chunk *chunk) {
    if (chunk->status != EMBER_OK) return ember_fail(chunk->status, "%s", chunk->error.n ? chunk->error.data : "out of memory");
    const int64_t before = run->report->train.n_tokens + run->report->valid.n_tokens;
    size_t at = 0;
    for (size_t i = 0; i < chunk->n_segments; i++) {
        EMBER_TRY(write_segment(run, &chunk->segments[i], chunk->ids.data + at));
        at += chunk->segments[i].n_ids;
    }
    const int64_t after = run->report->train.n_tokens + run->report->valid.n_tokens;
    return before < JUDGE_TOKENS && after >= JUDGE_TOKENS ? prepare_judge(run) : EMBER_OK;
}

static ember_status take(prepare_run *run, bool wait, bool *took) {
    encode_chunk *chunk = encode_pool_take(run->pool, wait);
    *took = chunk != NULL;
    if (!chunk) return EMBER_OK;
    const ember_status status = write_chunk(run, chunk);
    encode_pool_give_back(run->pool, chunk);
    return status;
}

static ember_status begin_chunk(prepare_run *run) {
    bool took = true;
    while (took)
        EMBER_TRY(take(run, false, &took));
    while (!(run->chunk = encode_pool_begin(run->pool)))
        EMBER_TRY(take(run, true, &took));
    return EMBER_OK;
}

/* Closes the open document's part at `end` of the chunk's text. */
static ember_status add_segment(prepare_run *run, size_t end, bool ends) {
    EMBER_TRY(encode_chunk_add_segment(
        run->chunk,
        (encode_segment){.n_bytes = end - run->segment_start, .begins = !run->continued, .ends = ends, .held_out = run->held_out}));
    run->segment_start = end;
    run->continued = true;
    return EMBER_OK;
}

/* Submits the chunk's segments; text behind them moves to a new chunk. */
static ember_status submit(prepare_run *run) {
    encode_chunk *full = run->chunk;
    const size_t end = run->segment_start;
    const size_t left = full->text.n - end;
    ember_bytes rest = {0};
    ember_status status = ember_bytes_append(&rest, full->text.data + end, left);
    if (status != EMBER_OK) return status;
    full->text.n = end;
    run->chunk = NULL;
    encode_pool_submit(run->pool, full);
    EMBER_TRY_GOTO(begin_chunk(run), done);
    EMBER_TRY_GOTO(ember_bytes_append(&run->chunk->text, rest.data, left), done);
    run->segment_start = 0;
done:
    ember_bytes_free(&rest);
    return status;
}

/* The chunk is full, and a document is open. */
static ember_status relieve(prepare_run *run) {
    const size_t n = run->chunk->text.n - run->segment_start;
    if (run->segment_start >= CHUNK_BYTES / 2) {
        /* Whole documents alone make a good chunk. */
        return submit(run);
    }
    if (n < CHUNK_BYTES / 2 + LOOK_BYTES || n < run->searched + LOOK_BYTES) return EMBER_OK;
    const size_t from = run->searched ? run->searched - LOOK_BYTES / 2 : CHUNK_BYTES / 2;
    const size_t cut = ember_encode_cut(run->options->tokenizer, run->chunk->text.data + run->segment_start, n, from);
    if (cut >= n) {
        /* Looked at once; the next search begins where this one ended, so a document that cannot be cut
         * costs linear time and, as long as it is, memory. */
        run->searched = n;
        return EMBER_OK;
    }
    EMBER_TRY(add_segment(run, run->segment_start + cut, false));
    run->searched = 0;
    return submit(run);
}

static ember_status add_text(prepare_run *run, const char *bytes, size_t n) {
    if (!run->chunk) EMBER_TRY(begin_chunk(run));
    if (!run->open) {
        run->open = true;
        run->continued = false;
        run->searched = 0;
        run->segment_start = run->chunk->text.n;
        run->held_out = prepare_holds_out(run->options, run->n_begun++);
    }
    EMBER_TRY(ember_bytes_append(&run->chunk->text, bytes, n));
    while (run->chunk->text.n >= CHUNK_BYTES) {
        const encode_chunk *before = run->chunk;
        EMBER_TRY(relieve(run));
        if (run->chunk == before) break;
    }
    return EMBER_OK;
}

ember_status prepare_text(void *user, const char *bytes, size_t n) {
    prepare_run *run = user;
    for (size_t done = 0; done < n;) {
        const size_t piece = n - done < PIECE_BYTES ? n - done : PIECE_BYTES;
        EMBER_TRY(add_text(run, bytes + done, piece));
        done += piece;
    }
    return EMBER_OK;
}

ember_status prepare_end(void *user) {
    prepare_run *run = user;
    if (!run->open) {
        run->report->n_empty_documents++;
        return EMBER_OK;
    }
    run->open = false;
    EMBER_TRY(add_segment(run, run->chunk->text.n, true));
    return run->chunk->text.n >= CHUNK_BYTES ? submit(run) : EMBER_OK;
}

ember_status prepare_drain(prepare_run *run) {
    if (run->chunk) {
        encode_chunk *last = run->chunk;
        run->chunk = NULL;
        encode_pool_submit(run->pool, last);
    }
    bool took = true;
    while (took)
        EMBER_TRY(take(run, true, &took));
    return EMBER_OK;
}
