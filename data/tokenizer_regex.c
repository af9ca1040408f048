/* Patterns of a tokenizer.json were written for Oniguruma; they run on PCRE2. Where the two read the same
 * text differently, the pattern is rewritten (\s, \w, \h, scripts, [:classes:], {1,n}+) or refused (nested classes,
 * &&). What stays different: characters newer than Unicode 14, which PCRE2 10.42 does not know. */
#include "data/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/status.h"

/* PCRE2's \s takes U+180E too; its \w lacks marks and has all of \p{No}. */
#define SPACE_CLASS "\\t-\\r\\x{85}\\p{Z}"
#define WORD_CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"
#define HEX_CLASS "0-9a-fA-F"

static const struct {
    const char *name, *members;
} posix_classes[] = {{"alpha", "\\p{Alphabetic}"}, {"alnum", "\\p{Alphabetic}\\p{Nd}"}, {"digit", "\\p{Nd}"},      {"space", SPACE_CLASS},
                     {"upper", "\\p{Uppercase}"},  {"lower", "\\p{Lowercase}"},         {"punct", "\\p{P}\\p{S}"}, {"xdigit", HEX_CLASS},
                     {"word", WORD_CLASS}};

enum { JIT_STACK_BYTES = 8 << 20 };

typedef struct translation {
    const char *text;
    size_t n, at;
    bool in_class;
    const char *part;
    ember_bytes out;
} translation;

static ember_status put(translation *t, const char *text) { return ember_bytes_append(&t->out, text, strlen(text)); }

static ember_status refuse(const translation *t, const char *what) {
    return ember_fail(EMBER_E_UNSUPPORTED, "%s: the regular expression \"%.*s\" uses %s at offset %zu, which is not supported", t->part,
                      (int)(t->n > 200 ? 200 : t->n), t->text, what, t->at);
}

static ember_status put_class(translation *t, const char *members, bool negated) {
    if (!t->in_class) EMBER_TRY(put(t, negated ? "[^" : "["));
    EMBER_TRY(put(t, members));
    return t->in_class ? EMBER_OK : put(t, "]");
}

static bool compiles(const char *pattern, size_t n) {
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, n, PCRE2_UTF, &code, &offset, NULL);
    pcre2_code_free(compiled);
    return compiled != NULL;
}

/* \p{Han} is the script there; in PCRE2 also characters that this script shares with others. */
static ember_status translate_property(translation *t) {
    const char *s = t->text + t->at;
    const char *end = memchr(s, '}', t->n - t->at);
    char script[64];
    const int length = end ? snprintf(script, sizeof script, "\\%c{sc:%.*s}", s[1], (int)(end - s - 3 > 40 ? 40 : end - s - 3), s + 3) : 0;
    if (length > 0 && end - s > 5 && end - s < 40 && compiles(script, (size_t)length)) {
        t->at += (size_t)(end - s) + 1;
        return put(t, script);
    }
    t->at += 2;
    return ember_bytes_append(&t->out, s, 2);
}

static ember_status translate_escape(translation *t) {
    const char c = t->at + 1 < t->n ? t->text[t->at + 1] : '\0';
    if ((c == 'p' || c == 'P') && t->at + 2 < t->n && t->text[t->at + 2] == '{') return translate_property(t);
    const char *members = (c == 's' || c == 'S')   ? SPACE_CLASS
                          : (c == 'w' || c == 'W') ? WORD_CLASS
                          : (c == 'h' || c == 'H') ? HEX_CLASS
                                                   : NULL;
    const bool negated = c == 'S' || c == 'W' || c == 'H';
    /* a negated set inside a class cannot be spelt out; \S and \W keep PCRE2's meaning there */
    if (!members || (negated && t->in_class)) {
        if (c == 'H') return refuse(t, "\\H inside a class");
        const size_t length = t->n - t->at < 2 ? 1 : 2;
        EMBER_TRY(ember_bytes_append(&t->out, t->text + t->at, length));
        t->at += length;
        return EMBER_OK;
    }
    t->at += 2;
    return put_class(t, members, negated);
}

