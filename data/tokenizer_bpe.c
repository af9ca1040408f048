/* BPE of one piece: always the lowest-ranked adjacent pair, the leftmost of equals. Short pieces scan an
 * array; long ones use a heap over a linked list, O(n log n). A word cache of fixed size stands in front. */
#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

enum { SMALL_PIECE = 48, EMPTY_ENTRY = 255 };
static const uint32_t NOWHERE = UINT32_MAX;
static const uint32_t NO_RANK = UINT32_MAX;

const tok_merge *tok_merge_find(const ember_tokenizer *tokenizer, uint32_t left, uint32_t right) {
    const uint64_t pair = (uint64_t)left << 32 | right;
    size_t slot = (size_t)((pair * 0x9E3779B97F4A7C15U) >> tokenizer->merge_shift);
    while (tokenizer->merges[slot].pair != pair) {
        if (tokenizer->merges[slot].pair == UINT64_MAX) return NULL;
        slot = (slot + 1) & tokenizer->merge_mask;
    }
    return &tokenizer->merges[slot];
}

ember_status tok_ids_append(ember_ids *ids, const uint32_t *more, size_t n) {
    if (n > ids->capacity - ids->n) {
        size_t capacity = ids->capacity + ids->capacity / 2;
        if (capacity < ids->n + n) capacity = ids->n + n;
        if (capacity < 256) capacity = 256;
        uint32_t *data = capacity > SIZE_MAX / sizeof *data ? NULL : realloc(ids->data, capacity * sizeof *data);
        if (!data) return ember_fail(EMBER_E_MEMORY, "token ids: the system refused room for %zu ids", capacity);
        ids->data = data;
        ids->capacity = capacity;
    }
    if (n > 0) memcpy(ids->data + ids->n, more, n * sizeof *more);
    ids->n += n;
    return EMBER_OK;
}

void tok_bpe_work_free(tok_bpe_work *work) {
    free(work->ids);
    free(work->previous);
    free(work->next);
    free(work->heap);
    *work = (tok_bpe_work){0};
}

static ember_status grow(void **block, size_t n, size_t size) {
    void *grown = n > SIZE_MAX / size ? NULL : realloc(*block, n * size);
    if (!grown) return ember_fail(EMBER_E_MEMORY, "a piece of %zu symbols: the system refused %zu bytes", n, n * size);
    *block = grown;
    return EMBER_OK;
}

static ember_status reserve_ids(tok_bpe_work *work, size_t n) {
    if (n <= work->capacity) return EMBER_OK;
    if (n >= NOWHERE) return ember_fail(EMBER_E_CAPACITY, "a piece of %zu bytes without a boundary; the limit is %u", n, NOWHERE - 1);
    EMBER_TRY(grow((void **)&work->ids, n, sizeof *work->ids));
    work->capacity = n;
    return EMBER_OK;
}

/* ---- short pieces ---- */

static size_t merge_small(const ember_tokenizer *tokenizer, uint32_t *ids, size_t n) {
    uint32_t ranks[SMALL_PIECE];
    uint32_t results[SMALL_PIECE];
    for (size_t i = 0; i + 1 < n; i++) {
        const tok_merge *merge = tok_merge_find(tokenizer, ids[i], ids[i + 1]);
        ranks[i] = merge ? merge->rank : NO_RANK;
        results[i] = merge ? merge->id : 0;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (ranks[i] < ranks[best]) best = i;
        }
        if (ranks[best] == NO_RANK) break;
        ids[best] = results[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            ranks[i - 1] = ranks[i];
            results[i - 1] = results[i];
        }
        /* the pairs on either side of the merged symbol are new */
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const tok_merge *merge = tok_merge_find(tokenizer, ids[i], ids[i + 1]);
            ranks[i] = merge ? merge->rank : NO_RANK;
            results[i] = merge ? merge->id : 0;
        }
    }
    return n;
}

/* ---- long pieces: heap of rank << 32 | position ---- */

static void sift_down(uint64_t *heap, size_t n, size_t at) {
    const uint64_t value = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (value <= heap[child]) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
}

