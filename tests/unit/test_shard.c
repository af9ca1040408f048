/* rooms: data h5 base */
/* Token shards: what is written is read back, what is damaged or foreign is refused by name, and nothing
 * is left behind. */
#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/loader.h"
#include "data/shard.h"
#include "data/shard_format.h"
#include "data/shard_stats.h"
#include "lib/base/atomic_file.h"
#include "lib/base/tensor.h"
#include "lib/h5/h5_internal.h"

static const char tokenizer[] = "{\"type\":\"words\"}";

static char folder[] = "shard_test_XXXXXX";

static const char *path_of(const char *name) {
    static char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int count_files(void) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(dir);
    return n;
}

static ember_shard_writer *create(const char *path, int64_t vocab, int64_t eos) {
    ember_shard_writer *writer = NULL;
    check_ok(ember_shard_create(&writer, path, "words", tokenizer, strlen(tokenizer), vocab, eos));
    return writer;
}

/* Token i is i % vocab; documents of the given lengths. */
static void write_shard(const char *path, int64_t vocab, const int64_t *lengths, size_t n) {
    ember_shard_writer *writer = create(path, vocab, vocab - 1);
    uint32_t at = 0;
    for (size_t d = 0; d < n; d++) {
        check_ok(ember_shard_begin_document(writer));
        for (int64_t i = 0; i < lengths[d]; i++, at++) {
            const uint32_t id = at % (uint32_t)vocab;
            check_ok(ember_shard_append(writer, &id, 1));
        }
    }
    check_ok(ember_shard_commit(writer, 1234));
}

static void reads_back(int64_t vocab) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", path_of("a.h5"));
    const int64_t lengths[] = {3, 0, 1, 30000, 0, 7};
    write_shard(path, vocab, lengths, 6);
    ember_shard *shard = NULL;
    check_ok(ember_shard_open(&shard, path, true));
    const int64_t n = 30011;
    assert_int_equal(ember_shard_n_tokens(shard), n);
    assert_int_equal(ember_shard_n_documents(shard), 4); /* those without a token are dropped */
    const int64_t starts[] = {0, 3, 4, 30004};
    assert_memory_equal(ember_shard_documents(shard), starts, sizeof starts);
    assert_int_equal(ember_shard_vocab_size(shard), vocab);
    assert_int_equal(ember_shard_eos(shard), vocab - 1);
    assert_int_equal(ember_shard_source_bytes(shard), 1234);
    assert_string_equal(ember_shard_tokenizer_name(shard), "words");
    assert_int_equal(ember_shard_tokenizer_hash(shard), XXH3_64bits(tokenizer, strlen(tokenizer)));
    size_t text_bytes = 0;
    assert_string_equal(ember_shard_tokenizer_text(shard, &text_bytes), tokenizer);
    assert_int_equal(text_bytes, strlen(tokenizer));
    uint32_t *ids = calloc((size_t)n, sizeof *ids);
    assert_non_null(ids);
    check_ok(ember_shard_read(shard, 0, n, ids));
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(ids[i], i % vocab);
    check_ok(ember_shard_read(shard, n - 1, 1, ids));
    assert_int_equal(ids[0], (n - 1) % vocab);
    check_ok(ember_shard_read(shard, n, 0, ids));
    check_fails(ember_shard_read(shard, n - 1, 2, ids), EMBER_E_ARGUMENT, "30011 tokens");
    check_fails(ember_shard_read(shard, -1, 1, ids), EMBER_E_ARGUMENT, "outside");
    check_fails(ember_shard_read(shard, 1, INT64_MAX, ids), EMBER_E_ARGUMENT, "outside");
    free(ids);
    ember_shard_close(shard);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(count_files(), 0);
}

static void narrow_and_wide(void **state) {
    (void)state;
    reads_back(2);
    reads_back(65536);
    reads_back(65537);
    reads_back(200000);
}

