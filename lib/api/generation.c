#include <string.h>

#include "lib/api/llm_internal.h"
#include "lib/base/status.h"
#include "lib/model/sampler.h"

struct ember_generation {
    ember_llm *llm;
    ember_kv_cache *cache;
    ember_decoder *decoder; /* NULL without a tokenizer */
    ember_ids prompt;
    ember_sampler sampler;
    float *logits;  /* [V] */
    void *scratch;  /* of the sampler */
    int64_t n_ids;  /* that may be sampled */
    int32_t *known; /* [n_ids] these, ascending, when the tokenizer leaves out ids below its largest; else NULL */
    int64_t budget; /* new tokens that are still allowed */
    int64_t room;   /* new tokens that the context still holds */
    bool ignore_eos;
    bool started;
    bool ended;
    uint32_t last_id; /* sampled and not yet in the cache */
    ember_bytes text; /* of the last step */
};

void ember_generation_defaults(ember_generation_options *out) {
    *out = (ember_generation_options){.prompt = "", .n_tokens = 256, .temperature = 0.8, .top_p = 0.95};
}

static ember_status append_id(ember_ids *ids, int64_t id) {
    if (ids->n == ids->capacity) {
        uint32_t *grown = NULL;
        const size_t capacity = ids->n + 16;
        EMBER_TRY(ember_allocate((void **)&grown, capacity, sizeof *grown, "prompt ids"));
        if (ids->n > 0) memcpy(grown, ids->data, ids->n * sizeof *grown);
        ember_ids_free(ids);
        *ids = (ember_ids){.data = grown, .n = ids->n, .capacity = capacity};
    }
    ids->data[ids->n++] = (uint32_t)id;
    return EMBER_OK;
}

/* Where an empty prompt starts: begin-of-text, else end-of-text (models that were trained on documents
 * separated by it), else nowhere. */
static ember_status start_from_nothing(ember_generation *generation) {
    const ember_llm *llm = generation->llm;
    int64_t id = llm->info.bos_id;
    if (id < 0 && llm->info.n_eos > 0) id = llm->info.eos_ids[0];
    if (id < 0 && llm->tokenizer) id = ember_tokenizer_eos(llm->tokenizer);
    if (id < 0 || id >= llm->info.vocab_size) {
        return ember_fail(EMBER_E_ARGUMENT,
                          "the prompt is empty and %s has neither a begin-of-text nor an end-of-text token to start from; "
                          "give a prompt",
                          llm->path.data);
    }
    return append_id(&generation->prompt, id);
}

/* The template's begin token and the same token written in the prompt would make two. */
static void keep_one_bos(ember_generation *generation) {
    ember_ids *ids = &generation->prompt;
    const ember_llm *llm = generation->llm;
    if (ids->n < 2 || llm->info.bos_id < 0) return;
    if ((int64_t)ids->data[0] != llm->info.bos_id || (int64_t)ids->data[1] != llm->info.bos_id) return;
    memmove(ids->data, ids->data + 1, (ids->n - 1) * sizeof *ids->data);
    ids->n--;
    ember_logf(&llm->context->log, EMBER_LOG_NOTE,
               "the prompt begins with the begin-of-text token, which the tokenizer adds itself; it is "
               "used once");
}

