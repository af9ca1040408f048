/* cmd_generate.c - ember generate: stdout is the new text and nothing else, byte by byte as it comes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/memory.h"
#include "lib/base/status.h"
#include "train/cli.h"
#include "train/cmd.h"
#include "train/interrupt.h"

enum { MAX_PROMPT_BYTES = 1 << 28 };

typedef struct generate_options {
    ember_generation_options sampling;
    const char *prompt;
    const char *prompt_file;
    const char *device;
    const char *ffn_mode;
    int64_t n_threads;
    bool ids;
} generate_options;

static void print_note(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "note: %s\n", line);
}

static ember_status parse(generate_options *o, int argc, char **argv, const char **path, bool *done) {
    const cli_option rows[] = {
        {"--prompt", CLI_TEXT, &o->prompt, "TEXT", "text to continue; default empty: begin-of-text, else end-of-text"},
        {"--prompt-file", CLI_TEXT, &o->prompt_file, "FILE", "the prompt is this file's bytes"},
        {"-n", CLI_I64, &o->sampling.n_tokens, "N", "new tokens at most, 0 or more; default 256; prompt and new tokens share the context"},
        {"--temperature", CLI_F64, &o->sampling.temperature, "X", "0 or more; 0: greedy; default 0.8"},
        {"--top-k", CLI_I64, &o->sampling.top_k, "K", "sample among the K likeliest tokens; 0: off; default 0"},
        {"--top-p", CLI_F64, &o->sampling.top_p, "P", "of those the fewest with this share, 0 to 1; 1: off; default 0.95"},
        {"--seed", CLI_U64, &o->sampling.seed, "N", "of the random draws, 0 to 2^64 - 1; default 0"},
        {"--ignore-eos", CLI_FLAG, &o->sampling.ignore_eos, NULL, "go on after an end-of-text token"},
        {"--ids", CLI_FLAG, &o->ids, NULL, "print the ids of prompt and new tokens to stderr"},
        {"--ffn", CLI_TEXT, &o->ffn_mode, "MODE", "of the prompt: auto, dense, twell; single tokens always use the firing neurons alone"},
        {"--threads", CLI_I64, &o->n_threads, "N", "0: all available; default 0"},
        {"--device", CLI_TEXT, &o->device, "NAME", "auto or cpu; default auto"},
    };
    const cli_command command = {.usage = "ember generate CHECKPOINT --prompt TEXT [options]",
                                 .about =
                                     "Continues a prompt. stdout gets the new text only, as it comes; the tokenizer is in the checkpoint.\n"
                                     "Ends at -n tokens, at an end-of-text token of the model, or when the context is full.",
                                 .options = rows,
                                 .n_options = (int)(sizeof rows / sizeof rows[0]),
                                 .min_words = 1,
                                 .max_words = 1};
    int n_words = 0;
    EMBER_TRY(cli_parse(&command, argc, argv, path, &n_words, done));
    if (*done) return EMBER_OK;
    if (o->sampling.n_tokens < 0) {
        return ember_fail(EMBER_E_ARGUMENT, "-n %lld: it must be 0 or more new tokens", (long long)o->sampling.n_tokens);
    }
    if (o->prompt && o->prompt_file) return ember_fail(EMBER_E_ARGUMENT, "--prompt and --prompt-file were both given; use one");
    if (o->n_threads < 0 || o->n_threads > 1024) {
        return ember_fail(EMBER_E_ARGUMENT, "--threads %lld: it must be 0 (all) to 1024", (long long)o->n_threads);
    }
    return EMBER_OK;
}

static void print_prompt_ids(const ember_generation *generation) {
    size_t n = 0;
    const uint32_t *ids = ember_generation_prompt(generation, &n);
    fprintf(stderr, "prompt_ids:");
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, " %u", ids[i]);
    fprintf(stderr, "\n");
}

static ember_status write_text(const ember_generated *token) {
    if (token->n_bytes == 0) return EMBER_OK;
    if (fwrite(token->text, 1, token->n_bytes, stdout) != token->n_bytes || fflush(stdout) != 0) {
        return ember_fail(EMBER_E_IO, "cannot write to standard output");
    }
    return EMBER_OK;
}

/* The ids of a run under --ids, kept for one line at its end. */
static ember_status generate(ember_generation *generation, ember_bytes *ids, ember_stop *stop, int64_t *n_new) {
    *stop = EMBER_STOP_NONE;
    *n_new = 0;
    while (*stop == EMBER_STOP_NONE) {
        if (ember_interrupt_requested(NULL)) {
            return ember_fail(EMBER_E_INTERRUPTED, "stopped by %s after %lld tokens", ember_interrupt_name(), (long long)*n_new);
        }
        ember_generated token;
        EMBER_TRY(ember_generation_step(generation, &token));
        if (token.has_id) {
            EMBER_TRY(ember_bytes_printf(ids, " %u", token.id));
            (*n_new)++;
        }
        EMBER_TRY(write_text(&token));
        *stop = token.stop;
    }
    return EMBER_OK;
}

static ember_status run(const char *path, generate_options *o, const ember_bytes *prompt) {
    ember_context *context = NULL;
    ember_llm *llm = NULL;
    ember_generation *generation = NULL;
    ember_bytes ids = {0};
    ember_stop stop = EMBER_STOP_NONE;
    int64_t n_new = 0;
    ember_llm_info info;
    const ember_context_options device = {.device = o->device, .n_threads = (int)o->n_threads, .note = print_note};
    const ember_llm_options opening = {.ffn_mode = o->ffn_mode, .verify = true};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_context_create(&context, &device), done);
    EMBER_TRY_GOTO(ember_llm_open(&llm, context, path, &opening), done);
    ember_llm_get_info(llm, &info);
    if (info.tokenizer_vocab_size == 0 && !o->ids) {
        status = ember_fail(EMBER_E_ARGUMENT, "%s holds no tokenizer, so there is no text to print; --ids prints token ids", path);
        goto done;
    }
    o->sampling.prompt = prompt->data;
    o->sampling.prompt_bytes = prompt->n;
    EMBER_TRY_GOTO(ember_generation_create(&generation, llm, &o->sampling), done);
    if (o->ids) print_prompt_ids(generation);
    status = generate(generation, &ids, &stop, &n_new);
    if (n_new > 0 && isatty(STDOUT_FILENO)) (void)putchar('\n');
    if (o->ids) fprintf(stderr, "new_ids:%s\n", ids.data ? ids.data : "");
    if (stop == EMBER_STOP_CONTEXT && n_new < o->sampling.n_tokens) {
        fprintf(stderr, "note: stopped after %lld new tokens: the context of %lld tokens is full\n", (long long)n_new,
                (long long)info.context_length);
    }
done:
    ember_bytes_free(&ids);
    ember_generation_free(generation);
    ember_llm_free(llm);
    ember_context_free(context);
    return status;
}

ember_status cmd_generate(int argc, char **argv) {
    generate_options o = {0};
    ember_generation_defaults(&o.sampling);
    const char *path = NULL;
    bool done = false;
    EMBER_TRY(parse(&o, argc, argv, &path, &done));
    if (done) return EMBER_OK;
    ember_bytes prompt = {0};
    if (o.prompt_file) {
        EMBER_TRY(ember_read_file(&prompt, o.prompt_file, MAX_PROMPT_BYTES));
    } else if (o.prompt) {
        EMBER_TRY(ember_bytes_append(&prompt, o.prompt, strlen(o.prompt)));
    }
    ember_status status = ember_interrupt_install();
    if (status == EMBER_OK) status = run(path, &o, &prompt);
    ember_bytes_free(&prompt);
    return status;
}
