/* rooms: data h5 base */
/* Text to shards: documents as their rules say and not a byte lost, the same shard on any number of
 * threads, a held-out split by document, and refusals that leave nothing behind. */
#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/prepare.h"
#include "data/shard.h"

static char folder[] = "prepare_test_XXXXXX";
static char text_path[64];
static char other_path[64];
static char shard_path[64];
static char valid_path[64];
static ember_tokenizer *bytes_tokenizer;
enum { EOT = 256 };

static int count_files(void) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(dir);
    return n;
}

static void write_text(const char *path, const void *text, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static const char *const one_file[] = {text_path};

static ember_prepare_options options_for(const ember_document_rule *rule) {
    return (ember_prepare_options){
        .files = one_file, .n_files = 1, .tokenizer = bytes_tokenizer, .output = shard_path, .rule = rule, .add_eos = true, .n_threads = 2};
}

static uint32_t *read_all(const char *path, int64_t *n, int64_t *n_documents, int64_t *documents, int64_t capacity) {
    ember_shard *shard = NULL;
    check_ok(ember_shard_open(&shard, path, true));
    *n = ember_shard_n_tokens(shard);
    *n_documents = ember_shard_n_documents(shard);
    uint32_t *ids = calloc((size_t)*n + 1, sizeof *ids);
    assert_non_null(ids);
    check_ok(ember_shard_read(shard, 0, *n, ids));
    for (int64_t i = 0; i < *n_documents && i < capacity; i++)
        documents[i] = ember_shard_documents(shard)[i];
    ember_shard_close(shard);
    return ids;
}

/* The documents of `text` under a rule, separated by '|' in `wanted`; the end token stands for each bar. */
static void splits(const char *rule_text, const char *text, size_t n_text, const char *wanted, size_t n_wanted) {
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, rule_text));
    write_text(text_path, text, n_text);
    ember_prepare_options options = options_for(&rule);
    ember_prepare_report report;
    check_ok(ember_prepare(&report, &options));
    int64_t n = 0;
    int64_t n_documents = 0;
    int64_t documents[64];
    uint32_t *ids = read_all(shard_path, &n, &n_documents, documents, 64);
    assert_int_equal(n, n_wanted);
    int64_t bars = 0;
    for (size_t i = 0; i < n_wanted; i++) {
        if (i == 0 || wanted[i - 1] == '|') assert_int_equal(documents[bars], i);
        assert_int_equal(ids[i], wanted[i] == '|' ? EOT : (unsigned char)wanted[i]);
        bars += wanted[i] == '|';
    }
    assert_int_equal(n_documents, bars);
    assert_int_equal(report.train.n_documents, bars);
    assert_int_equal(report.train.n_tokens, n);
    assert_int_equal(report.train.source_bytes, (int64_t)n_wanted - bars);
    free(ids);
    assert_int_equal(unlink(shard_path), 0);
    assert_int_equal(unlink(text_path), 0);
    ember_document_rule_free(&rule);
}
#define SPLITS(rule, text, wanted) splits(rule, text, sizeof(text) - 1, wanted, sizeof(wanted) - 1)