static void dtype_follows_the_vocabulary(void **state) {
    (void)state;
    const int64_t length = 5;
    for (int wide = 0; wide < 2; wide++) {
        write_shard(path_of("d.h5"), wide ? 65537 : 65536, &length, 1);
        ember_h5_reader *file = NULL;
        ember_h5_info info;
        check_ok(ember_h5_open(&file, path_of("d.h5"), "ember-tokens", 1, true));
        check_ok(ember_h5_get_info(file, "/tokens", &info));
        assert_int_equal(info.dtype, wide ? EMBER_U32 : EMBER_U16);
        ember_h5_close(file);
        assert_int_equal(unlink(path_of("d.h5")), 0);
    }
}

static void empty_shard(void **state) {
    (void)state;
    ember_shard_writer *writer = create(path_of("e.h5"), 10, -1);
    check_ok(ember_shard_begin_document(writer));
    check_ok(ember_shard_commit(writer, 0));
    ember_shard *shard = NULL;
    uint32_t id = 0;
    check_ok(ember_shard_open(&shard, path_of("e.h5"), true));
    assert_int_equal(ember_shard_n_tokens(shard), 0);
    assert_int_equal(ember_shard_n_documents(shard), 0);
    assert_int_equal(ember_shard_eos(shard), -1);
    check_ok(ember_shard_read(shard, 0, 0, &id));
    check_fails(ember_shard_read(shard, 0, 1, &id), EMBER_E_ARGUMENT, "0 tokens");
    ember_shard_close(shard);
    assert_int_equal(unlink(path_of("e.h5")), 0);
}

static void writer_refuses(void **state) {
    (void)state;
    ember_shard_writer *writer = NULL;
    check_fails(ember_shard_create(&writer, path_of("w.h5"), "t", "", 0, 0, -1), EMBER_E_ARGUMENT, "vocabulary 0");
    check_fails(ember_shard_create(&writer, path_of("w.h5"), "t", "", 0, 10, 10), EMBER_E_ARGUMENT, "id 10");
    check_fails(ember_shard_create(&writer, path_of("no/folder/w.h5"), "t", "", 0, 10, -1), EMBER_E_IO, "no/folder");
    assert_null(writer);
    writer = create(path_of("w.h5"), 10, -1);
    const uint32_t good = 9;
    const uint32_t bad = 10;
    check_fails(ember_shard_append(writer, &good, 1), EMBER_E_STATE, "before the first document");
    check_ok(ember_shard_begin_document(writer));
    check_ok(ember_shard_append(writer, &good, 1));
    check_fails(ember_shard_append(writer, &bad, 1), EMBER_E_ARGUMENT, "token 1 has id 10");
    assert_int_equal(count_files(), 0); /* the raw files have no name */
    ember_shard_abort(writer);
    writer = create(path_of("w.h5"), 10, -1);
    check_fails(ember_shard_commit(writer, -2), EMBER_E_ARGUMENT, "-2 source bytes");
    ember_shard_abort(NULL);
    ember_shard_close(NULL);
    assert_int_equal(count_files(), 0);
}

/* An existing shard survives a commit that fails. */
static void commit_is_atomic(void **state) {
    (void)state;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", path_of("k.h5"));
    const int64_t length = 20;
    write_shard(path, 10, &length, 1);
    ember_shard_writer *writer = create(path, 10, -1);
    const uint32_t id = 3;
    check_ok(ember_shard_begin_document(writer));
    check_ok(ember_shard_append(writer, &id, 1));
    ember_shard_abort(writer);
    ember_shard *shard = NULL;
    check_ok(ember_shard_open(&shard, path, true));
    assert_int_equal(ember_shard_n_tokens(shard), 20);
    /* A reader keeps its file when the name gets another, or none. */
    write_shard(path, 10, &length, 1);
    assert_int_equal(unlink(path), 0);
    uint32_t ids[20];
    check_ok(ember_shard_read(shard, 0, 20, ids));
    assert_int_equal(ids[19], 9);
    ember_shard_close(shard);
    assert_int_equal(count_files(), 0);
}

/* A shard whose parts the test chooses. */
typedef struct recipe {
    const char *format;
    int64_t version;
    int64_t vocab;
    int64_t eos;
    int64_t source_bytes;
    const char *hash;
    ember_tensor tokens;
    ember_tensor documents;
} recipe;

