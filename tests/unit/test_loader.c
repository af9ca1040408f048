/* rooms: data h5 base */
/* Batches: every token but the first of a shard is a target once a pass, orders repeat and resume exactly,
 * sources keep their shares, documents do not leak, and errors of the reading thread arrive. */
#include "tests/check.h"

#include <unistd.h>

#include "data/loader.h"
#include "data/shard.h"

enum { VOCAB = 60000 };

static char folder[] = "loader_test_XXXXXX";
static char paths[8][256];

static const char *path_of(int i, const char *name) {
    (void)snprintf(paths[i], sizeof paths[i], "%s/%s", folder, name);
    return paths[i];
}

static uint64_t fingerprint_of(const char *path) {
    const char *glob = path;
    const ember_loader_options options = {.globs = &glob, .n_sources = 1, .sequence_length = 8, .batch_size = 1};
    ember_loader *loader = NULL;
    check_ok(ember_loader_open(&loader, &options));
    const uint64_t fingerprint = ember_loader_fingerprint(loader);
    ember_loader_close(loader);
    return fingerprint;
}

/* Tokens first, first + 1, ...; a document every `document` tokens. */
static void write_shard(const char *path, int64_t n, uint32_t first, int64_t document, const char *tokenizer) {
    ember_shard_writer *writer = NULL;
    check_ok(ember_shard_create(&writer, path, "test", tokenizer, strlen(tokenizer), VOCAB, VOCAB - 1));
    for (int64_t i = 0; i < n; i++) {
        const uint32_t id = first + (uint32_t)i;
        if (i % document == 0) check_ok(ember_shard_begin_document(writer));
        check_ok(ember_shard_append(writer, &id, 1));
    }
    check_ok(ember_shard_commit(writer, 3 * n));
}

static ember_loader_options options_for(const char *const *globs, int64_t n_sources, int64_t length, int64_t batch) {
    return (ember_loader_options){.globs = globs,
                                  .n_sources = n_sources,
                                  .sequence_length = length,
                                  .batch_size = batch,
                                  .seed = 5,
                                  .shuffle = true,
                                  .verify = true,
                                  .prefetch = true};
}

static ember_loader *open_loader(const ember_loader_options *options) {
    ember_loader *loader = NULL;
    check_ok(ember_loader_open(&loader, options));
    return loader;
}

/* A batch is well formed; counts its targets. */
static void count_batch(const ember_batch *batch, int *seen) {
    int64_t n_inputs = 0;
    int64_t n_targets = 0;
    for (int64_t i = 0; i < batch->n_sequences * batch->sequence_length; i++) {
        assert_in_range(batch->mask[i], 0, 1);
        n_inputs += batch->mask[i];
        if (batch->mask[i] == 0) {
            assert_int_equal(batch->target_ids[i], -1);
            assert_int_equal(batch->input_ids[i], 0);
        }
        if (batch->target_ids[i] < 0) continue;
        assert_int_equal(batch->mask[i], 1);
        assert_int_equal(batch->target_ids[i], batch->input_ids[i] + 1);
        seen[batch->target_ids[i]]++;
        n_targets++;
    }
    assert_int_equal(batch->n_inputs, n_inputs);
    assert_int_equal(batch->n_targets, n_targets);
}