static ember_status take_prompt(ember_generation *generation, const ember_generation_options *options) {
    const ember_llm *llm = generation->llm;
    if (options->prompt_ids) {
        for (size_t i = 0; i < options->n_prompt_ids; i++)
            EMBER_TRY(append_id(&generation->prompt, options->prompt_ids[i]));
    } else if (options->prompt_bytes > 0) {
        if (!llm->tokenizer) {
            return ember_fail(EMBER_E_STATE, "%s holds no tokenizer (it was trained on synthetic data); give the prompt as token ids",
                              llm->path.data);
        }
        EMBER_TRY(ember_encode(llm->encoder, options->prompt, options->prompt_bytes, true, false, &generation->prompt));
        keep_one_bos(generation);
    }
    if (generation->prompt.n == 0) EMBER_TRY(start_from_nothing(generation));
    for (size_t i = 0; i < generation->prompt.n; i++) {
        if ((int64_t)generation->prompt.data[i] >= llm->info.vocab_size) {
            return ember_fail(EMBER_E_ARGUMENT, "prompt id %u at position %zu; this model's vocabulary has ids 0 to %lld",
                              generation->prompt.data[i], i, (long long)llm->info.vocab_size - 1);
        }
    }
    const int64_t context = llm->info.context_length;
    if ((int64_t)generation->prompt.n > context) {
        return ember_fail(EMBER_E_ARGUMENT,
                          "the prompt has %zu tokens; the context of %s is %lld, and prompt and new tokens share it. Shorten "
                          "the prompt",
                          generation->prompt.n, llm->path.data, (long long)context);
    }
    generation->room = context - (int64_t)generation->prompt.n;
    return EMBER_OK;
}

static bool is_known(const ember_llm *llm, int64_t id) {
    return llm->tokenizer ? ember_tokenizer_token(llm->tokenizer, id) != NULL : id < llm->info.vocab_size;
}

/* Rows of the embedding that have no token, behind the tokenizer's ids or among them, are never sampled: there is no
 * text for them. */
static ember_status list_ids(ember_generation *generation) {
    const ember_llm *llm = generation->llm;
    const int64_t n = llm->tokenizer ? llm->info.tokenizer_vocab_size : llm->info.vocab_size;
    generation->n_ids = 0;
    for (int64_t id = 0; id < n; id++)
        generation->n_ids += is_known(llm, id);
    if (generation->n_ids == n) return EMBER_OK;
    EMBER_TRY(ember_allocate((void **)&generation->known, (size_t)generation->n_ids, sizeof(int32_t), "ids of tokens"));
    int64_t at = 0;
    for (int64_t id = 0; id < n; id++) {
        if (is_known(llm, id)) generation->known[at++] = (int32_t)id;
    }
    return EMBER_OK;
}

static ember_status sample(ember_generation *generation, int32_t *id) {
    float *logits = generation->logits;
    if (!generation->known) return ember_sample(&generation->sampler, logits, generation->n_ids, generation->scratch, id);
    /* Each moves down or stays, so none is overwritten before it is read. */
    for (int64_t i = 0; i < generation->n_ids; i++)
        logits[i] = logits[generation->known[i]];
    int32_t at = 0;
    EMBER_TRY(ember_sample(&generation->sampler, logits, generation->n_ids, generation->scratch, &at));
    *id = generation->known[at];
    return EMBER_OK;
}

static ember_status build(ember_generation *generation, const ember_generation_options *options) {
    ember_llm *llm = generation->llm;
    if (options->n_tokens < -1) {
        return ember_fail(EMBER_E_ARGUMENT, "%lld new tokens; it must be 0 or more, or -1 (until the context is full)",
                          (long long)options->n_tokens);
    }
    generation->sampler =
        (ember_sampler){.temperature = options->temperature, .top_k = options->top_k, .top_p = options->top_p, .seed = options->seed};
    EMBER_TRY(ember_sampler_check(&generation->sampler));
    generation->ignore_eos = options->ignore_eos;
    EMBER_TRY(take_prompt(generation, options));
    generation->budget = options->n_tokens < 0 || options->n_tokens > generation->room ? generation->room : options->n_tokens;
    EMBER_TRY(list_ids(generation));
    EMBER_TRY(ember_allocate((void **)&generation->logits, (size_t)llm->info.vocab_size, sizeof(float), "logits"));
    EMBER_TRY(ember_allocate(&generation->scratch, (size_t)llm->info.vocab_size, 8, "sampler scratch"));
    EMBER_TRY(ember_kv_cache_create(&generation->cache, llm->model, (int64_t)generation->prompt.n + generation->budget));
    if (!llm->tokenizer) return EMBER_OK;
    EMBER_TRY(ember_decoder_create(&generation->decoder, llm->tokenizer, true));
    /* The decoder reads the prompt too: whether the first new token keeps its leading blank depends on it. */
    for (size_t i = 0; i < generation->prompt.n; i++) {
        if (is_known(llm, generation->prompt.data[i])) {
            EMBER_TRY(ember_decoder_push(generation->decoder, generation->prompt.data[i], &generation->text));
        }
    }
    generation->text.n = 0;
    return EMBER_OK;
}

