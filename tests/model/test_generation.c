/* rooms: api model config data checkpoints kernels h5 base */
/* The public interface over a small checkpoint with the bytes tokenizer: where generation starts and ends, that
 * streamed text is the decoded text, and that evaluation is a ratio of sums. */
#include <pthread.h>
#include <unistd.h>

#include "checkpoints/checkpoint.h"
#include "data/shard.h"
#include "data/tokenizer.h"
#include "lib/api/llm_internal.h"
#include "tests/model/model_fixture.h"

enum { CONTEXT = 24, EOS = 256 };

typedef struct world {
    char checkpoint[64];
    char shard[64];
    ember_context *context;
    char note[256];
} world;

static void take_note(void *user, const char *line) {
    world *w = user;
    (void)snprintf(w->note, sizeof w->note, "%s", line);
}

static ember_hparams byte_hparams(void) {
    ember_hparams p = fixture_hparams();
    p.vocab_size = 260; /* three rows more than the tokenizer has ids: padding that is never sampled */
    p.max_position_embeddings = CONTEXT;
    return p;
}

/* What a run leaves beside the weights; NULL: nothing. */
typedef struct run_state {
    const char *config;
    const char *costs;
} run_state;

static void write_run(const char *path, const ember_hparams *p, bool with_tokenizer, const run_state *run) {
    ember_tokenizer *tokenizer = NULL;
    ember_checkpoint_writer *writer = NULL;
    ember_checkpoint_meta meta = {.config = run->config ? run->config : "", .tokenizer = "", .step = 7, .tokens_seen = 99};
    check_ok(ember_tokenizer_open(&tokenizer, "bytes"));
    if (with_tokenizer) meta.tokenizer = ember_tokenizer_text(tokenizer, &meta.tokenizer_bytes);
    check_ok(ember_checkpoint_create(&writer, path, &meta, p));
    for (int64_t i = 0; i < ember_hparams_n_params(p); i++) {
        const ember_param_spec spec = ember_hparams_param(p, i);
        const int64_t n = spec.dims[0] * spec.dims[1];
        float *values = calloc((size_t)n, sizeof(float));
        assert_non_null(values);
        for (int64_t k = 0; k < n; k++)
            values[k] = fixture_value(&spec, i, k);
        ember_tensor tensor = ember_tensor_1d(values, EMBER_F32, spec.dims[0]);
        if (spec.n_dims == 2) tensor = ember_tensor_2d(values, EMBER_F32, spec.dims[0], spec.dims[1]);
        check_ok(ember_checkpoint_put_param(writer, &spec, tensor));
        free(values);
    }
    if (run->costs) check_ok(ember_checkpoint_put_text(writer, "state", "ffn_costs", run->costs, strlen(run->costs)));
    check_ok(ember_checkpoint_commit(writer));
    ember_tokenizer_free(tokenizer);
}

static void write_checkpoint(const char *path, const ember_hparams *p, bool with_tokenizer) {
    const run_state none = {0};
    write_run(path, p, with_tokenizer, &none);
}

static void write_shard(const char *path, int64_t n_tokens) {
    ember_tokenizer *tokenizer = NULL;
    ember_shard_writer *writer = NULL;
    check_ok(ember_tokenizer_open(&tokenizer, "bytes"));
    size_t n = 0;
    const char *text = ember_tokenizer_text(tokenizer, &n);
    check_ok(ember_shard_create(&writer, path, ember_tokenizer_name(tokenizer), text, n, ember_tokenizer_vocab_size(tokenizer), EOS));
    check_ok(ember_shard_begin_document(writer));
    for (int64_t i = 0; i < n_tokens; i++) {
        const uint32_t id = i == n_tokens - 1 ? EOS : ember_philox_u32(3, 8, (uint64_t)i) % 256;
        check_ok(ember_shard_append(writer, &id, 1));
    }
    check_ok(ember_shard_commit(writer, n_tokens - 1));
    ember_tokenizer_free(tokenizer);
}

