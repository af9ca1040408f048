/* rooms: checkpoints h5 base */
#include <unistd.h>

#include "checkpoints/safetensors.h"
#include "lib/base/atomic_file.h"
#include "tests/check.h"

#define FILE_NAME "test_safetensors.tmp"

/* Length, header, `n_data` bytes 0, 1, 2, ... */
static ember_bytes build(const char *header, uint64_t length, size_t n_data) {
    ember_bytes all = {0};
    unsigned char head[8];
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)(length >> (8 * i));
    check_ok(ember_bytes_append(&all, head, 8));
    check_ok(ember_bytes_append(&all, header, strlen(header)));
    for (size_t i = 0; i < n_data; i++) {
        const unsigned char byte = (unsigned char)i;
        check_ok(ember_bytes_append(&all, &byte, 1));
    }
    return all;
}

/* From memory and from disk alike; the copy is exactly as long as the file, so that a read beyond it shows. */
static void refuses(const char *header, size_t n_data, ember_status wanted, const char *part) {
    ember_safetensors *file = NULL;
    ember_bytes all = build(header, strlen(header), n_data);
    void *exact = malloc(all.n);
    assert_non_null(exact);
    memcpy(exact, all.data, all.n);
    check_fails(ember_safetensors_from_memory(&file, exact, all.n, "memory"), wanted, part);
    assert_null(file);
    free(exact);
    check_ok(ember_write_file(FILE_NAME, all.data, all.n));
    check_fails(ember_safetensors_open(&file, FILE_NAME), wanted, part);
    assert_non_null(strstr(ember_last_error(), FILE_NAME));
    assert_int_equal(unlink(FILE_NAME), 0);
    ember_bytes_free(&all);
}

static void test_reads(void **state) {
    (void)state;
    const char *header = "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                         "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[16,20]},"
                         "\"h\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[20,22]},"
                         "\"z\":{\"dtype\":\"I64\",\"shape\":[0,3],\"data_offsets\":[22,22]}}   ";
    const float values[4] = {1, -2, 3.5f, 1e-30f};
    const uint16_t halves[3] = {0x3f80, 0xc020, 0x3c00};
    ember_bytes all = build(header, strlen(header), 22);
    memcpy(all.data + all.n - 22, values, 16);
    memcpy(all.data + all.n - 6, halves, 6);
    check_ok(ember_write_file(FILE_NAME, all.data, all.n));
    for (int from_disk = 0; from_disk < 2; from_disk++) {
        ember_safetensors *file = NULL;
        float out[4] = {0};
        check_ok(from_disk ? ember_safetensors_open(&file, FILE_NAME) : ember_safetensors_from_memory(&file, all.data, all.n, "memory"));
        assert_int_equal(ember_safetensors_n(file), 4);
        assert_string_equal(ember_safetensors_at(file, 0)->name, "b");
        assert_null(ember_safetensors_at(file, 4));
        assert_null(ember_safetensors_find(file, "none"));
        check_ok(ember_safetensors_read_f32(file, ember_safetensors_find(file, "b"), 1, 1, out));
        assert_true(out[0] == 3.5f && out[1] == 1e-30f);
        check_ok(ember_safetensors_read_f32(file, ember_safetensors_find(file, "a"), 0, 2, out));
        assert_true(out[0] == 1.0f && out[1] == -2.5f);
        check_ok(ember_safetensors_read_f32(file, ember_safetensors_find(file, "h"), 0, 1, out));
        assert_true(out[0] == 1.0f);
        check_fails(ember_safetensors_read_f32(file, ember_safetensors_find(file, "z"), 0, 0, out), EMBER_E_UNSUPPORTED, "i64");
        check_fails(ember_safetensors_read_f32(file, ember_safetensors_find(file, "b"), 1, 2, out), EMBER_E_ARGUMENT, "rows");
        ember_safetensors_close(file);
    }
    ember_bytes_free(&all);
    assert_int_equal(unlink(FILE_NAME), 0);
}

