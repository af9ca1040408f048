/* tokenizer_parts.h - what a loaded tokenizer consists of; shared by the tokenizer*.c files only.
 * "The reference" in their comments is Hugging Face's tokenizers library.
 *
 * Encoding: text -> added tokens cut out -> valid UTF-8 runs and runs of invalid bytes -> normalizer ->
 * added tokens with `normalized` -> pre-tokenizer stages -> pieces -> BPE (word cache in front). */
#ifndef EMBER_TOKENIZER_PARTS_H
#define EMBER_TOKENIZER_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>

#include "data/tokenizer.h"

enum {
    TOK_MAX_VOCAB = 1 << 22, /* ids must be below */
    TOK_MAX_STAGES = 32,     /* of a Sequence, flattened */
    TOK_MAX_DEPTH = 8,       /* of nested Sequences */
    TOK_BYTE_CHARS = 324,    /* characters that stand for bytes are below this code point */
    TOK_NONE = -1,
    TOK_CACHE_BYTES = 24, /* longest piece the word cache holds */
    TOK_CACHE_IDS = 9
};

/* How a stage treats the boundaries that ember_encode_cut uses (tokenizer_cut.c has the argument). */
typedef enum tok_cut {
    TOK_CUT_NEVER = 0,       /* nothing is known about it */
    TOK_CUT_TRANSPARENT = 1, /* looks at runs of digits only */
    TOK_CUT_WORDS = 2        /* makes a boundary after a word */
} tok_cut;

/* A literal or a regular expression. */
typedef struct tok_pattern {
    char *text;
    size_t n;
    pcre2_code *code; /* NULL: literal */
    bool jit;
} tok_pattern;

/* Match state of one thread. */
typedef struct tok_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
} tok_matcher;

/* Successive matches of a pattern in one subject. */
typedef struct tok_scan {
    const tok_pattern *pattern;
    tok_matcher *matcher;
    const char *text; /* valid UTF-8 */
    size_t n;
    size_t from;
    size_t last_end;
    bool matched;
    bool found; /* result of tok_scan_next */
    size_t start, end;
} tok_scan;

typedef struct tok_token {
    const char *text; /* NULL: no token has this id */
    uint32_t n;
    bool in_model;
    bool special;
    bool added;
    bool is_byte; /* the decoder makes it the single byte `byte` */
    uint8_t byte;
    size_t decoded; /* offset in decoder.text */
    uint32_t decoded_n;
} tok_token;

typedef struct tok_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: empty slot */
    uint32_t rank;
    uint32_t id;
} tok_merge;

typedef struct tok_added {
    const char *content; /* as the text must show it: normalized for the second set */
    size_t n;
    uint32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
} tok_added;

/* Added tokens of one kind, sorted by content. */
typedef struct tok_added_set {
    tok_added *items;
    size_t n;
    bool starts[256];
    int only_start; /* the one byte that all begin with, or -1 */
} tok_added_set;

typedef enum tok_norm_kind { TOK_NORM_UNICODE, TOK_NORM_PREPEND, TOK_NORM_REPLACE, TOK_NORM_LOWERCASE } tok_norm_kind;
typedef struct tok_norm {
    tok_norm_kind kind;
    int options; /* utf8proc, UNICODE */
    tok_pattern pattern;
    char *content;
    size_t content_n;
} tok_norm;

typedef enum tok_behavior { TOK_REMOVED, TOK_ISOLATED, TOK_MERGED_PREVIOUS, TOK_MERGED_NEXT, TOK_CONTIGUOUS } tok_behavior;
typedef enum tok_stage_kind { TOK_STAGE_SPLIT, TOK_STAGE_BYTE_LEVEL, TOK_STAGE_METASPACE } tok_stage_kind;
typedef enum tok_prepend { TOK_PREPEND_ALWAYS, TOK_PREPEND_FIRST, TOK_PREPEND_NEVER } tok_prepend;
typedef struct tok_stage {
    tok_stage_kind kind;
    tok_pattern pattern; /* SPLIT; BYTE_LEVEL with `split`; METASPACE: the replacement, literal */
    tok_behavior behavior;
    bool invert;
    bool split;  /* BYTE_LEVEL use_regex; METASPACE split */
    bool prefix; /* BYTE_LEVEL add_prefix_space */
    tok_prepend prepend;
    tok_cut cut;
} tok_stage;