static int open_world(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    (void)snprintf(w->checkpoint, sizeof w->checkpoint, "test_generation_%d.h5", (int)getpid());
    (void)snprintf(w->shard, sizeof w->shard, "test_generation_shard_%d.h5", (int)getpid());
    const ember_context_options options = {.device = "cpu", .n_threads = 2, .note = take_note, .note_user = w};
    check_ok(ember_context_create(&w->context, &options));
    *state = w;
    return 0;
}

static int close_world(void **state) {
    world *w = *state;
    ember_context_free(w->context);
    (void)unlink(w->checkpoint);
    (void)unlink(w->shard);
    free(w);
    return 0;
}

static ember_llm *open_llm(world *w, const ember_hparams *p) {
    ember_llm *llm = NULL;
    write_checkpoint(w->checkpoint, p, true);
    check_ok(ember_llm_open(&llm, w->context, w->checkpoint, NULL));
    return llm;
}

typedef struct outcome {
    uint32_t ids[64];
    size_t n;
    char text[512];
    size_t n_bytes;
    ember_stop stop;
    size_t n_prompt;
} outcome;

static outcome generate(ember_llm *llm, const ember_generation_options *options) {
    outcome o = {0};
    ember_generation *generation = NULL;
    check_ok(ember_generation_create(&generation, llm, options));
    (void)ember_generation_prompt(generation, &o.n_prompt);
    while (o.stop == EMBER_STOP_NONE) {
        ember_generated token;
        check_ok(ember_generation_step(generation, &token));
        assert_true(o.n_bytes + token.n_bytes <= sizeof o.text);
        memcpy(o.text + o.n_bytes, token.text, token.n_bytes);
        o.n_bytes += token.n_bytes;
        if (token.has_id) o.ids[o.n++] = token.id;
        o.stop = token.stop;
    }
    ember_generated after;
    check_fails(ember_generation_step(generation, &after), EMBER_E_STATE, "ended");
    ember_generation_free(generation);
    return o;
}

static ember_generation_options options_of(const char *prompt, size_t n, int64_t n_tokens) {
    ember_generation_options options;
    ember_generation_defaults(&options);
    options.prompt = prompt;
    options.prompt_bytes = n;
    options.n_tokens = n_tokens;
    return options;
}

static void test_context_limits(void **state) {
    ember_hparams p = byte_hparams();
    ember_llm *llm = open_llm(*state, &p);
    const char text[] = "abcdefghijklmnopqrstuvwxyz";
    ember_generation_options options = options_of(text, CONTEXT - 1, 5);
    outcome o = generate(llm, &options);
    assert_int_equal(o.n_prompt, CONTEXT - 1);
    assert_int_equal(o.n, 1);
    assert_int_equal(o.stop, EMBER_STOP_CONTEXT);
    options = options_of(text, CONTEXT, 5);
    o = generate(llm, &options);
    assert_int_equal(o.n, 0);
    assert_int_equal(o.stop, EMBER_STOP_CONTEXT);
    options = options_of(text, CONTEXT + 1, 5);
    ember_generation *generation = NULL;
    check_fails(ember_generation_create(&generation, llm, &options), EMBER_E_ARGUMENT, "25 tokens; the context");
    assert_null(generation);
    options = options_of(text, 4, 1000);
    o = generate(llm, &options);
    assert_int_equal(o.n, CONTEXT - 4);
    assert_int_equal(o.stop, EMBER_STOP_CONTEXT);
    options = options_of(text, 4, -1);
    o = generate(llm, &options);
    assert_int_equal(o.n, CONTEXT - 4);
    options = options_of(text, 4, 0);
    o = generate(llm, &options);
    assert_int_equal(o.n, 0);
    assert_int_equal(o.n_bytes, 0);
    assert_int_equal(o.stop, EMBER_STOP_N_TOKENS);
    options = options_of(text, 4, 3);
    o = generate(llm, &options);
    assert_int_equal(o.n, 3);
    assert_int_equal(o.stop, EMBER_STOP_N_TOKENS);
    options.n_tokens = -2;
    check_fails(ember_generation_create(&generation, llm, &options), EMBER_E_ARGUMENT, "-2 new tokens");
    options = options_of(text, 4, 3);
    options.temperature = -1;
    check_fails(ember_generation_create(&generation, llm, &options), EMBER_E_ARGUMENT, "temperature");
    ember_llm_free(llm);
}

