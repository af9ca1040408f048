#include "data/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "data/tokenizer_parts.h"
#include "lib/base/status.h"

enum { MAX_FILE_BYTES = 256 << 20, BYTES_EOS = 256 };
static const char bytes_text[] = "{\"format\": \"ember-tokenizer\", \"type\": \"bytes\", \"version\": 1}\n";
static const char bytes_eos_text[] = "<|endoftext|>";

static const char *const eos_names[] = {
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", u8"<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "<|im_end|>", "[EOS]"};
static const char *const bos_names[] = {
    "<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", u8"<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>", "[BOS]"};

void ember_tokenizer_free(ember_tokenizer *tokenizer) {
    if (!tokenizer) return;
    for (size_t i = 0; i < tokenizer->n_norms; i++) {
        tok_pattern_free(&tokenizer->norms[i].pattern);
        free(tokenizer->norms[i].content);
    }
    for (size_t i = 0; i < tokenizer->n_stages; i++)
        tok_pattern_free(&tokenizer->stages[i].pattern);
    for (size_t i = 0; i < tokenizer->decoder.n_steps; i++) {
        tok_pattern_free(&tokenizer->decoder.steps[i].pattern);
        free(tokenizer->decoder.steps[i].content);
    }
    free(tokenizer->decoder.strip.content);
    free(tokenizer->decoder.text);
    free(tokenizer->prefix);
    free(tokenizer->suffix);
    free(tokenizer->added_text);
    ember_release(tokenizer->added);
    ember_release(tokenizer->merges);
    ember_release(tokenizer->slots);
    ember_release(tokenizer->strings);
    ember_release(tokenizer->tokens);
    free(tokenizer->source);
    ember_release(tokenizer);
}

/* ---- bytes ---- */

static ember_status build_bytes(ember_tokenizer *tokenizer) {
    void *block = NULL;
    tokenizer->is_bytes = true;
    tokenizer->vocab_size = BYTES_EOS + 1;
    EMBER_TRY(ember_allocate(&block, tokenizer->vocab_size, sizeof(tok_token), "tokens"));
    tokenizer->tokens = block;
    EMBER_TRY(ember_allocate(&block, 512 + sizeof bytes_eos_text, 1, "token texts"));
    tokenizer->strings = block;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(tok_added), "added tokens"));
    tokenizer->added = block;
    for (size_t byte = 0; byte < 256; byte++) {
        tokenizer->strings[2 * byte] = (char)byte;
        tokenizer->tokens[byte] = (tok_token){.text = tokenizer->strings + 2 * byte, .n = 1, .in_model = true};
    }
    char *end = tokenizer->strings + 512;
    memcpy(end, bytes_eos_text, sizeof bytes_eos_text);
    tokenizer->tokens[BYTES_EOS] = (tok_token){.text = end, .n = sizeof bytes_eos_text - 1, .special = true, .added = true};
    tokenizer->added[0] = (tok_added){.content = end, .n = sizeof bytes_eos_text - 1, .id = BYTES_EOS, .special = true};
    tokenizer->n_added = 1;
    tokenizer->raw = (tok_added_set){.items = tokenizer->added, .n = 1, .only_start = bytes_eos_text[0]};
    tokenizer->raw.starts[(unsigned char)end[0]] = true;
    tokenizer->eos = BYTES_EOS;
    tokenizer->bos = tokenizer->unk = TOK_NONE;
    return tok_decoder_finish(tokenizer);
}

/* ---- tokenizer.json ---- */

static int64_t first_name(const ember_tokenizer *tokenizer, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const int64_t id = tok_lookup(tokenizer, names[i], strlen(names[i]));
        if (id >= 0) return id;
    }
    return TOK_NONE;
}