static void cook(const char *path, const recipe *r) {
    ember_h5_writer *file = NULL;
    check_ok(ember_h5_create(&file, path, r->format, r->version));
    check_ok(ember_h5_put_attribute_text(file, "/", SHARD_TOKENIZER_NAME, "words"));
    check_ok(ember_h5_put_attribute_text(file, "/", SHARD_TOKENIZER_HASH, r->hash));
    check_ok(ember_h5_put_attribute_i64(file, "/", SHARD_VOCAB_SIZE, r->vocab));
    check_ok(ember_h5_put_attribute_i64(file, "/", SHARD_EOS, r->eos));
    check_ok(ember_h5_put_attribute_i64(file, "/", SHARD_SOURCE_BYTES, r->source_bytes));
    check_ok(ember_h5_put_text(file, SHARD_TOKENIZER, tokenizer, strlen(tokenizer)));
    check_ok(ember_h5_put(file, SHARD_TOKENS, r->tokens));
    check_ok(ember_h5_put(file, SHARD_DOCUMENTS, r->documents));
    check_ok(ember_h5_commit(file));
}

static void refuses(const recipe *r, ember_status wanted, const char *part) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", path_of("r.h5"));
    cook(path, r);
    ember_shard *shard = NULL;
    check_fails(ember_shard_open(&shard, path, true), wanted, part);
    assert_null(shard);
    assert_non_null(strstr(ember_last_error(), path));
    assert_int_equal(unlink(path), 0);
}

static void reader_refuses(void **state) {
    (void)state;
    uint16_t tokens[] = {1, 2, 3, 4};
    uint32_t wide[] = {1, 2, 3, 4};
    float numbers[] = {1, 2, 3, 4};
    int64_t documents[] = {0, 2};
    char hash[17];
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH3_64bits(tokenizer, strlen(tokenizer)));
    const recipe good = {.format = "ember-tokens",
                         .version = 1,
                         .vocab = 10,
                         .eos = 9,
                         .source_bytes = -1,
                         .hash = hash,
                         .tokens = ember_tensor_1d(tokens, EMBER_U16, 4),
                         .documents = ember_tensor_1d(documents, EMBER_I64, 2)};
    recipe r = good;
    cook(path_of("r.h5"), &r);
    ember_shard *shard = NULL;
    check_ok(ember_shard_open(&shard, path_of("r.h5"), true)); /* the recipe itself is sound */
    ember_shard_close(shard);
    r.format = "ember-checkpoint", refuses(&r, EMBER_E_FORMAT, "ember-checkpoint"), r = good;
    r.version = 2, refuses(&r, EMBER_E_VERSION, "version 2"), r = good;
    r.vocab = 0, refuses(&r, EMBER_E_FORMAT, "vocab_size is 0"), r = good;
    r.vocab = INT64_C(1) << 31, refuses(&r, EMBER_E_FORMAT, "vocab_size is 2147483648"), r = good;
    r.vocab = 65537, refuses(&r, EMBER_E_FORMAT, "u16"), r = good;
    r.eos = 10, refuses(&r, EMBER_E_FORMAT, "eos_token_id is 10"), r = good;
    r.eos = -2, refuses(&r, EMBER_E_FORMAT, "eos_token_id is -2"), r = good;
    r.source_bytes = -2, refuses(&r, EMBER_E_FORMAT, "source_bytes is -2"), r = good;
    r.hash = "0123456789abcdef", refuses(&r, EMBER_E_CORRUPT, "0123456789abcdef"), r = good;
    r.hash = "0123", refuses(&r, EMBER_E_FORMAT, "hexadecimal"), r = good;
    r.tokens = ember_tensor_1d(wide, EMBER_U32, 4), refuses(&r, EMBER_E_FORMAT, "u32"), r = good;
    r.tokens = ember_tensor_1d(numbers, EMBER_F32, 4), refuses(&r, EMBER_E_FORMAT, "/tokens"), r = good;
    r.tokens = ember_tensor_2d(tokens, EMBER_U16, 2, 2), refuses(&r, EMBER_E_FORMAT, "/tokens"), r = good;
    r.documents = ember_tensor_1d(wide, EMBER_U32, 2), refuses(&r, EMBER_E_FORMAT, "/documents"), r = good;
    r.documents = ember_tensor_1d(documents, EMBER_I64, 0), refuses(&r, EMBER_E_FORMAT, "0 documents"), r = good;
    documents[0] = 1, refuses(&r, EMBER_E_CORRUPT, "starts at token 1, not 0"), documents[0] = 0;
    documents[1] = 0, refuses(&r, EMBER_E_CORRUPT, "document 1 starts at token 0"), documents[1] = 2;
    documents[1] = 4, refuses(&r, EMBER_E_CORRUPT, "document 1 starts at token 4"), documents[1] = 2;
    check_fails(ember_shard_open(&shard, path_of("none.h5"), true), EMBER_E_NOT_FOUND, "none.h5");
    /* An id outside the vocabulary is found at reading, with its place. */
    tokens[2] = 10;
    cook(path_of("r.h5"), &good);
    uint32_t ids[4];
    check_ok(ember_shard_open(&shard, path_of("r.h5"), true));
    check_ok(ember_shard_read(shard, 0, 2, ids));
    check_fails(ember_shard_read(shard, 1, 3, ids), EMBER_E_CORRUPT, "token 2 has id 10");
    ember_shard_close(shard);
    assert_int_equal(unlink(path_of("r.h5")), 0);
}

