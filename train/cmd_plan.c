#include <stdio.h>
#include <string.h>

#include "data/loader.h"
#include "lib/base/status.h"
#include "train/cli.h"
#include "train/cmd.h"
#include "train/metrics.h"
#include "train/trainer.h"

/* Parameters by what they are for. */
typedef struct param_counts {
    int64_t embedding;
    int64_t attention;
    int64_t ffn;
    int64_t norms;
    int64_t head; /* 0 when tied: the embedding is counted once */
    int64_t total;
} param_counts;

static param_counts count_params(const ember_hparams *hparams) {
    param_counts counts = {0};
    for (int64_t i = 0; i < ember_hparams_n_params(hparams); i++) {
        const ember_param_spec spec = ember_hparams_param(hparams, i);
        const int64_t n = ember_count(spec.n_dims, spec.dims);
        counts.total += n;
        switch (spec.role) {
        case EMBER_PARAM_EMBEDDING: counts.embedding += n; break;
        case EMBER_PARAM_HEAD: counts.head += n; break;
        case EMBER_PARAM_GATE:
        case EMBER_PARAM_UP:
        case EMBER_PARAM_DOWN: counts.ffn += n; break;
        case EMBER_PARAM_ATTENTION_NORM:
        case EMBER_PARAM_FFN_NORM:
        case EMBER_PARAM_FINAL_NORM:
        case EMBER_PARAM_Q_NORM:
        case EMBER_PARAM_K_NORM: counts.norms += n; break;
        default: counts.attention += n; break;
        }
    }
    return counts;
}

/* Vocabulary of the shards; they are opened only when the config does not give one. */
static ember_status shard_vocabulary(const ember_settings *settings, int64_t *vocab_size) {
    *vocab_size = 0;
    if (settings->model.vocab_size > 0) return EMBER_OK;
    ember_loader *loader = NULL;
    const ember_loader_options options = {.globs = settings->data.train.item,
                                          .n_sources = settings->data.train.n,
                                          .sequence_length = settings->train.sequence_length,
                                          .batch_size = 1,
                                          .seed = settings->run.seed};
    const ember_status status = ember_loader_open(&loader, &options);
    if (status != EMBER_OK) return ember_fail_context(status, "model.vocab_size is 0, so data.train has to tell the vocabulary");
    *vocab_size = ember_loader_vocab_size(loader);
    ember_loader_close(loader);
    return EMBER_OK;
}

typedef struct byte_class {
    const char *name;
    const char *key;
    size_t bytes;
} byte_class;

enum { N_CLASSES = 8 };

static void list_classes(byte_class out[N_CLASSES], const ember_memory_plan *plan) {
    const byte_class classes[N_CLASSES] = {
        {"weights", "weight_bytes", plan->weight_bytes},
        {"gradients", "gradient_bytes", plan->gradient_bytes},
        {"optimizer", "optimizer_bytes", plan->optimizer_bytes},
        {"activations", "activation_bytes", plan->activation_bytes},
        {"FFN state", "ffn_bytes", plan->ffn_bytes},
        {"workspace", "workspace_bytes", plan->workspace_bytes},
        {"tracker", "tracker_bytes", plan->tracker_bytes},
        {"total", "total_bytes", plan->total_bytes},
    };
    memcpy(out, classes, sizeof classes);
}

static void print_table(const ember_hparams *hparams, const ember_settings *settings, const ember_memory_plan *plan) {
    const param_counts counts = count_params(hparams);
    byte_class classes[N_CLASSES];
    list_classes(classes, plan);
    printf("parameters      %15lld\n", (long long)counts.total);
    printf("  embedding     %15lld%s\n", (long long)counts.embedding, hparams->tie_word_embeddings ? "  (also the head)" : "");
    printf("  attention     %15lld\n", (long long)counts.attention);
    printf("  FFN           %15lld\n", (long long)counts.ffn);
    printf("  norms         %15lld\n", (long long)counts.norms);
    if (!hparams->tie_word_embeddings) printf("  head          %15lld\n", (long long)counts.head);
    printf("memory, training on the CPU in float32, micro-batches of %lld x %lld tokens\n",
           (long long)ember_trainer_model_options(settings).n_sequences, (long long)settings->train.sequence_length);
    for (int i = 0; i < N_CLASSES; i++)
        printf("  %-13s %15zu bytes  %12.1f MiB\n", classes[i].name, classes[i].bytes, (double)classes[i].bytes / 1048576.0);
    printf("FLOP per token  %15.4g  (forward and backward, dense)\n", plan->flop_per_token);
}