/* `truncation` and `padding` are settings of a call in the reference, not of the text's ids; they are not used. */
static ember_status build_json(ember_tokenizer *tokenizer, const json_t *root) {
    const json_t *model = json_object_get(root, "model");
    if (!model) return ember_fail(EMBER_E_FORMAT, "there is no \"model\": this is not a tokenizer.json");
    EMBER_TRY(tok_model_parse(tokenizer, model, json_object_get(root, "added_tokens")));
    EMBER_TRY(tok_added_parse(tokenizer, root));
    EMBER_TRY(tok_normalizer_parse(tokenizer, json_object_get(root, "normalizer"), 0));
    EMBER_TRY(tok_stages_parse(tokenizer, json_object_get(root, "pre_tokenizer"), 0));
    EMBER_TRY(tok_post_parse(tokenizer, json_object_get(root, "post_processor"), 0));
    EMBER_TRY(tok_decoder_parse(tokenizer, json_object_get(root, "decoder"), 0));
    tok_model_finish(tokenizer);
    EMBER_TRY(tok_added_finish(tokenizer));
    EMBER_TRY(tok_decoder_finish(tokenizer));
    tok_cut_prepare(tokenizer);
    tokenizer->eos = first_name(tokenizer, eos_names, sizeof eos_names / sizeof *eos_names);
    tokenizer->bos = first_name(tokenizer, bos_names, sizeof bos_names / sizeof *bos_names);
    return EMBER_OK;
}

static ember_status build(ember_tokenizer *tokenizer) {
    json_error_t error;
    json_t *root = json_loadb(tokenizer->source, tokenizer->source_n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root) return ember_fail(EMBER_E_FORMAT, "not a tokenizer.json: line %d, column %d: %s", error.line, error.column, error.text);
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *type = json_string_value(json_object_get(root, "type"));
    ember_status status = EMBER_OK;
    if (!json_is_object(root)) {
        status = ember_fail(EMBER_E_FORMAT, "not a tokenizer.json: it is not a JSON object");
    } else if (format && strcmp(format, "ember-tokenizer") == 0) {
        status = type && strcmp(type, "bytes") == 0
                     ? build_bytes(tokenizer)
                     : ember_fail(EMBER_E_UNSUPPORTED, "type \"%s\" is not supported; \"bytes\" is", type ? type : "?");
    } else {
        status = build_json(tokenizer, root);
    }
    json_decref(root);
    return status;
}

ember_status ember_tokenizer_parse(ember_tokenizer **out, const char *json, size_t n, const char *name) {
    void *block = NULL;
    *out = NULL;
    if (n > MAX_FILE_BYTES) return ember_fail(EMBER_E_FORMAT, "%s: %zu bytes; a tokenizer.json has at most %d", name, n, MAX_FILE_BYTES);
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_tokenizer), "tokenizer"));
    ember_tokenizer *tokenizer = block;
    ember_status status = tok_copy(&tokenizer->source, json, n);
    tokenizer->source_n = n;
    tokenizer->hash = XXH3_64bits(json, n);
    if (status == EMBER_OK) status = build(tokenizer);
    if (status != EMBER_OK) {
        ember_tokenizer_free(tokenizer);
        return ember_fail_context(status, "%s", name);
    }
    *out = tokenizer;
    return EMBER_OK;
}

/* A merges.txt, by its first line or its name. */
static bool is_list_of_merges(const char *path, const ember_bytes *text) {
    static const char head[] = "#version";
    const char *slash = strrchr(path, '/');
    return (text->n >= sizeof head - 1 && memcmp(text->data, head, sizeof head - 1) == 0) ||
           strcmp(slash ? slash + 1 : path, "merges.txt") == 0;
}