static void damaged_files(void **state) {
    (void)state;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", path_of("t.h5"));
    const int64_t length = 40000;
    write_shard(path, 1000, &length, 1);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    ember_shard *shard = NULL;
    for (int64_t keep = 0; keep < info.st_size; keep += info.st_size / 7) {
        write_shard(path, 1000, &length, 1);
        assert_int_equal(truncate(path, keep), 0);
        const ember_status status = ember_shard_open(&shard, path, false);
        assert_int_not_equal(status, EMBER_OK);
        assert_non_null(strstr(ember_last_error(), "t.h5"));
    }
    /* One flipped bit in the tokens: found by verify. */
    write_shard(path, 1000, &length, 1);
    ember_h5_reader *file = NULL;
    ember_h5_info tokens;
    check_ok(ember_h5_open(&file, path, "ember-tokens", 1, false));
    check_ok(ember_h5_get_info(file, "/tokens", &tokens));
    ember_h5_close(file);
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    uint8_t byte = 0;
    assert_int_equal(pread(fd, &byte, 1, (off_t)tokens.file_offset + 777), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)tokens.file_offset + 777), 1);
    check_fails(ember_shard_open(&shard, path, true), EMBER_E_CORRUPT, "/tokens");
    check_ok(ember_shard_open(&shard, path, false));
    /* Cut short while open: an error, not zeros. */
    assert_int_equal(ftruncate(fd, (off_t)tokens.file_offset + 10), 0);
    (void)close(fd);
    uint32_t ids[100];
    check_fails(ember_shard_read(shard, 0, 100, ids), EMBER_E_CORRUPT, "cut short");
    ember_shard_close(shard);
    assert_int_equal(unlink(path), 0);
}

