#include "data/tokenizer_parts.h"

#include <string.h>
#include <utf8proc.h>

#include "lib/base/status.h"

/* Characters below U+0300 (lead bytes below 0xCC) are their own NFC. */
static bool is_plain_nfc(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] >= 0xCC) return false;
    }
    return true;
}

/* Marks in canonical order: a stable counting sort by class, since utf8proc's own exchange sort takes quadratic
 * time on a long run of marks. `spare` has room for n. */
static void order_marks(utf8proc_int32_t *codes, utf8proc_int32_t *spare, size_t n) {
    for (size_t start = 0; start < n; start++) {
        size_t end = start;
        while (end < n && utf8proc_get_property(codes[end])->combining_class != 0)
            end++;
        if (end - start > 1) {
            size_t counts[257] = {0};
            for (size_t i = start; i < end; i++)
                counts[utf8proc_get_property(codes[i])->combining_class + 1]++;
            for (size_t i = 1; i < 257; i++)
                counts[i] += counts[i - 1];
            for (size_t i = start; i < end; i++)
                spare[counts[utf8proc_get_property(codes[i])->combining_class]++] = codes[i];
            memcpy(codes + start, spare, (end - start) * sizeof *codes);
        }
        start = end; /* a starter, or the end */
    }
}

/* Code points of `text`, decomposed; `codes` has room for `capacity`. */
static size_t decompose(const char *text, size_t n, int options, utf8proc_int32_t *codes, size_t capacity) {
    size_t count = 0;
    int last_class = 0;
    for (size_t at = 0; at < n;) {
        uint32_t code = 0;
        at += tok_utf8_next(text + at, n - at, &code);
        const size_t room = capacity > count ? capacity - count : 0;
        const utf8proc_ssize_t length = utf8proc_decompose_char((utf8proc_int32_t)code, room > 0 ? codes + count : NULL,
                                                                (utf8proc_ssize_t)room, (utf8proc_option_t)options, &last_class);
        count += length > 0 ? (size_t)length : 0;
    }
    return count;
}

static ember_status normalize_chunk(const char *text, size_t n, int options, ember_bytes *out) {
    void *block = NULL;
    const size_t n_codes = decompose(text, n, options, NULL, 0);
    EMBER_TRY(ember_allocate(&block, 2 * n_codes, sizeof(utf8proc_int32_t), "Unicode normalization"));
    utf8proc_int32_t *codes = block;
    (void)decompose(text, n, options, codes, n_codes);
    order_marks(codes, codes + n_codes, n_codes);
    const utf8proc_ssize_t kept = utf8proc_normalize_utf32(codes, (utf8proc_ssize_t)n_codes, (utf8proc_option_t)options);
    ember_status status =
        kept < 0 ? ember_fail(EMBER_E_MEMORY, "Unicode normalization of %zu bytes: %s", n, utf8proc_errmsg(kept)) : EMBER_OK;
    if (status == EMBER_OK) status = ember_bytes_reserve(out, out->n + 4 * (size_t)kept);
    for (size_t i = 0; status == EMBER_OK && i < (size_t)kept; i++) {
        out->n += tok_utf8_put(out->data + out->n, (uint32_t)codes[i]);
    }
    ember_release(block);
    return status;
}

/* One ASCII character may combine with what follows it, never with what is before it: so the text is
 * normalized in chunks that begin at the ASCII character before a run of others. */
static ember_status normalize_unicode(const char *text, size_t n, int options, ember_bytes *out) {
    size_t done = 0;
    const bool nfc = options == (UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    while (done < n) {
        size_t start = done;
        while (start < n && (signed char)text[start] >= 0)
            start++;
        if (start > done && start < n) start--;
        EMBER_TRY(ember_bytes_append(out, text + done, start - done));
        if (start >= n) return EMBER_OK;
        size_t end = start + 1;
        while (end < n && (signed char)text[end] < 0)
            end++;
        done = end;
        if (nfc && is_plain_nfc(text + start, end - start)) {
            EMBER_TRY(ember_bytes_append(out, text + start, end - start));
            continue;
        }
        EMBER_TRY(normalize_chunk(text + start, end - start, options, out));
    }
    return EMBER_OK;
}

static ember_status lowercase(const char *text, size_t n, ember_bytes *out) {
    for (size_t at = 0; at < n;) {
        uint32_t code = 0;
        char bytes[8];
        at += tok_utf8_next(text + at, n - at, &code);
        size_t length = 0;
        if (code == 0x130) { /* the one character whose lower case is two */
            bytes[length++] = 'i';
            code = 0x307;
        } else {
            code = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
        }
        length += tok_utf8_put(bytes + length, code);
        EMBER_TRY(ember_bytes_append(out, bytes, length));
    }
    return EMBER_OK;
}

static ember_status apply(const tok_norm *norm, tok_matcher *matcher, const char *text, size_t n, bool first_run, ember_bytes *out) {
    switch (norm->kind) {
    case TOK_NORM_UNICODE: return normalize_unicode(text, n, norm->options, out);
    case TOK_NORM_LOWERCASE: return lowercase(text, n, out);
    case TOK_NORM_REPLACE: return tok_replace_all(&norm->pattern, matcher, text, n, norm->content, norm->content_n, out);
    case TOK_NORM_PREPEND: break;
    }
    if (n > 0 && first_run) EMBER_TRY(ember_bytes_append(out, norm->content, norm->content_n));
    return ember_bytes_append(out, text, n);
}

ember_status tok_normalize(const ember_tokenizer *tokenizer, tok_matcher *matcher, ember_bytes buffers[2], const char *text, size_t n,
                           bool first_run, const char **out, size_t *out_n) {
    for (size_t i = 0; i < tokenizer->n_norms; i++) {
        ember_bytes *buffer = &buffers[i & 1];
        buffer->n = 0;
        EMBER_TRY(ember_bytes_reserve(buffer, n));
        EMBER_TRY(apply(&tokenizer->norms[i], matcher, text, n, first_run, buffer));
        text = buffer->data;
        n = buffer->n;
    }
    *out = text;
    *out_n = n;
    return EMBER_OK;
}