static ember_status translate_posix(translation *t) {
    const char *s = t->text + t->at;
    const size_t left = t->n - t->at;
    for (size_t i = 0; i < sizeof posix_classes / sizeof *posix_classes; i++) {
        const size_t n = strlen(posix_classes[i].name);
        if (left < n + 4 || s[1] != ':' || memcmp(s + 2, posix_classes[i].name, n) != 0 || memcmp(s + 2 + n, ":]", 2) != 0) continue;
        t->at += n + 4;
        return put(t, posix_classes[i].members);
    }
    return refuse(t, "a class inside a class");
}

static ember_status translate_class_char(translation *t) {
    const char *s = t->text + t->at;
    const size_t left = t->n - t->at;
    if (s[0] == '[') return translate_posix(t);
    if (s[0] == '&' && left > 1 && s[1] == '&') return refuse(t, "an intersection of classes");
    if (s[0] == ']') t->in_class = false;
    t->at++;
    return ember_bytes_append(&t->out, s, 1);
}

/* "{1,3}+": there, one or more repetitions; in PCRE2, possessive. Length of the text or 0. */
static size_t repeated_interval(const translation *t, bool *from_one) {
    const char *s = t->text + t->at;
    const size_t left = t->n - t->at;
    size_t i = 1;
    while (i < left && ((s[i] >= '0' && s[i] <= '9') || s[i] == ','))
        i++;
    if (i == 1 || i + 1 >= left || s[i] != '}' || s[i + 1] != '+') return 0;
    *from_one = s[1] == '1' && (s[2] == ',' || s[2] == '}');
    return i + 2;
}

static ember_status translate(translation *t) {
    while (t->at < t->n) {
        const char c = t->text[t->at];
        bool from_one = false;
        if (c == '\\') {
            EMBER_TRY(translate_escape(t));
        } else if (t->in_class) {
            EMBER_TRY(translate_class_char(t));
        } else if (c == '{' && repeated_interval(t, &from_one) > 0) {
            if (!from_one) return refuse(t, "a repeated interval");
            t->at += repeated_interval(t, &from_one);
            EMBER_TRY(put(t, "+"));
        } else {
            if (c == '[') {
                t->in_class = true;
                size_t length = 1;
                if (t->at + length < t->n && t->text[t->at + length] == '^') length++;
                if (t->at + length < t->n && t->text[t->at + length] == ']') length++;
                EMBER_TRY(ember_bytes_append(&t->out, t->text + t->at, length));
                t->at += length;
                continue;
            }
            EMBER_TRY(ember_bytes_append(&t->out, &c, 1));
            t->at++;
        }
    }
    return EMBER_OK;
}

static ember_status compile(tok_pattern *out, const char *pattern, size_t n, const char *part) {
    ember_status status = EMBER_OK;
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context || pcre2_set_newline(context, PCRE2_NEWLINE_LF) != 0) {
        status = ember_fail(EMBER_E_MEMORY, "%s: no memory for the regular expression", part);
        goto done;
    }
    out->code =
        pcre2_compile((PCRE2_SPTR)pattern, n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
    if (!out->code) {
        char message[128] = "";
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        status = ember_fail(EMBER_E_UNSUPPORTED, "%s: the regular expression \"%.*s\" does not compile at offset %zu: %s", part,
                            (int)(out->n > 200 ? 200 : out->n), out->text, (size_t)offset, message);
        goto done;
    }
    out->jit = pcre2_jit_compile(out->code, PCRE2_JIT_COMPLETE) == 0;
done:
    pcre2_compile_context_free(context);
    return status;
}

ember_status tok_pattern_literal(tok_pattern *out, const char *text, size_t n, const char *part) {
    if (n == 0) return ember_fail(EMBER_E_UNSUPPORTED, "%s: an empty pattern is not supported", part);
    out->n = n;
    return tok_copy(&out->text, text, n);
}

ember_status tok_pattern_regex(tok_pattern *out, const char *pattern, size_t n, const char *part) {
    EMBER_TRY(tok_pattern_literal(out, pattern, n, part));
    translation t = {.text = pattern, .n = n, .part = part};
    ember_status status = translate(&t);
    if (status == EMBER_OK) status = compile(out, t.out.data, t.out.n, part);
    ember_bytes_free(&t.out);
    return status;
}

void tok_pattern_free(tok_pattern *pattern) {
    free(pattern->text);
    pcre2_code_free(pattern->code);
    *pattern = (tok_pattern){0};
}

