#include "data/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "data/prepare_internal.h"
#include "lib/base/status.h"

enum { READ_BYTES = 256 << 10 };

static void tell(const prepare_run *run, bool writing) {
    const ember_prepare_options *options = run->options;
    if (!options->progress) return;
    const ember_prepare_progress progress = {.done_bytes = run->done_bytes,
                                             .total_bytes = run->total_bytes,
                                             .n_tokens = run->report->train.n_tokens + run->report->valid.n_tokens,
                                             .elapsed_seconds = ember_seconds() - run->started,
                                             .writing = writing};
    options->progress(options->user, &progress);
}

static ember_status check_cancelled(const prepare_run *run) {
    const ember_prepare_options *options = run->options;
    if (!options->cancelled || !options->cancelled(options->user)) return EMBER_OK;
    return ember_fail(EMBER_E_INTERRUPTED, "stopped on request after %lld bytes of text; no shard was written", (long long)run->done_bytes);
}

static ember_status read_descriptor(prepare_run *run, const char *path, int fd, char *buffer) {
    for (;;) {
        EMBER_TRY(check_cancelled(run));
        const ssize_t got = read(fd, buffer, READ_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ember_fail(EMBER_E_IO, "%s: cannot read: %s", path, strerror(errno));
        if (got == 0) break;
        run->done_bytes += got;
        EMBER_TRY(ember_splitter_feed(run->splitter, path, buffer, (size_t)got));
        tell(run, false);
    }
    return ember_splitter_finish_file(run->splitter, path);
}

static ember_status read_files(prepare_run *run, char *buffer) {
    for (int64_t i = 0; i < run->options->n_files; i++) {
        const char *path = run->options->files[i];
        if (strcmp(path, "-") == 0) {
            EMBER_TRY(read_descriptor(run, "standard input", STDIN_FILENO, buffer));
            continue;
        }
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) return ember_fail(errno == ENOENT ? EMBER_E_NOT_FOUND : EMBER_E_IO, "%s: cannot open: %s", path, strerror(errno));
        const ember_status status = read_descriptor(run, path, fd, buffer);
        (void)close(fd);
        EMBER_TRY(status);
    }
    return EMBER_OK;
}

static ember_status create_writer(ember_shard_writer **out, const prepare_run *run, const char *path) {
    const ember_tokenizer *tokenizer = run->options->tokenizer;
    size_t n = 0;
    const char *text = ember_tokenizer_text(tokenizer, &n);
    return ember_shard_create(out, path, ember_tokenizer_name(tokenizer), text, n, ember_tokenizer_vocab_size(tokenizer), run->eos);
}

static int64_t count_threads(int64_t asked) {
    if (asked > 0) return asked;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > 64 ? 64 : online;
}

static ember_status start(prepare_run *run) {
    const ember_prepare_options *options = run->options;
    const size_t vocab = (size_t)ember_tokenizer_vocab_size(options->tokenizer);
    EMBER_TRY(ember_allocate((void **)&run->counts, vocab, sizeof *run->counts, "token counts"));
    EMBER_TRY(create_writer(&run->train, run, options->output));
    if (options->valid_output) EMBER_TRY(create_writer(&run->valid, run, options->valid_output));
    EMBER_TRY(
        ember_splitter_create(&run->splitter, options->rule, (ember_document_sink){.text = prepare_text, .end = prepare_end, .user = run}));
    return encode_pool_create(&run->pool, options->tokenizer, (int)count_threads(options->n_threads), run->bos, run->eos);
}

static ember_status check_parts(const prepare_run *run) {
    const ember_prepare_report *report = run->report;
    const int64_t n = report->train.n_documents + report->valid.n_documents;
    if (n == 0)
        return ember_fail(EMBER_E_FORMAT, "the %lld files hold no text, so there is nothing to write", (long long)run->options->n_files);
    if (!run->options->valid_output) return EMBER_OK;
    if (report->train.n_documents > 0 && report->valid.n_documents > 0) return EMBER_OK;
    /* Some hundred documents, so that a few percent of them are several. */
    int64_t block = 65536;
    while (block > 256 && block > (report->train.source_bytes + report->valid.source_bytes) / 128)
        block /= 2;
    return ember_fail(
        EMBER_E_FORMAT,
        "a held-out fraction of %g of %lld documents leaves one side empty; use another --valid-fraction, or more and smaller "
        "documents, such as --document blocks:%lld",
        run->options->valid_fraction, (long long)n, (long long)block);
}

/* Both or neither: a validation shard without its training shard is taken back, unless it replaced one. */
static ember_status commit(prepare_run *run) {
    const ember_prepare_options *options = run->options;
    bool replaced = false;
    tell(run, true);
    if (run->valid) {
        replaced = access(options->valid_output, F_OK) == 0;
        ember_shard_writer *valid = run->valid;
        run->valid = NULL;
        EMBER_TRY(ember_shard_commit(valid, run->report->valid.source_bytes));
    }
    ember_shard_writer *train = run->train;
    run->train = NULL;
    const ember_status status = ember_shard_commit(train, run->report->train.source_bytes);
    if (status != EMBER_OK && options->valid_output && !replaced) (void)unlink(options->valid_output);
    return status;
}

ember_status ember_prepare(ember_prepare_report *out, const ember_prepare_options *options) {
    *out = (ember_prepare_report){0};
    prepare_run run = {.options = options, .report = out, .started = ember_seconds()};
    char *buffer = NULL;
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(prepare_check(&run), done);
    out->eos = run.eos;
    EMBER_TRY_GOTO(ember_allocate((void **)&buffer, READ_BYTES, 1, "read buffer"), done);
    EMBER_TRY_GOTO(start(&run), done);
    EMBER_TRY_GOTO(read_files(&run, buffer), done);
    EMBER_TRY_GOTO(prepare_drain(&run), done);
    EMBER_TRY_GOTO(check_parts(&run), done);
    EMBER_TRY_GOTO(prepare_judge(&run), done);
    EMBER_TRY_GOTO(check_cancelled(&run), done);
    EMBER_TRY_GOTO(commit(&run), done);
    out->elapsed_seconds = ember_seconds() - run.started;
done:
    encode_pool_free(run.pool);
    ember_splitter_free(run.splitter);
    ember_shard_abort(run.train);
    ember_shard_abort(run.valid);
    ember_release(run.counts);
    ember_release(buffer);
    return status;
}
