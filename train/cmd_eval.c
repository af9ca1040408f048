/* cmd_eval.c - ember eval: loss, perplexity, bits per byte and L0 of a checkpoint over token shards. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/memory.h"
#include "lib/base/status.h"
#include "train/cli.h"
#include "train/cmd.h"
#include "train/interrupt.h"
#include "train/progress.h"

enum { MAX_SHARDS = 256, DEFAULT_BATCH = 8 };

typedef struct eval_options {
    ember_evaluation_options evaluation;
    int64_t batch;
    int64_t n_threads;
    const char *device;
    const char *ffn_mode;
    bool mask_documents;
    bool json;
    const char *words[1 + MAX_SHARDS];
} eval_options;

static void print_note(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "note: %s\n", line);
}

static ember_status parse(eval_options *o, int argc, char **argv, bool *done) {
    const cli_option rows[] = {
        {"--json", CLI_FLAG, &o->json, NULL, "one JSON object instead of a table"},
        {"--sequences", CLI_I64, &o->evaluation.n_sequences, "N", "the first N sequences alone; default 0: all"},
        {"--sequence-length", CLI_I64, &o->evaluation.sequence_length, "T",
         "tokens of a sequence; default: that of the checkpoint's run, else 256, at most the context"},
        {"--batch", CLI_I64, &o->batch, "N",
         "sequences at once; memory and speed depend on it, the result does not (beyond rounding); default 8"},
        {"--mask-documents", CLI_FLAG, &o->mask_documents, NULL, "tokens see their own document only; default: as the checkpoint's run"},
        {"--force", CLI_FLAG, &o->evaluation.any_tokenizer, NULL, "evaluate although the shards come from another tokenizer"},
        {"--ffn", CLI_TEXT, &o->ffn_mode, "MODE", "auto, dense, twell; default auto"},
        {"--threads", CLI_I64, &o->n_threads, "N", "0: all available; default 0"},
        {"--device", CLI_TEXT, &o->device, "NAME", "auto or cpu; default auto"},
    };
    const cli_command command = {
        .usage = "ember eval CHECKPOINT SHARD... [options]",
        .about = "One pass over the shards. Loss: nats per target token, every token but the first of a shard once. Bits per byte:\n"
                 "loss / ln 2 / (bytes of source text per token of the shards). L0: mean firing neurons of a layer per input token.",
        .options = rows,
        .n_options = (int)(sizeof rows / sizeof rows[0]),
        .min_words = 2,
        .max_words = 1 + MAX_SHARDS};
    int n_words = 0;
    EMBER_TRY(cli_parse(&command, argc, argv, o->words, &n_words, done));
    if (*done) return EMBER_OK;
    if (o->batch < 1) return ember_fail(EMBER_E_ARGUMENT, "--batch %lld: it must be 1 or more sequences", (long long)o->batch);
    if (o->evaluation.sequence_length < 0 || o->evaluation.n_sequences < 0) {
        return ember_fail(EMBER_E_ARGUMENT, "--sequence-length and --sequences must be 0 (default) or more");
    }
    if (o->n_threads < 0 || o->n_threads > 1024) {
        return ember_fail(EMBER_E_ARGUMENT, "--threads %lld: it must be 0 (all) to 1024", (long long)o->n_threads);
    }
    o->evaluation.shards = o->words + 1;
    o->evaluation.n_shards = n_words - 1;
    return EMBER_OK;
}

static bool show_progress(void *user, int64_t done, int64_t total) {
    const double *started = user;
    if (ember_progress_can_redraw(STDERR_FILENO, getenv("TERM")) && (ember_seconds() - *started > 1.0 || done == total)) {
        fprintf(stderr, "\r%lld of %lld sequences%s", (long long)done, (long long)total, done == total ? "\n" : "");
    }
    return ember_interrupt_requested(NULL);
}

/* A JSON number; null for what JSON cannot hold. */
static void print_number(const char *name, double value, const char *end) {
    if (isfinite(value)) {
        printf("\"%s\": %.9g%s", name, value, end);
    } else {
        printf("\"%s\": null%s", name, end);
    }
}