static void test_empty_prompt(void **state) {
    world *w = *state;
    ember_hparams p = byte_hparams();
    p.bos_token_id = 65;
    p.n_eos = 1;
    p.eos_token_ids[0] = EOS;
    const int64_t wanted[] = {65, EOS, EOS};
    for (int i = 0; i < 3; i++) {
        if (i > 0) p.bos_token_id = -1;
        if (i > 1) p.n_eos = 0; /* the tokenizer still knows an end-of-text token */
        ember_llm *llm = open_llm(w, &p);
        const ember_generation_options options = options_of("", 0, 2);
        ember_generation *generation = NULL;
        check_ok(ember_generation_create(&generation, llm, &options));
        size_t n = 0;
        const uint32_t *ids = ember_generation_prompt(generation, &n);
        assert_int_equal(n, 1);
        assert_int_equal(ids[0], wanted[i]);
        ember_generation_free(generation);
        ember_llm_free(llm);
    }
    ember_llm *llm = NULL;
    write_checkpoint(w->checkpoint, &p, false);
    check_ok(ember_llm_open(&llm, w->context, w->checkpoint, NULL));
    ember_generation_options options = options_of("", 0, 2);
    ember_generation *generation = NULL;
    check_fails(ember_generation_create(&generation, llm, &options), EMBER_E_ARGUMENT, "neither");
    options = options_of("a", 1, 2);
    check_fails(ember_generation_create(&generation, llm, &options), EMBER_E_STATE, "no tokenizer");
    const uint32_t ids[2] = {1, 259};
    options.prompt_ids = ids;
    options.n_prompt_ids = 2;
    assert_int_equal(generate(llm, &options).n, 2);
    const uint32_t bad[2] = {1, 260};
    options.prompt_ids = bad;
    check_fails(ember_generation_create(&generation, llm, &options), EMBER_E_ARGUMENT, "id 260 at position 1");
    ember_llm_free(llm);
}

/* Each of several end tokens ends it, none of it is text; with ignore_eos they do not. */
static void test_end_tokens(void **state) {
    world *w = *state;
    ember_hparams p = byte_hparams();
    ember_llm *llm = open_llm(w, &p);
    ember_generation_options options = options_of("hello", 5, 12);
    options.temperature = 0;
    const outcome free_run = generate(llm, &options);
    assert_int_equal(free_run.n, 12);
    ember_llm_free(llm);
    for (int64_t which = 0; which < 3; which++) {
        p.n_eos = 3;
        for (int64_t i = 0; i < 3; i++)
            p.eos_token_ids[i] = i == which ? (int64_t)free_run.ids[4] : 250 + i;
        size_t first = 0; /* the id may come earlier in the same text */
        while (free_run.ids[first] != free_run.ids[4])
            first++;
        llm = open_llm(w, &p);
        outcome o = generate(llm, &options);
        assert_int_equal(o.stop, EMBER_STOP_EOS);
        assert_int_equal(o.n, first + 1);
        assert_int_equal(o.n_bytes, first);
        options.ignore_eos = true;
        o = generate(llm, &options);
        assert_int_equal(o.stop, EMBER_STOP_N_TOKENS);
        assert_memory_equal(o.ids, free_run.ids, sizeof o.ids);
        options.ignore_eos = false;
        ember_llm_free(llm);
    }
}

static void test_streamed_is_decoded(void **state) {
    ember_hparams p = byte_hparams();
    ember_llm *llm = open_llm(*state, &p);
    uint32_t first[64] = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        ember_generation_options options = options_of("h\xc3", 2, 20);
        options.temperature = 5;
        options.top_p = 1;
        options.seed = seed;
        const outcome o = generate(llm, &options);
        assert_int_equal(o.n, 20);
        char text[512];
        size_t n = 0;
        check_ok(ember_llm_decode(llm, o.ids, o.n, text, sizeof text, &n));
        assert_int_equal(n, o.n_bytes);
        assert_memory_equal(text, o.text, n);
        for (size_t i = 0; i < o.n; i++)
            assert_true(o.ids[i] <= EOS);
        const outcome again = generate(llm, &options);
        assert_memory_equal(again.ids, o.ids, sizeof o.ids);
        assert_memory_not_equal(first, o.ids, sizeof first);
        memcpy(first, o.ids, sizeof first);
    }
    ember_llm_free(llm);
}

