/* The report as a table, JSON and CSV. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"
#include "lib/base/parse.h"
#include "lib/base/status.h"
#include "train/history.h"
#include "train/metrics.h"
#include "train/sparsity_report.h"

/* Means over the layers, and sums. */
typedef struct model_totals {
    double l0;
    double l0_window;
    double l1;
    int64_t n_neurons;
    int64_t n_dead;
    int64_t n_nearly_dead;
} model_totals;

static model_totals add_up(const ember_sparsity_report *report) {
    model_totals totals = {0};
    for (int64_t i = 0; i < report->n_layers; i++) {
        const ember_layer_report *layer = &report->layers[i];
        totals.l0 += layer->l0;
        totals.l0_window += layer->l0_window;
        totals.l1 += layer->l1 / (double)report->n_layers;
        totals.n_neurons += layer->n_neurons;
        totals.n_dead += layer->n_dead;
        totals.n_nearly_dead += layer->n_nearly_dead;
    }
    return totals;
}

static ember_status table_row(ember_bytes *out, const char *name, const model_totals *t, const double *hottest) {
    EMBER_TRY(ember_bytes_printf(out, "%-6s %9lld %10.2f %10.2f %8.3f %8.3f %11.4g %8lld %8lld", name, (long long)t->n_neurons, t->l0,
                                 t->l0_window, 100 * ember_report_fraction(t->l0, t->n_neurons),
                                 100 * ember_report_fraction(t->l0_window, t->n_neurons), t->l1, (long long)t->n_dead,
                                 (long long)t->n_nearly_dead));
    for (int s = 0; s < EMBER_HOTTEST && hottest; s++)
        EMBER_TRY(ember_bytes_printf(out, " %7.1f", 100 * hottest[s]));
    return ember_bytes_append(out, "\n", 1);
}

ember_status ember_sparsity_report_table(const ember_sparsity_report *report, ember_bytes *out) {
    EMBER_TRY(
        ember_bytes_printf(out,
                           "%s\nstep %lld, %lld training tokens seen (padding is not counted); the window covers the last %lld\n"
                           "layer    neurons    L0 step  L0 window  %% step  %% window         L1     dead   nearly  top 1%%  top 5%% "
                           "top 10%%\n",
                           report->path, (long long)report->step, (long long)report->tokens_seen, (long long)report->window_tokens));
    for (int64_t i = 0; i < report->n_layers; i++) {
        const ember_layer_report *layer = &report->layers[i];
        const model_totals row = {.l0 = layer->l0,
                                  .l0_window = layer->l0_window,
                                  .l1 = layer->l1,
                                  .n_neurons = layer->n_neurons,
                                  .n_dead = layer->n_dead,
                                  .n_nearly_dead = layer->n_nearly_dead};
        char name[32];
        (void)snprintf(name, sizeof name, "%lld", (long long)i);
        EMBER_TRY(table_row(out, name, &row, layer->hottest));
    }
    const model_totals totals = add_up(report);
    EMBER_TRY(table_row(out, "all", &totals, NULL));
    return ember_bytes_printf(
        out,
        "L0: mean number of neurons that fire for a token; each reads one row of every FFN matrix. %%: L0 / neurons.\n"
        "L1: mean over tokens of sum |h|, last step (all: mean over layers). dead: silent for %lld tokens or more.\n"
        "nearly: alive, but firing for fewer than 1 in 100,000 tokens of the window. top: share of the window's firings\n"
        "that the hottest 1, 5, 10 %% of the neurons have.\n",
        (long long)report->dead_after_tokens);
}

static ember_status put(ember_bytes *out, const char *name, double value) {
    EMBER_TRY(ember_bytes_printf(out, "\"%s\": ", name));
    return ember_json_number(out, value);
}

