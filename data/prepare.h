/* prepare.h - text files to token shards: streaming in bounded memory, parallel, the same shard whatever
 * the number of threads. */
#ifndef EMBER_PREPARE_H
#define EMBER_PREPARE_H

#include "data/documents.h"
#include "data/tokenizer.h"

enum { EMBER_PREPARE_MAX_THREADS = 256 };

typedef struct ember_prepare_progress {
    int64_t done_bytes;
    int64_t total_bytes; /* -1: unknown (a pipe) */
    int64_t n_tokens;
    double elapsed_seconds;
    bool writing; /* all text is encoded; the shard is being written and verified */
} ember_prepare_progress;

typedef struct ember_prepare_options {
    const char *const *files; /* "-": standard input */
    int64_t n_files;
    const ember_tokenizer *tokenizer;
    const char *output;
    const char *valid_output; /* NULL: nothing is held out */
    double valid_fraction;    /* of the documents, in (0, 1): one of each 1/fraction consecutive ones, chosen by a
                                 hash of its place and `seed` */
    uint64_t seed;
    const ember_document_rule *rule;
    bool add_bos;                                                         /* the tokenizer's beginning-of-text before each document */
    bool add_eos;                                                         /* `eos` after each document */
    const char *eos;                                                      /* text of the end token; NULL: the tokenizer's */
    int64_t vocab_size;                                                   /* rows of the model's embedding; 0: not checked */
    int64_t n_threads;                                                    /* 0: one a processor */
    bool force;                                                           /* replace outputs; take a corpus that looks broken */
    void (*progress)(void *user, const ember_prepare_progress *progress); /* NULL: none */
    bool (*cancelled)(void *user);                                        /* NULL: never; polled */
    void *user;
} ember_prepare_options;

typedef struct ember_prepare_part {
    int64_t n_tokens; /* separators included */
    int64_t n_documents;
    int64_t source_bytes;
} ember_prepare_part;

typedef struct ember_prepare_report {
    ember_prepare_part train;
    ember_prepare_part valid;
    int64_t n_empty_documents; /* dropped */
    int64_t eos;               /* id, -1: none */
    double bytes_per_token;    /* of text; separators are not counted here, nor below */
    uint32_t commonest_id;
    double commonest_share;
    double unknown_share; /* 0 when the tokenizer has no unknown token */
    double elapsed_seconds;
} ember_prepare_report;

/* Writes the shards (each appears whole or not at all). Errors: EMBER_E_NOT_FOUND for a file, or an end or
 * begin token the vocabulary lacks; EMBER_E_FORMAT for a corpus without text, with more ids than the model
 * has rows, or (without force) of nearly one token only; EMBER_E_IO for an output that exists (without
 * force); EMBER_E_INTERRUPTED when cancelled. Nothing is left behind. */
EMBER_CHECKED ember_status ember_prepare(ember_prepare_report *out, const ember_prepare_options *options);

#endif