ember_status ember_generation_create(ember_generation **out, ember_llm *llm, const ember_generation_options *options) {
    *out = NULL;
    ember_generation *generation = NULL;
    EMBER_TRY(ember_allocate((void **)&generation, 1, sizeof *generation, "generation"));
    generation->llm = llm;
    const ember_status status = build(generation, options);
    if (status != EMBER_OK) {
        ember_generation_free(generation);
        return status;
    }
    *out = generation;
    return EMBER_OK;
}

void ember_generation_free(ember_generation *generation) {
    if (!generation) return;
    if (generation->decoder) ember_decoder_free(generation->decoder);
    ember_kv_cache_free(generation->cache);
    ember_release(generation->scratch);
    ember_release(generation->known);
    ember_release(generation->logits);
    ember_ids_free(&generation->prompt);
    ember_bytes_free(&generation->text);
    ember_release(generation);
}

const uint32_t *ember_generation_prompt(const ember_generation *generation, size_t *n) {
    *n = generation->prompt.n;
    return generation->prompt.data;
}

static bool is_eos(const ember_llm *llm, int32_t id) {
    for (int64_t i = 0; i < llm->info.n_eos; i++) {
        if (llm->info.eos_ids[i] == id) return true;
    }
    return false;
}

/* Reads what is not yet in the cache: the prompt at first, later the token before. */
static ember_status advance(ember_generation *generation) {
    ember_llm *llm = generation->llm;
    if (generation->started) {
        const int32_t id = (int32_t)generation->last_id;
        return ember_model_decode(llm->model, generation->cache, &id, 1, generation->logits);
    }
    ember_kv_cache_reset(generation->cache);
    /* Ids are below the vocabulary, so they are the same bits as int32. */
    return ember_model_decode(llm->model, generation->cache, (const int32_t *)generation->prompt.data, (int64_t)generation->prompt.n,
                              generation->logits);
}

static ember_status finish(ember_generation *generation, ember_stop stop, ember_generated *out) {
    generation->ended = true;
    out->stop = stop;
    return generation->decoder ? ember_decoder_flush(generation->decoder, &generation->text) : EMBER_OK;
}

static ember_status step(ember_generation *generation, ember_generated *out) {
    ember_llm *llm = generation->llm;
    /* Nothing may be generated at all: -n 0, or a prompt that fills the context. */
    if (generation->budget == 0) return finish(generation, generation->room == 0 ? EMBER_STOP_CONTEXT : EMBER_STOP_N_TOKENS, out);
    EMBER_TRY(advance(generation));
    int32_t id = 0;
    EMBER_TRY(sample(generation, &id));
    generation->started = true;
    generation->last_id = (uint32_t)id;
    generation->budget--;
    generation->room--;
    out->has_id = true;
    out->id = (uint32_t)id;
    if (!generation->ignore_eos && is_eos(llm, id)) return finish(generation, EMBER_STOP_EOS, out);
    if (generation->decoder) EMBER_TRY(ember_decoder_push(generation->decoder, (uint32_t)id, &generation->text));
    if (generation->budget == 0) return finish(generation, generation->room == 0 ? EMBER_STOP_CONTEXT : EMBER_STOP_N_TOKENS, out);
    return EMBER_OK;
}

ember_status ember_generation_step(ember_generation *generation, ember_generated *out) {
    *out = (ember_generated){0};
    if (generation->ended) return ember_fail(EMBER_E_STATE, "this generation has ended");
    generation->text.n = 0;
    EMBER_TRY(step(generation, out));
    out->text = generation->text.data ? generation->text.data : "";
    out->n_bytes = generation->text.n;
    return EMBER_OK;
}