static void check_pass(const int64_t *lengths, int n_shards, int64_t n_ranks, bool shuffle, bool prefetch) {
    enum { T = 8, B = 2 };
    static int seen[VOCAB];
    memset(seen, 0, sizeof seen);
    int64_t n_sequences = 0;
    for (int s = 0; s < n_shards; s++) {
        char name[32];
        (void)snprintf(name, sizeof name, "p%d.h5", s);
        write_shard(path_of(0, name), lengths[s], (uint32_t)s * 1000, 5, "t");
        n_sequences += lengths[s] < 2 ? 0 : (lengths[s] - 1 + T - 1) / T;
    }
    const char *glob = path_of(0, "p*.h5");
    for (int64_t rank = 0; rank < n_ranks; rank++) {
        ember_loader_options options = options_for(&glob, 1, T, B);
        options.one_pass = true;
        options.rank = rank;
        options.n_ranks = n_ranks;
        options.shuffle = shuffle;
        options.prefetch = prefetch;
        ember_loader *loader = open_loader(&options);
        assert_int_equal(ember_loader_n_sequences(loader), n_sequences);
        int64_t total = 0;
        ember_batch batch;
        do {
            check_ok(ember_loader_next(loader, &batch));
            count_batch(&batch, seen);
            total += batch.n_sequences;
            assert_true(total <= n_sequences);
        } while (batch.n_sequences > 0);
        check_ok(ember_loader_next(loader, &batch)); /* and it stays at the end */
        assert_int_equal(batch.n_sequences, 0);
        ember_loader_close(loader);
    }
    for (int s = 0; s < n_shards; s++) {
        for (int64_t i = 0; i < 1000; i++)
            assert_int_equal(seen[s * 1000 + i], i >= 1 && i < lengths[s]);
        char name[32];
        (void)snprintf(name, sizeof name, "p%d.h5", s);
        assert_int_equal(unlink(path_of(0, name)), 0);
    }
}

static void every_token_once(void **state) {
    (void)state;
    const int64_t lengths[] = {2, 3, 7, 8, 9, 10, 16, 17, 18, 24, 25, 26, 40, 41, 42, 100};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int64_t n_ranks = 1; n_ranks <= 4; n_ranks++)
            check_pass(&lengths[i], 1, n_ranks, n_ranks & 1, n_ranks & 2);
    }
    const int64_t several[] = {0, 16, 1, 17, 2, 18, 0, 100, 1};
    for (int64_t n_ranks = 1; n_ranks <= 4; n_ranks++)
        check_pass(several, 9, n_ranks, true, true);
}

/* Endless: pass after pass, each a permutation of all sequences, in another order. */
static void passes_follow(void **state) {
    (void)state;
    enum { T = 4, B = 3, N = 25, PASSES = 6 };
    write_shard(path_of(0, "q.h5"), N * T + 1, 0, 1000, "t");
    const char *glob = paths[0];
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        ember_loader_options options = options_for(&glob, 1, T, B);
        options.shuffle = shuffle;
        ember_loader *loader = open_loader(&options);
        int order[PASSES * N];
        int n = 0;
        ember_batch batch;
        while (n < PASSES * N) {
            assert_int_equal(ember_loader_tell(loader).n_sequences, n);
            assert_int_equal(ember_loader_tell(loader).passes, n / N);
            check_ok(ember_loader_next(loader, &batch));
            assert_int_equal(batch.n_sequences, B);
            for (int i = 0; i < B; i++)
                order[n++] = batch.input_ids[i * T] / T;
        }
        for (int pass = 0; pass < PASSES; pass++) {
            int seen[N] = {0};
            int in_order = 0;
            for (int i = 0; i < N; i++) {
                seen[order[pass * N + i]]++;
                in_order += order[pass * N + i] == i;
            }
            for (int i = 0; i < N; i++)
                assert_int_equal(seen[i], 1);
            assert_true(shuffle ? in_order < N / 2 : in_order == N);
        }
        if (shuffle) assert_memory_not_equal(order, order + N, N * sizeof *order);
        ember_loader_close(loader);
    }
    assert_int_equal(unlink(paths[0]), 0);
}

static void take_ids(ember_loader *loader, int n_batches, int32_t *out, int64_t n) {
    ember_batch batch;
    for (int i = 0; i < n_batches; i++) {
        check_ok(ember_loader_next(loader, &batch));
        assert_int_equal(batch.n_sequences * batch.sequence_length, n);
        memcpy(out + i * n, batch.input_ids, (size_t)n * sizeof *out);
    }
}

