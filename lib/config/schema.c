#include "lib/config/schema.h"

#include <string.h>

static const char *const device_names[] = {"auto", "cpu", "cuda", NULL};
static const char *const mode_names[] = {"auto", "dense", "twell", NULL};
static const char *const schedule_names[] = {"constant", "linear", "cosine", "wsd", NULL};
static const char *const rope_names[] = {"none", "linear", "llama3", NULL};
static const char *const kind_names[] = {"gated", "plain", NULL};
static const char *const activation_names[] = {"relu", "relu2", "silu", NULL};

#define AT(field) offsetof(ember_settings, field)
#define COUNT_MAX 9007199254740992.0 /* 2^53: exact as a double */

/* Sections stay together and in the order of ember_settings; the printed forms follow it. */
/* clang-format off */
static const ember_schema_row rows[] = {
    {.key = "run.name", .type = EMBER_KEY_TEXT, .offset = AT(run.name), .initial_note = "stem of the config file", .reader = "trainer",
     .help = "Name of the run; part of the default output folder. No slash."},
    {.key = "run.output", .type = EMBER_KEY_TEXT, .offset = AT(run.output), .initial_note = "runs/<run.name>", .reader = "trainer",
     .help = "Folder for checkpoints, log and cost table; made when missing. Relative to the working directory."},
    {.key = "run.seed", .type = EMBER_KEY_UINT64, .offset = AT(run.seed), .initial = "0", .reader = "initialization, loader",
     .help = "Seed of every random number. 0 is a seed like any other."},
    {.key = "run.device", .type = EMBER_KEY_ENUM, .offset = AT(run.device), .initial = "auto", .names = device_names, .reader = "trainer",
     .help = "Where to compute. auto takes the best device that this build and machine have."},
    {.key = "run.threads", .type = EMBER_KEY_INT, .offset = AT(run.threads), .initial = "0", .low = 0, .high = 1024, .unit = "threads",
     .reader = "kernels",
     .help = "Threads of the CPU backend; 0: all that are available. The results do not depend on it."},

    {.key = "model.vocab_size", .type = EMBER_KEY_INT, .offset = AT(model.vocab_size), .initial = "0", .low = 0, .high = 16777216,
     .unit = "tokens", .reader = "model",
     .help = "Rows of the embedding; 0: the vocabulary of the shards. It may be larger than theirs, not smaller."},
    {.key = "model.hidden_size", .type = EMBER_KEY_INT, .offset = AT(model.hidden_size), .low = 1, .high = 131072, .unit = "elements",
     .reader = "model",
     .help = "Width d of the residual stream."},
    {.key = "model.intermediate_size", .type = EMBER_KEY_INT, .offset = AT(model.intermediate_size),
     .initial_note = "largest of model.neurons_per_layer, else it must be given", .low = 1, .high = EMBER_MAX_NEURONS, .unit = "neurons",
     .reader = "model",
     .help = "Feed-forward neurons h of every layer."},
    {.key = "model.neurons_per_layer", .type = EMBER_KEY_INTS, .offset = AT(model.neurons_per_layer), .initial = "[]", .low = 1,
     .high = EMBER_MAX_NEURONS, .may_be_empty = true, .unit = "neurons", .reader = "model",
     .help = "Neurons of each layer, one value a layer; empty: model.intermediate_size everywhere."},
    {.key = "model.num_hidden_layers", .type = EMBER_KEY_INT, .offset = AT(model.num_hidden_layers), .low = 1, .high = EMBER_MAX_LAYERS,
     .unit = "layers", .reader = "model",
     .help = "Number of transformer layers."},
    {.key = "model.num_attention_heads", .type = EMBER_KEY_INT, .offset = AT(model.num_attention_heads), .low = 1, .high = 16384,
     .unit = "heads", .reader = "model",
     .help = "Query heads."},
    {.key = "model.num_key_value_heads", .type = EMBER_KEY_INT, .offset = AT(model.num_key_value_heads), .initial = "0", .low = 0,
     .high = 16384, .unit = "heads", .reader = "model",
     .help = "Key and value heads, a divisor of num_attention_heads; 0: as many (no sharing)."},
    {.key = "model.head_dim", .type = EMBER_KEY_INT, .offset = AT(model.head_dim), .initial = "0", .low = 0, .high = EMBER_MAX_HEAD_DIM,
     .unit = "elements", .reader = "model",
     .help = "Size of a head, even; 0: hidden_size / num_attention_heads."},
    {.key = "model.max_position_embeddings", .type = EMBER_KEY_INT, .offset = AT(model.max_position_embeddings), .initial = "0", .low = 0,
     .high = 16777216, .unit = "tokens", .reader = "model",
     .help = "Longest sequence that the model is meant for; 0: train.sequence_length."},
    {.key = "model.rms_norm_eps", .type = EMBER_KEY_REAL, .offset = AT(model.rms_norm_eps), .initial = "1e-05", .low = 0, .high = 1,
     .above_low = true, .reader = "model",
     .help = "Added to the mean square in every RMSNorm."},
    {.key = "model.rope_theta", .type = EMBER_KEY_REAL, .offset = AT(model.rope_theta), .initial = "10000", .low = 0, .high = 1e12,
     .above_low = true, .reader = "model",
     .help = "Base of the rotary position frequencies."},
    {.key = "model.tie_word_embeddings", .type = EMBER_KEY_BOOL, .offset = AT(model.tie_word_embeddings), .initial = "false",
     .reader = "model",
     .help = "One matrix for the embedding and the head."},
    {.key = "model.qkv_bias", .type = EMBER_KEY_BOOL, .offset = AT(model.qkv_bias), .initial = "false", .reader = "model",
     .help = "Biases on the query, key and value projections (as Qwen2 has)."},
    {.key = "model.qk_norm", .type = EMBER_KEY_BOOL, .offset = AT(model.qk_norm), .initial = "false", .reader = "model",
     .help = "RMSNorm on every query and key head (as Qwen3 has)."},
    {.key = "model.rope_scaling.type", .type = EMBER_KEY_ENUM, .offset = AT(model.rope_scaling.type), .initial = "none",
     .names = rope_names, .reader = "model",
     .help = "How rotary frequencies are stretched for longer contexts."},
    {.key = "model.rope_scaling.factor", .type = EMBER_KEY_REAL, .offset = AT(model.rope_scaling.factor), .initial = "1", .low = 0,
     .high = 1e6, .above_low = true, .reader = "model",
     .help = "Stretch of the positions (linear, llama3)."},
    {.key = "model.rope_scaling.low_freq_factor", .type = EMBER_KEY_REAL, .offset = AT(model.rope_scaling.low_freq_factor),
     .initial = "1", .low = 0, .high = 1e6, .above_low = true, .reader = "model",
     .help = "Below this many turns in the original context a frequency is stretched fully (llama3)."},
    {.key = "model.rope_scaling.high_freq_factor", .type = EMBER_KEY_REAL, .offset = AT(model.rope_scaling.high_freq_factor),
     .initial = "4", .low = 0, .high = 1e6, .above_low = true, .reader = "model",
     .help = "Above this many turns a frequency is kept (llama3)."},
    {.key = "model.rope_scaling.original_max_position_embeddings", .type = EMBER_KEY_INT,
     .offset = AT(model.rope_scaling.original_max_position_embeddings), .initial = "8192", .low = 1, .high = 16777216, .unit = "tokens",
     .reader = "model",
     .help = "Context before stretching (llama3)."},

    {.key = "data.train", .type = EMBER_KEY_TEXTS, .offset = AT(data.train), .reader = "loader",
     .help = "Shards to train on: paths or globs, relative to the working directory, each a source of its own; or the single word "
             "synthetic (ids with a Zipf distribution, for benchmarks)."},
    {.key = "data.weights", .type = EMBER_KEY_NUMBERS, .offset = AT(data.weights), .initial = "[]", .low = 0, .high = 1e9,
     .above_low = true, .may_be_empty = true, .reader = "loader",
     .help = "Share of each entry of data.train in the mixture, in any scale; empty: by size."},
    {.key = "data.valid", .type = EMBER_KEY_TEXTS, .offset = AT(data.valid), .initial = "[]", .may_be_empty = true, .reader = "loader",
     .help = "Shards to validate on; empty: no validation."},
    {.key = "data.mask_documents", .type = EMBER_KEY_BOOL, .offset = AT(data.mask_documents), .initial = "false",
     .reader = "loader, attention",
     .help =
         "Tokens see and predict only their own document. The first token of a document is then no target, so averages "
             "are over fewer."},
    {.key = "data.shuffle", .type = EMBER_KEY_BOOL, .offset = AT(data.shuffle), .initial = "true", .reader = "loader",
     .help = "Sequences in an order computed from seed and pass; false: in file order."},
    {.key = "data.verify", .type = EMBER_KEY_BOOL, .offset = AT(data.verify), .initial = "true", .reader = "loader",
     .help = "Check the hashes of a shard when it is opened."},
    {.key = "data.zipf_exponent", .type = EMBER_KEY_REAL, .offset = AT(data.zipf_exponent), .initial = "1", .low = 0, .high = 10,
     .reader = "loader",
     .help = "Of the synthetic source: the id of rank r has probability ~ r^-exponent."},

    {.key = "train.steps", .type = EMBER_KEY_INT, .offset = AT(train.steps), .low = 1, .high = COUNT_MAX, .unit = "steps",
     .reader = "trainer, schedule",
     .help = "Optimizer steps of the whole run; the schedule is computed on it."},
    {.key = "train.stop_after", .type = EMBER_KEY_INT, .offset = AT(train.stop_after), .initial = "0", .low = 0, .high = COUNT_MAX,
     .unit = "steps", .reader = "trainer",
     .help = "Save and end after this step without changing the schedule; 0: off."},
    {.key = "train.batch_size", .type = EMBER_KEY_INT, .offset = AT(train.batch_size), .initial = "32", .low = 1, .high = 1048576,
     .unit = "sequences", .reader = "trainer, loader",
     .help = "Sequences of one optimizer step."},
    {.key = "train.micro_batch_size", .type = EMBER_KEY_INT, .offset = AT(train.micro_batch_size), .initial = "0", .low = 0,
     .high = 1048576, .unit = "sequences", .reader = "trainer",
     .help = "Sequences of one forward and backward, a divisor of batch_size; 0: batch_size. Smaller needs less memory."},
    {.key = "train.sequence_length", .type = EMBER_KEY_INT, .offset = AT(train.sequence_length), .initial = "256", .low = 1,
     .high = 16777216, .unit = "tokens", .reader = "trainer, loader",
     .help = "Tokens of a sequence."},
    {.key = "train.lr", .type = EMBER_KEY_REAL, .offset = AT(train.lr), .initial = "0.001", .low = 0, .high = 10, .reader = "schedule",
     .help = "Peak learning rate of AdamW."},
    {.key = "train.schedule", .type = EMBER_KEY_ENUM, .offset = AT(train.schedule), .initial = "cosine", .names = schedule_names,
     .reader = "schedule",
     .help = "After the warm-up: constant; linear or cosine down to final_lr_fraction at the last step; wsd: constant, then linear "
             "over decay_steps."},
    {.key = "train.warmup_steps", .type = EMBER_KEY_INT, .offset = AT(train.warmup_steps), .initial = "0", .low = 0, .high = COUNT_MAX,
     .unit = "steps", .reader = "schedule",
     .help = "Linear rise of the learning rate from 0."},
    {.key = "train.decay_steps", .type = EMBER_KEY_INT, .offset = AT(train.decay_steps), .initial = "0", .low = 0, .high = COUNT_MAX,
     .unit = "steps", .reader = "schedule",
     .help = "Length of the decay at the end of wsd, at least 1 there."},
    {.key = "train.final_lr_fraction", .type = EMBER_KEY_REAL, .offset = AT(train.final_lr_fraction), .initial = "0.1", .low = 0,
     .high = 1, .reader = "schedule",
     .help = "Learning rate at the last step as a share of the peak (linear, cosine, wsd)."},
    {.key = "train.beta1", .type = EMBER_KEY_REAL, .offset = AT(train.beta1), .initial = "0.9", .low = 0, .high = 1, .below_high = true,
     .reader = "optimizer",
     .help = "AdamW: decay of the first moment."},
    {.key = "train.beta2", .type = EMBER_KEY_REAL, .offset = AT(train.beta2), .initial = "0.95", .low = 0, .high = 1, .below_high = true,
     .reader = "optimizer",
     .help = "AdamW: decay of the second moment."},
    {.key = "train.eps", .type = EMBER_KEY_REAL, .offset = AT(train.eps), .initial = "1e-08", .low = 0, .high = 1, .above_low = true,
     .reader = "optimizer",
     .help = "AdamW: added to the root of the second moment."},
    {.key = "train.weight_decay", .type = EMBER_KEY_REAL, .offset = AT(train.weight_decay), .initial = "0.1", .low = 0, .high = 10,
     .reader = "optimizer",
     .help = "AdamW: decoupled decay, on matrices (embedding included), not on norms and biases."},
    {.key = "train.clip", .type = EMBER_KEY_REAL, .offset = AT(train.clip), .initial = "1", .low = 0, .high = 1e9, .reader = "optimizer",
     .help = "Largest global norm of the gradient; 0: no clipping."},

    {.key = "sparsity.l1", .type = EMBER_KEY_NUMBERS, .offset = AT(sparsity.l1), .initial = "0", .low = 0, .high = 1e6,
     .reader = "L1 regularizer",
     .help = "Lambda: the loss gains lambda times the mean over layers of L1(layer). One value, or one a layer."},
    {.key = "sparsity.l1_start_step", .type = EMBER_KEY_INT, .offset = AT(sparsity.l1_start_step), .initial = "0", .low = 0,
     .high = COUNT_MAX, .unit = "steps", .reader = "L1 regularizer",
     .help = "Lambda is 0 before this step."},
    {.key = "sparsity.l1_warmup_steps", .type = EMBER_KEY_INT, .offset = AT(sparsity.l1_warmup_steps), .initial = "0", .low = 0,
     .high = COUNT_MAX, .unit = "steps", .reader = "L1 regularizer",
     .help = "Linear rise of lambda from l1_start_step on."},
    {.key = "sparsity.target", .type = EMBER_KEY_REAL, .offset = AT(sparsity.target), .initial = "0", .low = 0, .high = 1,
     .below_high = true, .unit = "fraction", .reader = "L1 controller",
     .help = "Non-zero fraction of the whole model to which a controller steers lambda, starting from l1; 0: no controller."},
    {.key = "sparsity.target_rate", .type = EMBER_KEY_REAL, .offset = AT(sparsity.target_rate), .initial = "0.02", .low = 0, .high = 1,
     .above_low = true, .reader = "L1 controller",
     .help = "Gain of the controller per step."},
    {.key = "sparsity.dead_after_tokens", .type = EMBER_KEY_INT, .offset = AT(sparsity.dead_after_tokens), .initial = "1000000", .low = 1,
     .high = COUNT_MAX, .unit = "tokens", .reader = "sparsity tracker",
     .help = "A neuron that was silent for so many tokens counts as dead."},
    {.key = "sparsity.window_tokens", .type = EMBER_KEY_INT, .offset = AT(sparsity.window_tokens), .initial = "1000000", .low = 1,
     .high = COUNT_MAX, .unit = "tokens", .reader = "sparsity tracker",
     .help = "Window of the recent firing rates."},
    {.key = "sparsity.revive_every", .type = EMBER_KEY_INT, .offset = AT(sparsity.revive_every), .initial = "0", .low = 0,
     .high = COUNT_MAX, .unit = "steps", .reader = "trainer",
     .help = "Draw the gate rows of dead neurons anew every so many steps; 0: off."},

    {.key = "ffn.kind", .type = EMBER_KEY_ENUM, .offset = AT(ffn.kind), .initial = "gated", .names = kind_names, .reader = "model",
     .help = "gated: act(x G^T) * (x U^T), then D. plain: act(x U^T), then D."},
    {.key = "ffn.activation", .type = EMBER_KEY_ENUM, .offset = AT(ffn.activation), .initial = "relu", .names = activation_names,
     .reader = "model",
     .help = "relu and relu2 train and run sparse; silu never is 0, so it is always dense."},
    {.key = "ffn.mode", .type = EMBER_KEY_ENUM, .offset = AT(ffn.mode), .initial = "auto", .names = mode_names,
     .reader = "model, trainer",
     .help = "Execution of the feed-forward layers: dense products, twell (sparse at every density), or auto: per layer what a cost "
             "table measured on this machine says."},
    {.key = "ffn.compression", .type = EMBER_KEY_INT, .offset = AT(ffn.compression), .initial = "8", .low = 2, .high = 16,
     .reader = "kernels",
     .help = "TwELL: a tile of 256 neurons owns 256 / compression words; 2, 4, 8 or 16. What does not fit spills, nothing is lost."},
    {.key = "ffn.costs", .type = EMBER_KEY_TEXT, .offset = AT(ffn.costs), .initial = "\"\"",
     .initial_note = "<run.output>/ffn_costs.json, measured when missing", .may_be_empty = true, .reader = "trainer",
     .help = "Cost table that auto decides by. Runs that share it take the same decisions."},

    {.key = "checkpoint.every", .type = EMBER_KEY_INT, .offset = AT(checkpoint.every), .initial = "0", .low = 0, .high = COUNT_MAX,
     .unit = "steps", .reader = "trainer",
     .help = "Save every so many steps; 0: only at the end."},
    {.key = "checkpoint.keep_last", .type = EMBER_KEY_INT, .offset = AT(checkpoint.keep_last), .initial = "2", .low = 1, .high = 1000000,
     .unit = "checkpoints", .reader = "trainer",
     .help = "Newest checkpoints that are kept."},
    {.key = "checkpoint.keep_best", .type = EMBER_KEY_BOOL, .offset = AT(checkpoint.keep_best), .initial = "true", .reader = "trainer",
     .help = "Also keep the checkpoint with the lowest validation loss."},

    {.key = "eval.every", .type = EMBER_KEY_INT, .offset = AT(eval.every), .initial = "0", .low = 0, .high = COUNT_MAX, .unit = "steps",
     .reader = "trainer",
     .help = "Validate every so many steps; 0: only at the end."},
    {.key = "eval.sequences", .type = EMBER_KEY_INT, .offset = AT(eval.sequences), .initial = "0", .low = 0, .high = COUNT_MAX,
     .unit = "sequences", .reader = "trainer",
     .help = "Sequences of one validation; 0: all."},

    {.key = "init.std", .type = EMBER_KEY_REAL, .offset = AT(init.std), .initial = "0.02", .low = 0, .high = 10, .above_low = true,
     .reader = "initialization",
     .help = "Standard deviation of fresh matrices."},
    {.key = "init.residual_scaling", .type = EMBER_KEY_BOOL, .offset = AT(init.residual_scaling), .initial = "true",
     .reader = "initialization",
     .help = "o_proj and down_proj are drawn with std / sqrt(2 layers)."},
    {.key = "init.from", .type = EMBER_KEY_TEXT, .offset = AT(init.from), .initial = "\"\"", .initial_note = "fresh weights",
     .may_be_empty = true, .reader = "trainer",
     .help = "Checkpoint whose weights the run starts from; step, schedule, moments and data position start anew. The model section "
             "must describe it."},

    {.key = "log.every", .type = EMBER_KEY_INT, .offset = AT(log.every), .initial = "10", .low = 1, .high = COUNT_MAX, .unit = "steps",
     .reader = "progress",
     .help = "Steps between two printed lines. The history and the JSONL log have every step."},
};
/* clang-format on */
enum { N_ROWS = (int)(sizeof rows / sizeof rows[0]) };
_Static_assert(sizeof rows / sizeof rows[0] <= (size_t)EMBER_MAX_KEYS, "ember_config has room for every key");

