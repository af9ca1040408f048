#include <pthread.h>
#include <string.h>

#include "lib/api/llm_internal.h"
#include "lib/api/model_io.h"
#include "lib/base/status.h"
#include "lib/config/config.h"

enum { DEFAULT_LENGTH = 256, DEFAULT_COMPRESSION = 8 };

_Static_assert((int)EMBER_LLM_MAX_EOS == (int)EMBER_MAX_EOS, "the public limit is the internal one");

static void fill_info(ember_llm *llm, const ember_checkpoint *checkpoint) {
    const ember_hparams *p = ember_checkpoint_hparams(checkpoint);
    const ember_checkpoint_meta *meta = ember_checkpoint_get_meta(checkpoint);
    llm->info = (ember_llm_info){.vocab_size = p->vocab_size,
                                 .hidden_size = p->hidden_size,
                                 .n_layers = p->num_hidden_layers,
                                 .n_heads = p->num_attention_heads,
                                 .n_kv_heads = p->num_key_value_heads,
                                 .head_dim = p->head_dim,
                                 .context_length = p->max_position_embeddings,
                                 .n_parameters = ember_hparams_n_elements(p),
                                 .ffn_kind = ember_ffn_kind_name(p->ffn_kind),
                                 .activation = ember_activation_name(p->activation),
                                 .tokenizer_vocab_size = llm->tokenizer ? ember_tokenizer_vocab_size(llm->tokenizer) : 0,
                                 .bos_id = p->bos_token_id,
                                 .n_eos = p->n_eos,
                                 .step = meta->step,
                                 .tokens_seen = meta->tokens_seen};
    memcpy(llm->info.eos_ids, p->eos_token_ids, (size_t)p->n_eos * sizeof(int64_t));
    if (llm->info.bos_id < 0 && llm->tokenizer) llm->info.bos_id = ember_tokenizer_bos(llm->tokenizer);
}

/* How the run that made the checkpoint cut its data and packed its FFN; imported models have no config. */
static ember_status read_run(ember_llm *llm, const ember_checkpoint *checkpoint) {
    llm->compression = DEFAULT_COMPRESSION;
    const char *yaml = ember_checkpoint_get_meta(checkpoint)->config;
    if (!yaml || yaml[0] == '\0') return EMBER_OK;
    ember_config *config = NULL;
    EMBER_TRY(ember_config_parse(&config, yaml, strlen(yaml), llm->path.data, NULL, 0));
    llm->info.train_sequence_length = ember_config_settings(config)->train.sequence_length;
    llm->info.train_mask_documents = ember_config_settings(config)->data.mask_documents;
    llm->compression = ember_config_settings(config)->ffn.compression;
    ember_config_free(config);
    return EMBER_OK;
}

static ember_status open_tokenizer(ember_llm *llm, const ember_checkpoint *checkpoint) {
    const ember_checkpoint_meta *meta = ember_checkpoint_get_meta(checkpoint);
    if (meta->tokenizer_bytes == 0) return EMBER_OK;
    EMBER_TRY(ember_tokenizer_parse(&llm->tokenizer, meta->tokenizer, meta->tokenizer_bytes, llm->path.data));
    const int64_t n_ids = ember_tokenizer_vocab_size(llm->tokenizer);
    const int64_t vocab_size = ember_checkpoint_hparams(checkpoint)->vocab_size;
    if (n_ids > vocab_size) {
        return ember_fail(EMBER_E_FORMAT, "%s: its tokenizer has ids up to %lld, its embedding %lld rows; they are of different models",
                          llm->path.data, (long long)n_ids - 1, (long long)vocab_size);
    }
    return ember_encoder_create(&llm->encoder, llm->tokenizer);
}

static ember_status plan_size(ember_llm *llm, const ember_hparams *p, const ember_llm_options *options) {
    int64_t length = llm->info.train_sequence_length > 0 ? llm->info.train_sequence_length : DEFAULT_LENGTH;
    if (length > p->max_position_embeddings) length = p->max_position_embeddings;
    llm->max_sequences = options->max_sequences > 0 ? options->max_sequences : 1;
    llm->max_sequence_length = options->max_sequence_length > 0 ? options->max_sequence_length : length;
    if (options->max_sequences < 0 || options->max_sequence_length < 0) {
        return ember_fail(EMBER_E_ARGUMENT, "%lld sequences of %lld tokens at once; both must be 0 (default) or more",
                          (long long)options->max_sequences, (long long)options->max_sequence_length);
    }
    return EMBER_OK;
}