/* Two generations of one model take turns and do not hear each other. */
static void test_turns(void **state) {
    ember_hparams p = byte_hparams();
    ember_llm *llm = open_llm(*state, &p);
    const ember_generation_options options[2] = {options_of("hello", 5, 9), options_of("Hi, my", 6, 9)};
    const outcome alone[2] = {generate(llm, &options[0]), generate(llm, &options[1])};
    ember_generation *pair[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++)
        check_ok(ember_generation_create(&pair[k], llm, &options[k]));
    for (size_t i = 0; i < 9; i++) {
        for (int k = 0; k < 2; k++) {
            ember_generated token;
            check_ok(ember_generation_step(pair[k], &token));
            assert_int_equal(token.id, alone[k].ids[i]);
        }
    }
    ember_generation_free(pair[0]);
    ember_generation_free(pair[1]);
    ember_llm_free(llm);
}

static void test_text_and_ids(void **state) {
    ember_hparams p = byte_hparams();
    ember_llm *llm = open_llm(*state, &p);
    ember_llm_info info;
    ember_llm_get_info(llm, &info);
    assert_int_equal(info.vocab_size, 260);
    assert_int_equal(info.tokenizer_vocab_size, 257);
    assert_int_equal(info.context_length, CONTEXT);
    assert_int_equal(info.step, 7);
    assert_int_equal(info.tokens_seen, 99);
    assert_int_equal(info.n_parameters, ember_hparams_n_elements(&p));
    assert_string_equal(info.activation, "relu");
    assert_int_equal(ember_llm_neurons(llm, 0), 13);
    assert_int_equal(ember_llm_neurons(llm, 1), 6);
    assert_int_equal(ember_llm_neurons(llm, 2), 0);
    uint32_t ids[8];
    size_t n = 0;
    check_fails(ember_llm_encode(llm, "a\0\xff", 3, false, NULL, 0, &n), EMBER_E_CAPACITY, "3 tokens");
    assert_int_equal(n, 3);
    check_ok(ember_llm_encode(llm, "a\0\xff", 3, false, ids, 8, &n));
    assert_int_equal(ids[1], 0);
    assert_int_equal(ids[2], 255);
    char text[8];
    check_fails(ember_llm_decode(llm, ids, 3, text, 2, &n), EMBER_E_CAPACITY, "3 bytes");
    check_ok(ember_llm_decode(llm, ids, 3, text, 8, &n));
    assert_memory_equal(text, "a\0\xff", 3);
    ember_llm_free(llm);
}