typedef enum tok_decode_kind {
    TOK_DECODE_BYTE_LEVEL,
    TOK_DECODE_REPLACE,
    TOK_DECODE_METASPACE,
    TOK_DECODE_STRIP,
    TOK_DECODE_FALLBACK
} tok_decode_kind;
typedef struct tok_decode_step {
    tok_decode_kind kind;
    tok_pattern pattern; /* REPLACE; METASPACE: the replacement */
    char *content;       /* REPLACE; STRIP: one character */
    size_t content_n;
    size_t start, stop; /* STRIP */
    bool drops_first;   /* METASPACE */
} tok_decode_step;
typedef struct tok_decode_rules {
    tok_decode_step steps[TOK_MAX_STAGES]; /* token by token */
    size_t n_steps;
    bool join;  /* no decoder: tokens with blanks between, as in the reference */
    bool fused; /* later steps see the whole text */
    bool bytes; /* ByteFallback was among the steps */
    bool has_strip;
    tok_decode_step strip; /* after the fusion */
    char *text;            /* all tokens decoded */
} tok_decode_rules;

struct ember_tokenizer {
    bool is_bytes;
    char *source;
    size_t source_n;
    uint64_t hash;
    int64_t eos, bos, unk;

    tok_token *tokens; /* [vocab_size] */
    size_t vocab_size;
    char *strings;   /* arena of token texts */
    uint32_t *slots; /* open addressing: id + 1, 0 empty */
    size_t slot_mask;
    size_t longest_token;

    tok_merge *merges;
    int merge_shift;
    size_t merge_mask;
    bool ignore_merges, byte_fallback, fuse_unk;
    int32_t byte_symbol[256];    /* id of the character that stands for a byte */
    int32_t byte_fallbacks[256]; /* id of <0xNN> */
    int32_t ascii_symbol[128];
    uint16_t byte_char[256];
    int16_t char_byte[TOK_BYTE_CHARS];
    bool marker_splits; /* no merge crosses the front of a word that starts with U+2581 */

    tok_added *added; /* owns the sets' storage: raw items first */
    char *added_text;
    size_t n_added;
    tok_added_set raw, normalized;

    tok_norm norms[TOK_MAX_STAGES];
    size_t n_norms;
    tok_stage stages[TOK_MAX_STAGES];
    size_t n_stages;
    bool raw_bytes;            /* the last stage is ByteLevel and every byte has its symbol: pieces stay bytes */
    bool maps_bytes;           /* some stage is ByteLevel */
    uint32_t *prefix, *suffix; /* template around the ids */
    size_t n_prefix, n_suffix;
    tok_decode_rules decoder;
    unsigned cuts; /* kinds of boundaries that ember_encode_cut may use */
};

typedef struct tok_cache_entry {
    uint64_t words[3];
    uint8_t n;
    uint8_t n_ids; /* 255: empty slot */
    uint32_t ids[TOK_CACHE_IDS];
} tok_cache_entry;

typedef struct tok_bpe_work {
    uint32_t *ids, *previous, *next;
    size_t capacity;
    uint64_t *heap;
    size_t heap_n, heap_capacity;
} tok_bpe_work;

struct ember_encoder {
    const ember_tokenizer *tokenizer;
    tok_matcher matcher;
    tok_cache_entry *cache;
    tok_bpe_work work;
    ember_bytes scratch[TOK_MAX_STAGES], mapped[TOK_MAX_STAGES]; /* one a stage */
    ember_bytes normal[2];
    bool plain;
    ember_ids *out;
};

/* tokenizer_utf8.c */
/* Length of the valid character at `text`, its code point in *code; 0 when the bytes are not valid. */
size_t tok_utf8_next(const char *text, size_t n, uint32_t *code);
/* Start of the last character before `at`; a byte that belongs to none counts as one. */
size_t tok_utf8_back(const char *text, size_t at, uint32_t *code);
/* Bytes from the start that are valid UTF-8. */
size_t tok_utf8_valid(const char *text, size_t n);
/* Bytes from the start up to the next valid character. */
size_t tok_utf8_invalid(const char *text, size_t n);
size_t tok_utf8_put(char out[4], uint32_t code);
bool tok_is_space(uint32_t code); /* White_Space */
bool tok_is_word(uint32_t code);  /* \w of the reference */