static ember_status put_totals(ember_bytes *out, const model_totals *t) {
    EMBER_TRY(ember_bytes_printf(out, "\"neurons\": %lld, ", (long long)t->n_neurons));
    EMBER_TRY(put(out, "l0", t->l0));
    EMBER_TRY(ember_bytes_printf(out, ", "));
    EMBER_TRY(put(out, "l0_window", t->l0_window));
    EMBER_TRY(ember_bytes_printf(out, ", "));
    EMBER_TRY(put(out, "nonzero", ember_report_fraction(t->l0, t->n_neurons)));
    EMBER_TRY(ember_bytes_printf(out, ", "));
    EMBER_TRY(put(out, "nonzero_window", ember_report_fraction(t->l0_window, t->n_neurons)));
    EMBER_TRY(ember_bytes_printf(out, ", "));
    EMBER_TRY(put(out, "l1", t->l1));
    return ember_bytes_printf(out, ", \"dead\": %lld, \"nearly_dead\": %lld", (long long)t->n_dead, (long long)t->n_nearly_dead);
}

static const char *const hottest_names[EMBER_HOTTEST] = {"hottest_1_percent", "hottest_5_percent", "hottest_10_percent"};

static ember_status put_layer(ember_bytes *out, const ember_layer_report *layer, int64_t index) {
    const model_totals row = {.l0 = layer->l0,
                              .l0_window = layer->l0_window,
                              .l1 = layer->l1,
                              .n_neurons = layer->n_neurons,
                              .n_dead = layer->n_dead,
                              .n_nearly_dead = layer->n_nearly_dead};
    EMBER_TRY(ember_bytes_printf(out, "%s\n  {\"layer\": %lld, ", index > 0 ? "," : "", (long long)index));
    EMBER_TRY(put_totals(out, &row));
    for (int s = 0; s < EMBER_HOTTEST; s++) {
        EMBER_TRY(ember_bytes_printf(out, ", "));
        EMBER_TRY(put(out, hottest_names[s], layer->hottest[s]));
    }
    return ember_bytes_append(out, "}", 1);
}

ember_status ember_sparsity_report_json(const ember_sparsity_report *report, ember_bytes *out) {
    const model_totals totals = add_up(report);
    EMBER_TRY(ember_bytes_printf(out, "{\"checkpoint\": "));
    EMBER_TRY(ember_json_text(out, report->path, strlen(report->path)));
    EMBER_TRY(ember_bytes_printf(out,
                                 ", \"step\": %lld, \"tokens_seen\": %lld, \"window_tokens\": %lld, \"dead_after_tokens\": %lld,\n"
                                 "\"model\": {",
                                 (long long)report->step, (long long)report->tokens_seen, (long long)report->window_tokens,
                                 (long long)report->dead_after_tokens));
    EMBER_TRY(put_totals(out, &totals));
    EMBER_TRY(ember_bytes_printf(out, "},\n\"layers\": ["));
    for (int64_t i = 0; i < report->n_layers; i++)
        EMBER_TRY(put_layer(out, &report->layers[i], i));
    return ember_bytes_printf(out, "]}\n");
}

/* ",value", or an empty field. */
static ember_status field(ember_bytes *out, double value) {
    if (!isfinite(value)) return ember_bytes_append(out, ",", 1);
    char text[32];
    ember_format_f64(text, value);
    return ember_bytes_printf(out, ",%s", text);
}

ember_status ember_sparsity_report_csv(const ember_sparsity_report *report, ember_bytes *out) {
    EMBER_TRY(ember_bytes_printf(out, "layer,neurons,l0,l0_window,nonzero,nonzero_window,l1,dead,nearly_dead,hottest_1_percent,"
                                      "hottest_5_percent,hottest_10_percent,window_tokens,tokens_seen,step\n"));
    for (int64_t i = 0; i < report->n_layers; i++) {
        const ember_layer_report *layer = &report->layers[i];
        EMBER_TRY(ember_bytes_printf(out, "%lld,%lld", (long long)i, (long long)layer->n_neurons));
        EMBER_TRY(field(out, layer->l0));
        EMBER_TRY(field(out, layer->l0_window));
        EMBER_TRY(field(out, ember_report_fraction(layer->l0, layer->n_neurons)));
        EMBER_TRY(field(out, ember_report_fraction(layer->l0_window, layer->n_neurons)));
        EMBER_TRY(field(out, layer->l1));
        EMBER_TRY(ember_bytes_printf(out, ",%lld,%lld", (long long)layer->n_dead, (long long)layer->n_nearly_dead));
        for (int s = 0; s < EMBER_HOTTEST; s++)
            EMBER_TRY(field(out, layer->hottest[s]));
        EMBER_TRY(ember_bytes_printf(out, ",%lld,%lld,%lld\n", (long long)report->window_tokens, (long long)report->tokens_seen,
                                     (long long)report->step));
    }
    return EMBER_OK;
}