static void test_evaluation(void **state) {
    world *w = *state;
    const ember_hparams p = byte_hparams();
    write_checkpoint(w->checkpoint, &p, true);
    enum { TOKENS = 103 };
    write_shard(w->shard, TOKENS);
    const char *shards[1] = {w->shard};
    ember_evaluation *result = calloc(1, sizeof *result);
    assert_non_null(result);
    double loss = 0.0, l0[2] = {0};
    const int64_t batches[] = {1, 3, 8, 64};
    const char *modes[] = {"dense", "twell", "auto", NULL};
    for (int i = 0; i < 4; i++) {
        ember_llm *llm = NULL;
        const ember_llm_options opening = {.max_sequences = batches[i], .max_sequence_length = 10, .ffn_mode = modes[i], .verify = true};
        check_ok(ember_llm_open(&llm, w->context, w->checkpoint, &opening));
        ember_evaluation_options options = {.shards = shards, .n_shards = 1};
        check_ok(ember_evaluate(llm, &options, result));
        assert_int_equal(result->n_targets, TOKENS - 1);
        assert_int_equal(result->n_inputs, TOKENS - 1);
        check_close(result->perplexity, exp(result->loss), 1e-9 * result->perplexity);
        check_close(result->bits_per_byte, result->loss / log(2.0) * TOKENS / (TOKENS - 1), 1e-9);
        check_close(result->nonzero_per_layer[1], result->l0_per_layer[1] / 6, 1e-12);
        check_close(result->nonzero_fraction, (result->l0_per_layer[0] + result->l0_per_layer[1]) / 19, 1e-12);
        if (i > 0) {
            check_close(result->loss, loss, 1e-6 * loss);
            check_close(result->l0_per_layer[0], l0[0], 1e-9);
            check_close(result->l0_per_layer[1], l0[1], 1e-9);
        }
        loss = result->loss;
        l0[0] = result->l0_per_layer[0];
        l0[1] = result->l0_per_layer[1];
        /* two shards: both ends count, and no sequence crosses from one into the other */
        const char *twice[2] = {w->shard, w->shard};
        options.shards = twice;
        options.n_shards = 2;
        check_ok(ember_evaluate(llm, &options, result));
        assert_int_equal(result->n_targets, 2 * (TOKENS - 1));
        check_close(result->loss, loss, 1e-6 * loss);
        options.shards = shards;
        options.n_shards = 1;
        /* the first sequences alone, whatever the batch */
        options.n_sequences = 4;
        check_ok(ember_evaluate(llm, &options, result));
        assert_int_equal(result->n_targets, 40);
        options.n_sequences = 0;
        options.sequence_length = 11;
        check_fails(ember_evaluate(llm, &options, result), EMBER_E_ARGUMENT, "11 tokens");
        options.sequence_length = 0;
        options.n_shards = 0;
        check_fails(ember_evaluate(llm, &options, result), EMBER_E_ARGUMENT, "no shard");
        ember_llm_free(llm);
    }
    free(result);
}

/* Half of several hundred neurons fire and a tile of 256 holds 15: twell spills more than is planned, and is
 * twell all the same; auto, without a cost table, is dense. The compression is that of the run. */
static void test_twell_is_twell(void **state) {
    world *w = *state;
    ember_hparams p = byte_hparams();
    p.neurons[0] = 300;
    p.neurons[1] = 600;
    const run_state run = {.config = "model: {hidden_size: 8, intermediate_size: 600, num_hidden_layers: 2, num_attention_heads: 4}\n"
                                     "data: {train: a.h5}\ntrain: {steps: 1}\nffn: {compression: 16}\n"};
    write_run(w->checkpoint, &p, true, &run);
    write_shard(w->shard, 103);
    const char *shards[1] = {w->shard};
    const ember_evaluation_options options = {.shards = shards, .n_shards = 1};
    ember_evaluation *result = calloc(1, sizeof *result);
    assert_non_null(result);
    const char *modes[] = {"dense", "auto", "twell"};
    outcome told[3];
    double loss = 0.0;
    for (int i = 0; i < 3; i++) {
        ember_llm *llm = NULL;
        const ember_llm_options opening = {.max_sequences = 4, .max_sequence_length = 10, .ffn_mode = modes[i]};
        check_ok(ember_llm_open(&llm, w->context, w->checkpoint, &opening));
        assert_int_equal(llm->compression, 16);
        check_ok(ember_evaluate(llm, &options, result));
        assert_true(result->nonzero_fraction > 0.4);
        if (i == 0) loss = result->loss;
        check_close(result->loss, loss, 1e-6 * loss);
        for (int64_t layer = 0; layer < 2; layer++) {
            assert_int_equal(ember_model_mode(llm->model, layer), i == 2 ? EMBER_MODE_TWELL : EMBER_MODE_DENSE);
            assert_int_equal(ember_model_spill_needed(llm->model, layer) > 0, i == 2); /* of the last batch: dense spills nothing */
        }
        ember_generation_options telling = options_of("hello, this is", 14, 6);
        telling.temperature = 0;
        told[i] = generate(llm, &telling);
        assert_memory_equal(told[i].ids, told[0].ids, sizeof told[0].ids);
        ember_llm_free(llm);
    }
    free(result);
}