static ember_status push(tok_bpe_work *work, uint64_t value) {
    if (work->heap_n == work->heap_capacity) {
        const size_t capacity = work->heap_capacity + work->heap_capacity / 2 + 64;
        EMBER_TRY(grow((void **)&work->heap, capacity, sizeof *work->heap));
        work->heap_capacity = capacity;
    }
    size_t at = work->heap_n++;
    while (at > 0 && value < work->heap[(at - 1) / 2]) {
        work->heap[at] = work->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    work->heap[at] = value;
    return EMBER_OK;
}

static ember_status push_pair(const ember_tokenizer *tokenizer, tok_bpe_work *work, uint32_t at) {
    const tok_merge *merge = tok_merge_find(tokenizer, work->ids[at], work->ids[work->next[at]]);
    return merge ? push(work, (uint64_t)merge->rank << 32 | at) : EMBER_OK;
}

static ember_status start_heap(const ember_tokenizer *tokenizer, tok_bpe_work *work, size_t n) {
    EMBER_TRY(grow((void **)&work->previous, n, sizeof *work->previous));
    EMBER_TRY(grow((void **)&work->next, n, sizeof *work->next));
    work->heap_n = 0;
    for (size_t i = 0; i < n; i++) {
        work->previous[i] = i > 0 ? (uint32_t)(i - 1) : NOWHERE;
        work->next[i] = i + 1 < n ? (uint32_t)(i + 1) : NOWHERE;
    }
    for (size_t i = 0; i + 1 < n; i++) {
        const tok_merge *merge = tok_merge_find(tokenizer, work->ids[i], work->ids[i + 1]);
        if (!merge) continue;
        if (work->heap_n == work->heap_capacity) {
            const size_t capacity = work->heap_capacity + work->heap_capacity / 2 + 64;
            EMBER_TRY(grow((void **)&work->heap, capacity, sizeof *work->heap));
            work->heap_capacity = capacity;
        }
        work->heap[work->heap_n++] = (uint64_t)merge->rank << 32 | i;
    }
    for (size_t i = work->heap_n / 2; i-- > 0;)
        sift_down(work->heap, work->heap_n, i);
    return EMBER_OK;
}

static ember_status merge_large(const ember_tokenizer *tokenizer, tok_bpe_work *work, size_t *n) {
    EMBER_TRY(start_heap(tokenizer, work, *n));
    while (work->heap_n > 0) {
        const uint64_t top = work->heap[0];
        work->heap[0] = work->heap[--work->heap_n];
        if (work->heap_n > 0) sift_down(work->heap, work->heap_n, 0);
        const uint32_t at = (uint32_t)top;
        const uint32_t right = work->next[at];
        if (right == NOWHERE || work->previous[right] != at) continue; /* `at` was swallowed, or is the last */
        const tok_merge *merge = tok_merge_find(tokenizer, work->ids[at], work->ids[right]);
        if (!merge || merge->rank != top >> 32) continue; /* the pair has changed since */
        work->ids[at] = merge->id;
        const uint32_t after = work->next[right];
        work->next[at] = after;
        work->next[right] = NOWHERE;
        work->previous[right] = NOWHERE;
        if (after != NOWHERE) work->previous[after] = at;
        if (work->previous[at] != NOWHERE) EMBER_TRY(push_pair(tokenizer, work, work->previous[at]));
        if (after != NOWHERE) EMBER_TRY(push_pair(tokenizer, work, at));
    }
    size_t kept = 0;
    for (uint32_t at = 0; at != NOWHERE;) {
        const uint32_t next = work->next[at];
        work->ids[kept++] = work->ids[at];
        at = next;
    }
    *n = kept;
    /* what one giant piece needed is not kept for ordinary ones */
    if (work->heap_capacity > (1U << 20)) {
        uint32_t *ids = work->ids;
        const size_t capacity = work->capacity;
        work->ids = NULL;
        tok_bpe_work_free(work);
        work->ids = ids;
        work->capacity = capacity;
    }
    return EMBER_OK;
}

/* ---- symbols ---- */

/* A character that is no token: byte tokens, or unknown; the pending unknown token is in *unknown. */
static size_t foreign_char(const ember_tokenizer *tokenizer, const char *text, size_t length, bool *unknown, uint32_t *out) {
    if (tokenizer->byte_fallback) {
        size_t n = 0;
        while (n < length && tokenizer->byte_fallbacks[(unsigned char)text[n]] >= 0)
            n++;
        if (n == length) {
            for (size_t i = 0; i < length; i++)
                out[i] = (uint32_t)tokenizer->byte_fallbacks[(unsigned char)text[i]];
            return length;
        }
    }
    if (tokenizer->unk < 0) return 0; /* dropped, as in the reference */
    size_t n = 0;
    if (*unknown && !tokenizer->fuse_unk) out[n++] = (uint32_t)tokenizer->unk;
    *unknown = true;
    return n;
}

static ember_status symbols_of_chars(const ember_tokenizer *tokenizer, tok_bpe_work *work, const char *text, size_t n, size_t *n_symbols) {
    EMBER_TRY(reserve_ids(work, n + 1));
    uint32_t *ids = work->ids;
    size_t count = 0;
    bool unknown = false;
    for (size_t at = 0; at < n;) {
        uint32_t code = 0;
        size_t length = tok_utf8_next(text + at, n - at, &code);
        int64_t id = TOK_NONE;
        if (length == 1) {
            id = tokenizer->ascii_symbol[code];
        } else if (length > 1) {
            id = tok_lookup(tokenizer, text + at, length);
            if (id >= 0 && !tokenizer->tokens[id].in_model) id = TOK_NONE;
        } else {
            length = 1; /* an invalid byte is a character that no vocabulary has */
        }
        if (id >= 0) {
            if (unknown) ids[count++] = (uint32_t)tokenizer->unk;
            unknown = false;
            ids[count++] = (uint32_t)id;
        } else {
            count += foreign_char(tokenizer, text + at, length, &unknown, ids + count);
        }
        at += length;
    }
    if (unknown) ids[count++] = (uint32_t)tokenizer->unk;
    *n_symbols = count;
    return EMBER_OK;
}

/* The piece as one token, for `ignore_merges`; -1 when it is none. */
static int64_t whole_piece(ember_encoder *encoder, const char *text, size_t n) {
    const ember_tokenizer *tokenizer = encoder->tokenizer;
    if (n > tokenizer->longest_token) return TOK_NONE;
    if (tokenizer->raw_bytes) {
        ember_bytes *mapped = &encoder->mapped[TOK_MAX_STAGES - 1];
        mapped->n = 0;
        if (tok_map_bytes(tokenizer, text, n, mapped) != EMBER_OK) return TOK_NONE;
        text = mapped->data;
        n = mapped->n;
    }
    const int64_t id = tok_lookup(tokenizer, text, n);
    if (id < 0 || !tokenizer->tokens[id].in_model) return TOK_NONE;
    return encoder->plain && tokenizer->tokens[id].special ? TOK_NONE : id;
}

/* BPE without the cache; the ids are then work.ids[0, *n_ids). */
static ember_status merge_piece(ember_encoder *encoder, const char *text, size_t n, size_t *n_ids) {
    const ember_tokenizer *tokenizer = encoder->tokenizer;
    tok_bpe_work *work = &encoder->work;
    if (tokenizer->ignore_merges) {
        const int64_t id = whole_piece(encoder, text, n);
        if (id >= 0) {
            EMBER_TRY(reserve_ids(work, 1));
            work->ids[0] = (uint32_t)id;
            *n_ids = 1;
            return EMBER_OK;
        }
    }
    if (tokenizer->raw_bytes) {
        EMBER_TRY(reserve_ids(work, n));
        for (size_t i = 0; i < n; i++)
            work->ids[i] = (uint32_t)tokenizer->byte_symbol[(unsigned char)text[i]];
        *n_ids = n;
    } else {
        EMBER_TRY(symbols_of_chars(tokenizer, work, text, n, n_ids));
    }
    if (*n_ids > SMALL_PIECE) return merge_large(tokenizer, work, n_ids);
    *n_ids = merge_small(tokenizer, work->ids, *n_ids);
    return EMBER_OK;
}

/* ---- cache ---- */

void tok_cache_clear(ember_encoder *encoder) {
    for (size_t i = 0; i < (size_t)TOK_CACHE_SETS * TOK_CACHE_WAYS; i++)
        encoder->cache[i].n_ids = EMPTY_ENTRY;
}

static size_t cache_set(const uint64_t words[3], size_t n) {
    const uint64_t mixed = (words[0] ^ (words[1] << 23 | words[1] >> 41) ^ (words[2] << 47 | words[2] >> 17) ^ n) * 0x9E3779B97F4A7C15U;
    return (size_t)((mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9U >> 50) * TOK_CACHE_WAYS;
}

static bool same_key(const tok_cache_entry *entry, const uint64_t words[3], size_t n) {
    return entry->words[0] == words[0] && entry->words[1] == words[1] && entry->words[2] == words[2] && entry->n == n;
}

static uint64_t load64(const char *text) {
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* The n <= 24 bytes as three words with zeros behind; overlapping loads, since a memcpy of n bytes costs
 * as much as the rest of the look-up. */
static void key_words(const char *text, size_t n, uint64_t words[3]) {
    words[0] = words[1] = words[2] = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (n >= 8) {
        words[0] = load64(text);
        if (n >= 16) words[1] = load64(text + 8);
        if (n > 16) words[2] = load64(text + n - 8) >> 8 * (24 - n);
        if (n > 8 && n < 16) words[1] = load64(text + n - 8) >> 8 * (16 - n);
    } else if (n >= 4) {
        uint32_t low;
        uint32_t high;
        memcpy(&low, text, sizeof low);
        memcpy(&high, text + n - 4, sizeof high);
        words[0] = low | (uint64_t)high << 8 * (n - 4);
    } else {
        for (size_t i = 0; i < n; i++)
            words[0] |= (uint64_t)(unsigned char)text[i] << 8 * i;
    }
#else
    memcpy(words, text, n);
#endif
}

/* A piece that the cache cannot hold, or does not hold yet. */
static __attribute__((noinline)) ember_status append_new(ember_encoder *encoder, const char *text, size_t n, const uint64_t words[3],
                                                         tok_cache_entry *set) {
    size_t n_ids = 0;
    EMBER_TRY(merge_piece(encoder, text, n, &n_ids));
    if (set && n_ids <= TOK_CACHE_IDS) {
        set[1] = set[0]; /* the newer stays */
        set[0] = (tok_cache_entry){.words = {words[0], words[1], words[2]}, .n = (uint8_t)n, .n_ids = (uint8_t)n_ids};
        memcpy(set[0].ids, encoder->work.ids, n_ids * sizeof(uint32_t));
    }
    return tok_ids_append(encoder->out, encoder->work.ids, n_ids);
}

static ember_status append_word(ember_encoder *encoder, const char *text, size_t n) {
    uint64_t words[3];
    if (n > TOK_CACHE_BYTES) return append_new(encoder, text, n, NULL, NULL);
    key_words(text, n, words);
    tok_cache_entry *set = &encoder->cache[cache_set(words, n)];
    for (size_t way = 0; way < TOK_CACHE_WAYS; way++) {
        const tok_cache_entry *entry = &set[way];
        if (entry->n_ids == EMPTY_ENTRY || !same_key(entry, words, n)) continue;
        ember_ids *out = encoder->out;
        if (out->capacity - out->n < TOK_CACHE_IDS) return tok_ids_append(out, entry->ids, entry->n_ids);
        memcpy(out->data + out->n, entry->ids, sizeof entry->ids); /* a fixed size, of which n_ids count */
        out->n += entry->n_ids;
        return EMBER_OK;
    }
    return append_new(encoder, text, n, words, set);
}

/* Where no merge crosses the front of a marked word, a piece is encoded word by word. */
static ember_status append_marked(ember_encoder *encoder, const char *text, size_t n) {
    static const char marker[] = "\xE2\x96\x81";
    size_t start = 0;
    bool in_marks = true;
    for (size_t at = 0; at < n;) {
        if (n - at >= 3 && memcmp(text + at, marker, 3) == 0) {
            if (!in_marks) {
                EMBER_TRY(append_word(encoder, text + start, at - start));
                start = at;
            }
            in_marks = true;
            at += 3;
        } else {
            in_marks = false;
            at++;
        }
    }
    return append_word(encoder, text + start, n - start);
}

ember_status tok_bpe_piece(ember_encoder *encoder, const char *text, size_t n) {
    return encoder->tokenizer->marker_splits && n > TOK_CACHE_BYTES ? append_marked(encoder, text, n) : append_word(encoder, text, n);
}