static void print_json(const ember_llm *llm, const ember_evaluation *result) {
    printf("{");
    print_number("loss", result->loss, ", ");
    print_number("perplexity", result->perplexity, ", ");
    print_number("bits_per_byte", result->bits_per_byte, ", ");
    print_number("nonzero_percent", 100.0 * result->nonzero_fraction, ", ");
    printf("\"n_targets\": %lld, \"n_inputs\": %lld, \"layers\": [", (long long)result->n_targets, (long long)result->n_inputs);
    for (int64_t layer = 0; layer < result->n_layers; layer++) {
        printf("%s{\"layer\": %lld, \"neurons\": %lld, ", layer > 0 ? ", " : "", (long long)layer,
               (long long)ember_llm_neurons(llm, layer));
        print_number("l0", result->l0_per_layer[layer], ", ");
        print_number("nonzero_percent", 100.0 * result->nonzero_per_layer[layer], "}");
    }
    printf("]}\n");
}

static void print_table(const ember_llm *llm, const ember_evaluation *result) {
    printf("loss           %.4f nats per token over %lld targets\n", result->loss, (long long)result->n_targets);
    printf("perplexity     %.4g\n", result->perplexity);
    if (isfinite(result->bits_per_byte)) {
        printf("bits per byte  %.4f\n", result->bits_per_byte);
    } else {
        printf("bits per byte  unknown (%s)\n",
               isfinite(result->loss) ? "the shards do not say how many bytes they were made from" : "the loss is no number");
    }
    printf("non-zero       %.2f %% of all neurons, over %lld input tokens\n\n", 100.0 * result->nonzero_fraction,
           (long long)result->n_inputs);
    printf("layer  neurons        L0  non-zero %%\n");
    for (int64_t layer = 0; layer < result->n_layers; layer++) {
        printf("%5lld  %7lld  %8.2f  %10.2f\n", (long long)layer, (long long)ember_llm_neurons(llm, layer), result->l0_per_layer[layer],
               100.0 * result->nonzero_per_layer[layer]);
    }
}

static ember_status run(eval_options *o) {
    ember_context *context = NULL;
    ember_llm *llm = NULL;
    ember_evaluation *result = NULL;
    ember_llm_info info;
    double started = ember_seconds();
    const ember_context_options device = {.device = o->device, .n_threads = (int)o->n_threads, .note = print_note};
    const ember_llm_options opening = {
        .max_sequences = o->batch, .max_sequence_length = o->evaluation.sequence_length, .ffn_mode = o->ffn_mode, .verify = true};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_allocate((void **)&result, 1, sizeof *result, "evaluation"), done);
    EMBER_TRY_GOTO(ember_context_create(&context, &device), done);
    EMBER_TRY_GOTO(ember_llm_open(&llm, context, o->words[0], &opening), done);
    ember_llm_get_info(llm, &info);
    o->evaluation.mask_documents = o->mask_documents || info.train_mask_documents;
    o->evaluation.progress = show_progress;
    o->evaluation.progress_user = &started;
    EMBER_TRY_GOTO(ember_evaluate(llm, &o->evaluation, result), done);
    if (o->json) {
        print_json(llm, result);
    } else {
        print_table(llm, result);
    }
done:
    ember_llm_free(llm);
    ember_context_free(context);
    ember_release(result);
    return status;
}

ember_status cmd_eval(int argc, char **argv) {
    eval_options o = {.batch = DEFAULT_BATCH};
    bool done = false;
    EMBER_TRY(parse(&o, argc, argv, &done));
    if (done) return EMBER_OK;
    EMBER_TRY(ember_interrupt_install());
    return run(&o);
}