#define TENSOR(name, dtype, shape, from, to) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void test_malformed(void **state) {
    (void)state;
    refuses("{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[1]", "4", "8") "}", 8, EMBER_E_CORRUPT, "overlap");
    refuses("{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("b", "F32", "[1]", "0", "4") "}", 4, EMBER_E_CORRUPT, "overlap");
    refuses("{" TENSOR("a", "F32", "[1]", "4", "8") "}", 8, EMBER_E_CORRUPT, "4 bytes before tensor \"a\"");
    refuses("{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("b", "F32", "[1]", "8", "12") "}", 12, EMBER_E_CORRUPT, "\"b\"");
    refuses("{" TENSOR("a", "F32", "[1]", "0", "4") "}", 5, EMBER_E_CORRUPT, "at its end");
    refuses("{" TENSOR("a", "F32", "[2]", "0", "8") "}", 4, EMBER_E_CORRUPT, "not within");
    refuses("{" TENSOR("a", "F32", "[1]", "4", "0") "}", 4, EMBER_E_CORRUPT, "not within");
    refuses("{" TENSOR("a", "F32", "[1]", "-4", "0") "}", 4, EMBER_E_CORRUPT, "not within");
    refuses("{" TENSOR("a", "F32", "[3]", "0", "8") "}", 8, EMBER_E_FORMAT, "need 12 bytes");
    refuses("{" TENSOR("a", "F16", "[2]", "0", "8") "}", 8, EMBER_E_FORMAT, "need 4 bytes");
    refuses("{" TENSOR("a", "F32", "[4611686018427387904,4]", "0", "0") "}", 0, EMBER_E_FORMAT, "overflows");
    refuses("{" TENSOR("a", "F32", "[4611686018427387904]", "0", "0") "}", 0, EMBER_E_FORMAT, "overflows");
    refuses("{" TENSOR("a", "F32", "[-1]", "0", "4") "}", 4, EMBER_E_FORMAT, "no size");
    refuses("{" TENSOR("a", "F32", "[1.0]", "0", "4") "}", 4, EMBER_E_FORMAT, "no size");
    refuses("{" TENSOR("a", "F32", "[99999999999999999999]", "0", "4") "}", 4, EMBER_E_FORMAT, "JSON");
    refuses("{" TENSOR("a", "F32", "[1,1,1,1,1]", "0", "4") "}", 4, EMBER_E_UNSUPPORTED, "5 dimensions");
    refuses("{" TENSOR("a", "F32", "7", "0", "4") "}", 4, EMBER_E_FORMAT, "no list");
    refuses("{" TENSOR("a", "F8_E4M3", "[4]", "0", "4") "}", 4, EMBER_E_UNSUPPORTED, "F8_E4M3");
    refuses("{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("a", "F32", "[1]", "4", "8") "}", 8, EMBER_E_FORMAT, "duplicate");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, EMBER_E_FORMAT, "data_offsets");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, EMBER_E_FORMAT, "data_offsets");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, EMBER_E_FORMAT, "besides");
    refuses("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, EMBER_E_FORMAT, "dtype");
    refuses("{\"a\":[1]}", 4, EMBER_E_FORMAT, "no object");
    refuses("{\"__metadata__\":[]}", 0, EMBER_E_FORMAT, "__metadata__");
    refuses("{\"a\":", 4, EMBER_E_FORMAT, "JSON");
    refuses("{} x", 0, EMBER_E_FORMAT, "JSON");
    refuses("[]", 0, EMBER_E_FORMAT, "begin with {");
    refuses(" {}", 0, EMBER_E_FORMAT, "begin with {");
    refuses("", 0, EMBER_E_FORMAT, "begin with {");
    refuses("{\"\xff\xfe\":{}}", 0, EMBER_E_FORMAT, "JSON");
    refuses("{\"a\\u0000b\":{}}", 0, EMBER_E_FORMAT, "JSON");
}

static void test_deep_nesting(void **state) {
    (void)state;
    char *text = malloc(200001);
    assert_non_null(text);
    memset(text, '[', 200000);
    memcpy(text, "{\"a\":", 5);
    text[200000] = '\0';
    refuses(text, 0, EMBER_E_FORMAT, "JSON");
    free(text);
}