ember_status tok_matcher_create(tok_matcher *out) {
    out->data = pcre2_match_data_create(1, NULL);
    out->context = pcre2_match_context_create(NULL);
    if (!out->data || !out->context) {
        tok_matcher_free(out);
        return ember_fail(EMBER_E_MEMORY, "no memory for the state of regular expressions");
    }
    out->stack = pcre2_jit_stack_create(64 << 10, JIT_STACK_BYTES, NULL); /* NULL where there is no JIT */
    if (out->stack) pcre2_jit_stack_assign(out->context, NULL, out->stack);
    return EMBER_OK;
}

void tok_matcher_free(tok_matcher *matcher) {
    pcre2_jit_stack_free(matcher->stack);
    pcre2_match_context_free(matcher->context);
    pcre2_match_data_free(matcher->data);
    *matcher = (tok_matcher){0};
}

static bool find_literal(tok_scan *scan) {
    const tok_pattern *p = scan->pattern;
    size_t at = scan->from;
    while (at < scan->n && p->n <= scan->n - at) {
        const char *hit = memchr(scan->text + at, p->text[0], scan->n - at - p->n + 1);
        if (!hit) return false;
        at = (size_t)(hit - scan->text);
        if (memcmp(hit, p->text, p->n) == 0) {
            scan->start = at;
            scan->end = at + p->n;
            return true;
        }
        at++;
    }
    return false;
}

static ember_status find_regex(tok_scan *scan) {
    const tok_pattern *p = scan->pattern;
    const tok_matcher *m = scan->matcher;
    /* the subject was validated once; checking it again at each match would be quadratic */
    const int rc = p->jit ? pcre2_jit_match(p->code, (PCRE2_SPTR)scan->text, scan->n, scan->from, PCRE2_NO_UTF_CHECK, m->data, m->context)
                          : pcre2_match(p->code, (PCRE2_SPTR)scan->text, scan->n, scan->from, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (rc == PCRE2_ERROR_NOMATCH) return EMBER_OK;
    if (rc < 0) {
        char message[128] = "";
        (void)pcre2_get_error_message(rc, (PCRE2_UCHAR *)message, sizeof message);
        return ember_fail(EMBER_E_UNSUPPORTED, "regular expression \"%.*s\" at offset %zu of %zu bytes: %s", (int)(p->n > 200 ? 200 : p->n),
                          p->text, scan->from, scan->n, message);
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(m->data);
    if (range[0] < scan->from || range[1] < range[0]) {
        return ember_fail(EMBER_E_UNSUPPORTED,
                          "regular expression \"%.*s\": a match that begins before the search did (\\K) is not supported",
                          (int)(p->n > 200 ? 200 : p->n), p->text);
    }
    scan->found = true;
    scan->start = range[0];
    scan->end = range[1];
    return EMBER_OK;
}

/* As the reference's iterator: an empty match right behind the last match does not count. */
ember_status tok_scan_next(tok_scan *scan) {
    for (;;) {
        scan->found = false;
        if (scan->from > scan->n) return EMBER_OK;
        if (!scan->pattern->code) {
            scan->found = find_literal(scan);
        } else {
            EMBER_TRY(find_regex(scan));
        }
        if (!scan->found) return EMBER_OK;
        if (scan->end > scan->start || !scan->matched || scan->last_end != scan->end) break;
        uint32_t code;
        const size_t length = tok_utf8_next(scan->text + scan->from, scan->n - scan->from, &code);
        scan->from += length > 0 ? length : 1;
    }
    scan->from = scan->end;
    scan->matched = true;
    scan->last_end = scan->end;
    return EMBER_OK;
}

ember_status tok_replace_all(const tok_pattern *pattern, tok_matcher *matcher, const char *text, size_t n, const char *content,
                             size_t content_n, ember_bytes *out) {
    tok_scan scan = {.pattern = pattern, .matcher = matcher, .text = text, .n = n};
    size_t done = 0;
    while (n > 0) {
        EMBER_TRY(tok_scan_next(&scan));
        if (!scan.found) break;
        EMBER_TRY(ember_bytes_append(out, text + done, scan.start - done));
        EMBER_TRY(ember_bytes_append(out, content, content_n));
        done = scan.end;
    }
    return ember_bytes_append(out, text + done, n - done);
}