static void documents_by_rule(void **state) {
    (void)state;
    SPLITS("file", "one\n\ntwo\r\n", "one\n\ntwo\r\n|");
    SPLITS("file", "\0\xff\xfe\x80z\0", "\0\xff\xfe\x80z\0|");
    SPLITS("line", "a\nb\r\nc", "a\n|b\r\n|c|");
    SPLITS("line", "a\n\n\r\nb\n\n", "a\n\n\r\n|b\n\n|");
    SPLITS("line", "\n\na\rb\n\r", "\n\na\rb\n|\r|");
    SPLITS("line", "\n", "\n|");
    SPLITS("blank-line", "a\nb\n\nc\r\n\r\n\nd\n", "a\nb\n\n|c\r\n\r\n\n|d\n|");
    SPLITS("blank-line", "\n\na\n\n\n", "\n\na\n\n\n|");
    SPLITS("blocks:4", "ab\n\ncd\n\nefgh\n\ni\n", "ab\n\n|cd\n\n|efgh\n\n|i\n|");
    SPLITS("blocks:5", "ab\n\ncd\n\nefgh\n\ni\n", "ab\n\ncd\n\n|efgh\n\n|i\n|");
    SPLITS("blocks:2", "a\nb\nc\nd\ne\n", "a\nb\n|c\nd\n|e\n|"); /* no empty line: any line, at twice the size */
    SPLITS("separator:<>", "<>a<<>b<><>c<", "a<|b|c<|");
    SPLITS("separator:\\n\\x2d\\x2D\\n", "a\n--\nb\n--", "a|b\n--|");
    SPLITS("separator:\\0", "a\0b\0", "a|b|");
    SPLITS("separator:aab", "aaabaaaab", "a|aa|");
    SPLITS("jsonl", "{\"text\":\"a\\u00e9\\u0000\\n\"}\r\n\n{\"x\":1,\"text\":\"b\"}", "a\xc3\xa9\0\n|b|");
    SPLITS("jsonl:body", "{\"body\":\"\"}\n{\"body\":\"b\",\"text\":3}\n", "b|");
}

static void rules_refuse(void **state) {
    (void)state;
    ember_document_rule rule;
    const char *const bad[] = {"",          "files",      "blocks",        "blocks:0",       "blocks:x",
                               "separator", "separator:", "separator:\\q", "separator:\\x1", "separator:\\"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const ember_status status = ember_document_rule_parse(&rule, bad[i]);
        assert_int_equal(status, EMBER_E_ARGUMENT);
        ember_document_rule_free(&rule);
    }
}

static void fails(const ember_prepare_options *options, ember_status wanted, const char *part) {
    ember_prepare_report report;
    const int before = count_files();
    check_fails(ember_prepare(&report, options), wanted, part);
    assert_int_equal(count_files(), before);
}

static void json_lines_refuse(void **state) {
    (void)state;
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, "jsonl"));
    const char *const bad[] = {"{\"text\":\"a\"}\n{\"text\":}\n", "{\"text\":\"a\"}\n[1]", "{\"text\":\"a\"}\n{\"txt\":\"b\"}\n",
                               "{\"text\":\"a\"}\n{\"text\":5}\n", "{\"text\":\"a\"}\n{\"text\":\"\xff\"}\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(text_path, bad[i], strlen(bad[i]));
        const ember_prepare_options options = options_for(&rule);
        fails(&options, EMBER_E_FORMAT, "line 2");
    }
    assert_int_equal(unlink(text_path), 0);
    ember_document_rule_free(&rule);
}

/* Text of many kinds, so that chunks end anywhere. */
static char *make_text(size_t n) {
    char *text = malloc(n);
    assert_non_null(text);
    uint32_t state = 12345;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        const uint32_t r = state >> 24;
        text[i] = i % 50021 < 700 ? '7' : r < 30 ? ' ' : r < 34 ? '\n' : r < 36 ? (char)(state >> 16) : (char)('a' + r % 26);
    }
    return text;
}

