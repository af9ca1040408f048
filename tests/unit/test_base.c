/* rooms: base */
/* Status and messages, allocation and growable text, tensor views and 16-bit floats, logging. */
#include <math.h>
#include <pthread.h>

#include "lib/base/log.h"
#include "lib/base/memory.h"
#include "lib/base/status.h"
#include "lib/base/tensor.h"
#include "tests/check.h"

static const ember_status all_statuses[] = {
    EMBER_OK,         EMBER_E_ARGUMENT, EMBER_E_SHAPE,       EMBER_E_STATE,   EMBER_E_INTERRUPTED, EMBER_E_CONFIG,
    EMBER_E_IO,       EMBER_E_FORMAT,   EMBER_E_CORRUPT,     EMBER_E_VERSION, EMBER_E_NOT_FOUND,   EMBER_E_MEMORY,
    EMBER_E_CAPACITY, EMBER_E_DEVICE,   EMBER_E_UNSUPPORTED, EMBER_E_NUMERIC,
};
enum { N_STATUSES = (int)(sizeof all_statuses / sizeof all_statuses[0]) };

static void statuses_have_names(void **state) {
    (void)state;
    for (int i = 0; i < N_STATUSES; i++) {
        const char *name = ember_status_name(all_statuses[i]);
        assert_true(strncmp(name, "EMBER_", 6) == 0);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(name, ember_status_name(all_statuses[j]));
    }
    assert_string_equal(ember_status_name((ember_status)999), "unknown status");
    /* The numbers are part of the ABI. */
    assert_int_equal(EMBER_E_CONFIG, 200);
    assert_int_equal(EMBER_E_NUMERIC, 700);
}

static ember_status forwards(ember_status inner, int *reached) {
    EMBER_TRY(inner);
    *reached = 1;
    return EMBER_OK;
}

static ember_status forwards_to_exit(ember_status inner, int *cleaned) {
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(inner, done);
    status = EMBER_E_STATE;
done:
    *cleaned = 1;
    return status;
}

static void messages(void **state) {
    (void)state;
    ember_clear_error();
    assert_string_equal(ember_last_error(), "");
    assert_int_equal(ember_fail(EMBER_E_SHAPE, "%d is not %s", 3, "four"), EMBER_E_SHAPE);
    assert_string_equal(ember_last_error(), "3 is not four");
    assert_int_equal(ember_fail_context(EMBER_E_SHAPE, "layer %d", 2), EMBER_E_SHAPE);
    assert_string_equal(ember_last_error(), "layer 2: 3 is not four");
    /* The old message may be an argument of the new one. */
    (void)ember_fail(EMBER_E_IO, "again: %s", ember_last_error());
    assert_string_equal(ember_last_error(), "again: layer 2: 3 is not four");
    /* Longer than the buffer: cut, never overrun. */
    for (int i = 0; i < 400; i++)
        (void)ember_fail_context(EMBER_E_IO, "a prefix of some length %d", i);
    assert_true(strlen(ember_last_error()) < 8192);
    assert_non_null(strstr(ember_last_error(), "length 399: a prefix"));
    int reached = 0;
    assert_int_equal(forwards(EMBER_E_IO, &reached), EMBER_E_IO);
    assert_int_equal(reached, 0);
    assert_int_equal(forwards(EMBER_OK, &reached), EMBER_OK);
    assert_int_equal(reached, 1);
    int cleaned = 0;
    assert_int_equal(forwards_to_exit(EMBER_E_IO, &cleaned), EMBER_E_IO);
    assert_int_equal(cleaned, 1);
}

static void *other_thread(void *out) {
    const bool clean = ember_last_error()[0] == '\0';
    (void)ember_fail(EMBER_E_IO, "of the other thread");
    *(bool *)out = clean;
    return NULL;
}

static void messages_are_per_thread(void **state) {
    (void)state;
    (void)ember_fail(EMBER_E_IO, "mine");
    pthread_t thread;
    bool clean = false;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &clean), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(clean);
    assert_string_equal(ember_last_error(), "mine");
}

static void allocation(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = NULL;
        check_ok(ember_allocate(&block, sizes[i], 1, "a block"));
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % EMBER_ALIGNMENT, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(((unsigned char *)block)[j], 0);
        ember_release(block);
    }
    ember_release(NULL);
    void *block = &block;
    check_fails(ember_allocate(&block, SIZE_MAX, 2, "the moments"), EMBER_E_MEMORY, "the moments");
    assert_null(block);
    check_fails(ember_allocate(&block, SIZE_MAX, 1, "the moments"), EMBER_E_MEMORY, "overflow");
    check_fails(ember_allocate(&block, (size_t)1 << 32, (size_t)1 << 32, "the moments"), EMBER_E_MEMORY, "overflow");
}

static void growable_text(void **state) {
    (void)state;
    ember_bytes text = {0};
    check_ok(ember_bytes_append(&text, "", 0));
    assert_string_equal(text.data, "");
    for (int i = 0; i < 2000; i++)
        check_ok(ember_bytes_printf(&text, "%d,", i));
    assert_int_equal(text.n, strlen(text.data));
    assert_true(strncmp(text.data, "0,1,2,", 6) == 0);
    assert_string_equal(text.data + text.n - 10, "1998,1999,");
    /* NUL bytes are bytes. */
    const size_t before = text.n;
    check_ok(ember_bytes_append(&text, "a\0b", 3));
    assert_int_equal(text.n, before + 3);
    assert_memory_equal(text.data + before, "a\0b", 4);
    /* A print that is longer than what was reserved. */
    char *longer = malloc(100001);
    assert_non_null(longer);
    memset(longer, 'x', 100000);
    longer[100000] = '\0';
    check_ok(ember_bytes_printf(&text, "%s", longer));
    assert_int_equal(text.n, before + 3 + 100000);
    check_fails(ember_bytes_append(&text, longer, SIZE_MAX - 10), EMBER_E_MEMORY, "overflow");
    assert_int_equal(text.n, before + 3 + 100000);
    free(longer);
    ember_bytes_free(&text);
    assert_null(text.data);
    ember_bytes_free(&text);
    ember_bytes_free(NULL);
}

