/* cmd_data.c - `ember data prepare` and `ember data info`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "data/prepare.h"
#include "data/shard.h"
#include "data/shard_stats.h"
#include "lib/base/status.h"
#include "train/cli.h"
#include "train/cmd.h"
#include "train/progress.h"

static volatile sig_atomic_t stop_requested;

static void on_signal(int number) {
    (void)number;
    stop_requested = 1;
}

static bool is_cancelled(void *user) {
    (void)user;
    return stop_requested != 0;
}

/* Without SA_RESTART: a read from a pipe returns, and the flag is seen. */
static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* ---- text of tokens */

static bool is_utf8(const char *text, size_t n) {
    json_t *probe = json_stringn(text, n);
    json_decref(probe);
    return probe != NULL;
}

/* Bytes that are no text become U+FFFD: JSON has no other place for them. */
static json_t *json_bytes(const char *text, size_t n) {
    json_t *value = json_stringn(text, n);
    if (value) return value;
    ember_bytes replaced = {0};
    ember_status status = EMBER_OK;
    for (size_t i = 0; i < n && status == EMBER_OK; i++) {
        const bool ascii = (unsigned char)text[i] < 0x80;
        status = ascii ? ember_bytes_append(&replaced, text + i, 1) : ember_bytes_append(&replaced, "\xef\xbf\xbd", 3);
    }
    value = json_stringn(status == EMBER_OK && replaced.data ? replaced.data : "", status == EMBER_OK ? replaced.n : 0);
    ember_bytes_free(&replaced);
    return value;
}

static void print_quoted(const char *text, size_t n) {
    const bool utf8 = is_utf8(text, n);
    (void)putchar('"');
    for (size_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)text[i];
        if (byte == '\n') {
            printf("\\n");
        } else if (byte == '"' || byte == '\\') {
            printf("\\%c", byte);
        } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) {
            printf("\\x%02x", byte);
        } else {
            (void)putchar(byte);
        }
    }
    (void)putchar('"');
}

/* The bytes a token stands for; without them when it cannot be decoded. */
static void token_text(ember_bytes *out, const ember_tokenizer *tokenizer, uint32_t id) {
    out->n = 0;
    if (!tokenizer || ember_decode(tokenizer, &id, 1, false, out) != EMBER_OK) out->n = 0;
}

/* ---- prepare */

typedef struct progress_line {
    bool terminal;
    bool shown;
    double last;
} progress_line;

static progress_line progress;

static void print_progress(void *user, const ember_prepare_progress *now) {
    (void)user;
    const double pause = progress.terminal ? 0.25 : 15.0;
    if (now->elapsed_seconds - progress.last < pause && !(now->writing && progress.shown)) return;
    progress.last = now->elapsed_seconds;
    progress.shown = true;
    char line[160];
    const double done = (double)now->done_bytes;
    const double rate = now->elapsed_seconds > 0.0 ? done / now->elapsed_seconds : 0.0;
    int n = 0;
    if (now->writing) {
        n = snprintf(line, sizeof line, "%.1f MB read, %lld tokens; writing and checking", done / 1e6, (long long)now->n_tokens);
    } else if (now->total_bytes > 0 && rate > 0.0) {
        const double left = (double)now->total_bytes > done ? ((double)now->total_bytes - done) / rate : 0.0;
        n = snprintf(line, sizeof line, "%5.1f %%  %.1f of %.1f MB  %.1f MB/s  %lld tokens  ETA %.0f s",
                     100.0 * done / (double)now->total_bytes, done / 1e6, (double)now->total_bytes / 1e6, rate / 1e6,
                     (long long)now->n_tokens, left);
    } else {
        n = snprintf(line, sizeof line, "%.1f MB  %.1f MB/s  %lld tokens", done / 1e6, rate / 1e6, (long long)now->n_tokens);
    }
    if (n > 0) fprintf(stderr, progress.terminal ? "\r%s\x1b[K" : "%s\n", line);
}

static void end_progress(void) {
    if (progress.terminal && progress.shown) fprintf(stderr, "\r\x1b[K");
}