static void test_header_length(void **state) {
    (void)state;
    ember_safetensors *file = NULL;
    const uint64_t lengths[] = {3, 4, 1000, 100000000, 100000001, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        ember_bytes all = build("{}", lengths[i], 0);
        const ember_status wanted = lengths[i] > EMBER_SAFETENSORS_MAX_HEADER_BYTES ? EMBER_E_FORMAT : EMBER_E_CORRUPT;
        check_fails(ember_safetensors_from_memory(&file, all.data, all.n, "memory"), wanted,
                    wanted == EMBER_E_FORMAT ? "limit is 100000000" : "truncated");
        ember_bytes_free(&all);
    }
    for (size_t n = 0; n < 8; n++)
        check_fails(ember_safetensors_from_memory(&file, "\2\0\0\0\0\0\0", n, "memory"), EMBER_E_FORMAT, "too short");
    ember_bytes all = build("{}", 2, 0);
    check_ok(ember_safetensors_from_memory(&file, all.data, all.n, "memory")); /* no tensor at all is well-formed */
    assert_int_equal(ember_safetensors_n(file), 0);
    assert_null(ember_safetensors_find(file, "a"));
    ember_safetensors_close(file);
    ember_bytes_free(&all);
}

/* A header just below and above the 100,000 bytes at which others forget the 8 bytes of the length. */
static void test_long_headers(void **state) {
    (void)state;
    for (size_t n = 99990; n <= 100010; n++) {
        ember_safetensors *file = NULL;
        float out = 0;
        char *header = malloc(n + 1);
        assert_non_null(header);
        memset(header, ' ', n);
        header[n] = '\0';
        const char *object = "{" TENSOR("a", "F32", "[1]", "0", "4") "}";
        memcpy(header, object, strlen(object));
        ember_bytes all = build(header, n, 4);
        check_ok(ember_write_file(FILE_NAME, all.data, all.n));
        check_ok(ember_safetensors_open(&file, FILE_NAME));
        check_ok(ember_safetensors_read_f32(file, ember_safetensors_at(file, 0), 0, 1, &out));
        assert_memory_equal(&out, all.data + all.n - 4, 4);
        ember_safetensors_close(file);
        ember_bytes_free(&all);
        free(header);
    }
    assert_int_equal(unlink(FILE_NAME), 0);
}

/* Any one byte of a header changed: an error or a reader whose every tensor lies within the data. */
static void test_changed_bytes(void **state) {
    (void)state;
    const char *header =
        "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("a", "F32", "[2,3]", "0", "24") "," TENSOR("b", "F16", "[4]", "24", "32") "}";
    ember_bytes all = build(header, strlen(header), 32);
    int n_errors = 0;
    for (size_t at = 0; at < all.n - 32; at++) {
        for (int bit = 0; bit < 8; bit++) {
            ember_safetensors *file = NULL;
            float out[8];
            char *copy = malloc(all.n);
            assert_non_null(copy);
            memcpy(copy, all.data, all.n);
            copy[at] = (char)(copy[at] ^ (1 << bit));
            if (ember_safetensors_from_memory(&file, copy, all.n, "memory") != EMBER_OK) {
                n_errors++;
            } else {
                for (int64_t i = 0; i < ember_safetensors_n(file); i++) {
                    const ember_safetensors_entry *entry = ember_safetensors_at(file, i);
                    assert_true(entry->offset + entry->bytes <= all.n);
                    if (ember_count(entry->n_dims, entry->dims) > 8) continue;
                    if (ember_safetensors_read_f32(file, entry, 0, entry->n_dims ? entry->dims[0] : 1, out) != EMBER_OK) n_errors++;
                }
            }
            ember_safetensors_close(file);
            free(copy);
        }
    }
    assert_true(n_errors > 500);
    ember_bytes_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),         cmocka_unit_test(test_malformed),    cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_header_length), cmocka_unit_test(test_long_headers), cmocka_unit_test(test_changed_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