/* The position after k batches, put into a new loader, goes on with batch k, with and without read-ahead. */
static void resumes_exactly(void **state) {
    (void)state;
    enum { T = 4, B = 3, BATCHES = 40, N = T * B };
    write_shard(path_of(0, "r1.h5"), 101, 0, 7, "t");
    write_shard(path_of(1, "r2.h5"), 59, 1000, 9, "t");
    const char *globs[] = {paths[0], paths[1]};
    const double weights[] = {0.3, 0.7};
    static int32_t whole[BATCHES * N];
    static int32_t rest[BATCHES * N];
    for (int variant = 0; variant < 4; variant++) {
        ember_loader_options options = options_for(globs, 2, T, B);
        options.weights = variant & 1 ? weights : NULL;
        options.mask_documents = variant & 2;
        options.prefetch = false;
        ember_loader *loader = open_loader(&options);
        take_ids(loader, BATCHES, whole, N);
        ember_loader_close(loader);
        for (int split = 0; split < BATCHES; split += 13) {
            options.prefetch = split & 1;
            loader = open_loader(&options);
            take_ids(loader, split, rest, N);
            assert_memory_equal(rest, whole, (size_t)split * N * sizeof *rest);
            const ember_loader_position position = ember_loader_tell(loader);
            assert_int_equal(position.n_sequences, split * B);
            ember_loader_close(loader);
            options.prefetch = !options.prefetch;
            loader = open_loader(&options);
            take_ids(loader, 1, rest, N); /* has read ahead from the start */
            check_ok(ember_loader_seek(loader, position));
            take_ids(loader, BATCHES - split, rest, N);
            assert_memory_equal(rest, whole + split * N, (size_t)(BATCHES - split) * N * sizeof *rest);
            check_ok(ember_loader_seek(loader, (ember_loader_position){0}));
            take_ids(loader, BATCHES, rest, N);
            assert_memory_equal(rest, whole, sizeof rest);
            ember_loader_close(loader);
        }
        options.seed = 5 + (UINT64_C(1) << 40);
        loader = open_loader(&options);
        take_ids(loader, BATCHES, rest, N);
        assert_memory_not_equal(rest, whole, sizeof rest);
        ember_loader_close(loader);
    }
    assert_int_equal(unlink(paths[0]), 0);
    assert_int_equal(unlink(paths[1]), 0);
}

/* The ranks' batches, interleaved, are the batch of one rank. */
static void ranks_share_one_order(void **state) {
    (void)state;
    enum { T = 4, B = 2, STEPS = 10 };
    write_shard(path_of(0, "k.h5"), 400, 0, 1000, "t");
    const char *glob = paths[0];
    for (int64_t n_ranks = 2; n_ranks <= 4; n_ranks++) {
        ember_loader_options options = options_for(&glob, 1, T, B * n_ranks);
        ember_loader *whole = open_loader(&options);
        ember_loader *part[4];
        options.batch_size = B;
        options.n_ranks = n_ranks;
        for (options.rank = 0; options.rank < n_ranks; options.rank++)
            part[options.rank] = open_loader(&options);
        for (int step = 0; step < STEPS; step++) {
            ember_batch all;
            check_ok(ember_loader_next(whole, &all));
            for (int64_t rank = 0; rank < n_ranks; rank++) {
                ember_batch mine;
                check_ok(ember_loader_next(part[rank], &mine));
                for (int64_t i = 0; i < B; i++)
                    assert_memory_equal(mine.input_ids + i * T, all.input_ids + (i * n_ranks + rank) * T, T * sizeof(int32_t));
                assert_int_equal(ember_loader_tell(part[rank]).n_sequences, ember_loader_tell(whole).n_sequences);
            }
        }
        for (int64_t rank = 0; rank < n_ranks; rank++)
            ember_loader_close(part[rank]);
        ember_loader_close(whole);
    }
    assert_int_equal(unlink(paths[0]), 0);
}

