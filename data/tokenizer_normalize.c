#include "data/tokenizer_parts.h"

#include <stdlib.h>
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
        utf8proc_uint8_t *mapped = NULL;
        const utf8proc_ssize_t length =
            utf8proc_map((const utf8proc_uint8_t *)text + start, (utf8proc_ssize_t)(end - start), &mapped, (utf8proc_option_t)options);
        if (length < 0) {
            return ember_fail(EMBER_E_MEMORY, "Unicode normalization of %zu bytes: %s", end - start, utf8proc_errmsg(length));
        }
        const ember_status status = ember_bytes_append(out, mapped, (size_t)length);
        free(mapped);
        EMBER_TRY(status);
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
