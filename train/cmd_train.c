#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/status.h"
#include "train/cli.h"
#include "train/cmd.h"
#include "train/interrupt.h"
#include "train/progress.h"
#include "train/trainer.h"

/* What is shown while a run goes on. */
typedef struct display {
    const ember_settings *settings;
    bool redraw;        /* one line, refreshed in place */
    size_t line_length; /* bytes of the line that stands there; 0: none */
    double start_s;
    double last_s; /* of the last line shown */
    int64_t first_step;
    int64_t tokens; /* since the last line shown */
    int64_t tokens_seen;
    ember_bytes line;
} display;

/* Ends the refreshed line before something else is printed. */
static void end_line(display *show) {
    if (show->line_length > 0) printf("\n");
    show->line_length = 0;
    (void)fflush(stdout);
}

/* Notes of the library; the refreshed line stays whole above them. */
static void log_line(void *user, ember_log_level level, const char *line) {
    end_line(user);
    const ember_log *log = cmd_log();
    log->sink(log->user, level, line);
}

static size_t terminal_columns(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

/* Over the line that stands there, without a line end; blanks cover what is left of a longer one. */
static void redraw(display *show) {
    const size_t columns = terminal_columns() - 1;
    const size_t n = show->line.n < columns ? show->line.n : columns;
    const size_t rest = show->line_length > n ? show->line_length - n : 0;
    printf("\r%.*s%*s", (int)n, show->line.data, (int)rest, "");
    show->line_length = n > 0 ? n : 1;
    (void)fflush(stdout);
}

static void step_done(void *user, const ember_step_report *report) {
    display *show = user;
    const ember_history_row *row = report->row;
    const double now = ember_seconds();
    show->tokens += row->tokens_seen - show->tokens_seen;
    show->tokens_seen = row->tokens_seen;
    const bool last = row->step == report->last_step;
    const bool plain_due = row->step % show->settings->log.every == 0 || row->step == show->first_step + 1 || last;
    const bool due = show->redraw ? last || now - show->last_s >= 0.1 : plain_due;
    if (!due) return;
    const double per_step = (now - show->start_s) / (double)(row->step - show->first_step);
    const ember_progress progress = {.step = row->step,
                                     .steps = show->settings->train.steps,
                                     .loss = row->loss,
                                     .nonzero_fraction = report->nonzero_fraction,
                                     .tokens_per_s = ember_rate(show->tokens, now - show->last_s),
                                     .eta_s = per_step * (double)(report->last_step - row->step),
                                     .n_dead = report->n_dead};
    show->tokens = 0;
    show->last_s = now;
    if (ember_progress_format(&show->line, &progress) != EMBER_OK) return;
    if (show->redraw) {
        redraw(show);
    } else {
        printf("%s\n", show->line.data);
        (void)fflush(stdout);
    }
}

static void eval_done(void *user, int64_t step, const ember_eval_result *result) {
    display *show = user;
    end_line(show);
    printf("step %lld  validation loss %.4f", (long long)step, result->loss);
    if (isfinite(result->bits_per_byte)) printf("  bits per byte %.4f", result->bits_per_byte);
    printf("  nonzero %.2f %%  (%lld targets)\n", 100 * result->nonzero_fraction, (long long)result->n_targets);
    (void)fflush(stdout);
}

static void saved(void *user, int64_t step, const char *path) {
    (void)step;
    end_line(user);
    printf("saved %s\n", path);
    (void)fflush(stdout);
}

static double mib(size_t bytes) { return (double)bytes / 1048576.0; }

static void print_header(ember_trainer *trainer, const ember_settings *settings) {
    const ember_hparams *p = ember_model_hparams(ember_trainer_model(trainer));
    const ember_memory_plan *plan = ember_trainer_plan(trainer);
    printf("model    %.2f M parameters: %lld layers, d %lld, %lld neurons a layer%s, %lld heads, vocabulary %lld, %s %s, ffn.mode %s\n",
           (double)ember_hparams_n_elements(p) / 1e6, (long long)p->num_hidden_layers, (long long)p->hidden_size,
           (long long)ember_hparams_max_neurons(p), settings->model.neurons_per_layer.n > 0 ? " at most" : "",
           (long long)p->num_attention_heads, (long long)p->vocab_size, ember_ffn_kind_name(p->ffn_kind),
           ember_activation_name(p->activation),
           settings->ffn.mode == EMBER_FFN_AUTO    ? "auto"
           : settings->ffn.mode == EMBER_FFN_DENSE ? "dense"
                                                   : "twell");
    printf("memory   %.0f MiB planned: weights %.0f, gradients %.0f, optimizer %.0f, activations %.0f, FFN %.0f, workspace %.0f, tracker "
           "%.0f\n",
           mib(plan->total_bytes), mib(plan->weight_bytes), mib(plan->gradient_bytes), mib(plan->optimizer_bytes),
           mib(plan->activation_bytes), mib(plan->ffn_bytes), mib(plan->workspace_bytes), mib(plan->tracker_bytes));
    const double machine_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if ((double)plan->total_bytes > machine_bytes)
        fprintf(stderr,
                "note: the plan is larger than this machine's %.0f MiB of memory; lower train.micro_batch_size or train.sequence_length\n",
                machine_bytes / 1048576.0);
    if (ember_trainer_n_train_tokens(trainer) > 0) {
        printf("data     %lld tokens a pass", (long long)ember_trainer_n_train_tokens(trainer));
    } else {
        printf("data     synthetic");
    }
    if (ember_trainer_n_valid_tokens(trainer) > 0) printf(", validation %lld tokens", (long long)ember_trainer_n_valid_tokens(trainer));
    printf("\nrun      steps %lld to %lld of %lld, %lld x %lld tokens each, %d threads, seed %llu, output %s\n",
           (long long)ember_trainer_step(trainer) + 1, (long long)ember_trainer_last_step(trainer), (long long)settings->train.steps,
           (long long)settings->train.batch_size, (long long)settings->train.sequence_length,
           ember_model_backend(ember_trainer_model(trainer))->n_threads, (unsigned long long)settings->run.seed, settings->run.output);
    (void)fflush(stdout);
    const int64_t n_tokens = ember_trainer_n_train_tokens(trainer);
    if (n_tokens > 0 && n_tokens <= settings->train.sequence_length)
        fprintf(stderr,
                "note: the training data is shorter than one sequence of %lld tokens: every sequence is the same text and padding\n",
                (long long)settings->train.sequence_length);
}

static void print_summary(ember_trainer *trainer, const ember_settings *settings, double elapsed_s) {
    const ember_history *history = ember_trainer_history(trainer);
    const int64_t n = ember_history_n(history);
    const int64_t step = ember_trainer_step(trainer);
    char duration[32];
    ember_format_duration(duration, elapsed_s);
    if (n > 0) {
        const ember_history_row row = ember_history_at(history, n - 1);
        const ember_hparams *p = ember_model_hparams(ember_trainer_model(trainer));
        printf("step %lld of %lld after %s: loss %.4f (cross-entropy %.4f), %lld tokens seen\nL0 per layer:", (long long)step,
               (long long)settings->train.steps, duration, row.loss, row.ce, (long long)row.tokens_seen);
        for (int64_t i = 0; i < p->num_hidden_layers; i++)
            printf(" %.1f", (double)row.l0[i]);
        printf(" of");
        for (int64_t i = 0; i < p->num_hidden_layers; i++) {
            if (i == 0 || p->neurons[i] != p->neurons[i - 1]) printf(" %lld", (long long)p->neurons[i]);
        }
        printf(" neurons\n");
    }
    printf("checkpoint: %s\n", ember_trainer_checkpoint(trainer));
    if (step < settings->train.steps)
        printf("stopped after step %lld as train.stop_after says; go on to step %lld with --resume and train.stop_after 0\n",
               (long long)step, (long long)settings->train.steps);
}

/* A word as a shell would take it. */
static ember_status append_word(ember_bytes *out, const char *word) {
    EMBER_TRY(ember_bytes_append(out, " ", 1));
    const char *safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%";
    if (word[0] != '\0' && word[strspn(word, safe)] == '\0') return ember_bytes_append(out, word, strlen(word));
    EMBER_TRY(ember_bytes_append(out, "'", 1));
    for (const char *c = word; *c; c++) {
        if (*c == '\'') {
            EMBER_TRY(ember_bytes_append(out, "'\\''", 4));
        } else {
            EMBER_TRY(ember_bytes_append(out, c, 1));
        }
    }
    return ember_bytes_append(out, "'", 1);
}

/* The message of an interrupted run ends with the command that goes on. */
static ember_status say_how_to_resume(const char *config, const cli_texts *sets, bool saved_one) {
    ember_bytes command = {0};
    char message[1024];
    (void)snprintf(message, sizeof message, "%s", ember_last_error());
    ember_status status = ember_bytes_printf(&command, "ember train");
    if (status == EMBER_OK) status = append_word(&command, config);
    for (int i = 0; i < sets->n && status == EMBER_OK; i++) {
        status = append_word(&command, "--set");
        if (status == EMBER_OK) status = append_word(&command, sets->item[i]);
    }
    if (status == EMBER_OK && saved_one) status = append_word(&command, "--resume");
    if (status == EMBER_OK)
        status = ember_fail(EMBER_E_INTERRUPTED, "%s: %s. %s with: %s", ember_interrupt_name(), message,
                            saved_one ? "Resume" : "Start again", command.data);
    ember_bytes_free(&command);
    return status;
}

static ember_status run(const ember_config *config, const char *path, const cli_texts *sets, const cli_optional *resume,
                        const cli_texts *allowed) {
    const ember_settings *settings = ember_config_settings(config);
    display show = {.settings = settings,
                    .redraw = ember_progress_can_redraw(STDOUT_FILENO, getenv("TERM")) &&
                              ember_progress_can_redraw(STDERR_FILENO, getenv("TERM"))};
    const ember_log log = {.sink = log_line, .user = &show};
    const ember_trainer_options options = {
        .config = config,
        .resume = resume->given,
        .resume_path = resume->value,
        .allowed_changes = allowed->item,
        .n_allowed_changes = allowed->n,
        .log = &log,
        .events = {
            .user = &show, .should_stop = ember_interrupt_requested, .step_done = step_done, .eval_done = eval_done, .saved = saved}};
    ember_trainer *trainer = NULL;
    ember_status status;
    EMBER_TRY(ember_interrupt_install());
    EMBER_TRY_GOTO(ember_trainer_create(&trainer, &options), done);
    print_header(trainer, settings);
    show.start_s = ember_seconds();
    show.last_s = show.start_s;
    show.first_step = ember_trainer_step(trainer);
    show.tokens_seen = ember_trainer_tracker(trainer)->tokens_seen;
    EMBER_TRY_GOTO(ember_trainer_run(trainer), done);
    end_line(&show);
    print_summary(trainer, settings, ember_seconds() - show.start_s);
done:
    end_line(&show);
    if (status == EMBER_E_INTERRUPTED) status = say_how_to_resume(path, sets, trainer && ember_trainer_step(trainer) > 0);
    ember_trainer_free(trainer);
    ember_bytes_free(&show.line);
    return status;
}

static ember_status print_dry_run(const ember_config *config) {
    ember_bytes text = {0};
    const ember_status status = ember_config_describe(config, &text);
    if (status == EMBER_OK) printf("%s", text.data ? text.data : "");
    ember_bytes_free(&text);
    return status;
}

ember_status cmd_train(int argc, char **argv) {
    cli_texts sets = {0};
    cli_texts allowed = {0};
    cli_optional resume = {0};
    bool dry_run = false;
    const cli_option options[] = {
        {"--set", CLI_TEXTS, &sets, "KEY=VALUE", "replace a value of the config, e.g. train.steps=100; may be repeated"},
        {"--resume", CLI_OPTIONAL, &resume, "CHECKPOINT",
         "go on from this checkpoint, or a folder's newest; without a name from the newest in run.output"},
        {"--allow-change", CLI_TEXTS, &allowed, "KEY", "with --resume: accept another value of KEY although it alters the past"},
        {"--dry-run", CLI_FLAG, &dry_run, NULL, "print every key with its value and where it came from; train nothing"},
    };
    const cli_command command = {
        .usage = "ember train CONFIG [--set section.key=value]... [options]",
        .about = "Trains a model as a config file says, from fresh weights or from those of init.from, or resumes a run.\n"
                 "SIGINT and SIGTERM finish the step, save, say how to resume and end with exit code 1.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof options[0]),
        .min_words = 1,
        .max_words = 1};
    const char *words[1] = {NULL};
    int n_words = 0;
    bool done = false;
    EMBER_TRY(cli_parse(&command, argc, argv, words, &n_words, &done));
    if (done) return EMBER_OK;
    if (allowed.n > 0 && !resume.given) return ember_fail(EMBER_E_ARGUMENT, "--allow-change belongs to --resume, which was not given");
    if (allowed.n > EMBER_MAX_ALLOWED) return ember_fail(EMBER_E_ARGUMENT, "--allow-change at most %d times", EMBER_MAX_ALLOWED);
    ember_config *config = NULL;
    EMBER_TRY(ember_config_load(&config, words[0], sets.item, sets.n));
    const ember_status status = dry_run ? print_dry_run(config) : run(config, words[0], &sets, &resume, &allowed);
    ember_config_free(config);
    return status;
}