/* Each source keeps its share at every moment and goes through its own passes. */
static void sources_are_mixed(void **state) {
    (void)state;
    enum { T = 4, STEPS = 900 };
    write_shard(path_of(0, "m1.h5"), 10 * T + 1, 0, 1000, "t");
    write_shard(path_of(1, "m2.h5"), 50 * T + 1, 10000, 1000, "t");
    write_shard(path_of(2, "m3.h5"), 200 * T + 1, 20000, 1000, "t");
    const char *globs[] = {paths[0], paths[1], paths[2]};
    const double weights[] = {5.0, 3.0, 2.0};
    ember_loader_options options = options_for(globs, 3, T, 1);
    options.weights = weights;
    ember_loader *loader = open_loader(&options);
    int counts[3] = {0};
    int uses[200] = {0};
    for (int k = 1; k <= STEPS; k++) {
        ember_batch batch;
        check_ok(ember_loader_next(loader, &batch));
        const int source = batch.input_ids[0] / 10000;
        counts[source]++;
        if (source == 1) uses[batch.input_ids[0] % 10000 / T]++;
        for (int s = 0; s < 3; s++)
            assert_true(counts[s] > k * weights[s] / 10.0 - 1.1 && counts[s] < k * weights[s] / 10.0 + 1.1);
        for (int i = 0; i < 50; i++) /* in pass p each sequence was used p or p + 1 times */
            assert_in_range(uses[i], counts[1] / 50, (counts[1] + 49) / 50);
        assert_int_equal(ember_loader_tell(loader).passes, counts[0] / 10);
    }
    ember_loader_close(loader);
    options.weights = (const double[]){1.0, 0.0, 1.0};
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "weight 1");
    /* One pass ignores the weights: everything once. */
    options.one_pass = true;
    loader = open_loader(&options);
    static int seen[VOCAB];
    memset(seen, 0, sizeof seen);
    ember_batch batch;
    int64_t n = 0;
    do {
        check_ok(ember_loader_next(loader, &batch));
        count_batch(&batch, seen);
        n += batch.n_sequences;
    } while (batch.n_sequences > 0);
    assert_int_equal(n, 260);
    ember_loader_close(loader);
    for (int i = 0; i < 3; i++)
        assert_int_equal(unlink(paths[i]), 0);
}

/* Against a search from scratch at every token. */
static void documents_are_masked(void **state) {
    (void)state;
    enum { T = 8, N = 53 };
    const int64_t starts[] = {0, 1, 8, 9, 16, 30, 31, 32, 52};
    const char *path = path_of(0, "d.h5");
    ember_shard_writer *writer = NULL;
    check_ok(ember_shard_create(&writer, path, "test", "t", 1, VOCAB, -1));
    size_t next = 0;
    for (int64_t i = 0; i < N; i++) {
        const uint32_t id = (uint32_t)i;
        if (next < sizeof starts / sizeof *starts && starts[next] == i) {
            check_ok(ember_shard_begin_document(writer));
            next++;
        }
        check_ok(ember_shard_append(writer, &id, 1));
    }
    check_ok(ember_shard_commit(writer, -1));
    ember_loader_options options = options_for(&path, 1, T, 2);
    options.one_pass = true;
    options.mask_documents = true;
    ember_loader *loader = open_loader(&options);
    ember_batch batch;
    int64_t n_targets = 0;
    int64_t n_inputs = 0;
    do {
        check_ok(ember_loader_next(loader, &batch));
        assert_non_null(batch.document_start);
        for (int64_t i = 0; i < batch.n_sequences * T; i++) {
            const int64_t t = i % T;
            if (!batch.mask[i]) {
                assert_int_equal(batch.document_start[i], t);
                continue;
            }
            const int64_t token = batch.input_ids[i];
            const int64_t first = token - t; /* of the sequence */
            int64_t start = 0;
            bool last = false;
            for (size_t d = 0; d < sizeof starts / sizeof *starts; d++) {
                if (starts[d] <= token) start = starts[d];
                last = last || starts[d] == token + 1;
            }
            assert_int_equal(batch.document_start[i], start < first ? 0 : start - first);
            assert_int_equal(batch.target_ids[i], last ? -1 : token + 1);
        }
        n_targets += batch.n_targets;
        n_inputs += batch.n_inputs;
    } while (batch.n_sequences > 0);
    assert_int_equal(n_inputs, N - 1);
    assert_int_equal(n_targets, N - 1 - 8); /* eight documents begin after another */
    assert_true(ember_loader_bytes_per_token(loader) == 0.0);
    assert_int_equal(ember_loader_eos(loader), -1);
    ember_loader_close(loader);
    options.mask_documents = false;
    loader = open_loader(&options);
    check_ok(ember_loader_next(loader, &batch));
    assert_null(batch.document_start);
    assert_int_equal(batch.n_targets, batch.n_inputs);
    ember_loader_close(loader);
    assert_int_equal(unlink(path), 0);
}