static ember_status print_json(const ember_hparams *hparams, const ember_settings *settings, const ember_memory_plan *plan) {
    const param_counts counts = count_params(hparams);
    byte_class classes[N_CLASSES];
    ember_bytes text = {0};
    ember_status status;
    list_classes(classes, plan);
    EMBER_TRY_GOTO(ember_bytes_printf(&text,
                                      "{\"parameters\": %lld, \"embedding_parameters\": %lld, \"attention_parameters\": %lld, "
                                      "\"ffn_parameters\": %lld, \"norm_parameters\": %lld, \"head_parameters\": %lld, "
                                      "\"micro_batch_sequences\": %lld, \"sequence_length\": %lld",
                                      (long long)counts.total, (long long)counts.embedding, (long long)counts.attention,
                                      (long long)counts.ffn, (long long)counts.norms, (long long)counts.head,
                                      (long long)ember_trainer_model_options(settings).n_sequences,
                                      (long long)settings->train.sequence_length),
                   done);
    for (int i = 0; i < N_CLASSES; i++)
        EMBER_TRY_GOTO(ember_bytes_printf(&text, ", \"%s\": %zu", classes[i].key, classes[i].bytes), done);
    EMBER_TRY_GOTO(ember_bytes_printf(&text, ", \"flop_per_token\": "), done);
    EMBER_TRY_GOTO(ember_json_number(&text, plan->flop_per_token), done);
    printf("%s}\n", text.data);
done:
    ember_bytes_free(&text);
    return status;
}

static ember_status plan_config(const ember_config *config, bool json) {
    const ember_settings *settings = ember_config_settings(config);
    const ember_model_options options = ember_trainer_model_options(settings);
    int64_t vocab_size = 0;
    ember_backend *backend = NULL;
    ember_memory_plan plan;
    ember_hparams *hparams = NULL;
    ember_status status;
    EMBER_TRY_GOTO(shard_vocabulary(settings, &vocab_size), done);
    EMBER_TRY_GOTO(ember_allocate((void **)&hparams, 1, sizeof *hparams, "hyper-parameters"), done);
    EMBER_TRY_GOTO(ember_config_hparams(config, vocab_size, hparams), done);
    EMBER_TRY_GOTO(ember_cpu_backend_create(&backend, (int)settings->run.threads), done);
    EMBER_TRY_GOTO(ember_model_plan(&plan, backend, hparams, &options), done);
    if (json) {
        EMBER_TRY_GOTO(print_json(hparams, settings, &plan), done);
    } else {
        print_table(hparams, settings, &plan);
    }
done:
    ember_backend_free(backend);
    ember_release(hparams);
    return status;
}

ember_status cmd_plan(int argc, char **argv) {
    cli_texts sets = {0};
    bool json = false;
    const cli_option options[] = {
        {"--set", CLI_TEXTS, &sets, "KEY=VALUE", "replace a value of the config; may be repeated"},
        {"--json", CLI_FLAG, &json, NULL, "one JSON object instead of the table"},
    };
    const cli_command command = {.usage = "ember plan CONFIG [options]",
                                 .about = "Parameters, bytes of each class of memory and FLOP per token of a training run, computed "
                                          "without allocating any of it.",
                                 .options = options,
                                 .n_options = (int)(sizeof options / sizeof options[0]),
                                 .min_words = 1,
                                 .max_words = 1};
    const char *words[1] = {NULL};
    int n_words = 0;
    bool done = false;
    EMBER_TRY(cli_parse(&command, argc, argv, words, &n_words, &done));
    if (done) return EMBER_OK;
    ember_config *config = NULL;
    EMBER_TRY(ember_config_load(&config, words[0], sets.item, sets.n));
    const ember_status status = plan_config(config, json);
    ember_config_free(config);
    return status;
}
