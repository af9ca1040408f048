/* rooms: h5 base */
/* A damaged file gives an error or identical content, never a crash: single bytes changed, and the
 * file cut at many lengths. Run under the sanitizers this also shows reads out of bounds. */
#include <unistd.h>

#include "lib/base/atomic_file.h"
#include "lib/h5/h5.h"
#include "tests/check.h"

/* libhdf5 1.10.8 loses a few hundred bytes when the checksum of an object header is wrong. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libhdf5\n"; }

#define FILE_NAME "test_h5_damage.tmp.h5"

static void write_sample(void) {
    ember_h5_writer *file = NULL;
    static float values[1500];
    char long_text[600];
    memset(long_text, 'x', sizeof long_text);
    for (int i = 0; i < 1500; i++)
        values[i] = (float)i;
    check_ok(ember_h5_create(&file, FILE_NAME, "ember-test", 1));
    for (int i = 0; i < 12; i++) { /* more than eight: links and attributes in their dense form */
        char name[64];
        (void)snprintf(name, sizeof name, "/model/layers/%d/weight", i);
        check_ok(ember_h5_put(file, name, ember_tensor_2d(values, i % 2 ? EMBER_F32 : EMBER_BF16, 3, 4)));
        check_ok(ember_h5_put_attribute_text(file, name, "layout", "neuron_major"));
        (void)snprintf(name, sizeof name, "attribute_%d", i);
        check_ok(ember_h5_put_attribute_i64(file, "/model", name, i));
    }
    check_ok(ember_h5_put(file, "/big", ember_tensor_1d(values, EMBER_F32, 1500)));
    check_ok(ember_h5_put_text(file, "/config", "run:\n  seed: 1\n", 15));
    check_ok(ember_h5_put_text(file, "/tokenizer", long_text, sizeof long_text));
    check_ok(ember_h5_commit(file));
}

typedef struct content {
    const ember_h5_reader *file;
    ember_bytes all;
} content;

static ember_status add_attribute(void *user, const char *name, const char *value) {
    content *c = user;
    return ember_bytes_printf(&c->all, "%s=%s\n", name, value);
}

static ember_status add_object(void *user, const char *path, bool is_group, const ember_h5_info *info) {
    content *c = user;
    ember_bytes text = {0};
    ember_status status = ember_bytes_printf(&c->all, "%s %d %d\n", path, (int)is_group, info->n_dims);
    if (status == EMBER_OK)
        status = ember_h5_walk_attributes(c->file, path, (ember_h5_attribute_visit){.attribute = add_attribute, .user = c});
    if (status != EMBER_OK || is_group) return status;
    if (info->is_text) {
        status = ember_h5_get_text(c->file, path, &text);
        if (status == EMBER_OK) status = ember_bytes_append(&c->all, text.data, text.n);
    } else {
        ember_tensor tensor = {.dtype = info->dtype, .n_dims = info->n_dims};
        memcpy(tensor.dims, info->dims, sizeof tensor.dims);
        tensor.data = calloc(1, (size_t)info->bytes + 1);
        assert_non_null(tensor.data);
        status = ember_h5_get(c->file, path, tensor);
        if (status == EMBER_OK) status = ember_bytes_append(&c->all, tensor.data, (size_t)info->bytes);
        free(tensor.data);
    }
    ember_bytes_free(&text);
    return status;
}

/* Everything a reader can see. */
static ember_status read_all(ember_bytes *out, bool verify) {
    ember_h5_reader *file = NULL;
    *out = (ember_bytes){0};
    ember_status status = ember_h5_open(&file, FILE_NAME, "ember-test", 1, verify);
    if (status != EMBER_OK) return status;
    content c = {.file = file};
    status = ember_h5_walk_attributes(file, "/", (ember_h5_attribute_visit){.attribute = add_attribute, .user = &c});
    if (status == EMBER_OK) status = ember_h5_walk(file, "/", (ember_h5_visit){.object = add_object, .user = &c});
    ember_h5_close(file);
    if (status != EMBER_OK) ember_bytes_free(&c.all);
    *out = c.all;
    return status;
}

static void check_same_or_error(const ember_bytes *good, size_t at, int *n_errors, int *n_same) {
    for (int verify = 0; verify < 2; verify++) {
        ember_bytes now = {0};
        const ember_status status = read_all(&now, verify != 0);
        if (status != EMBER_OK) {
            (*n_errors)++;
            assert_true(strstr(ember_last_error(), FILE_NAME) != NULL);
            continue;
        }
        if (now.n != good->n || memcmp(now.data, good->data, now.n) != 0) fail_msg("byte %zu: other content without an error", at);
        (*n_same)++;
        ember_bytes_free(&now);
    }
}

static void test_single_bytes(void **state) {
    (void)state;
    ember_bytes good = {0};
    ember_bytes raw = {0};
    int n_errors = 0;
    int n_same = 0;
    write_sample();
    check_ok(read_all(&good, true));
    check_ok(ember_read_file(&raw, FILE_NAME, 0));
    const char *all = getenv("EMBER_TEST_EVERY_BYTE");
    const size_t stride = all ? 1 : 53; /* prime: meets every field of the fixed-size records */
    for (size_t at = 0; at < raw.n; at += at < 200 ? 1 : stride) {
        const char kept = raw.data[at];
        raw.data[at] = (char)(all ? kept ^ (1 << (at % 8)) : at % 3 ? ~kept : 1);
        FILE *file = fopen(FILE_NAME, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
        assert_int_equal(fputc(raw.data[at], file), (unsigned char)raw.data[at]);
        assert_int_equal(fclose(file), 0);
        check_same_or_error(&good, at, &n_errors, &n_same);
        raw.data[at] = kept;
        file = fopen(FILE_NAME, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
        assert_int_equal(fputc((unsigned char)kept, file), (unsigned char)kept);
        assert_int_equal(fclose(file), 0);
    }
    print_message("%zu bytes: %d errors, %d identical\n", raw.n, n_errors, n_same);
    assert_true(n_errors > 300);
    assert_true(n_same > 0);
    ember_bytes now = {0};
    check_ok(read_all(&now, true));
    assert_int_equal(now.n, good.n);
    ember_bytes_free(&now);
    ember_bytes_free(&good);
    ember_bytes_free(&raw);
    assert_int_equal(unlink(FILE_NAME), 0);
}

static void test_truncation(void **state) {
    (void)state;
    ember_bytes raw = {0};
    write_sample();
    check_ok(ember_read_file(&raw, FILE_NAME, 0));
    for (size_t i = 0; i < 100; i++) {
        const size_t n = i < 20 ? i * 3 : raw.n * i / 100;
        ember_bytes now = {0};
        check_ok(ember_write_file(FILE_NAME, raw.data, n));
        const ember_status status = read_all(&now, false);
        if (status != EMBER_E_CORRUPT) fail_msg("%zu of %zu bytes: %s %s", n, raw.n, ember_status_name(status), ember_last_error());
        ember_bytes_free(&now);
    }
    ember_bytes_free(&raw);
    assert_int_equal(unlink(FILE_NAME), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_single_bytes), cmocka_unit_test(test_truncation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