/* An id outside the vocabulary: the message of the reading thread reaches the caller, every time. */
static void errors_arrive(void **state) {
    (void)state;
    const char *path = path_of(0, "e.h5");
    write_shard(path, 100, 0, 1000, "t");
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        ember_loader_options options = options_for(&path, 1, 4, 2);
        options.prefetch = prefetch;
        options.shuffle = false;
        ember_loader *loader = open_loader(&options);
        ember_batch batch;
        check_ok(ember_loader_next(loader, &batch));
        assert_int_equal(truncate(path, 100), 0); /* someone cuts the open file short */
        ember_status status = EMBER_OK;
        for (int i = 0; i < 3 && status == EMBER_OK; i++) /* one batch may have been read ahead */
            status = ember_loader_next(loader, &batch);
        const ember_loader_position position = ember_loader_tell(loader);
        check_fails(ember_loader_next(loader, &batch), EMBER_E_CORRUPT, "e.h5");
        check_fails(ember_loader_next(loader, &batch), EMBER_E_CORRUPT, "cut short");
        assert_int_equal(batch.n_sequences, 0);
        assert_int_equal(ember_loader_tell(loader).n_sequences, position.n_sequences);
        ember_loader_close(loader);
        write_shard(path, 100, 0, 1000, "t");
    }
    assert_int_equal(unlink(path), 0);
}

static void deleted_shards_stay_readable(void **state) {
    (void)state;
    const char *path = path_of(0, "g.h5");
    write_shard(path, 100, 0, 1000, "t");
    ember_loader_options options = options_for(&path, 1, 4, 2);
    ember_loader *loader = open_loader(&options);
    assert_int_equal(unlink(path), 0);
    static int seen[VOCAB];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 25; i++) {
        ember_batch batch;
        check_ok(ember_loader_next(loader, &batch));
        count_batch(&batch, seen);
    }
    for (int i = 1; i < 100; i++)
        assert_int_equal(seen[i], 2);
    ember_loader_close(loader);
}

