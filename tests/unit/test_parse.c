/* rooms: base */
#include <math.h>

#include "lib/base/parse.h"
#include "tests/check.h"

static void integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0}, {"-0", 0}, {"7", 7}, {"-7", -7}, {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t value = 1234;
        assert_true(ember_parse_i64(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1\n",
                                      "010",
                                      "00",
                                      "-01",
                                      "0x1",
                                      "1e3",
                                      "1.0",
                                      "1_000",
                                      "1,000",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999",
                                      "\xd9\xa1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t value = 1234;
        if (ember_parse_i64(bad[i], &value)) fail_msg("\"%s\" was taken", bad[i]);
        assert_true(value == 1234);
    }
}

static void unsigned_integers(void **state) {
    (void)state;
    uint64_t value = 5;
    assert_true(ember_parse_u64("18446744073709551615", &value) && value == UINT64_MAX);
    assert_true(ember_parse_u64("0", &value) && value == 0);
    value = 5;
    static const char *const bad[] = {"-1", "-0", "18446744073709551616", "1.5", "", "+1", "01", "184467440737095516150"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (ember_parse_u64(bad[i], &value)) fail_msg("\"%s\" was taken", bad[i]);
        assert_true(value == 5);
    }
}

static void reals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},         {"1e3", 1000},
                {"-0.5", -0.5},   {"5e-4", 5e-4},
                {"1E+2", 100},    {"3.25", 3.25},
                {"1e308", 1e308}, {"1e-400", 0},
                {"0.1", 0.1},     {"123456789012345678901234567890", 123456789012345678901234567890.0}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double value = 7;
        assert_true(ember_parse_f64(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    static const char *const bad[] = {"",         ".",     ".5",  "5.",     "1.e3",  "1e",     "1e+",  "e3",   "+1",
                                      " 1",       "1 ",    "1,5", "1.5abc", "1e400", "-1e400", "inf",  "-inf", "nan",
                                      "infinity", "0x1p3", "010", "00.5",   "--1",   "1.2.3",  "1e1.5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double value = 7;
        if (ember_parse_f64(bad[i], &value)) fail_msg("\"%s\" was taken", bad[i]);
        assert_true(value == 7);
    }
}

static void bools(void **state) {
    (void)state;
    bool value = false;
    assert_true(ember_parse_bool("true", &value) && value);
    assert_true(ember_parse_bool("false", &value) && !value);
    static const char *const bad[] = {"", "True", "TRUE", "yes", "on", "1", "0", "maybe", "true ", "falsey"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(ember_parse_bool(bad[i], &value));
}

/* Shortest text that reads back, and it always does. */
static void formatting(void **state) {
    (void)state;
    char text[32];
    static const struct {
        double value;
        const char *text;
    } known[] = {{0.1, "0.1"}, {1e-5, "1e-05"}, {0, "0"}, {-2.5, "-2.5"}, {0.30000000000000004, "0.30000000000000004"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ember_format_f64(text, known[i].value);
        assert_string_equal(text, known[i].text);
    }
    ember_format_f64(text, (double)NAN);
    assert_string_equal(text, "nan");
    ember_format_f64(text, (double)INFINITY);
    assert_string_equal(text, "inf");
    ember_format_f64(text, -(double)INFINITY);
    assert_string_equal(text, "-inf");
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        ember_format_f64(text, value);
        assert_true(strlen(text) < sizeof text);
        double again = 0;
        if (!ember_parse_f64(text, &again) || memcmp(&again, &value, sizeof value) != 0) fail_msg("%s does not read back", text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers), cmocka_unit_test(unsigned_integers), cmocka_unit_test(reals),
        cmocka_unit_test(bools),    cmocka_unit_test(formatting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