static void print_part(const char *path, const ember_prepare_part *part) {
    printf("%s: %lld tokens, %lld documents, %lld bytes of text\n", path, (long long)part->n_tokens, (long long)part->n_documents,
           (long long)part->source_bytes);
}

static void print_report(const ember_prepare_report *report, const ember_prepare_options *options) {
    ember_bytes text = {0};
    const double bytes = (double)(report->train.source_bytes + report->valid.source_bytes);
    print_part(options->output, &report->train);
    if (options->valid_output) print_part(options->valid_output, &report->valid);
    token_text(&text, options->tokenizer, report->commonest_id);
    printf("%.3f bytes per token; commonest token %u ", report->bytes_per_token, report->commonest_id);
    print_quoted(text.data ? text.data : "", text.n);
    printf(" %.2f %%, unknown %.2f %%\n", 100.0 * report->commonest_share, 100.0 * report->unknown_share);
    if (report->n_empty_documents > 0) printf("%lld empty documents were left out\n", (long long)report->n_empty_documents);
    if (report->elapsed_seconds > 0.0) printf("%.2f s, %.1f MB/s\n", report->elapsed_seconds, bytes / report->elapsed_seconds / 1e6);
    ember_bytes_free(&text);
}

typedef struct prepare_words {
    const char *tokenizer;
    const char *document;
    bool no_eos;
    double valid_fraction;
} prepare_words;

/* --force must not replace the tokenizer by the shard. */
static ember_status spare_tokenizer(const char *tokenizer, const char *output) {
    struct stat from;
    struct stat to;
    ember_bytes path = {0};
    if (!output || stat(output, &to) != 0) return EMBER_OK;
    EMBER_TRY(ember_bytes_printf(&path, "%s/tokenizer.json", tokenizer));
    const bool same = (stat(tokenizer, &from) == 0 && from.st_ino == to.st_ino && from.st_dev == to.st_dev) ||
                      (stat(path.data, &from) == 0 && from.st_ino == to.st_ino && from.st_dev == to.st_dev);
    ember_bytes_free(&path);
    return same ? ember_fail(EMBER_E_ARGUMENT, "%s: is both the tokenizer and the output", output) : EMBER_OK;
}

static ember_status run_prepare(ember_prepare_options *options, const prepare_words *words) {
    ember_document_rule rule = {0};
    ember_tokenizer *tokenizer = NULL;
    ember_prepare_report report;
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_document_rule_parse(&rule, words->document), done);
    EMBER_TRY_GOTO(spare_tokenizer(words->tokenizer, options->output), done);
    EMBER_TRY_GOTO(spare_tokenizer(words->tokenizer, options->valid_output), done);
    EMBER_TRY_GOTO(ember_tokenizer_open(&tokenizer, words->tokenizer), done);
    options->rule = &rule;
    options->tokenizer = tokenizer;
    for (int64_t i = 0; i < options->n_files && rule.kind != EMBER_DOCUMENT_JSONL; i++) {
        const size_t n = strlen(options->files[i]);
        if (n < 6 || strcmp(options->files[i] + n - 6, ".jsonl") != 0) continue;
        ember_logf(cmd_log(), EMBER_LOG_NOTE, "%s is read as plain text; --document jsonl takes the texts out of JSON lines",
                   options->files[i]);
        break;
    }
    progress = (progress_line){.terminal = ember_progress_can_redraw(STDERR_FILENO, getenv("TERM"))};
    catch_signals();
    status = ember_prepare(&report, options);
    end_progress();
    if (status == EMBER_OK) print_report(&report, options);
done:
    ember_tokenizer_free(tokenizer);
    ember_document_rule_free(&rule);
    return status;
}

