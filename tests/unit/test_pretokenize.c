/* rooms: data */
/* Pre-tokenizers of the usual families: the pieces they make, worked out by hand. */
#include "tests/unit/tokenizer_fixture.h"

#define REGEX(text) "{\"Regex\":\"" text "\"}"
#define LITERAL(text) "{\"String\":\"" text "\"}"

static void gpt2(void **state) {
    (void)state;
    CHECK_PIECES(BYTE_LEVEL, "Hello, it's 12 o'clock", "Hello", ",", " it", "'s", " 12", " o", "'", "clock");
    CHECK_PIECES(BYTE_LEVEL, "a   b", "a", "  ", " b"); /* the last blank goes with the word */
    CHECK_PIECES(BYTE_LEVEL, "a  \n\nb  ", "a", "  \n", "\n", "b", "  ");
    CHECK_PIECES(BYTE_LEVEL, "IT'S", "IT", "'", "S"); /* contractions in lower case only */
    CHECK_PIECES(BYTE_LEVEL, "na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC", "na\xC3\xAFve", " \xE6\x97\xA5\xE6\x9C\xAC");
    CHECK_PIECES(BYTE_LEVEL, "x\xC2\xB2\xE2\x85\xA7", "x", "\xC2\xB2\xE2\x85\xA7"); /* superscript and Roman numeral are numbers */
    CHECK_PIECES(BYTE_LEVEL,
                 "a\xE1\xA0\x8E"
                 "b",
                 "a", "\xE1\xA0\x8E", "b"); /* U+180E is no white space */
    CHECK_PIECES(BYTE_LEVEL,
                 "a\xC2\x85\xC2\xA0"
                 "b",
                 "a", "\xC2\x85", "\xC2\xA0", "b"); /* U+0085 and U+00A0 are */
    CHECK_PIECES(BYTE_LEVEL_ONLY, "a b  c", "a b  c");
    CHECK_PIECES("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", "a b", " a", " b");
    CHECK_PIECES("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", " a", " a");
    CHECK_PIECES("{\"type\":\"ByteLevel\"}", "\na", " ", "\n", "a"); /* true is the default; a newline is no blank */
}

static void llama3_and_qwen2(void **state) {
    (void)state;
    static const char llama3[] = SEQUENCE(SPLIT(REGEX(LLAMA3_REGEX), "Isolated", "false"), BYTE_LEVEL_ONLY);
    static const char qwen2[] = SEQUENCE(SPLIT(REGEX(QWEN2_REGEX), "Isolated", "false"), BYTE_LEVEL_ONLY);
    static const char inverted[] = SEQUENCE(SPLIT(REGEX(LLAMA3_REGEX), "Removed", "true"), BYTE_LEVEL_ONLY);
    CHECK_PIECES(llama3, "IT'S 12345 x", "IT", "'S", " ", "123", "45", " x");
    CHECK_PIECES(llama3, "(a).\r\n\r\n  b", "(a", ").\r\n\r\n", " ", " b");
    CHECK_PIECES(llama3, "a \n b", "a", " \n", " b");
    CHECK_PIECES(llama3, "a'\xC5\xBF", "a", "'\xC5\xBF"); /* long s is an s in any case */
    CHECK_PIECES(inverted, "IT'S 12345 x", "IT", "'S", " ", "123", "45", " x");
    CHECK_PIECES(qwen2, "a 123", "a", " ", "1", "2", "3");
}

static void smollm_digits(void **state) {
    (void)state;
    static const char individual[] = SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}", BYTE_LEVEL);
    static const char runs[] = SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":false}", BYTE_LEVEL);
    CHECK_PIECES(individual, "ab 12c", "ab", " ", "1", "2", "c");
    CHECK_PIECES(runs, "ab 12c", "ab", " ", "12", "c");
    CHECK_PIECES(runs, "7", "7");
}

static void a_literal_is_no_expression(void **state) {
    (void)state;
    CHECK_PIECES(SEQUENCE(SPLIT(LITERAL("\\\\s+"), "Isolated", "false"), BYTE_LEVEL_ONLY), "a b", "a b");
    CHECK_PIECES(SEQUENCE(SPLIT(LITERAL("\\\\s+"), "Isolated", "false"), BYTE_LEVEL_ONLY), "a\\s+b", "a", "\\s+", "b");
    CHECK_PIECES(SEQUENCE(SPLIT(REGEX("\\\\s+"), "Isolated", "false"), BYTE_LEVEL_ONLY), "a b", "a", " ", "b");
    CHECK_PIECES(SEQUENCE(SPLIT(LITERAL("."), "Isolated", "false"), BYTE_LEVEL_ONLY), "a.b", "a", ".", "b");
}