ember_status ember_sparsity_report_neurons_csv(const ember_sparsity_report *report, ember_bytes *out) {
    EMBER_TRY(ember_bytes_printf(out, "layer,neuron,fire_count,rate,window_count,window_rate,last_fired,tokens_since_fired,dead\n"));
    for (int64_t i = 0; i < report->n_layers; i++) {
        const ember_layer_report *layer = &report->layers[i];
        for (int64_t j = 0; j < layer->n_neurons; j++) {
            const int64_t age = report->tokens_seen - layer->last_fired[j];
            EMBER_TRY(ember_bytes_printf(out, "%lld,%lld,%llu", (long long)i, (long long)j, (unsigned long long)layer->fire_count[j]));
            EMBER_TRY(field(out, (double)layer->fire_count[j] / (double)report->tokens_seen));
            EMBER_TRY(ember_bytes_printf(out, ",%llu", (unsigned long long)layer->window_count[j]));
            EMBER_TRY(field(out, (double)layer->window_count[j] / (double)report->window_tokens));
            EMBER_TRY(ember_bytes_printf(out, ",%lld,%lld,%d\n", (long long)layer->last_fired[j], (long long)age,
                                         age >= report->dead_after_tokens ? 1 : 0));
        }
    }
    return EMBER_OK;
}

static ember_status history_header(ember_bytes *out, int64_t n_layers) {
    EMBER_TRY(ember_bytes_printf(out, "step,tokens_seen,loss,ce,l1,valid_loss,lr,lambda,grad_norm,tokens_per_s"));
    static const char *const names[] = {"l0", "l1", "dead", "mode", "spill"};
    for (size_t c = 0; c < sizeof names / sizeof names[0]; c++) {
        for (int64_t i = 0; i < n_layers; i++)
            EMBER_TRY(ember_bytes_printf(out, ",%s_%lld", names[c], (long long)i));
    }
    return ember_bytes_append(out, "\n", 1);
}

static ember_status history_line(ember_bytes *out, const ember_history_row *row, int64_t n_layers) {
    const double numbers[] = {row->loss, row->ce, row->l1, row->valid_loss, row->lr, row->lambda, row->grad_norm, row->tokens_per_s};
    EMBER_TRY(ember_bytes_printf(out, "%lld,%lld", (long long)row->step, (long long)row->tokens_seen));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        EMBER_TRY(field(out, numbers[i]));
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY(field(out, (double)row->l0[i]));
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY(field(out, (double)row->l1_per_layer[i]));
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY(ember_bytes_printf(out, ",%d", (int)row->dead[i]));
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY(ember_bytes_printf(out, ",%s", row->mode[i] == EMBER_MODE_TWELL ? "twell" : "dense"));
    for (int64_t i = 0; i < n_layers; i++)
        EMBER_TRY(ember_bytes_printf(out, ",%lld", (long long)row->spill[i]));
    return ember_bytes_append(out, "\n", 1);
}

ember_status ember_history_csv(const ember_checkpoint *checkpoint, ember_bytes *out) {
    const int64_t n_layers = ember_checkpoint_hparams(checkpoint)->num_hidden_layers;
    ember_history *history = NULL;
    ember_status status;
    EMBER_TRY_GOTO(ember_history_create(&history, n_layers), done);
    EMBER_TRY_GOTO(ember_history_load(history, checkpoint), done);
    EMBER_TRY_GOTO(history_header(out, n_layers), done);
    for (int64_t i = 0; i < ember_history_n(history); i++) {
        const ember_history_row row = ember_history_at(history, i);
        EMBER_TRY_GOTO(history_line(out, &row, n_layers), done);
    }
done:
    ember_history_free(history);
    return status;
}