static ember_status cmd_prepare(int argc, char **argv) {
    prepare_words words = {.document = "file", .valid_fraction = 0.01};
    ember_prepare_options options = {.progress = print_progress, .cancelled = is_cancelled};
    const cli_option table[] = {
        {"--tokenizer", CLI_TEXT, &words.tokenizer, "NAME", "bytes, or a tokenizer.json, or a folder that holds one (needed)"},
        {"-o", CLI_TEXT, &options.output, "SHARD", "the shard to write (needed)"},
        {"--output", CLI_TEXT, &options.output, "SHARD", "the same"},
        {"--document", CLI_TEXT, &words.document, "RULE",
         "what a document is: file (default), line, blank-line, blocks:BYTES, separator:STRING, jsonl, jsonl:FIELD (data/FORMAT.md)"},
        {"--valid", CLI_TEXT, &options.valid_output, "SHARD", "hold some documents out into this shard"},
        {"--valid-fraction", CLI_F64, &words.valid_fraction, "F", "how many of the documents (default 0.01)"},
        {"--seed", CLI_U64, &options.seed, "N", "which documents are held out (default 0)"},
        {"--add-bos", CLI_FLAG, &options.add_bos, NULL, "the beginning-of-text token before each document"},
        {"--no-eos", CLI_FLAG, &words.no_eos, NULL, "no end-of-text token after each document"},
        {"--eos", CLI_TEXT, &options.eos, "TOKEN", "the end-of-text token (default: the tokenizer's)"},
        {"--vocab-size", CLI_I64, &options.vocab_size, "N", "embedding rows of the model: refuse a tokenizer with more tokens"},
        {"--threads", CLI_I64, &options.n_threads, "N", "encoding threads (default: one a processor); the shard does not depend on it"},
        {"--force", CLI_FLAG, &options.force, NULL, "replace existing shards; accept a corpus of nearly one token"},
    };
    const cli_command command = {
        .usage = "ember data prepare FILES... --tokenizer NAME -o SHARD [options]",
        .about =
            "Turns text files (- is standard input) into a token shard. Text is bytes: line ends, NUL and invalid UTF-8 stay as they are.\n"
            "Special tokens are never made from text. Memory does not grow with the files.",
        .options = table,
        .n_options = (int)(sizeof table / sizeof table[0]),
        .min_words = 1,
        .max_words = argc};
    void *block = NULL;
    bool done = false;
    int n_words = 0;
    EMBER_TRY(ember_allocate(&block, (size_t)argc, sizeof(const char *), "file names"));
    const char **files = block;
    ember_status status = cli_parse(&command, argc, argv, files, &n_words, &done);
    if (status != EMBER_OK || done) goto done;
    options.files = files;
    options.n_files = n_words;
    options.add_eos = !words.no_eos;
    options.valid_fraction = words.valid_fraction;
    if (!words.tokenizer || !options.output) {
        status = ember_fail(EMBER_E_ARGUMENT, "%s is missing\nusage: %s\n(--help lists the options)",
                            words.tokenizer ? "-o SHARD" : "--tokenizer NAME (bytes, or a tokenizer.json)", command.usage);
    } else if (words.no_eos && options.eos) {
        status = ember_fail(EMBER_E_ARGUMENT, "--no-eos and --eos \"%s\" contradict each other; leave one out", options.eos);
    } else {
        status = run_prepare(&options, &words);
    }
done:
    ember_release(block);
    return status;
}

/* ---- info */

typedef struct info_view {
    const ember_shard *shard;
    const ember_tokenizer *tokenizer; /* NULL when the shard's text is not one we read */
    const ember_shard_stats *stats;
    bool verified;
} info_view;

/* Over text alone: separators are not text. -1 when unknown. */
static double bytes_per_token(const info_view *view) {
    const int64_t n = ember_shard_n_tokens(view->shard) - view->stats->n_separators;
    const int64_t bytes = ember_shard_source_bytes(view->shard);
    return n > 0 && bytes >= 0 ? (double)bytes / (double)n : -1.0;
}

static double share_of(const info_view *view, int64_t count) {
    const int64_t n = ember_shard_n_tokens(view->shard);
    return n > 0 ? (double)count / (double)n : 0.0;
}

