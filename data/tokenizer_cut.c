/* Where a text may be cut so that both parts, encoded apart, give the ids of the whole.
 *
 * Four kinds of places between a character a and the next, b:
 *   SPACE    a is a letter, b is a blank          WORD_END  a is a letter, b is a comma or full stop
 *   NEWLINE  a is a letter, b is "\n"             LINE      a is "\n" behind a character that is no white space,
 *                                                           b is a letter
 * "Letter" is a set of ranges on which all Unicode versions agree, that NFC leaves alone.
 *
 * Why it holds. (1) The pre-tokenizer: only patterns known by their text count (word_patterns). In none of them
 * can a match hold a and b, so there is a boundary; none looks behind; and what they look ahead for ((?!\S)
 * after white space) is the same at the end of the text as before b: before SPACE, NEWLINE and WORD_END the
 * match ends in a letter and looks at nothing; before LINE it is a single "\n", which the same alternative takes
 * in both cases. Digit stages act within runs of digits, and neither a nor b is one. A Metaspace stage
 * that splits starts a piece at every blank and puts nothing in front of a text that begins with one; so does
 * ByteLevel with add_prefix_space: both allow SPACE only. (2) The normalizer: none, or NFC, which
 * never joins b to a. (3) Added tokens: a kind is off when some token's content holds a place of that kind, or when
 * its flags would see the cut (token_sees_cut). Everything else (no pre-tokenizer, Prepend, other patterns) has
 * no place to cut. */
#include "data/tokenizer_parts.h"

#include <string.h>
#include <utf8proc.h>

enum { KIND_SPACE, KIND_NEWLINE, KIND_WORD_END, KIND_LINE, N_KINDS };

static const char *const word_patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};
static const char *const digit_patterns[] = {"\\p{N}", "\\p{N}{1,3}", "\\p{N}+", "[0-9]", "[0-9]+", "\\d", "\\d+", "\\d{1,3}"};

tok_cut tok_cut_of_regex(const char *pattern, size_t n) {
    for (size_t i = 0; i < sizeof word_patterns / sizeof *word_patterns; i++) {
        if (strlen(word_patterns[i]) == n && memcmp(word_patterns[i], pattern, n) == 0) return TOK_CUT_WORDS;
    }
    for (size_t i = 0; i < sizeof digit_patterns / sizeof *digit_patterns; i++) {
        if (strlen(digit_patterns[i]) == n && memcmp(digit_patterns[i], pattern, n) == 0) return TOK_CUT_TRANSPARENT;
    }
    return TOK_CUT_NEVER;
}

static bool is_letter(uint32_t code) {
    if (code < 0x80) return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
    return (code >= 0xC0 && code <= 0x24F && code != 0xD7 && code != 0xF7) || (code >= 0x410 && code <= 0x44F) ||
           (code >= 0x3041 && code <= 0x3096) || (code >= 0x30A1 && code <= 0x30FA) || (code >= 0x4E00 && code <= 0x9FA5) ||
           (code >= 0xAC00 && code <= 0xD7A3);
}

static bool is_stop(uint32_t code) { return code == ',' || code == '.' || code == 0xFF0C || code == 0x3001 || code == 0x3002; }

static bool fits_before(int kind, uint32_t code) { return kind == KIND_LINE ? code == '\n' : is_letter(code); }

static bool fits_behind(int kind, uint32_t code) {
    switch (kind) {
    case KIND_SPACE: return code == ' ';
    case KIND_NEWLINE: return code == '\n';
    case KIND_WORD_END: return is_stop(code);
    default: return is_letter(code);
    }
}

static bool is_place(int kind, const char *text, size_t n, size_t at) {
    uint32_t before = 0;
    uint32_t behind = 0;
    if (at == 0 || tok_utf8_next(text + at, n - at, &behind) == 0 || !fits_behind(kind, behind)) return false;
    (void)tok_utf8_back(text, at, &before);
    return fits_before(kind, before);
}

