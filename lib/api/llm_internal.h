/* llm_internal.h - what lies behind the handles of ember.h; only lib/api includes it. */
#ifndef EMBER_LLM_INTERNAL_H
#define EMBER_LLM_INTERNAL_H

#include "data/tokenizer.h"
#include "lib/base/log.h"
#include "lib/model/model.h"

struct ember_context {
    ember_backend *backend;
    void (*note)(void *user, const char *line);
    void *note_user;
    ember_log log; /* hands lines to `note` */
};

struct ember_llm {
    ember_context *context;
    ember_model *model;
    ember_tokenizer *tokenizer; /* NULL: the checkpoint has none */
    ember_encoder *encoder;     /* NULL with it */
    ember_bytes path;           /* for messages */
    ember_llm_info info;
    int64_t max_sequences;
    int64_t max_sequence_length;
    int64_t compression; /* C of TwELL: that of the run, whose cost table is for it */
};

#endif