static void same_on_any_number_of_threads(void **state) {
    (void)state;
    enum { N = 3000000 };
    char *text = make_text(N);
    write_text(text_path, text, N);
    const char *const rules[] = {"file", "line", "blocks:300000"};
    for (int r = 0; r < 3; r++) {
        ember_document_rule rule;
        check_ok(ember_document_rule_parse(&rule, rules[r]));
        ember_prepare_options options = options_for(&rule);
        ember_prepare_report report;
        uint32_t *first = NULL;
        int64_t first_documents[64];
        int64_t n_first = 0;
        const int64_t threads[] = {1, 2, 5};
        for (int t = 0; t < 3; t++) {
            options.n_threads = threads[t];
            check_ok(ember_prepare(&report, &options));
            int64_t n_tokens = 0;
            int64_t n_documents = 0;
            int64_t documents[64];
            uint32_t *ids = read_all(shard_path, &n_tokens, &n_documents, documents, 64);
            assert_int_equal(n_tokens, N + n_documents);
            if (!first) {
                first = ids;
                n_first = n_documents;
                memcpy(first_documents, documents, sizeof documents);
            } else {
                assert_int_equal(n_documents, n_first);
                assert_memory_equal(ids, first, (size_t)n_tokens * sizeof *ids);
                assert_memory_equal(documents, first_documents, (size_t)(n_documents < 64 ? n_documents : 64) * sizeof *documents);
            }
            size_t at = 0;
            for (int64_t i = 0; i < n_tokens; i++) {
                if (ids[i] == EOT) continue;
                if (ids[i] != (unsigned char)text[at]) fail_msg("byte %zu is lost", at);
                at++;
            }
            assert_int_equal(at, N);
            if (ids != first) free(ids);
            assert_int_equal(unlink(shard_path), 0);
        }
        assert_true(report.bytes_per_token == 1.0);
        free(first);
        ember_document_rule_free(&rule);
    }
    assert_int_equal(unlink(text_path), 0);
    free(text);
}

/* Each document goes to exactly one side; one of twenty consecutive ones is held out; the seed moves it. */
static void held_out_split(void **state) {
    (void)state;
    enum { N = 1000 };
    char *text = malloc(N * 8);
    assert_non_null(text);
    size_t n_text = 0;
    for (int i = 0; i < N; i++)
        n_text += (size_t)sprintf(text + n_text, "%04d\n", i);
    write_text(text_path, text, n_text);
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, "line"));
    int chosen[2][N / 20];
    for (int seed = 0; seed < 2; seed++) {
        ember_prepare_options options = options_for(&rule);
        options.valid_output = valid_path;
        options.valid_fraction = 0.05;
        options.seed = (uint64_t)seed << 40;
        ember_prepare_report report;
        check_ok(ember_prepare(&report, &options));
        assert_int_equal(report.valid.n_documents, N / 20);
        assert_int_equal(report.train.n_documents, N - N / 20);
        assert_int_equal(report.train.source_bytes + report.valid.source_bytes, n_text);
        bool seen[N] = {false};
        for (int side = 0; side < 2; side++) {
            int64_t n = 0;
            int64_t n_documents = 0;
            int64_t documents[N];
            uint32_t *ids = read_all(side ? valid_path : shard_path, &n, &n_documents, documents, N);
            for (int64_t d = 0; d < n_documents; d++) {
                int value = 0;
                for (int k = 0; k < 4; k++)
                    value = value * 10 + (int)ids[documents[d] + k] - '0';
                assert_in_range(value, 0, N - 1);
                assert_false(seen[value]);
                seen[value] = true;
                if (side) {
                    assert_int_equal(value / 20, d);
                    chosen[seed][d] = value % 20;
                }
            }
            free(ids);
        }
        assert_int_equal(unlink(shard_path), 0);
        assert_int_equal(unlink(valid_path), 0);
    }
    assert_memory_not_equal(chosen[0], chosen[1], sizeof chosen[0]);
    int distinct = 0;
    for (int v = 0; v < 20; v++) {
        for (int i = 0; i < N / 20; i++) {
            if (chosen[0][i] != v) continue;
            distinct++;
            break;
        }
    }
    assert_true(distinct > 10); /* places inside the strata are spread */
    /* Too few documents for the fraction. */
    write_text(text_path, "1\n2\n", 4);
    ember_prepare_options options = options_for(&rule);
    options.valid_output = valid_path;
    options.valid_fraction = 0.01;
    options.seed = 3;
    fails(&options, EMBER_E_FORMAT, "--document blocks");
    options.valid_fraction = 1.0;
    fails(&options, EMBER_E_ARGUMENT, "fraction of 1");
    options.valid_fraction = 0.5;
    options.valid_output = shard_path;
    fails(&options, EMBER_E_ARGUMENT, "both training and validation");
    assert_int_equal(unlink(text_path), 0);
    ember_document_rule_free(&rule);
    free(text);
}

