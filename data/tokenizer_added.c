/* Added tokens: longest match first, leftmost, as in the reference; sorted contents and a narrowing
 * binary search instead of an automaton: a file has tens of them, rarely more than a thousand. */
#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

static ember_status parse_one(ember_tokenizer *tokenizer, const json_t *item, size_t index, tok_added *out) {
    char part[64];
    (void)snprintf(part, sizeof part, "added_tokens[%zu]", index);
    const char *content = NULL;
    size_t n = 0;
    EMBER_TRY(tok_text(item, "content", part, &content, &n));
    EMBER_TRY(tok_bool(item, "special", false, part, &out->special));
    EMBER_TRY(tok_bool(item, "single_word", false, part, &out->single_word));
    EMBER_TRY(tok_bool(item, "lstrip", false, part, &out->lstrip));
    EMBER_TRY(tok_bool(item, "rstrip", false, part, &out->rstrip));
    EMBER_TRY(tok_bool(item, "normalized", !out->special, part, &out->normalized));
    const int64_t id = tok_lookup(tokenizer, content, n); /* tok_model_parse has entered it */
    if (id < 0) return ember_fail(EMBER_E_FORMAT, "%s: \"%s\" has no id", part, content);
    out->id = (uint32_t)id;
    out->content = tokenizer->tokens[id].text;
    out->n = n;
    tokenizer->tokens[id].special = tokenizer->tokens[id].special || out->special;
    tokenizer->tokens[id].added = true;
    return EMBER_OK;
}

ember_status tok_added_parse(ember_tokenizer *tokenizer, const json_t *root) {
    const json_t *list = json_object_get(root, "added_tokens");
    const size_t n = json_array_size(list);
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, n, sizeof(tok_added), "added tokens"));
    tokenizer->added = block;
    for (size_t i = 0; i < n; i++) {
        tok_added *added = &tokenizer->added[tokenizer->n_added];
        EMBER_TRY(parse_one(tokenizer, json_array_get(list, i), i, added));
        if (added->n > 0) tokenizer->n_added++; /* an empty one never matches */
    }
    return EMBER_OK;
}

static int compare(const void *left, const void *right) {
    const tok_added *a = left;
    const tok_added *b = right;
    if (a->normalized != b->normalized) return a->normalized ? 1 : -1;
    const size_t shorter = a->n < b->n ? a->n : b->n;
    const int order = memcmp(a->content, b->content, shorter);
    if (order != 0) return order;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Contents of `normalized` tokens go through the normalizer, then both sets are sorted. */
ember_status tok_added_finish(ember_tokenizer *tokenizer) {
    ember_status status = EMBER_OK;
    ember_bytes buffers[2] = {{0}, {0}};
    ember_bytes all = {0};
    size_t *offsets = NULL;
    tok_matcher matcher = {0};
    void *block = NULL;
    EMBER_TRY_GOTO(ember_allocate(&block, tokenizer->n_added, sizeof(size_t), "added tokens"), done);
    offsets = block;
    EMBER_TRY_GOTO(tok_matcher_create(&matcher), done);
    for (size_t i = 0; i < tokenizer->n_added; i++) {
        tok_added *added = &tokenizer->added[i];
        const char *text = added->content;
        size_t n = added->n;
        if (added->normalized) EMBER_TRY_GOTO(tok_normalize(tokenizer, &matcher, buffers, text, n, true, &text, &n), done);
        offsets[i] = all.n;
        added->n = n;
        EMBER_TRY_GOTO(ember_bytes_append(&all, text, n), done);
    }
    for (size_t i = 0; i < tokenizer->n_added; i++)
        tokenizer->added[i].content = all.data + offsets[i];
    tokenizer->added_text = all.data;
    all = (ember_bytes){0};
    if (tokenizer->n_added > 1) qsort(tokenizer->added, tokenizer->n_added, sizeof(tok_added), compare);
    for (size_t i = 0; i < tokenizer->n_added; i++) {
        const tok_added *added = &tokenizer->added[i];
        tok_added_set *set = added->normalized ? &tokenizer->normalized : &tokenizer->raw;
        if (set->n == 0) set->items = &tokenizer->added[i];
        set->n++;
        const int start = added->n > 0 ? (unsigned char)added->content[0] : TOK_NONE;
        if (start >= 0) set->starts[start] = true;
        set->only_start = set->n == 1 || set->only_start == start ? start : TOK_NONE;
    }
done:
    ember_bytes_free(&all);
    ember_bytes_free(&buffers[0]);
    ember_bytes_free(&buffers[1]);
    tok_matcher_free(&matcher);
    ember_release(offsets);
    return status;
}

/* Longest content that `text` begins with; among equal ones the lowest id. */
static const tok_added *longest_prefix(const tok_added_set *set, const char *text, size_t n) {
    const tok_added *best = NULL;
    size_t low = 0;
    size_t high = set->n;
    for (size_t depth = 0; low < high; depth++) {
        /* [low, high): contents that share the first `depth` bytes with the text; a shorter one sorts first */
        if (depth > 0 && set->items[low].n == depth) {
            best = &set->items[low];
            while (low < high && set->items[low].n == depth)
                low++;
        } else if (depth == 0) {
            while (low < high && set->items[low].n == 0)
                low++;
        }
        if (depth == n) break;
        const unsigned char byte = (unsigned char)text[depth];
        size_t a = low;
        size_t b = high;
        while (a < b) {
            const size_t middle = a + (b - a) / 2;
            if ((unsigned char)set->items[middle].content[depth] < byte)
                a = middle + 1;
            else
                b = middle;
        }
        low = a;
        b = high;
        while (a < b) {
            const size_t middle = a + (b - a) / 2;
            if ((unsigned char)set->items[middle].content[depth] <= byte)
                a = middle + 1;
            else
                b = middle;
        }
        high = a;
    }
    return best;
}

static bool stands_alone(const char *text, size_t n, size_t start, size_t end) {
    uint32_t code = 0;
    if (start > 0) {
        (void)tok_utf8_back(text, start, &code);
        if (tok_is_word(code)) return false;
    }
    return tok_utf8_next(text + end, n - end, &code) == 0 || !tok_is_word(code);
}

bool tok_added_next(const tok_added_set *set, const char *text, size_t n, size_t *from, size_t used, bool skip_special,
                    const tok_added **token, size_t *start, size_t *end) {
    if (set->n == 0) return false;
    for (size_t at = *from; at < n;) {
        if (set->only_start >= 0) {
            const char *hit = memchr(text + at, set->only_start, n - at);
            if (!hit) return false;
            at = (size_t)(hit - text);
        } else if (!set->starts[(unsigned char)text[at]]) {
            at++;
            continue;
        }
        const tok_added *found = longest_prefix(set, text + at, n - at);
        if (!found) {
            at++;
            continue;
        }
        const size_t match_end = at + found->n;
        if ((skip_special && found->special) || (found->single_word && !stands_alone(text, n, at, match_end))) {
            at = match_end;
            continue;
        }
        *from = match_end;
        *token = found;
        *start = at;
        *end = match_end;
        uint32_t code = 0;
        while (found->lstrip && *start > used) {
            const size_t before = tok_utf8_back(text, *start, &code);
            if (!tok_is_space(code) || before < used) break;
            *start = before;
        }
        while (found->rstrip && *end < n) {
            const size_t length = tok_utf8_next(text + *end, n - *end, &code);
            if (length == 0 || !tok_is_space(code)) break;
            *end += length;
        }
        return true;
    }
    return false;
}