/* Replaces /tokens of a shard by one of n tokens that is a hole but for its end, and mends the manifest. */
static void make_sparse(const char *path, int64_t n, const uint16_t *last, size_t n_last) {
    ember_h5_reader *old = NULL;
    check_ok(ember_h5_open(&old, path, "ember-tokens", 1, true));
    h5_row rows[16];
    assert_in_range(old->index.n, 4, 16);
    for (size_t i = 0; i < old->index.n; i++) {
        const h5_entry *entry = &old->index.items[i];
        const bool tokens = strcmp(entry->path, "/tokens") == 0;
        rows[i] = (h5_row){.path = entry->path,
                           .dtype = entry->is_group       ? "group"
                                    : entry->info.is_text ? "text"
                                                          : ember_dtype_name(entry->dtype),
                           .n_dims = entry->info.n_dims,
                           .dims = tokens ? &n : entry->info.dims,
                           .data_hash = entry->data_hash,
                           .attributes_hash = entry->attributes_hash,
                           .is_group = entry->is_group};
    }
    assert_true(H5Fclose(old->id) >= 0); /* libhdf5 does not write a file that it also reads */
    old->id = -1;
    hid_t access = -1;
    hid_t type = -1;
    check_ok(h5_access(&access));
    check_ok(h5_type_of(&type, EMBER_U16));
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, access);
    assert_true(file >= 0);
    assert_true(H5Ldelete(file, "/tokens", H5P_DEFAULT) >= 0);
    assert_true(H5Ldelete(file, H5_MANIFEST, H5P_DEFAULT) >= 0);
    assert_true(H5Adelete(file, H5_MANIFEST_HASH) >= 0);
    const hsize_t dims = (hsize_t)n;
    const hsize_t count = n_last;
    const hsize_t start = dims - count;
    const hid_t creation = h5_creation(H5P_DATASET_CREATE);
    assert_true(H5Pset_layout(creation, H5D_CONTIGUOUS) >= 0 && H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY) >= 0 &&
                H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) >= 0);
    const hid_t space = H5Screate_simple(1, &dims, NULL);
    const hid_t memory = H5Screate_simple(1, &count, NULL);
    const hid_t tokens = H5Dcreate2(file, "/tokens", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    assert_true(tokens >= 0);
    assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0);
    assert_true(H5Dwrite(tokens, type, memory, space, H5P_DEFAULT, last) >= 0);
    check_ok(h5_manifest_write(file, path, rows, old->index.n));
    assert_true(H5Dclose(tokens) >= 0 && H5Sclose(memory) >= 0 && H5Sclose(space) >= 0 && H5Pclose(creation) >= 0);
    assert_true(H5Tclose(type) >= 0 && H5Pclose(access) >= 0 && H5Fclose(file) >= 0);
    ember_h5_close(old);
}

/* 2^31 + 10 tokens: offsets beyond 4 GiB in bytes and beyond 2^31 in tokens. Holes cost no disk. */
static void beyond_two_to_the_31(void **state) {
    (void)state;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", path_of("s.h5"));
    const int64_t n = (INT64_C(1) << 31) + 10;
    const int64_t length = 10;
    const uint16_t last[] = {101, 102, 103, 104, 105};
    write_shard(path, 1000, &length, 1);
    make_sparse(path, n, last, 5);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size > 2 * n);
    if (info.st_blocks * 512 > info.st_size / 2) print_message("this file system has no holes\n");
    ember_shard *shard = NULL;
    check_ok(ember_shard_open(&shard, path, false));
    assert_int_equal(ember_shard_n_tokens(shard), n);
    uint32_t ids[7];
    check_ok(ember_shard_read(shard, n - 7, 7, ids));
    const uint32_t wanted[] = {0, 0, 101, 102, 103, 104, 105};
    assert_memory_equal(ids, wanted, sizeof wanted);
    check_fails(ember_shard_read(shard, n - 7, 8, ids), EMBER_E_ARGUMENT, "2147483658 tokens");
    ember_shard_close(shard);
    /* The loader's last sequence: tokens 2^31 + 0 .. 2^31 + 8 as inputs, one further on as targets. */
    const char *glob = path;
    const ember_loader_options options = {
        .globs = &glob, .n_sources = 1, .sequence_length = 16, .batch_size = 1, .one_pass = true, .mask_documents = true};
    ember_loader *loader = NULL;
    ember_batch batch;
    check_ok(ember_loader_open(&loader, &options));
    const int64_t n_sequences = (INT64_C(1) << 27) + 1;
    assert_int_equal(ember_loader_n_sequences(loader), n_sequences);
    check_ok(ember_loader_seek(loader, (ember_loader_position){.n_sequences = (uint64_t)n_sequences - 1}));
    check_ok(ember_loader_next(loader, &batch));
    assert_int_equal(batch.n_sequences, 1);
    assert_int_equal(batch.n_inputs, 9);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(batch.input_ids[i], i < 5 ? 0 : 101 + i - 5);
        assert_int_equal(batch.target_ids[i], i < 4 ? 0 : 101 + i - 4);
    }
    check_ok(ember_loader_next(loader, &batch));
    assert_int_equal(batch.n_sequences, 0);
    ember_loader_close(loader);
    assert_int_equal(unlink(path), 0);
}