static void print_separators(const info_view *view) {
    const ember_shard_stats *stats = view->stats;
    const int64_t eos = ember_shard_eos(view->shard);
    if (eos < 0) {
        printf("  separators   none; documents are known by their offsets alone\n");
        return;
    }
    ember_bytes text = {0};
    token_text(&text, view->tokenizer, (uint32_t)eos);
    printf("  separators   %lld of id %lld ", (long long)stats->n_separators, (long long)eos);
    print_quoted(text.data ? text.data : "", text.n);
    if (stats->separators_agree) {
        printf(", one at the end of each document\n");
    } else {
        printf("; they DISAGREE with the documents: %lld of %lld end with one\n", (long long)stats->n_closed_documents,
               (long long)ember_shard_n_documents(view->shard));
    }
    ember_bytes_free(&text);
}

static void print_info(const info_view *view) {
    const ember_shard *shard = view->shard;
    const ember_shard_stats *stats = view->stats;
    const double ratio = bytes_per_token(view);
    printf("%s\n", ember_shard_path(shard));
    printf("  tokens       %lld, %lld different\n", (long long)ember_shard_n_tokens(shard), (long long)stats->n_distinct);
    printf("  documents    %lld; tokens in the shortest %lld, median %lld, longest %lld\n", (long long)ember_shard_n_documents(shard),
           (long long)stats->shortest_document, (long long)stats->median_document, (long long)stats->longest_document);
    print_separators(view);
    printf("  tokenizer    %s, hash %016llx, vocabulary %lld\n", ember_shard_tokenizer_name(shard),
           (unsigned long long)ember_shard_tokenizer_hash(shard), (long long)ember_shard_vocab_size(shard));
    if (ratio >= 0.0) {
        printf("  text         %lld bytes, %.3f bytes per token\n", (long long)ember_shard_source_bytes(shard), ratio);
    } else {
        printf("  text         bytes unknown\n");
    }
    printf("  checked      %s\n", view->verified ? "every dataset has the hash of the manifest" : "structure only (--no-verify)");
    if (stats->n_commonest > 0) printf("  commonest       id       count   share  text\n");
    ember_bytes text = {0};
    for (int64_t i = 0; i < stats->n_commonest; i++) {
        const ember_token_count *token = &stats->commonest[i];
        token_text(&text, view->tokenizer, token->id);
        printf("           %9u %11lld %5.2f %%  ", token->id, (long long)token->count, 100.0 * share_of(view, token->count));
        print_quoted(text.data ? text.data : "", text.n);
        printf("\n");
    }
    ember_bytes_free(&text);
}

static json_t *json_commonest(const info_view *view) {
    json_t *list = json_array();
    ember_bytes text = {0};
    for (int64_t i = 0; list && i < view->stats->n_commonest; i++) {
        const ember_token_count *token = &view->stats->commonest[i];
        token_text(&text, view->tokenizer, token->id);
        (void)json_array_append_new(list, json_pack("{s:I, s:I, s:f, s:o}", "id", (json_int_t)token->id, "count", (json_int_t)token->count,
                                                    "share", share_of(view, token->count), "text",
                                                    json_bytes(text.data ? text.data : "", text.n)));
    }
    ember_bytes_free(&text);
    return list;
}