/* tokenizer_regex.c */
ember_status tok_pattern_regex(tok_pattern *out, const char *pattern, size_t n, const char *part);
ember_status tok_pattern_literal(tok_pattern *out, const char *text, size_t n, const char *part);
void tok_pattern_free(tok_pattern *pattern);
ember_status tok_matcher_create(tok_matcher *out);
void tok_matcher_free(tok_matcher *matcher);
ember_status tok_scan_next(tok_scan *scan);
ember_status tok_replace_all(const tok_pattern *pattern, tok_matcher *matcher, const char *text, size_t n, const char *content,
                             size_t content_n, ember_bytes *out);

/* tokenizer_normalize.c; `first_run`: Prepend applies */
ember_status tok_normalize(const ember_tokenizer *tokenizer, tok_matcher *matcher, ember_bytes buffers[2], const char *text, size_t n,
                           bool first_run, const char **out, size_t *out_n);

/* tokenizer_added.c */
ember_status tok_added_parse(ember_tokenizer *tokenizer, const json_t *root);
ember_status tok_added_finish(ember_tokenizer *tokenizer);
/* Next added token at or after `from`: true and its span with stripped blanks. `used` is where the
 * previous one ended; `skip_special` leaves special tokens as text. */
bool tok_added_next(const tok_added_set *set, const char *text, size_t n, size_t *from, size_t used, bool skip_special,
                    const tok_added **token, size_t *start, size_t *end);

/* tokenizer_rules.c and tokenizer_decode_rules.c: JSON to rules */
ember_status tok_normalizer_parse(ember_tokenizer *tokenizer, const json_t *value, int depth);
ember_status tok_stages_parse(ember_tokenizer *tokenizer, const json_t *value, int depth);
ember_status tok_post_parse(ember_tokenizer *tokenizer, const json_t *value, int depth);
ember_status tok_decoder_parse(ember_tokenizer *tokenizer, const json_t *value, int depth);
ember_status tok_decoder_finish(ember_tokenizer *tokenizer);
ember_status tok_decode_token(const ember_tokenizer *tokenizer, tok_matcher *matcher, const tok_token *token, bool first,
                              ember_bytes scratch[2], const char **out, size_t *out_n, bool *is_byte, uint8_t *byte);
ember_status tok_pattern_parse(tok_pattern *out, const json_t *owner, const char *part);
ember_status tok_type(const json_t *value, const char *part, const char **out);
ember_status tok_bool(const json_t *owner, const char *key, bool fallback, const char *part, bool *out);
ember_status tok_text(const json_t *owner, const char *key, const char *part, const char **out, size_t *n);
ember_status tok_copy(char **out, const char *text, size_t n);

/* tokenizer_model.c */
ember_status tok_model_parse(ember_tokenizer *tokenizer, const json_t *model, const json_t *added);
void tok_model_finish(ember_tokenizer *tokenizer);
int64_t tok_lookup(const ember_tokenizer *tokenizer, const char *text, size_t n);

/* tokenizer_bpe.c */
const tok_merge *tok_merge_find(const ember_tokenizer *tokenizer, uint32_t left, uint32_t right);
ember_status tok_bpe_piece(ember_encoder *encoder, const char *text, size_t n);
ember_status tok_ids_append(ember_ids *ids, const uint32_t *more, size_t n);
void tok_bpe_work_free(tok_bpe_work *work);
void tok_cache_clear(ember_encoder *encoder);
enum { TOK_CACHE_SETS = 1 << 14, TOK_CACHE_WAYS = 2 };

/* pretokenize.c */
ember_status tok_map_bytes(const ember_tokenizer *tokenizer, const char *text, size_t n, ember_bytes *out);
ember_status tok_pretokenize(ember_encoder *encoder, size_t stage, const char *text, size_t n, bool first, bool continued);

/* tokenizer_cut.c */
tok_cut tok_cut_of_regex(const char *pattern, size_t n);
void tok_cut_prepare(ember_tokenizer *tokenizer);

#endif