ember_status ember_tokenizer_open(ember_tokenizer **out, const char *spec) {
    *out = NULL;
    if (strcmp(spec, "bytes") == 0) return ember_tokenizer_parse(out, bytes_text, sizeof bytes_text - 1, spec);
    ember_bytes path = {0};
    ember_bytes text = {0};
    ember_status status = EMBER_OK;
    struct stat info;
    EMBER_TRY_GOTO(ember_bytes_printf(&path, "%s", spec), done);
    if (stat(spec, &info) == 0 && S_ISDIR(info.st_mode)) EMBER_TRY_GOTO(ember_bytes_printf(&path, "/tokenizer.json"), done);
    status = ember_read_file(&text, path.data, MAX_FILE_BYTES);
    if (status == EMBER_E_NOT_FOUND) {
        status = ember_fail_context(status, "tokenizer \"%s\" is neither \"bytes\" nor a tokenizer.json", spec);
    }
    if (status == EMBER_OK && is_list_of_merges(path.data, &text)) {
        status = ember_fail(EMBER_E_UNSUPPORTED,
                            "%s: a list of merges, one a line, cannot hold a token with a line end in it, so it is not read; give the "
                            "tokenizer.json of the model, which holds the merges too",
                            path.data);
    }
    if (status == EMBER_OK) status = ember_tokenizer_parse(out, text.data, text.n, path.data);
done:
    ember_bytes_free(&path);
    ember_bytes_free(&text);
    return status;
}

/* ---- questions ---- */

const char *ember_tokenizer_text(const ember_tokenizer *tokenizer, size_t *n) {
    *n = tokenizer->source_n;
    return tokenizer->source;
}
const char *ember_tokenizer_name(const ember_tokenizer *tokenizer) { return tokenizer->is_bytes ? "bytes" : "bpe"; }
uint64_t ember_tokenizer_hash(const ember_tokenizer *tokenizer) { return tokenizer->hash; }
int64_t ember_tokenizer_vocab_size(const ember_tokenizer *tokenizer) { return (int64_t)tokenizer->vocab_size; }
int64_t ember_tokenizer_eos(const ember_tokenizer *tokenizer) { return tokenizer->eos; }
int64_t ember_tokenizer_bos(const ember_tokenizer *tokenizer) { return tokenizer->bos; }
int64_t ember_tokenizer_unk(const ember_tokenizer *tokenizer) { return tokenizer->unk; }

const char *ember_tokenizer_token(const ember_tokenizer *tokenizer, int64_t id) {
    return id >= 0 && id < (int64_t)tokenizer->vocab_size ? tokenizer->tokens[id].text : NULL;
}

bool ember_tokenizer_is_special(const ember_tokenizer *tokenizer, int64_t id) {
    return id >= 0 && id < (int64_t)tokenizer->vocab_size && tokenizer->tokens[id].special;
}

int64_t ember_tokenizer_find(const ember_tokenizer *tokenizer, const char *token) {
    const size_t n = strlen(token);
    if (!tokenizer->is_bytes) return tok_lookup(tokenizer, token, n);
    if (n == 1) return (unsigned char)token[0];
    return strcmp(token, bytes_eos_text) == 0 ? BYTES_EOS : TOK_NONE;
}

/* No stage drops or adds text. */
static bool stage_keeps_text(const tok_stage *stage) {
    if (stage->kind == TOK_STAGE_BYTE_LEVEL) return !stage->prefix;
    if (stage->kind == TOK_STAGE_METASPACE) return false;
    return stage->behavior != TOK_REMOVED || (stage->invert && stage->cut == TOK_CUT_WORDS);
}

bool ember_tokenizer_lossless(const ember_tokenizer *tokenizer) {
    if (tokenizer->is_bytes) return true;
    const tok_decode_rules *decoder = &tokenizer->decoder;
    if (!tokenizer->raw_bytes || tokenizer->n_norms > 0 || decoder->has_strip || decoder->n_steps != 1 ||
        decoder->steps[0].kind != TOK_DECODE_BYTE_LEVEL) {
        return false;
    }
    for (size_t i = 0; i < tokenizer->n_stages; i++) {
        if (!stage_keeps_text(&tokenizer->stages[i])) return false;
    }
    for (size_t i = 0; i < tokenizer->n_added; i++) {
        const tok_added *added = &tokenizer->added[i];
        const tok_token *token = &tokenizer->tokens[added->id];
        const char *decoded = decoder->text + token->decoded;
        if (added->lstrip || added->rstrip || token->decoded_n != added->n || memcmp(decoded, added->content, added->n) != 0) return false;
    }
    return true;
}