static void what_the_data_are(void **state) {
    (void)state;
    write_shard(path_of(0, "s[1].h5"), 10, 0, 1000, "t");
    write_shard(path_of(1, "s2.h5"), 20, 1000, 1000, "t");
    write_shard(path_of(2, "s10.h5"), 30, 2000, 1000, "t");
    write_shard(path_of(3, "other.h5"), 30, 2000, 1000, "u");
    const char *glob = path_of(4, "s*.h5");
    ember_loader_options options = options_for(&glob, 1, 100, 1);
    options.shuffle = false;
    ember_loader *loader = open_loader(&options);
    assert_int_equal(ember_loader_n_tokens(loader), 60);
    assert_int_equal(ember_loader_vocab_size(loader), VOCAB);
    assert_int_equal(ember_loader_eos(loader), VOCAB - 1);
    assert_true(ember_loader_bytes_per_token(loader) == 3.0);
    size_t n = 0;
    assert_string_equal(ember_loader_tokenizer_text(loader, &n), "t");
    assert_int_equal(n, 1);
    /* Name order by bytes: s10, s2, s[1]. */
    const int32_t firsts[] = {2000, 1000, 0};
    for (int i = 0; i < 3; i++) {
        ember_batch batch;
        check_ok(ember_loader_next(loader, &batch));
        assert_int_equal(batch.input_ids[0], firsts[i]);
    }
    const uint64_t fingerprint = ember_loader_fingerprint(loader);
    ember_loader_close(loader);
    /* Elsewhere under another name, the same data: the same fingerprint. Other data: another. */
    const char *moved[] = {path_of(5, "x1"), path_of(6, "x2"), paths[0]};
    assert_int_equal(rename(paths[2], paths[5]), 0);
    assert_int_equal(rename(paths[1], paths[6]), 0);
    options.globs = moved;
    options.n_sources = 3;
    loader = open_loader(&options);
    assert_int_equal(ember_loader_fingerprint(loader), fingerprint);
    ember_loader_close(loader);
    options.n_sources = 2;
    loader = open_loader(&options);
    assert_int_not_equal(ember_loader_fingerprint(loader), fingerprint);
    ember_loader_close(loader);
    /* A name with brackets is a name first. */
    options.globs = &moved[2];
    options.n_sources = 1;
    loader = open_loader(&options);
    assert_int_equal(ember_loader_n_tokens(loader), 10);
    ember_loader_close(loader);
    const char *mixed[] = {paths[0], paths[3]};
    options.globs = mixed;
    options.n_sources = 2;
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "other.h5");
    assert_null(loader);
    const int left[] = {0, 3, 5, 6};
    for (int i = 0; i < 4; i++)
        assert_int_equal(unlink(paths[left[i]]), 0);
}

/* Shards of one size and one tokenizer: other tokens or other documents are other data, another path is not.
 * Nothing but the manifest is read for it. */
static void content_is_in_the_fingerprint(void **state) {
    (void)state;
    write_shard(path_of(0, "c1.h5"), 40, 100, 10, "t");
    write_shard(path_of(1, "c2.h5"), 40, 101, 10, "t");
    write_shard(path_of(2, "c3.h5"), 40, 100, 20, "t");
    write_shard(path_of(3, "c4.h5"), 40, 100, 10, "t");
    const uint64_t fingerprint = fingerprint_of(paths[0]);
    assert_int_equal(fingerprint_of(paths[0]), fingerprint);
    assert_int_not_equal(fingerprint_of(paths[1]), fingerprint);
    assert_int_not_equal(fingerprint_of(paths[2]), fingerprint);
    assert_int_equal(fingerprint_of(paths[3]), fingerprint);
    for (int i = 0; i < 4; i++)
        assert_int_equal(unlink(paths[i]), 0);
}

static void refuses(void **state) {
    (void)state;
    ember_loader *loader = NULL;
    const char *glob = path_of(0, "none*.h5");
    ember_loader_options options = options_for(&glob, 1, 4, 2);
    check_fails(ember_loader_open(&loader, &options), EMBER_E_NOT_FOUND, "none*.h5");
    write_shard(path_of(1, "one.h5"), 1, 0, 10, "t");
    glob = paths[1];
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "no sequence");
    write_shard(paths[1], 20, 0, 10, "t");
    options.sequence_length = 0;
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "sequence length is 0");
    options.sequence_length = 4;
    options.batch_size = 0;
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "batch size is 0");
    options.batch_size = 1;
    options.rank = 2;
    options.n_ranks = 2;
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "rank is 2");
    options.rank = 0;
    options.n_sources = 0;
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "sources is 0");
    assert_null(loader);
    options.n_sources = 1;
    options.n_ranks = 0;
    options.one_pass = true;
    loader = open_loader(&options);
    check_fails(ember_loader_seek(loader, (ember_loader_position){.n_sequences = 6}), EMBER_E_ARGUMENT, "one pass over 5");
    check_ok(ember_loader_seek(loader, (ember_loader_position){.n_sequences = 4}));
    ember_batch batch;
    check_ok(ember_loader_next(loader, &batch));
    assert_int_equal(batch.n_sequences, 1);
    check_ok(ember_loader_next(loader, &batch));
    assert_int_equal(batch.n_sequences, 0);
    ember_loader_close(loader);
    ember_loader_close(NULL);
    assert_int_equal(unlink(paths[1]), 0);
}

