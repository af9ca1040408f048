/* prepare_check.c - what is refused before any work, the held-out split, and what a broken corpus is. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "data/prepare_internal.h"
#include "lib/base/status.h"

/* Above these shares a corpus is refused: English text has 18 % blanks as bytes, 5 % of its commonest
 * token as BPE, and no unknown tokens. */
static const double commonest_limit = 0.8;
static const double unknown_limit = 0.1;
enum { JUDGED_TOKENS = 1000 }; /* fewer say nothing */

static bool is_stdin(const char *path) { return strcmp(path, "-") == 0; }

/* The output may be made: not one of the inputs, and not there unless forced. */
static ember_status check_output(const prepare_run *run, const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return EMBER_OK; /* what else is wrong with it, creating says */
    for (int64_t i = 0; i < run->options->n_files; i++) {
        struct stat input;
        if (is_stdin(run->options->files[i]) || stat(run->options->files[i], &input) != 0) continue;
        if (input.st_ino == info.st_ino && input.st_dev == info.st_dev) {
            return ember_fail(EMBER_E_ARGUMENT, "%s: is both a text to read and the output", path);
        }
    }
    if (S_ISDIR(info.st_mode)) return ember_fail(EMBER_E_IO, "%s: is a folder; name a file, such as %s/train.h5", path, path);
    if (!run->options->force) return ember_fail(EMBER_E_IO, "%s: exists; choose another name, or replace it with --force", path);
    return EMBER_OK;
}

/* One file under two spellings, also when it is not there yet: the same name in the same folder. */
static bool same_place(const char *a, const char *b) {
    const char *slash_a = strrchr(a, '/');
    const char *slash_b = strrchr(b, '/');
    struct stat folder_a;
    struct stat folder_b;
    ember_bytes path = {0};
    if (strcmp(slash_a ? slash_a + 1 : a, slash_b ? slash_b + 1 : b) != 0) return false;
    bool known = ember_bytes_append(&path, slash_a ? a : ".", slash_a ? (size_t)(slash_a - a) + 1 : 1) == EMBER_OK;
    known = known && stat(path.data, &folder_a) == 0;
    path.n = 0;
    known = known && ember_bytes_append(&path, slash_b ? b : ".", slash_b ? (size_t)(slash_b - b) + 1 : 1) == EMBER_OK;
    known = known && stat(path.data, &folder_b) == 0;
    ember_bytes_free(&path);
    return known && folder_a.st_ino == folder_b.st_ino && folder_a.st_dev == folder_b.st_dev;
}

static ember_status check_inputs(prepare_run *run) {
    for (int64_t i = 0; i < run->options->n_files; i++) {
        const char *path = run->options->files[i];
        struct stat info;
        if (is_stdin(path)) {
            run->total_bytes = -1;
            continue;
        }
        if (stat(path, &info) != 0) {
            return ember_fail(errno == ENOENT ? EMBER_E_NOT_FOUND : EMBER_E_IO, "%s: cannot open: %s", path, strerror(errno));
        }
        if (S_ISDIR(info.st_mode)) return ember_fail(EMBER_E_IO, "%s: is a folder; name its files, such as %s/*.txt", path, path);
        if (access(path, R_OK) != 0) return ember_fail(EMBER_E_IO, "%s: cannot read: %s", path, strerror(errno));
        if (!S_ISREG(info.st_mode)) {
            run->total_bytes = -1;
        } else if (run->total_bytes >= 0) {
            run->total_bytes += info.st_size;
        }
    }
    return EMBER_OK;
}

static ember_status check_tokens(prepare_run *run) {
    const ember_prepare_options *options = run->options;
    const ember_tokenizer *tokenizer = options->tokenizer;
    const int64_t size = ember_tokenizer_vocab_size(tokenizer);
    if (options->vocab_size > 0 && size > options->vocab_size) {
        ember_bytes text = {0};
        const uint32_t id = (uint32_t)options->vocab_size;
        const bool decoded = ember_decode(tokenizer, &id, 1, false, &text) == EMBER_OK && text.n > 0;
        const ember_status status =
            ember_fail(EMBER_E_FORMAT,
                       "the tokenizer has ids up to %lld, but the model has %lld embedding rows; id %u (\"%s\") is the first without one",
                       (long long)(size - 1), (long long)options->vocab_size, id, decoded ? text.data : "no text");
        ember_bytes_free(&text);
        return status;
    }
    run->bos = options->add_bos ? ember_tokenizer_bos(tokenizer) : -1;
    if (options->add_bos && run->bos < 0) {
        return ember_fail(EMBER_E_NOT_FOUND, "this tokenizer has no beginning-of-text token; leave --add-bos out");
    }
    run->eos = -1;
    if (options->add_eos) {
        run->eos = options->eos ? ember_tokenizer_find(tokenizer, options->eos) : ember_tokenizer_eos(tokenizer);
        if (run->eos < 0) {
            return options->eos ? ember_fail(EMBER_E_NOT_FOUND, "the end token \"%s\" is not in the vocabulary of %lld tokens",
                                             options->eos, (long long)size)
                                : ember_fail(EMBER_E_NOT_FOUND, "this tokenizer has no end-of-text token of a usual name; name one with "
                                                                "--eos TOKEN, or do without with --no-eos");
        }
    }
    const char *const unknown_names[] = {"<unk>", "[UNK]", "<|unk|>", "<UNK>"};
    run->unknown = ember_tokenizer_unk(tokenizer); /* what the model names; else by the usual names */
    for (size_t i = 0; i < sizeof unknown_names / sizeof *unknown_names && run->unknown < 0; i++)
        run->unknown = ember_tokenizer_find(tokenizer, unknown_names[i]);
    return EMBER_OK;
}

