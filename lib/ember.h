/* ember.h - the public interface of libember: sparse-FFN transformer language models.
 *
 * Every fallible function returns an ember_status alone; results go through pointers. When a
 * status is not EMBER_OK, ember_last_error() holds the message of the calling thread: the
 * offending values, the limit and what to change. The library never prints, exits or aborts on
 * user input. Objects are opaque, owned by the caller and freed by their _free function; freeing
 * NULL is fine. */
#ifndef EMBER_H
#define EMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMBER_VERSION_MAJOR 0
#define EMBER_VERSION_MINOR 1
#define EMBER_VERSION_PATCH 0
#define EMBER_VERSION_TEXT "0.1.0"

#if defined(__GNUC__)
#define EMBER_CHECKED __attribute__((warn_unused_result))
#define EMBER_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define EMBER_CHECKED
#define EMBER_PRINTF(fmt, first)
#endif

/* Result of every fallible function, in bands of one hundred. The numbers are part of the ABI. */
typedef enum ember_status {
    EMBER_OK = 0,
    /* 100: the caller */
    EMBER_E_ARGUMENT = 100,    /* a value that this function does not accept */
    EMBER_E_SHAPE = 101,       /* shapes or dtypes that do not fit together */
    EMBER_E_STATE = 102,       /* a call that is not allowed now */
    EMBER_E_INTERRUPTED = 103, /* stopped on request (signal or cancel) */
    /* 200: configuration */
    EMBER_E_CONFIG = 200, /* unknown, duplicate, malformed, out-of-range or contradictory key */
    /* 300: files */
    EMBER_E_IO = 300,        /* the system refused to open, read, write or rename */
    EMBER_E_FORMAT = 301,    /* not the kind of file that was asked for, or malformed */
    EMBER_E_CORRUPT = 302,   /* right kind, but incomplete or checksum mismatch */
    EMBER_E_VERSION = 303,   /* written by a newer version */
    EMBER_E_NOT_FOUND = 304, /* file, dataset, attribute or token that does not exist */
    /* 400: memory */
    EMBER_E_MEMORY = 400,   /* allocation refused */
    EMBER_E_CAPACITY = 401, /* a planned buffer is too small; grow the plan and repeat */
    /* 500: device */
    EMBER_E_DEVICE = 500, /* no usable device, or a device call failed */
    /* 600: unsupported */
    EMBER_E_UNSUPPORTED = 600, /* understood, but not offered; the message names what would work */
    /* 700: numeric */
    EMBER_E_NUMERIC = 700 /* NaN or infinity where a finite number is required */
} ember_status;

/* Message of the last failure on this thread; "" when there was none. Valid until the next
 * failing call on the same thread. */
const char *ember_last_error(void);

/* Short constant name of a status, such as "EMBER_E_CONFIG". Never NULL. */
const char *ember_status_name(ember_status status);

/* "0.1.0" */
const char *ember_version(void);

/* ---- context: the device that everything runs on */

typedef struct ember_context ember_context;

typedef struct ember_context_options {
    const char *device; /* "cpu", "auto" (the best that is present); NULL: "auto" */
    int n_threads;      /* 0: all that the process may use; at most 1024 */
    /* Gets remarks that are no errors, one line each without newline; NULL: they are dropped. */
    void (*note)(void *user, const char *line);
    void *note_user;
} ember_context_options;

/* `options` NULL: all defaults. One context may hold any number of models; calls on objects of one
 * context are for one thread at a time. Free everything made from it first.
 * Errors: EMBER_E_ARGUMENT, EMBER_E_DEVICE, EMBER_E_MEMORY. */
EMBER_CHECKED ember_status ember_context_create(ember_context **out, const ember_context_options *options);
void ember_context_free(ember_context *context);

/* ---- language model: weights and tokenizer of one checkpoint, for inference */

typedef struct ember_llm ember_llm;