static ember_status load(ember_llm *llm, const ember_checkpoint *checkpoint, const ember_llm_options *options) {
    const ember_hparams *p = ember_checkpoint_hparams(checkpoint);
    EMBER_TRY(open_tokenizer(llm, checkpoint));
    fill_info(llm, checkpoint);
    EMBER_TRY(read_run(llm, checkpoint));
    EMBER_TRY(plan_size(llm, p, options));
    /* Only auto may fall back on dense: twell runs sparse at any density, its spill array grows. */
    const char *ffn_mode = options->ffn_mode ? options->ffn_mode : "auto";
    const ember_model_options plan = {.training = false,
                                      .n_sequences = llm->max_sequences,
                                      .sequence_length = llm->max_sequence_length,
                                      .compression = llm->compression,
                                      .may_run_dense = strcmp(ffn_mode, "twell") != 0,
                                      .may_run_twell = true};
    EMBER_TRY(ember_model_create(&llm->model, llm->context->backend, p, &plan));
    EMBER_TRY(ember_model_load_params(llm->model, checkpoint));
    return ember_model_choose_modes(llm->model, checkpoint, ffn_mode, llm->max_sequences * llm->max_sequence_length, llm->compression);
}

/* libhdf5 is for one thread at a time; contexts of different threads meet only where a file is open. */
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;

ember_status ember_llm_open(ember_llm **out, ember_context *context, const char *path, const ember_llm_options *options) {
    *out = NULL;
    const ember_llm_options defaults = {0};
    const ember_llm_options *o = options ? options : &defaults;
    ember_llm *llm = NULL;
    ember_checkpoint *checkpoint = NULL;
    ember_status status = EMBER_OK;
    (void)pthread_mutex_lock(&file_lock);
    EMBER_TRY_GOTO(ember_allocate((void **)&llm, 1, sizeof *llm, "model handle"), done);
    llm->context = context;
    EMBER_TRY_GOTO(ember_bytes_printf(&llm->path, "%s", path), done);
    EMBER_TRY_GOTO(ember_checkpoint_open(&checkpoint, path, o->verify), done);
    EMBER_TRY_GOTO(load(llm, checkpoint, o), done);
    *out = llm;
    llm = NULL;
done:
    if (checkpoint) ember_checkpoint_close(checkpoint);
    (void)pthread_mutex_unlock(&file_lock);
    ember_llm_free(llm);
    return status;
}

void ember_llm_free(ember_llm *llm) {
    if (!llm) return;
    ember_model_free(llm->model);
    if (llm->encoder) ember_encoder_free(llm->encoder);
    if (llm->tokenizer) ember_tokenizer_free(llm->tokenizer);
    ember_bytes_free(&llm->path);
    ember_release(llm);
}

void ember_llm_get_info(const ember_llm *llm, ember_llm_info *out) { *out = llm->info; }

int64_t ember_llm_neurons(const ember_llm *llm, int64_t layer) {
    return layer >= 0 && layer < llm->info.n_layers ? ember_model_hparams(llm->model)->neurons[layer] : 0;
}

static ember_status need_tokenizer(const ember_llm *llm) {
    if (llm->tokenizer) return EMBER_OK;
    return ember_fail(EMBER_E_STATE, "%s holds no tokenizer (it was trained on synthetic data); use token ids instead of text",
                      llm->path.data);
}

ember_status ember_llm_encode(const ember_llm *llm, const char *text, size_t text_bytes, bool special, uint32_t *ids, size_t capacity,
                              size_t *n) {
    *n = 0;
    EMBER_TRY(need_tokenizer(llm));
    ember_ids found = {0};
    ember_status status = ember_encode(llm->encoder, text, text_bytes, special, false, &found);
    *n = found.n;
    if (status == EMBER_OK && found.n > capacity) {
        status = ember_fail(EMBER_E_CAPACITY, "the text has %zu tokens; the buffer holds %zu", found.n, capacity);
    } else if (status == EMBER_OK && found.n > 0) {
        memcpy(ids, found.data, found.n * sizeof *ids);
    }
    ember_ids_free(&found);
    return status;
}

ember_status ember_llm_decode(const ember_llm *llm, const uint32_t *ids, size_t n_ids, char *text, size_t capacity, size_t *n) {
    *n = 0;
    EMBER_TRY(need_tokenizer(llm));
    ember_bytes found = {0};
    ember_status status = ember_decode(llm->tokenizer, ids, n_ids, true, &found);
    *n = found.n;
    if (status == EMBER_OK && found.n > capacity) {
        status = ember_fail(EMBER_E_CAPACITY, "the text has %zu bytes; the buffer holds %zu", found.n, capacity);
    } else if (status == EMBER_OK && found.n > 0) {
        memcpy(text, found.data, found.n);
    }
    ember_bytes_free(&found);
    return status;
}