static ember_status print_json(const info_view *view) {
    const ember_shard *shard = view->shard;
    const ember_shard_stats *stats = view->stats;
    const double ratio = bytes_per_token(view);
    const int64_t eos = ember_shard_eos(shard);
    const int64_t bytes = ember_shard_source_bytes(shard);
    char hash[17];
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)ember_shard_tokenizer_hash(shard));
    json_t *object = json_pack(
        "{s:o, s:I, s:I, s:I, s:o, s:b, s:I, s:I, s:I, s:s, s:s, s:I, s:o, s:o, s:b, s:o}", "path",
        json_bytes(ember_shard_path(shard), strlen(ember_shard_path(shard))), "tokens", (json_int_t)ember_shard_n_tokens(shard),
        "documents", (json_int_t)ember_shard_n_documents(shard), "separators", (json_int_t)stats->n_separators, "eos_token_id",
        eos < 0 ? json_null() : json_integer(eos), "separators_agree", (int)stats->separators_agree, "shortest_document",
        (json_int_t)stats->shortest_document, "median_document", (json_int_t)stats->median_document, "longest_document",
        (json_int_t)stats->longest_document, "tokenizer", ember_shard_tokenizer_name(shard), "tokenizer_hash", hash, "vocab_size",
        (json_int_t)ember_shard_vocab_size(shard), "source_bytes", bytes < 0 ? json_null() : json_integer(bytes), "bytes_per_token",
        ratio < 0.0 ? json_null() : json_real(ratio), "verified", (int)view->verified, "commonest", json_commonest(view));
    char *line = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(object);
    if (!line) return ember_fail(EMBER_E_MEMORY, "%s: no memory to print it as JSON", ember_shard_path(shard));
    printf("%s\n", line);
    free(line);
    return EMBER_OK;
}

static ember_status show_shard(const char *path, bool verify, bool json, int64_t n_commonest) {
    ember_shard *shard = NULL;
    ember_tokenizer *tokenizer = NULL;
    ember_shard_stats stats = {0};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_shard_open(&shard, path, verify), done);
    EMBER_TRY_GOTO(ember_shard_measure(&stats, shard, n_commonest), done);
    size_t n = 0;
    const char *text = ember_shard_tokenizer_text(shard, &n);
    if (ember_tokenizer_parse(&tokenizer, text, n, path) != EMBER_OK) {
        ember_logf(cmd_log(), EMBER_LOG_WARNING, "tokens are shown without their text: %s", ember_last_error());
    }
    const info_view view = {.shard = shard, .tokenizer = tokenizer, .stats = &stats, .verified = verify};
    if (json) {
        status = print_json(&view);
    } else {
        print_info(&view);
    }
done:
    ember_tokenizer_free(tokenizer);
    ember_shard_stats_free(&stats);
    ember_shard_close(shard);
    return status;
}

static ember_status cmd_shard_info(int argc, char **argv) {
    bool json = false;
    bool no_verify = false;
    int64_t n_commonest = 10;
    const cli_option table[] = {
        {"--json", CLI_FLAG, &json, NULL, "one JSON object a line, one line a shard"},
        {"--no-verify", CLI_FLAG, &no_verify, NULL, "do not compare the data with their hashes"},
        {"--top", CLI_I64, &n_commonest, "N", "how many of the commonest tokens to list (default 10)"},
    };
    const cli_command command = {.usage = "ember data info SHARD... [options]",
                                 .about = "Shows what token shards hold: tokens, documents, separators, tokenizer, commonest tokens.",
                                 .options = table,
                                 .n_options = (int)(sizeof table / sizeof table[0]),
                                 .min_words = 1,
                                 .max_words = argc};
    void *block = NULL;
    bool done = false;
    int n_words = 0;
    EMBER_TRY(ember_allocate(&block, (size_t)argc, sizeof(const char *), "file names"));
    const char **paths = block;
    ember_status status = cli_parse(&command, argc, argv, paths, &n_words, &done);
    for (int i = 0; i < n_words && !done && status == EMBER_OK; i++)
        status = show_shard(paths[i], !no_verify, json, n_commonest);
    ember_release(block);
    return status;
}

ember_status cmd_data(int argc, char **argv) {
    static const char usage[] = "usage: ember data prepare FILES... --tokenizer NAME -o SHARD [options]\n"
                                "       ember data info SHARD... [options]\n"
                                "(ember data prepare --help and ember data info --help list the options)";
    if (argc >= 2 && strcmp(argv[1], "prepare") == 0) return cmd_prepare(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "info") == 0) return cmd_shard_info(argc - 1, argv + 1);
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s\n", usage);
        return EMBER_OK;
    }
    if (argc >= 2) return ember_fail(EMBER_E_ARGUMENT, "unknown word \"%s\" after data\n%s", argv[1], usage);
    return ember_fail(EMBER_E_ARGUMENT, "prepare or info must follow data\n%s", usage);
}
