#include "checkpoints/hf_tokens.h"

#include <jansson.h>

#include "lib/base/status.h"

static ember_status load(json_t **out, const char *json, size_t n, const char *path, size_t flags) {
    json_error_t error;
    *out = json_loadb(json, n, flags, &error);
    if (!*out) return ember_fail(EMBER_E_FORMAT, "%s: line %d: no valid JSON: %s", path, error.line, error.text);
    if (json_is_object(*out)) return EMBER_OK;
    json_decref(*out);
    *out = NULL;
    return ember_fail(EMBER_E_FORMAT, "%s: is no JSON object", path);
}

static ember_status add_eos(ember_hparams *hparams, const json_t *value, const char *path) {
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= hparams->vocab_size) {
        return ember_fail(EMBER_E_FORMAT, "%s: eos_token_id holds something that is no token id below %lld", path,
                          (long long)hparams->vocab_size);
    }
    const int64_t id = (int64_t)json_integer_value(value);
    for (int64_t i = 0; i < hparams->n_eos; i++) {
        if (hparams->eos_token_ids[i] == id) return EMBER_OK;
    }
    if (hparams->n_eos == EMBER_MAX_EOS)
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: more than %d end-of-text ids", path, (int)EMBER_MAX_EOS);
    hparams->eos_token_ids[hparams->n_eos++] = id;
    return EMBER_OK;
}

static ember_status merge(ember_hparams *hparams, const json_t *root, const char *path) {
    const json_t *eos = json_object_get(root, "eos_token_id");
    const json_t *bos = json_object_get(root, "bos_token_id");
    if (json_is_array(eos)) {
        for (size_t i = 0; i < json_array_size(eos); i++)
            EMBER_TRY(add_eos(hparams, json_array_get(eos, i), path));
    } else if (eos && !json_is_null(eos)) {
        EMBER_TRY(add_eos(hparams, eos, path));
    }
    if (hparams->bos_token_id >= 0 || !bos || json_is_null(bos)) return EMBER_OK;
    if (!json_is_integer(bos) || json_integer_value(bos) < 0 || json_integer_value(bos) >= hparams->vocab_size) {
        return ember_fail(EMBER_E_FORMAT, "%s: bos_token_id is no token id below %lld", path, (long long)hparams->vocab_size);
    }
    hparams->bos_token_id = (int64_t)json_integer_value(bos);
    return EMBER_OK;
}

ember_status hf_merge_generation_config(ember_hparams *hparams, const char *json, size_t n, const char *path) {
    json_t *root = NULL;
    EMBER_TRY(load(&root, json, n, path, JSON_REJECT_DUPLICATES));
    const ember_status status = merge(hparams, root, path);
    json_decref(root);
    return status;
}

static ember_status check_id(const char *token, const json_t *value, int64_t vocab_size, const char *path) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return ember_fail(EMBER_E_FORMAT, "%s: the id of token \"%s\" is no token id", path, token);
    }
    if (json_integer_value(value) < vocab_size) return EMBER_OK;
    return ember_fail(EMBER_E_FORMAT, "%s: token \"%s\" has id %lld, and the embedding has %lld rows (vocab_size of config.json)", path,
                      token, (long long)json_integer_value(value), (long long)vocab_size);
}

static ember_status check_all(const json_t *root, int64_t vocab_size, const char *path) {
    json_t *vocabulary = json_object_get(json_object_get(root, "model"), "vocab");
    const json_t *added = json_object_get(root, "added_tokens");
    const char *token = NULL;
    json_t *value = NULL;
    json_object_foreach(vocabulary, token, value) EMBER_TRY(check_id(token, value, vocab_size, path));
    /* A unigram vocabulary is a list; ids are its places. */
    if (json_is_array(vocabulary) && (json_int_t)json_array_size(vocabulary) > vocab_size) {
        return ember_fail(EMBER_E_FORMAT, "%s: its vocabulary has %zu tokens, and the embedding has %lld rows", path,
                          json_array_size(vocabulary), (long long)vocab_size);
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *item = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(item, "content"));
        EMBER_TRY(check_id(content ? content : "", json_object_get(item, "id"), vocab_size, path));
    }
    return EMBER_OK;
}

ember_status hf_check_vocabulary(const char *json, size_t n, int64_t vocab_size, const char *path) {
    json_t *root = NULL;
    EMBER_TRY(load(&root, json, n, path, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES));
    const ember_status status = check_all(root, vocab_size, path);
    json_decref(root);
    return status;
}