static void several_and_empty_files(void **state) {
    (void)state;
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, "line"));
    write_text(text_path, "ab", 2);
    write_text(other_path, "", 0);
    const char *const files[] = {other_path, text_path, other_path, text_path};
    ember_prepare_options options = options_for(&rule);
    options.files = files;
    options.n_files = 4;
    options.add_eos = false;
    ember_prepare_report report;
    check_ok(ember_prepare(&report, &options));
    int64_t n = 0;
    int64_t n_documents = 0;
    int64_t documents[8];
    uint32_t *ids = read_all(shard_path, &n, &n_documents, documents, 8);
    assert_int_equal(n, 4);
    assert_int_equal(n_documents, 2); /* a document never spans files, not even without a line end */
    assert_int_equal(documents[1], 2);
    assert_int_equal(report.n_empty_documents, 2);
    assert_int_equal(report.eos, -1);
    free(ids);
    assert_int_equal(unlink(shard_path), 0);
    options.n_files = 1;
    fails(&options, EMBER_E_FORMAT, "no text");
    options.n_files = 0;
    fails(&options, EMBER_E_ARGUMENT, "no text file");
    assert_int_equal(unlink(text_path), 0);
    assert_int_equal(unlink(other_path), 0);
    ember_document_rule_free(&rule);
}

static void refuses(void **state) {
    (void)state;
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, "file"));
    write_text(text_path, "hello hello", 11);
    const ember_prepare_options good = options_for(&rule);
    ember_prepare_options options = good;
    const char *const missing[] = {text_path, "no_such_file"};
    options.files = missing, options.n_files = 2, fails(&options, EMBER_E_NOT_FOUND, "no_such_file"), options = good;
    const char *const directory[] = {folder};
    options.files = directory, fails(&options, EMBER_E_IO, "is a folder"), options = good;
    options.output = text_path, options.force = true, fails(&options, EMBER_E_ARGUMENT, "both a text"), options = good;
    options.output = folder, fails(&options, EMBER_E_IO, "is a folder"), options = good;
    options.output = "no_such_folder/a.h5", fails(&options, EMBER_E_IO, "no_such_folder"), options = good;
    options.n_threads = 1000, fails(&options, EMBER_E_ARGUMENT, "1000 threads"), options = good;
    options.eos = "<nothing>", fails(&options, EMBER_E_NOT_FOUND, "\"<nothing>\""), options = good;
    options.add_bos = true, fails(&options, EMBER_E_NOT_FOUND, "--add-bos"), options = good;
    options.vocab_size = 256, fails(&options, EMBER_E_FORMAT, "256 embedding rows"), options = good;
    options.vocab_size = 1 << 20; /* more rows than tokens is fine */
    ember_prepare_report report;
    check_ok(ember_prepare(&report, &options));
    fails(&good, EMBER_E_IO, "--force"); /* it exists now */
    options.force = true;
    check_ok(ember_prepare(&report, &options));
    assert_int_equal(unlink(shard_path), 0);
    assert_int_equal(unlink(text_path), 0);
    ember_document_rule_free(&rule);
}

/* 99.99 % one token: refused with the share, unless forced. English-like shares pass. */
static void broken_corpora(void **state) {
    (void)state;
    enum { N = 10000 };
    static char text[N];
    memset(text, 'a', N);
    text[77] = 'b';
    write_text(text_path, text, N);
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, "file"));
    ember_prepare_options options = options_for(&rule);
    fails(&options, EMBER_E_FORMAT, "99.99 %");
    options.force = true;
    ember_prepare_report report;
    check_ok(ember_prepare(&report, &options));
    assert_int_equal(report.commonest_id, 'a');
    assert_true(report.commonest_share == 0.9999);
    assert_int_equal(unlink(shard_path), 0);
    for (int i = 0; i < N / 2; i++)
        text[2 * i] = (char)i;
    write_text(text_path, text, N);
    options.force = false;
    check_ok(ember_prepare(&report, &options));
    assert_int_equal(unlink(shard_path), 0);
    assert_int_equal(unlink(text_path), 0);
    ember_document_rule_free(&rule);
}