static void synthetic_source(void **state) {
    (void)state;
    enum { T = 16, B = 4, BATCHES = 20, N = T * B };
    static int32_t first[BATCHES * N];
    static int32_t again[BATCHES * N];
    const char *globs[] = {"synthetic", "synthetic"};
    ember_loader_options options = options_for(globs, 1, T, B);
    options.synthetic_vocab_size = 300;
    options.zipf_exponent = 1.1;
    options.mask_documents = true;
    ember_loader *loader = open_loader(&options);
    take_ids(loader, BATCHES, first, N);
    for (int i = 0; i < BATCHES * N; i++)
        assert_in_range(first[i], 0, 299);
    check_ok(ember_loader_seek(loader, (ember_loader_position){.n_sequences = 5 * B}));
    take_ids(loader, BATCHES - 5, again, N);
    assert_memory_equal(again, first + 5 * N, (BATCHES - 5) * N * sizeof *again);
    ember_batch batch;
    check_ok(ember_loader_next(loader, &batch));
    assert_int_equal(batch.n_targets, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(batch.document_start[i], 0);
        if (i % T < T - 1) assert_int_equal(batch.target_ids[i], batch.input_ids[i + 1]);
    }
    assert_int_equal(ember_loader_n_tokens(loader), 0);
    assert_int_equal(ember_loader_n_sequences(loader), 0);
    assert_int_equal(ember_loader_vocab_size(loader), 300);
    assert_int_equal(ember_loader_eos(loader), -1);
    assert_string_equal(ember_loader_tokenizer_text(loader, NULL), "");
    const uint64_t fingerprint = ember_loader_fingerprint(loader);
    ember_loader_close(loader);
    options.zipf_exponent = 1.2;
    loader = open_loader(&options);
    assert_int_not_equal(ember_loader_fingerprint(loader), fingerprint);
    ember_loader_close(loader);
    options.one_pass = true;
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "no end");
    options.one_pass = false;
    options.n_sources = 2;
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "stands alone");
    options.n_sources = 1;
    options.synthetic_vocab_size = 0;
    check_fails(ember_loader_open(&loader, &options), EMBER_E_ARGUMENT, "vocabulary of 0");
}

/* Opening and closing at once, with a batch being read: nothing hangs, nothing leaks. */
static void closes_at_any_time(void **state) {
    (void)state;
    const char *path = path_of(0, "c.h5");
    write_shard(path, 50000, 0, 100, "t");
    ember_loader_options options = options_for(&path, 1, 64, 512);
    options.mask_documents = true;
    for (int i = 0; i < 20; i++) {
        ember_loader *loader = open_loader(&options);
        ember_batch batch;
        for (int k = 0; k < i % 3; k++)
            check_ok(ember_loader_next(loader, &batch));
        ember_loader_close(loader);
    }
    assert_int_equal(unlink(path), 0);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_once),
        cmocka_unit_test(passes_follow),
        cmocka_unit_test(resumes_exactly),
        cmocka_unit_test(ranks_share_one_order),
        cmocka_unit_test(sources_are_mixed),
        cmocka_unit_test(documents_are_masked),
        cmocka_unit_test(errors_arrive),
        cmocka_unit_test(deleted_shards_stay_readable),
        cmocka_unit_test(what_the_data_are),
        cmocka_unit_test(content_is_in_the_fingerprint),
        cmocka_unit_test(refuses),
        cmocka_unit_test(synthetic_source),
        cmocka_unit_test(closes_at_any_time),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