static void clock_is_monotonic(void **state) {
    (void)state;
    double last = ember_seconds();
    assert_true(isfinite(last) && last >= 0);
    for (int i = 0; i < 1000; i++) {
        const double now = ember_seconds();
        assert_true(now >= last);
        last = now;
    }
}

static void dtypes_and_counts(void **state) {
    (void)state;
    static const struct {
        ember_dtype dtype;
        size_t bytes;
        const char *name;
    } all[] = {{EMBER_F32, 4, "f32"}, {EMBER_F64, 8, "f64"}, {EMBER_BF16, 2, "bf16"}, {EMBER_F16, 2, "f16"},
               {EMBER_U8, 1, "u8"},   {EMBER_U16, 2, "u16"}, {EMBER_U32, 4, "u32"},   {EMBER_U64, 8, "u64"},
               {EMBER_I8, 1, "i8"},   {EMBER_I16, 2, "i16"}, {EMBER_I32, 4, "i32"},   {EMBER_I64, 8, "i64"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(ember_dtype_bytes(all[i].dtype), all[i].bytes);
        assert_string_equal(ember_dtype_name(all[i].dtype), all[i].name);
    }
    assert_int_equal(ember_dtype_bytes((ember_dtype)0), 0);
    assert_int_equal(ember_count(0, NULL), 1);
    assert_int_equal(ember_count(3, (const int64_t[]){2, 3, 4}), 24);
    assert_int_equal(ember_count(2, (const int64_t[]){5, 0}), 0);
    assert_int_equal(ember_count(2, (const int64_t[]){5, -1}), -1);
    assert_int_equal(ember_count(2, (const int64_t[]){(int64_t)1 << 32, (int64_t)1 << 32}), -1);
    assert_true(ember_count(2, (const int64_t[]){(int64_t)1 << 31, (int64_t)1 << 31}) == (int64_t)1 << 62);
    float data[6];
    const ember_tensor matrix = ember_tensor_2d(data, EMBER_F32, 2, 3);
    assert_int_equal(ember_tensor_count(matrix), 6);
    assert_int_equal(ember_tensor_count(ember_tensor_1d(data, EMBER_F32, 6)), 6);
}

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void bf16(void **state) {
    (void)state;
    /* Every bf16 survives float32, NaN as NaN. */
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = ember_f32_from_bf16((uint16_t)bits);
        const uint16_t back = ember_bf16_from_f32(value);
        if (isnan(value)) {
            assert_true(isnan(ember_f32_from_bf16(back)));
        } else {
            assert_int_equal(back, bits);
        }
    }
    /* To nearest, ties to even. */
    assert_int_equal(ember_bf16_from_f32(from_bits(0x3f808000)), 0x3f80);
    assert_int_equal(ember_bf16_from_f32(from_bits(0x3f818000)), 0x3f82);
    assert_int_equal(ember_bf16_from_f32(from_bits(0x3f808001)), 0x3f81);
    assert_int_equal(ember_bf16_from_f32(from_bits(0x3f807fff)), 0x3f80);
    assert_int_equal(ember_bf16_from_f32(from_bits(0x7f7fffff)), 0x7f80); /* the largest float rounds up */
    assert_true(isnan(ember_f32_from_bf16(ember_bf16_from_f32(from_bits(0x7f800001)))));
    assert_int_equal(ember_bf16_from_f32(-0.0f), 0x8000);
}

static void f16(void **state) {
    (void)state;
    static const struct {
        uint16_t bits;
        float value;
    } known[] = {{0x0000, 0.0f},     {0x3c00, 1.0f},         {0xc000, -2.0f},   {0x7bff, 65504.0f},
                 {0x0001, 0x1p-24f}, {0x03ff, 0x1.ff8p-15f}, {0x0400, 0x1p-14f}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_true(ember_f32_from_f16(known[i].bits) == known[i].value);
    assert_true(signbit(ember_f32_from_f16(0x8000)) != 0);
    assert_true(isinf(ember_f32_from_f16(0x7c00)) && ember_f32_from_f16(0xfc00) < 0);
    assert_true(isnan(ember_f32_from_f16(0x7c01)));
}

static void keep_line(void *user, ember_log_level level, const char *line) { (void)snprintf(user, 128, "%d %s", (int)level, line); }

static void log_lines(void **state) {
    (void)state;
    char line[128] = "";
    const ember_log log = {.sink = keep_line, .user = line};
    ember_logf(&log, EMBER_LOG_WARNING, "step %d", 7);
    assert_string_equal(line, "2 step 7");
    const ember_log silent = {0};
    ember_logf(&silent, EMBER_LOG_INFO, "nothing");
    ember_logf(NULL, EMBER_LOG_INFO, "nothing");
    assert_string_equal(line, "2 step 7");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_names), cmocka_unit_test(messages),      cmocka_unit_test(messages_are_per_thread),
        cmocka_unit_test(allocation),          cmocka_unit_test(growable_text), cmocka_unit_test(clock_is_monotonic),
        cmocka_unit_test(dtypes_and_counts),   cmocka_unit_test(bf16),          cmocka_unit_test(f16),
        cmocka_unit_test(log_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