const ember_schema_row *ember_schema_rows(int *n) {
    *n = N_ROWS;
    return rows;
}

int ember_schema_find(const char *key) {
    for (int i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].key, key) == 0) return i;
    }
    return -1;
}

bool ember_schema_is_section(const char *section) {
    const size_t n = strlen(section);
    for (int i = 0; i < N_ROWS; i++) {
        if (strncmp(rows[i].key, section, n) == 0 && rows[i].key[n] == '.') return true;
    }
    return false;
}

enum { LONGEST_NAME = 80 };

/* Levenshtein distance; names are cut to LONGEST_NAME bytes. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[LONGEST_NAME + 1];
    const size_t n_a = strnlen(a, LONGEST_NAME);
    const size_t n_b = strnlen(b, LONGEST_NAME);
    for (size_t j = 0; j <= n_b; j++)
        row[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n_b];
}

static const char *last_part(const char *key) {
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

/* The whole name, or the right name in the wrong section (which costs one). */
const char *ember_schema_nearest(const char *key) {
    const char *nearest = rows[0].key;
    size_t least = SIZE_MAX;
    for (int i = 0; i < N_ROWS; i++) {
        const size_t whole = edit_distance(key, rows[i].key);
        const size_t last = edit_distance(last_part(key), last_part(rows[i].key)) * 2 + 1;
        const size_t distance = whole < last ? whole : last;
        if (distance < least) {
            least = distance;
            nearest = rows[i].key;
        }
    }
    return nearest;
}

const char *ember_schema_nearest_section(const char *section, int *length) {
    const char *nearest = rows[0].key;
    size_t least = SIZE_MAX;
    *length = 0;
    for (int i = 0; i < N_ROWS; i++) {
        char candidate[LONGEST_NAME] = "";
        const size_t n = (size_t)(strrchr(rows[i].key, '.') - rows[i].key);
        memcpy(candidate, rows[i].key, n);
        const size_t distance = edit_distance(section, candidate);
        if (distance >= least) continue;
        least = distance;
        nearest = rows[i].key;
        *length = (int)n;
    }
    return nearest;
}

const char *ember_schema_type_name(ember_schema_type type) {
    switch (type) {
    case EMBER_KEY_BOOL: return "bool";
    case EMBER_KEY_INT: return "integer";
    case EMBER_KEY_UINT64: return "unsigned 64-bit integer";
    case EMBER_KEY_REAL: return "number";
    case EMBER_KEY_ENUM: return "word";
    case EMBER_KEY_TEXT: return "text";
    case EMBER_KEY_TEXTS: return "list of texts";
    case EMBER_KEY_NUMBERS: return "list of numbers";
    case EMBER_KEY_INTS: return "list of integers";
    }
    return "unknown";
}
