#include "data/tokenizer_parts.h"

#include <string.h>
#include <utf8proc.h>

size_t tok_utf8_next(const char *text, size_t n, uint32_t *code) {
    if (n == 0) return 0;
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    const size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (n < length) return 0;
    uint32_t value = s[0] & (0x7FU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        value = value << 6 | (s[i] & 0x3FU);
    }
    /* overlong forms, surrogates and values above U+10FFFF are not characters */
    if (length == 3 && (value < 0x800 || (value >= 0xD800 && value <= 0xDFFF))) return 0;
    if (length == 4 && (value < 0x10000 || value > 0x10FFFF)) return 0;
    *code = value;
    return length;
}

size_t tok_utf8_back(const char *text, size_t at, uint32_t *code) {
    for (size_t length = 1; length <= 4 && length <= at; length++) {
        if (tok_utf8_next(text + at - length, length, code) == length) return at - length;
    }
    *code = 0xFFFD;
    return at > 0 ? at - 1 : 0;
}

size_t tok_utf8_valid(const char *text, size_t n) {
    size_t at = 0;
    while (at < n) {
        uint64_t word;
        if (n - at >= sizeof word) {
            memcpy(&word, text + at, sizeof word);
            if ((word & 0x8080808080808080U) == 0) {
                at += sizeof word;
                continue;
            }
        }
        uint32_t code;
        const size_t length = tok_utf8_next(text + at, n - at, &code);
        if (length == 0) break;
        at += length;
    }
    return at;
}

size_t tok_utf8_invalid(const char *text, size_t n) {
    size_t at = 0;
    uint32_t code;
    while (at < n && tok_utf8_next(text + at, n - at, &code) == 0)
        at++;
    return at;
}

size_t tok_utf8_put(char out[4], uint32_t code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)((0xF00U >> length & 0xF0U) | code);
    return length;
}

bool tok_is_space(uint32_t code) {
    if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
           code == 0x202F || code == 0x205F || code == 0x3000;
}

bool tok_is_word(uint32_t code) {
    if (code < 0x80) return (code >= '0' && code <= '9') || ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') || code == '_';
    if (code == 0x200C || code == 0x200D) return true;
    /* circled and squared letters are alphabetic symbols */
    if ((code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
        (code >= 0x1F170 && code <= 0x1F189)) {
        return true;
    }
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
    }
}