/* A cost table that knows other shapes alone says nothing, so auto stays dense; a broken one is an error. */
static void test_costs_of_other_shapes(void **state) {
    world *w = *state;
    const ember_hparams p = byte_hparams();
    run_state run = {.costs = "{\"format\": \"ember-ffn-costs\", \"version\": 1, \"device\": \"cpu\", \"entries\": []}"};
    write_run(w->checkpoint, &p, true, &run);
    ember_llm *llm = NULL;
    check_ok(ember_llm_open(&llm, w->context, w->checkpoint, NULL));
    assert_int_equal(llm->compression, 8);
    assert_int_equal(ember_model_mode(llm->model, 0), EMBER_MODE_DENSE);
    const ember_generation_options options = options_of("hello", 5, 2);
    assert_int_equal(generate(llm, &options).n, 2);
    ember_llm_free(llm);
    run.costs = "{\"format\": ";
    write_run(w->checkpoint, &p, true, &run);
    check_fails(ember_llm_open(&llm, w->context, w->checkpoint, NULL), EMBER_E_FORMAT, "ffn_costs");
}

static bool stop_at_once(void *user, int64_t done, int64_t total) {
    int64_t *seen = user;
    seen[0] = done;
    seen[1] = total;
    return true;
}

static void test_evaluation_refusals(void **state) {
    world *w = *state;
    ember_hparams p = byte_hparams();
    write_checkpoint(w->checkpoint, &p, false); /* no tokenizer: not that of the shard */
    write_shard(w->shard, 50);
    const char *shards[1] = {w->shard};
    ember_evaluation *result = calloc(1, sizeof *result);
    assert_non_null(result);
    ember_llm *llm = NULL;
    check_ok(ember_llm_open(&llm, w->context, w->checkpoint, NULL));
    ember_evaluation_options options = {.shards = shards, .n_shards = 1};
    check_fails(ember_evaluate(llm, &options, result), EMBER_E_ARGUMENT, "another tokenizer");
    options.any_tokenizer = true;
    check_ok(ember_evaluate(llm, &options, result));
    int64_t seen[2] = {0};
    options.progress = stop_at_once;
    options.progress_user = seen;
    check_fails(ember_evaluate(llm, &options, result), EMBER_E_INTERRUPTED, "1 of 3");
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 3);
    ember_llm_free(llm);
    p.vocab_size = 200; /* ids of the shard do not fit */
    write_checkpoint(w->checkpoint, &p, false);
    check_ok(ember_llm_open(&llm, w->context, w->checkpoint, NULL));
    check_fails(ember_evaluate(llm, &options, result), EMBER_E_ARGUMENT, "vocabulary");
    ember_llm_free(llm);
    write_checkpoint(w->checkpoint, &p, true);
    check_fails(ember_llm_open(&llm, w->context, w->checkpoint, NULL), EMBER_E_FORMAT, "tokenizer");
    assert_null(llm);
    free(result);
}

static void test_opening_refusals(void **state) {
    world *w = *state;
    ember_llm *llm = NULL;
    check_fails(ember_llm_open(&llm, w->context, "no_such_file.h5", NULL), EMBER_E_NOT_FOUND, "no_such_file.h5");
    ember_hparams p = byte_hparams();
    p.activation = EMBER_SILU;
    write_checkpoint(w->checkpoint, &p, true);
    ember_llm_options opening = {.ffn_mode = "twell"};
    check_fails(ember_llm_open(&llm, w->context, w->checkpoint, &opening), EMBER_E_UNSUPPORTED, "silu");
    opening.ffn_mode = "fast";
    check_fails(ember_llm_open(&llm, w->context, w->checkpoint, &opening), EMBER_E_ARGUMENT, "fast");
    opening = (ember_llm_options){.max_sequences = -1};
    check_fails(ember_llm_open(&llm, w->context, w->checkpoint, &opening), EMBER_E_ARGUMENT, "-1 sequences");
    opening = (ember_llm_options){.max_sequence_length = CONTEXT + 1};
    check_fails(ember_llm_open(&llm, w->context, w->checkpoint, &opening), EMBER_E_ARGUMENT, "25");
    ember_context *context = NULL;
    ember_context_options device = {.device = "cuda"};
    check_fails(ember_context_create(&context, &device), EMBER_E_DEVICE, "cuda");
    device.device = "tpu";
    check_fails(ember_context_create(&context, &device), EMBER_E_ARGUMENT, "tpu");
    device = (ember_context_options){.n_threads = -1};
    check_fails(ember_context_create(&context, &device), EMBER_E_ARGUMENT, "-1 threads");
    ember_context_free(NULL);
    ember_llm_free(NULL);
    ember_generation_free(NULL);
}