ember_status prepare_check(prepare_run *run) {
    const ember_prepare_options *options = run->options;
    if (options->n_files < 1) return ember_fail(EMBER_E_ARGUMENT, "no text file was named");
    if (options->n_threads < 0 || options->n_threads > EMBER_PREPARE_MAX_THREADS) {
        return ember_fail(EMBER_E_ARGUMENT, "%lld threads; 1 to %d are possible, 0 stands for one a processor",
                          (long long)options->n_threads, (int)EMBER_PREPARE_MAX_THREADS);
    }
    if (options->valid_output && !(options->valid_fraction > 0.0 && options->valid_fraction < 1.0)) {
        return ember_fail(EMBER_E_ARGUMENT, "a held-out fraction of %g; it lies between 0 and 1, both excluded", options->valid_fraction);
    }
    if (options->valid_output &&
        (strcmp(options->valid_output, options->output) == 0 || same_place(options->valid_output, options->output))) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: is the output for both training and validation", options->output);
    }
    if (options->vocab_size < 0) return ember_fail(EMBER_E_ARGUMENT, "a model of %lld embedding rows", (long long)options->vocab_size);
    EMBER_TRY(check_inputs(run));
    EMBER_TRY(check_tokens(run));
    EMBER_TRY(check_output(run, options->output));
    return options->valid_output ? check_output(run, options->valid_output) : EMBER_OK;
}

/* First document of stratum j: the strata are the runs of documents with equal floor(i * fraction). */
static int64_t stratum_start(double stratum, double fraction) {
    int64_t start = (int64_t)ceil(stratum / fraction);
    while (start > 0 && floor((double)(start - 1) * fraction) >= stratum)
        start--;
    while (floor((double)start * fraction) < stratum)
        start++;
    return start;
}

bool prepare_holds_out(const ember_prepare_options *options, int64_t document) {
    if (!options->valid_output) return false;
    const double fraction = options->valid_fraction;
    const double stratum = floor((double)document * fraction);
    const int64_t start = stratum_start(stratum, fraction);
    const int64_t size = stratum_start(stratum + 1.0, fraction) - start;
    const uint64_t place = (uint64_t)stratum;
    return document == start + (int64_t)(XXH3_64bits_withSeed(&place, sizeof place, options->seed) % (uint64_t)size);
}

static void measure(prepare_run *run, int64_t *n_text_tokens) {
    ember_prepare_report *report = run->report;
    const int64_t n_documents = report->train.n_documents + report->valid.n_documents;
    const int64_t n_tokens = report->train.n_tokens + report->valid.n_tokens;
    const int64_t n_text = n_tokens - (run->eos >= 0 ? n_documents : 0) - (run->bos >= 0 ? n_documents : 0);
    uint64_t most = 0;
    for (int64_t id = 0; id < ember_tokenizer_vocab_size(run->options->tokenizer); id++) {
        if (id == run->eos || id == run->bos || run->counts[id] <= most) continue;
        most = run->counts[id];
        report->commonest_id = (uint32_t)id;
    }
    *n_text_tokens = n_text;
    if (n_text <= 0) return;
    report->commonest_share = (double)most / (double)n_text;
    report->unknown_share = run->unknown >= 0 ? (double)run->counts[run->unknown] / (double)n_text : 0.0;
    report->bytes_per_token = (double)(report->train.source_bytes + report->valid.source_bytes) / (double)n_text;
}

ember_status prepare_judge(prepare_run *run) {
    const ember_prepare_report *report = run->report;
    int64_t n_text_tokens = 0;
    measure(run, &n_text_tokens);
    if (run->options->force || n_text_tokens < JUDGED_TOKENS) return EMBER_OK;
    if (report->unknown_share > unknown_limit) {
        return ember_fail(EMBER_E_FORMAT,
                          "%.2f %% of %lld tokens are unknown to this tokenizer (limit %.0f %%): it does not go with this text; "
                          "--force takes it all the same",
                          100.0 * report->unknown_share, (long long)n_text_tokens, 100.0 * unknown_limit);
    }
    if (report->commonest_share > commonest_limit) {
        return ember_fail(EMBER_E_FORMAT,
                          "%.2f %% of %lld tokens are one and the same, id %u (limit %.0f %%): tokenizer and text do not go together, or "
                          "the text is no text; --force takes it all the same",
                          100.0 * report->commonest_share, (long long)n_text_tokens, report->commonest_id, 100.0 * commonest_limit);
    }
    return EMBER_OK;
}