typedef struct ember_llm_options {
    int64_t max_sequences;       /* at once in ember_evaluate; 0: 1 */
    int64_t max_sequence_length; /* tokens at once: of a sequence in ember_evaluate, of a piece of a prompt in
                                    generation; 0: that of the run that made the checkpoint, else 256, or the context
                                    length where that is shorter */
    const char *ffn_mode;        /* "auto", "dense", "twell"; NULL: "auto". A single token is always decoded
                                    on the firing neurons alone when the activation allows it */
    bool verify;                 /* hash every dataset of the file first */
} ember_llm_options;

enum { EMBER_LLM_MAX_EOS = 16, EMBER_LLM_MAX_LAYERS = 512 };

typedef struct ember_llm_info {
    int64_t vocab_size; /* rows of the embedding */
    int64_t hidden_size;
    int64_t n_layers;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;
    int64_t context_length; /* tokens: prompt and continuation together */
    int64_t n_parameters;
    const char *ffn_kind;         /* "gated" or "plain"; constant */
    const char *activation;       /* "relu", "relu2" or "silu"; constant */
    int64_t tokenizer_vocab_size; /* the largest id of a token + 1, and no other is sampled; 0: no tokenizer */
    int64_t bos_id;               /* -1: none */
    int64_t n_eos;
    int64_t eos_ids[EMBER_LLM_MAX_EOS]; /* each ends a generation */
    int64_t step;                       /* optimizer steps the checkpoint has seen; 0 when imported */
    int64_t tokens_seen;
    int64_t train_sequence_length; /* of the run that made the checkpoint; 0: unknown */
    bool train_mask_documents;
} ember_llm_info;

/* Opens the checkpoint `path`. `options` NULL: all defaults. `context` is borrowed.
 * Errors: EMBER_E_NOT_FOUND, EMBER_E_IO, EMBER_E_FORMAT, EMBER_E_CORRUPT, EMBER_E_VERSION, EMBER_E_UNSUPPORTED
 * (twell with silu), EMBER_E_ARGUMENT, EMBER_E_MEMORY. */
EMBER_CHECKED ember_status ember_llm_open(ember_llm **out, ember_context *context, const char *path, const ember_llm_options *options);
void ember_llm_free(ember_llm *llm);
/* The strings inside are constant; the rest is a copy. */
void ember_llm_get_info(const ember_llm *llm, ember_llm_info *out);
/* Feed-forward neurons of layer 0 .. n_layers - 1. */
int64_t ember_llm_neurons(const ember_llm *llm, int64_t layer);

/* Text to token ids. `special` adds what the tokenizer's template adds (a begin token, say). *n is the
 * number of ids; when it is above `capacity` nothing is written and EMBER_E_CAPACITY returned (ids may then
 * be NULL: ask with capacity 0). Other errors: EMBER_E_STATE (no tokenizer), EMBER_E_ARGUMENT. */
EMBER_CHECKED ember_status ember_llm_encode(const ember_llm *llm, const char *text, size_t text_bytes, bool special, uint32_t *ids,
                                            size_t capacity, size_t *n);
/* Token ids to bytes (not NUL-terminated, not always valid UTF-8); special tokens print nothing. *n bytes;
 * EMBER_E_CAPACITY as above. */
EMBER_CHECKED ember_status ember_llm_decode(const ember_llm *llm, const uint32_t *ids, size_t n_ids, char *text, size_t capacity,
                                            size_t *n);

/* ---- generation: one sequence, token by token */

typedef struct ember_generation ember_generation;

typedef struct ember_generation_options {
    const char *prompt; /* text of prompt_bytes bytes, with the tokenizer's template around it; empty: the
                           begin-of-text token, else the end-of-text token, else an error */
    size_t prompt_bytes;
    const uint32_t *prompt_ids; /* not NULL: these ids as they are, instead of `prompt` */
    size_t n_prompt_ids;
    int64_t n_tokens;   /* new tokens at most; -1: until an end token or the end of the context */
    double temperature; /* >= 0; 0: the likeliest token each time (of equals the lowest id) */
    int64_t top_k;      /* only the k likeliest; 0: off */
    double top_p;       /* of those the fewest that hold this share of probability, 0..1; 1: off */
    uint64_t seed;
    bool ignore_eos; /* go on after end tokens */
} ember_generation_options;