enum { N_OPENERS = 4, N_OPENINGS = 12 };

typedef struct opener {
    const char *path;
    ember_status status;
    char message[256];
} opener;

static void *open_many(void *argument) {
    opener *o = argument;
    ember_context *context = NULL;
    const ember_context_options options = {.device = "cpu", .n_threads = 1};
    o->status = ember_context_create(&context, &options);
    for (int i = 0; i < N_OPENINGS && o->status == EMBER_OK; i++) {
        ember_llm *llm = NULL;
        const ember_llm_options opening = {.verify = true};
        o->status = ember_llm_open(&llm, context, o->path, &opening);
        ember_llm_free(llm);
    }
    if (o->status != EMBER_OK) (void)snprintf(o->message, sizeof o->message, "%s", ember_last_error());
    ember_context_free(context);
    return NULL;
}

/* A context a thread is allowed, so their models may be opened at the same time, although libhdf5 is for one thread. */
static void test_opening_in_threads(void **state) {
    world *w = *state;
    const ember_hparams p = byte_hparams();
    opener openers[N_OPENERS];
    pthread_t threads[N_OPENERS];
    write_checkpoint(w->checkpoint, &p, true);
    for (int i = 0; i < N_OPENERS; i++) {
        openers[i] = (opener){.path = w->checkpoint};
        assert_int_equal(pthread_create(&threads[i], NULL, open_many, &openers[i]), 0);
    }
    for (int i = 0; i < N_OPENERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < N_OPENERS; i++)
        if (openers[i].status != EMBER_OK) fail_msg("thread %d: %s", i, openers[i].message);
}

static void *open_damaged(void *argument) {
    opener *o = argument;
    ember_context *context = NULL;
    ember_llm *llm = NULL;
    const ember_context_options options = {.device = "cpu", .n_threads = 1};
    o->status = ember_context_create(&context, &options);
    if (o->status == EMBER_OK) o->status = ember_llm_open(&llm, context, o->path, NULL);
    ember_context_free(context);
    return NULL;
}

/* libhdf5 prints its errors, thread by thread, unless told otherwise in each; the library prints nothing. */
static void test_threads_print_nothing(void **state) {
    world *w = *state;
    ember_hparams p = byte_hparams();
    ember_llm *llm = open_llm(w, &p); /* libhdf5 is set up by this thread */
    ember_llm_free(llm);
    FILE *file = fopen(w->checkpoint, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 112, SEEK_SET), 0); /* the head of the root group */
    assert_int_equal(fwrite("\377\377\377\377", 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);

    FILE *said = tmpfile();
    assert_non_null(said);
    (void)fflush(stderr);
    const int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0);
    pthread_t thread;
    opener o = {.path = w->checkpoint};
    const int failed = pthread_create(&thread, NULL, open_damaged, &o);
    if (!failed) (void)pthread_join(thread, NULL);
    (void)fflush(stderr);
    (void)dup2(before, STDERR_FILENO);
    (void)close(before);
    assert_int_equal(failed, 0);
    assert_int_not_equal(o.status, EMBER_OK);
    assert_int_equal(fseek(said, 0, SEEK_END), 0);
    assert_int_equal(ftell(said), 0);
    (void)fclose(said);
}

#define in_world(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void) {
    const struct CMUnitTest tests[] = {
        in_world(test_context_limits),
        in_world(test_empty_prompt),
        in_world(test_end_tokens),
        in_world(test_turns),
        in_world(test_streamed_is_decoded),
        in_world(test_text_and_ids),
        in_world(test_evaluation),
        in_world(test_evaluation_refusals),
        in_world(test_opening_refusals),
        in_world(test_twell_is_twell),
        in_world(test_costs_of_other_shapes),
        in_world(test_opening_in_threads),
        in_world(test_threads_print_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