static void behaviors(void **state) {
    (void)state;
#define SPLIT_DASH(behavior, invert) SEQUENCE(SPLIT(LITERAL("-"), behavior, invert), BYTE_LEVEL_ONLY)
    CHECK_PIECES(SPLIT_DASH("Removed", "false"), "-a--b-", "a", "b");
    CHECK_PIECES(SPLIT_DASH("Isolated", "false"), "-a--b-", "-", "a", "-", "-", "b", "-");
    CHECK_PIECES(SPLIT_DASH("MergedWithPrevious", "false"), "-a--b-", "-", "a-", "-", "b-");
    CHECK_PIECES(SPLIT_DASH("MergedWithNext", "false"), "-a--b-", "-a", "-", "-b", "-");
    CHECK_PIECES(SPLIT_DASH("Contiguous", "false"), "-a--b-", "-", "a", "--", "b", "-");
    CHECK_PIECES(SPLIT_DASH("Removed", "true"), "-a--b-", "-", "-", "-", "-");
    CHECK_PIECES(SPLIT_DASH("MergedWithPrevious", "true"), "-a--b-", "-a", "-", "-b", "-");
    CHECK_PIECES(SPLIT_DASH("MergedWithNext", "true"), "-a--b-", "-", "a-", "-", "b-");
    CHECK_PIECES(SEQUENCE(SPLIT(REGEX("b*"), "Isolated", "false"), BYTE_LEVEL_ONLY), "abba", "a", "bb", "a"); /* empty matches end */
}

static void other_stages(void **state) {
    (void)state;
    CHECK_PIECES(SEQUENCE("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", BYTE_LEVEL_ONLY), "a?!b\xE3\x80\x82", "a", "?!", "b",
                 "\xE3\x80\x82");
    CHECK_PIECES(SEQUENCE("{\"type\":\"Whitespace\"}", BYTE_LEVEL_ONLY), "a_1 ?!b", "a_1", "?!", "b");
    CHECK_PIECES(SEQUENCE("{\"type\":\"WhitespaceSplit\"}", BYTE_LEVEL_ONLY), "a_1 \n?!b", "a_1", "?!b");
}

static void expressions_mean_what_they_meant(void **state) {
    (void)state;
#define BY(regex) SEQUENCE(SPLIT(REGEX(regex), "Isolated", "false"), BYTE_LEVEL_ONLY)
    CHECK_PIECES(BY("\\\\w+"), "e\xCC\x81_\xC2\xB2!\xE2\x91\xA0", "e\xCC\x81_\xC2\xB2", "!\xE2\x91\xA0"); /* marks yes, circled digits no */
    CHECK_PIECES(BY("\\\\h"), "gfx", "g", "f", "x");                                                      /* a hexadecimal digit */
    CHECK_PIECES(BY("\\\\p{N}{1,3}+"), "a12345", "a", "12345");                                           /* repeated, not possessive */
    CHECK_PIECES(BY("\\\\p{Han}+"), "\xE6\x97\xA5\xE3\x80\x82", "\xE6\x97\xA5", "\xE3\x80\x82"); /* the full stop is not Han alone */
    CHECK_PIECES(BY("[[:punct:]]"),
                 "a\xC2\xA3"
                 "b",
                 "a", "\xC2\xA3", "b");
    CHECK_PIECES(BY("^."), "ab\ncd", "a", "b\n", "c", "d"); /* every line has a start */
}

/* The subject's UTF-8 is checked once and not at each match: with a check a match this text would take an hour. */
static void three_million_digits(void **state) {
    (void)state;
    enum { N = 3000000 };
    const fixture f = {.pre_tokenizer = SEQUENCE(SPLIT(REGEX(QWEN2_REGEX), "Isolated", "false"), BYTE_LEVEL_ONLY)};
    ember_tokenizer *tokenizer = fixture_open(&f);
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, '7', N);
    ember_ids ids = encode_text(tokenizer, text, N, false, true);
    assert_int_equal(ids.n, N);
    for (size_t i = 0; i < N; i++)
        assert_true(ids.data[i] == '7');
    free(ids.data);
    free(text);
    ember_tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),
        cmocka_unit_test(llama3_and_qwen2),
        cmocka_unit_test(smollm_digits),
        cmocka_unit_test(a_literal_is_no_expression),
        cmocka_unit_test(behaviors),
        cmocka_unit_test(other_stages),
        cmocka_unit_test(expressions_mean_what_they_meant),
        cmocka_unit_test(three_million_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