/* Defaults: empty prompt, n_tokens 256, temperature 0.8, top_k 0, top_p 0.95, seed 0. */
void ember_generation_defaults(ember_generation_options *out);

typedef enum ember_stop {
    EMBER_STOP_NONE = 0,     /* there is more to come */
    EMBER_STOP_N_TOKENS = 1, /* n_tokens were generated */
    EMBER_STOP_EOS = 2,      /* an end token came; it is not part of the text */
    EMBER_STOP_CONTEXT = 3   /* prompt and new tokens fill the context */
} ember_stop;

typedef struct ember_generated {
    bool has_id;
    uint32_t id;      /* of the new token; also an end token's */
    const char *text; /* new bytes, perhaps none or a part of a character; valid until the next call */
    size_t n_bytes;
    ember_stop stop; /* not EMBER_STOP_NONE: nothing comes after this */
} ember_generated;

/* Encodes the prompt and reserves the cache; nothing runs yet. `llm` is borrowed; several generations of
 * one llm may take turns. A prompt longer than the context is EMBER_E_ARGUMENT; one that fills it
 * generates nothing. Other errors: EMBER_E_STATE (text but no tokenizer), EMBER_E_MEMORY. */
EMBER_CHECKED ember_status ember_generation_create(ember_generation **out, ember_llm *llm, const ember_generation_options *options);
void ember_generation_free(ember_generation *generation);
/* The prompt's ids as the model sees them; owned by the generation. */
const uint32_t *ember_generation_prompt(const ember_generation *generation, size_t *n);
/* One more token; the first call also reads the prompt. All texts in a row are the continuation, byte for byte
 * as decoding all ids at once gives it. After the end: EMBER_E_STATE. Errors: EMBER_E_NUMERIC (NaN logits). */
EMBER_CHECKED ember_status ember_generation_step(ember_generation *generation, ember_generated *out);

/* ---- evaluation over token shards */

typedef struct ember_evaluation_options {
    const char *const *shards; /* paths or globs */
    int64_t n_shards;
    int64_t sequence_length; /* tokens; at most the llm's max_sequence_length; 0: that */
    int64_t n_sequences;     /* the first so many sequences; 0: all */
    bool mask_documents;     /* tokens see only their own document */
    bool any_tokenizer;      /* do not demand the checkpoint's tokenizer */
    /* After every batch, with sequences done and their total; true stops (EMBER_E_INTERRUPTED). May be NULL. */
    bool (*progress)(void *user, int64_t done, int64_t total);
    void *progress_user;
} ember_evaluation_options;

/* All figures are ratios of sums over the whole set. */
typedef struct ember_evaluation {
    double loss;             /* nats per target token */
    double perplexity;       /* exp(loss) */
    double bits_per_byte;    /* loss / ln 2 / (bytes of source text per token of the shards); NaN: unknown */
    int64_t n_targets;       /* every token but the first of each shard, once */
    int64_t n_inputs;        /* tokens that the model read, without padding */
    double nonzero_fraction; /* firing neurons of all layers / neurons of all layers */
    int64_t n_layers;
    double l0_per_layer[EMBER_LLM_MAX_LAYERS];      /* mean firing neurons per input token */
    double nonzero_per_layer[EMBER_LLM_MAX_LAYERS]; /* l0 / neurons of the layer */
} ember_evaluation;

/* One pass in file order; counts nothing in the model. Errors: those of opening shards; EMBER_E_ARGUMENT (a
 * sequence too long, other tokenizer, ids beyond the vocabulary); EMBER_E_NUMERIC when nothing has a target. */
EMBER_CHECKED ember_status ember_evaluate(ember_llm *llm, const ember_evaluation_options *options, ember_evaluation *out);

#ifdef __cplusplus
}
#endif
#endif