/* A fifth of the text is unknown; the unknown token has no usual name, and the tokenizer says which it is. */
static void unknown_tokens(void **state) {
    (void)state;
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"(none)\",\"vocab\":{\"(none)\":0,\"a\":1,\"b\":2},\"merges\":[]}}";
    enum { N = 5000 };
    static char text[N];
    for (int i = 0; i < N; i++)
        text[i] = "abzab"[i % 5];
    write_text(text_path, text, N);
    ember_document_rule rule;
    ember_tokenizer *tokenizer = NULL;
    check_ok(ember_document_rule_parse(&rule, "file"));
    check_ok(ember_tokenizer_parse(&tokenizer, json, sizeof json - 1, "some.json"));
    ember_prepare_options options = options_for(&rule);
    options.tokenizer = tokenizer;
    options.add_eos = false;
    fails(&options, EMBER_E_FORMAT, "20.00 % of 5000 tokens are unknown");
    options.force = true;
    ember_prepare_report report;
    check_ok(ember_prepare(&report, &options));
    assert_true(report.unknown_share == 0.2);
    assert_int_equal(unlink(shard_path), 0);
    assert_int_equal(unlink(text_path), 0);
    ember_tokenizer_free(tokenizer);
    ember_document_rule_free(&rule);
}

typedef struct watch {
    int64_t calls;
    int64_t cancel_after;
    int64_t done;
} watch;

static void on_progress(void *user, const ember_prepare_progress *progress) {
    watch *w = user;
    assert_true(progress->done_bytes >= w->done);
    assert_true(progress->elapsed_seconds >= 0.0);
    w->done = progress->done_bytes;
    w->calls++;
}

static bool is_cancelled(void *user) {
    const watch *w = user;
    return w->calls >= w->cancel_after;
}

static void cancels(void **state) {
    (void)state;
    enum { N = 2000000 };
    char *text = make_text(N);
    write_text(text_path, text, N);
    ember_document_rule rule;
    check_ok(ember_document_rule_parse(&rule, "blank-line"));
    ember_prepare_options options = options_for(&rule);
    watch w = {.cancel_after = 3};
    options.progress = on_progress;
    options.cancelled = is_cancelled;
    options.user = &w;
    fails(&options, EMBER_E_INTERRUPTED, "no shard was written");
    assert_int_equal(w.calls, 3);
    w = (watch){.cancel_after = INT64_MAX};
    ember_prepare_report report;
    check_ok(ember_prepare(&report, &options));
    assert_int_equal(w.done, N);
    assert_int_equal(unlink(shard_path), 0);
    assert_int_equal(unlink(text_path), 0);
    ember_document_rule_free(&rule);
    free(text);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(text_path, sizeof text_path, "%s/text", folder);
    (void)snprintf(other_path, sizeof other_path, "%s/other", folder);
    (void)snprintf(shard_path, sizeof shard_path, "%s/shard.h5", folder);
    (void)snprintf(valid_path, sizeof valid_path, "%s/valid.h5", folder);
    return ember_tokenizer_open(&bytes_tokenizer, "bytes") == EMBER_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    ember_tokenizer_free(bytes_tokenizer);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_by_rule), cmocka_unit_test(rules_refuse),
        cmocka_unit_test(json_lines_refuse), cmocka_unit_test(same_on_any_number_of_threads),
        cmocka_unit_test(held_out_split),    cmocka_unit_test(several_and_empty_files),
        cmocka_unit_test(refuses),           cmocka_unit_test(broken_corpora),
        cmocka_unit_test(unknown_tokens),    cmocka_unit_test(cancels),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