/* A flag of the token looks over a cut right before or behind it and would find something else. */
static bool token_sees_cut(int kind, const tok_added *added) {
    uint32_t first = 0;
    uint32_t last = 0;
    if (tok_utf8_next(added->content, added->n, &first) == 0) return true;
    (void)tok_utf8_back(added->content, added->n, &last);
    const bool begins = fits_behind(kind, first);
    const bool ends = fits_before(kind, last);
    if (ends && (added->rstrip || added->single_word)) return true;
    return begins && (added->lstrip || added->single_word);
}

static bool tokens_allow(const ember_tokenizer *tokenizer, int kind) {
    for (size_t i = 0; i < tokenizer->n_added; i++) {
        const tok_added *added = &tokenizer->added[i];
        if (token_sees_cut(kind, added)) return false;
        for (size_t at = 1; at < added->n; at++) {
            if (is_place(kind, added->content, added->n, at)) return false;
        }
    }
    return true;
}

static bool only_spaces(const ember_tokenizer *tokenizer) {
    for (size_t i = 0; i < tokenizer->n_stages; i++) {
        if (tokenizer->stages[i].kind == TOK_STAGE_METASPACE || tokenizer->stages[i].prefix) return true;
    }
    return false;
}

static bool rules_allow(const ember_tokenizer *tokenizer) {
    for (size_t i = 0; i < tokenizer->n_norms; i++) {
        const tok_norm *norm = &tokenizer->norms[i];
        if (norm->kind != TOK_NORM_UNICODE || norm->options != (UTF8PROC_STABLE | UTF8PROC_COMPOSE)) return false;
    }
    bool words = false;
    for (size_t i = 0; i < tokenizer->n_stages; i++) {
        const tok_stage *stage = &tokenizer->stages[i];
        if (stage->cut == TOK_CUT_NEVER) return false;
        if (stage->kind == TOK_STAGE_METASPACE && tokenizer->n_stages > 1) return false; /* others would see its marks */
        words = words || stage->cut == TOK_CUT_WORDS;
    }
    /* stages behind a ByteLevel would see its alphabet */
    return words && (!tokenizer->maps_bytes || tokenizer->raw_bytes);
}

void tok_cut_prepare(ember_tokenizer *tokenizer) {
    tokenizer->cuts = 0;
    if (!rules_allow(tokenizer)) return;
    const int n_kinds = only_spaces(tokenizer) ? 1 : N_KINDS;
    for (int kind = 0; kind < n_kinds; kind++) {
        if (tokens_allow(tokenizer, kind)) tokenizer->cuts |= 1U << kind;
    }
}

static bool may_cut(const ember_tokenizer *tokenizer, const char *text, size_t n, size_t at) {
    for (int kind = 0; kind < N_KINDS; kind++) {
        if (!(tokenizer->cuts >> kind & 1U) || !is_place(kind, text, n, at)) continue;
        if (kind != KIND_LINE) return true;
        uint32_t code = 0;
        if (at < 2) continue;
        (void)tok_utf8_back(text, at - 1, &code);
        if (!tok_is_space(code)) return true;
    }
    return false;
}

/* `bytes`: anywhere but inside the text of its one special token. */
static size_t cut_bytes(const ember_tokenizer *tokenizer, const char *text, size_t n, size_t from) {
    const tok_added *token = &tokenizer->added[0];
    for (size_t back = 1; back < token->n && back <= from; back++) {
        const size_t start = from - back;
        if (n - start >= token->n && memcmp(text + start, token->content, token->n) == 0) return start + token->n;
    }
    return from;
}

size_t ember_encode_cut(const ember_tokenizer *tokenizer, const char *text, size_t n, size_t from) {
    if (from == 0) from = 1;
    if (from >= n) return n;
    if (tokenizer->is_bytes) return cut_bytes(tokenizer, text, n, from);
    if (tokenizer->cuts == 0) return n;
    for (size_t at = from; at < n; at++) {
        if (may_cut(tokenizer, text, n, at)) return at;
    }
    return n;
}