/* Paths are bytes. */
static void odd_paths(void **state) {
    (void)state;
    char longest[4096];
    (void)snprintf(longest, sizeof longest, "%s/%0251d.h5", folder, 7);
    char names[4][4096];
    (void)snprintf(names[0], sizeof names[0], "%s/a b'\"c\n\xff\xfe.h5", folder);
    (void)snprintf(names[1], sizeof names[1], "%s/\xc3\xa9[1].h5", folder);
    (void)snprintf(names[2], sizeof names[2], "%s", longest);
    (void)snprintf(names[3], sizeof names[3], "%s/.hidden", folder);
    const int64_t length = 3;
    for (int i = 0; i < 4; i++) {
        write_shard(names[i], 5, &length, 1);
        ember_shard *shard = NULL;
        check_ok(ember_shard_open(&shard, names[i], true));
        assert_string_equal(ember_shard_path(shard), names[i]);
        ember_shard_close(shard);
        assert_int_equal(unlink(names[i]), 0);
    }
    assert_int_equal(count_files(), 0);
}

/* Separators that disagree with the documents are found; lengths and the ranking are exact. */
static void measures(void **state) {
    (void)state;
    const uint32_t ids[] = {3, 3, 9, 4, 9, 4, 3, 5, 9, 7};
    for (int variant = 0; variant < 3; variant++) {
        ember_shard_writer *writer = create(path_of("m.h5"), 10, 9);
        const size_t starts[3][3] = {{0, 3, 5}, {0, 2, 5}, {0, 3, 5}};
        const size_t n = variant == 2 ? 10 : 9;
        for (size_t i = 0; i < n; i++) {
            for (int d = 0; d < 3; d++)
                if (starts[variant][d] == i) check_ok(ember_shard_begin_document(writer));
            check_ok(ember_shard_append(writer, &ids[i], 1));
        }
        check_ok(ember_shard_commit(writer, 6));
        ember_shard *shard = NULL;
        ember_shard_stats stats;
        check_ok(ember_shard_open(&shard, path_of("m.h5"), true));
        check_ok(ember_shard_measure(&stats, shard, 3));
        assert_int_equal(stats.n_separators, 3);
        assert_int_equal(stats.n_closed_documents, variant == 0 ? 3 : 2);
        assert_int_equal(stats.separators_agree, variant == 0);
        assert_int_equal(stats.shortest_document, 2);
        assert_int_equal(stats.median_document, 3);
        assert_int_equal(stats.longest_document, variant == 2 ? 5 : 4);
        assert_int_equal(stats.n_distinct, variant == 2 ? 5 : 4);
        assert_int_equal(stats.n_commonest, 3);
        assert_int_equal(stats.commonest[0].id, 3);
        assert_int_equal(stats.commonest[0].count, 3);
        assert_int_equal(stats.commonest[1].id, 9);
        assert_int_equal(stats.commonest[2].id, 4);
        assert_int_equal(stats.commonest[2].count, 2);
        ember_shard_stats_free(&stats);
        check_fails(ember_shard_measure(&stats, shard, -1), EMBER_E_ARGUMENT, "-1");
        ember_shard_close(shard);
        assert_int_equal(unlink(path_of("m.h5")), 0);
    }
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return rmdir(folder); /* fails when a test left something behind */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_and_wide),  cmocka_unit_test(dtype_follows_the_vocabulary),
        cmocka_unit_test(empty_shard),      cmocka_unit_test(writer_refuses),
        cmocka_unit_test(commit_is_atomic), cmocka_unit_test(reader_refuses),
        cmocka_unit_test(damaged_files),    cmocka_unit_test(beyond_two_to_the_31),
        cmocka_unit_test(odd_paths),        cmocka_unit_test(measures),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
