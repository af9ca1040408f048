/* rooms: h5 base */
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/h5/h5.h"
#include "tests/check.h"

#define FILE_NAME "test_h5.tmp.h5"

static void write_sample(const char *path) {
    ember_h5_writer *file = NULL;
    float matrix[3][5];
    uint16_t half[6] = {0x3f80, 0xc020, 0x4049, 0x477f, 0x7fc0, 0x8000};
    int64_t counters[4] = {1, -2, INT64_MAX, INT64_MIN};
    const int64_t list[3] = {7, 8, 9};
    double scalar = 0.1;
    for (int i = 0; i < 15; i++)
        matrix[i / 5][i % 5] = (float)i * 0.25f;
    check_ok(ember_h5_create(&file, path, "ember-test", 3));
    check_ok(ember_h5_put_attribute_text(file, "/", "kind", "full"));
    check_ok(ember_h5_put(file, "/model/a/weight", ember_tensor_2d(matrix, EMBER_F32, 3, 5)));
    check_ok(ember_h5_put(file, "/model/a/half", ember_tensor_1d(half, EMBER_BF16, 6)));
    check_ok(ember_h5_put(file, "/model/a-b", ember_tensor_1d(counters, EMBER_I64, 4)));
    check_ok(ember_h5_put(file, "/state/scalar", (ember_tensor){.data = &scalar, .dtype = EMBER_F64}));
    check_ok(ember_h5_put(file, "/state/nothing", ember_tensor_2d(NULL, EMBER_U32, 0, 4)));
    check_ok(ember_h5_put_text(file, "/config", "a: 1\n", 5));
    check_ok(ember_h5_put_text(file, "/empty", NULL, 0));
    check_ok(ember_h5_put_attribute_text(file, "/model/a/weight", "layout", "neuron_major"));
    check_ok(ember_h5_put_attribute_i64(file, "/model", "hidden_size", -64));
    check_ok(ember_h5_put_attribute_i64s(file, "/model", "eos", list, 3));
    check_ok(ember_h5_put_attribute_i64s(file, "/model", "none", list, 0));
    check_ok(ember_h5_put_attribute_f64(file, "/model", "eps", 1e-5));
    check_ok(ember_h5_commit(file));
}

static void test_round_trip(void **state) {
    (void)state;
    ember_h5_reader *file = NULL;
    ember_h5_info info;
    ember_bytes text = {0};
    float matrix[15];
    double wide[6];
    int64_t values[4];
    size_t n = 0;
    double number = 0;
    write_sample(FILE_NAME);
    check_ok(ember_h5_open(&file, FILE_NAME, "ember-test", 3, true));
    assert_int_equal(ember_h5_version(file), 3);
    assert_string_equal(ember_h5_format(file), "ember-test");
    check_ok(ember_h5_get(file, "/model/a/weight", ember_tensor_2d(matrix, EMBER_F32, 3, 5)));
    for (int i = 0; i < 15; i++)
        assert_true(matrix[i] == (float)i * 0.25f);
    check_ok(ember_h5_get(file, "/model/a/half", ember_tensor_1d(wide, EMBER_F64, 6)));
    assert_true(wide[0] == 1.0 && wide[1] == -2.5 && wide[2] == 3.140625 && wide[3] == 65280.0);
    check_ok(ember_h5_get(file, "/model/a/half", ember_tensor_1d(matrix, EMBER_F32, 6)));
    assert_true(matrix[1] == -2.5f && matrix[4] != matrix[4] && matrix[5] == 0.0f && signbit(matrix[5]));
    check_ok(ember_h5_get(file, "/model/a-b", ember_tensor_1d(values, EMBER_I64, 4)));
    assert_true(values[2] == INT64_MAX && values[3] == INT64_MIN);
    check_ok(ember_h5_get(file, "/state/scalar", (ember_tensor){.data = &number, .dtype = EMBER_F64}));
    assert_true(number == 0.1);
    check_ok(ember_h5_get(file, "/state/nothing", ember_tensor_2d(NULL, EMBER_U32, 0, 4)));
    check_ok(ember_h5_get_info(file, "/model/a/half", &info));
    assert_int_equal(info.dtype, EMBER_BF16);
    assert_int_equal(info.bytes, 12);
    assert_true(info.file_offset != UINT64_MAX);
    check_ok(ember_h5_get_text(file, "/config", &text));
    assert_string_equal(text.data, "a: 1\n");
    ember_bytes_free(&text);
    check_ok(ember_h5_get_text(file, "/empty", &text));
    assert_int_equal(text.n, 0);
    ember_bytes_free(&text);
    check_ok(ember_h5_get_attribute_text(file, "/model/a/weight", "layout", &text));
    assert_string_equal(text.data, "neuron_major");
    ember_bytes_free(&text);
    check_ok(ember_h5_get_attribute_i64s(file, "/model", "eos", values, 4, &n));
    assert_true(n == 3 && values[2] == 9);
    check_ok(ember_h5_get_attribute_i64s(file, "/model", "none", values, 4, &n));
    assert_int_equal(n, 0);
    check_fails(ember_h5_get_attribute_i64s(file, "/model", "eos", values, 2, &n), EMBER_E_FORMAT, "limit is 2");
    check_fails(ember_h5_get_attribute_i64(file, "/model", "eos", values), EMBER_E_FORMAT, "eos");
    check_ok(ember_h5_get_attribute_f64(file, "/model", "eps", &number));
    assert_true(number == 1e-5);
    check_fails(ember_h5_get_attribute_i64(file, "/model", "absent", values), EMBER_E_NOT_FOUND, "absent");
    assert_true(ember_h5_has_attribute(file, "/model", "eps") && !ember_h5_has_attribute(file, "/model", "absent"));
    assert_true(ember_h5_has(file, "/model/a") && !ember_h5_has(file, "/model/b"));
    check_fails(ember_h5_get(file, "/model/a/weight", ember_tensor_2d(matrix, EMBER_F32, 5, 3)), EMBER_E_SHAPE, "/model/a/weight");
    check_fails(ember_h5_get(file, "/model/a-b", ember_tensor_1d(values, EMBER_U64, 4)), EMBER_E_SHAPE, "i64");
    check_fails(ember_h5_get(file, "/model/none", ember_tensor_1d(values, EMBER_U64, 4)), EMBER_E_NOT_FOUND, "/model/none");
    check_fails(ember_h5_get(file, "/model/a", ember_tensor_1d(values, EMBER_U64, 4)), EMBER_E_NOT_FOUND, "group");
    check_ok(ember_h5_verify(file));
    ember_h5_close(file);
    assert_int_equal(unlink(FILE_NAME), 0);
}

/* Fixed-length attributes end at 65,500 bytes: a limit of ours below that is said; long texts are datasets. */
static void test_long_texts(void **state) {
    (void)state;
    enum { N = 1000000 };
    ember_h5_writer *file = NULL;
    ember_h5_reader *reader = NULL;
    ember_bytes back = {0};
    char *text = malloc(N + 1);
    assert_non_null(text);
    for (int i = 0; i < N; i++)
        text[i] = (char)(' ' + i % 90);
    check_ok(ember_h5_create(&file, FILE_NAME, "ember-test", 3));
    text[N] = '\0';
    check_ok(ember_h5_put_text(file, "/long", text, N));
    check_fails(ember_h5_put_attribute_text(file, "/", "a", text), EMBER_E_ARGUMENT, "attribute a has 1000001 bytes; the limit is 60000");
    text[60000] = '\0';
    check_fails(ember_h5_put_attribute_text(file, "/", "a", text), EMBER_E_ARGUMENT, "60001 bytes");
    text[59999] = '\0';
    check_ok(ember_h5_put_attribute_text(file, "/", "a", text));
    check_ok(ember_h5_commit(file));
    check_ok(ember_h5_open(&reader, FILE_NAME, NULL, 3, true));
    check_ok(ember_h5_get_attribute_text(reader, "/", "a", &back));
    assert_int_equal(back.n, 59999);
    assert_string_equal(back.data, text);
    ember_bytes_free(&back);
    check_ok(ember_h5_get_text(reader, "/long", &back));
    assert_int_equal(back.n, N);
    assert_memory_equal(back.data, text, 59999);
    assert_memory_equal(back.data + 60001, text + 60001, N - 60001);
    ember_bytes_free(&back);
    ember_h5_close(reader);
    free(text);
    assert_int_equal(unlink(FILE_NAME), 0);
}

static ember_status append_path(void *user, const char *path, bool is_group, const ember_h5_info *info) {
    (void)info;
    return ember_bytes_printf(user, "%s%s ", path, is_group ? "/" : "");
}

static ember_status append_attribute(void *user, const char *name, const char *value) {
    return ember_bytes_printf(user, "%s=%s;", name, value);
}

static void test_walk(void **state) {
    (void)state;
    ember_h5_reader *file = NULL;
    ember_bytes text = {0};
    write_sample(FILE_NAME);
    check_ok(ember_h5_open(&file, FILE_NAME, NULL, 3, false));
    check_ok(ember_h5_walk(file, "/", (ember_h5_visit){.object = append_path, .user = &text}));
    assert_string_equal(text.data,
                        "/config /empty /model/ /model/a/ /model/a/half /model/a/weight /model/a-b /state/ /state/nothing /state/scalar ");
    text.n = 0;
    check_ok(ember_h5_walk(file, "/model/a", (ember_h5_visit){.object = append_path, .user = &text}));
    assert_string_equal(text.data, "/model/a/half /model/a/weight ");
    text.n = 0;
    check_ok(ember_h5_walk_attributes(file, "/model", (ember_h5_attribute_visit){.attribute = append_attribute, .user = &text}));
    assert_string_equal(text.data, "eos=[7, 8, 9];eps=1e-05;hidden_size=-64;none=[];");
    ember_bytes_free(&text);
    ember_h5_close(file);
    assert_int_equal(unlink(FILE_NAME), 0);
}

static void test_pieces_and_alignment(void **state) {
    (void)state;
    ember_h5_writer *file = NULL;
    ember_h5_reader *reader = NULL;
    ember_h5_info info;
    static int32_t rows[1000][3];
    static int32_t back[1000][3];
    const int64_t dims[2] = {1000, 3};
    for (int i = 0; i < 3000; i++)
        rows[i / 3][i % 3] = i * 7;
    check_ok(ember_h5_create(&file, FILE_NAME, "ember-test", 1));
    check_ok(ember_h5_put(file, "/odd", ember_tensor_1d(rows, EMBER_U8, 5)));
    check_ok(ember_h5_reserve(file, "/rows", EMBER_I32, 2, dims));
    check_ok(ember_h5_append_rows(file, "/rows", rows, 1));
    check_ok(ember_h5_append_rows(file, "/rows", rows[1], 0));
    check_ok(ember_h5_append_rows(file, "/rows", rows[1], 998));
    check_ok(ember_h5_append_rows(file, "/rows", rows[999], 1));
    check_ok(ember_h5_commit(file));
    check_ok(ember_h5_open(&reader, FILE_NAME, "ember-test", 1, true));
    check_ok(ember_h5_get(reader, "/rows", ember_tensor_2d(back, EMBER_I32, 1000, 3)));
    assert_memory_equal(rows, back, sizeof rows);
    check_ok(ember_h5_get_info(reader, "/rows", &info));
    assert_int_equal(info.file_offset % 4096, 0);
    ember_h5_close(reader);
    assert_int_equal(unlink(FILE_NAME), 0);
}

static void nothing_is_left(void) {
    assert_int_equal(access(FILE_NAME, F_OK), -1);
    glob_t beside = {0};
    assert_int_equal(glob("." FILE_NAME ".*", 0, NULL, &beside), GLOB_NOMATCH);
    globfree(&beside);
}

static void test_writer_refuses(void **state) {
    (void)state;
    ember_h5_writer *file = NULL;
    const int64_t dims[1] = {4};
    int64_t values[8] = {0};
    check_fails(ember_h5_create(&file, "no/such/folder/x.h5", "ember-test", 1), EMBER_E_IO, "no/such/folder");
    check_ok(ember_h5_create(&file, FILE_NAME, "ember-test", 1));
    check_ok(ember_h5_reserve(file, "/a", EMBER_I64, 1, dims));
    check_fails(ember_h5_reserve(file, "/a", EMBER_I64, 1, dims), EMBER_E_STATE, "twice");
    check_fails(ember_h5_append_rows(file, "/a", values, 5), EMBER_E_SHAPE, "/a");
    check_fails(ember_h5_append_rows(file, "/b", values, 5), EMBER_E_STATE, "/b");
    check_fails(ember_h5_put_text(file, "/t", "a\0b", 3), EMBER_E_ARGUMENT, "NUL");
    check_fails(ember_h5_put_text(file, "relative", "a", 1), EMBER_E_ARGUMENT, "relative");
    check_fails(ember_h5_put_group(file, "/a/b"), EMBER_E_STATE, "not a group");
    check_fails(ember_h5_put_attribute_i64(file, "/none", "x", 1), EMBER_E_STATE, "/none");
    check_fails(ember_h5_put_attribute_i64(file, "/", "version", 1), EMBER_E_STATE, "version");
    check_fails(ember_h5_commit(file), EMBER_E_STATE, "0 of 4 rows");
    nothing_is_left();
    check_ok(ember_h5_create(&file, FILE_NAME, "ember-test", 1));
    ember_h5_abort(file);
    nothing_is_left();
}

/* The size of files is limited: an error of ours, no signal, nothing left, and the process goes on. */
static void test_size_limit(void **state) {
    (void)state;
    static float big[1 << 20];
    ember_h5_writer *file = NULL;
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    check_ok(ember_h5_create(&file, FILE_NAME, "ember-test", 1));
    check_fails(ember_h5_put(file, "/big", ember_tensor_1d(big, EMBER_F32, 1 << 20)), EMBER_E_IO, "limit on file sizes");
    ember_h5_abort(file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    nothing_is_left();
    write_sample(FILE_NAME);
    assert_int_equal(unlink(FILE_NAME), 0);
}

/* From now on every write through the open temporary file meets a full device. `all` false: only
 * libhdf5's own descriptor, opened last; the reservation of space then still succeeds. */
static void fill_disk(bool all) {
    const int full = open("/dev/full", O_WRONLY);
    int found[2] = {-1, -1};
    assert_true(full >= 0);
    for (int fd = 3; fd < 64; fd++) {
        char link[64];
        char target[4096];
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(link, target, sizeof target - 1);
        if (n < 0) continue;
        target[n] = '\0';
        if (!strstr(target, "/." FILE_NAME ".") || strstr(target, "(deleted)")) continue;
        found[found[0] < 0 ? 0 : 1] = fd;
    }
    assert_true(found[1] >= 0);
    assert_true(dup(found[1]) >= 0); /* as without this trick, the inode stays in use */
    assert_int_equal(dup2(full, found[1]), found[1]);
    if (all) assert_int_equal(dup2(full, found[0]), found[0]);
    assert_int_equal(close(full), 0);
}

/* libhdf5 1.10.8 crashes when such a file is closed twice or at exit; here the process goes on. */
static void test_full_disk(void **state) {
    (void)state;
    static float big[1 << 18];
    ember_h5_writer *file = NULL;
    for (int variant = 0; variant < 4; variant++) {
        const bool large = variant < 2;
        check_ok(ember_h5_create(&file, FILE_NAME, "ember-test", 1));
        check_ok(ember_h5_put(file, "/a/small", ember_tensor_1d(big, EMBER_F32, 10)));
        fill_disk(variant % 2 == 0);
        if (large) {
            check_fails(ember_h5_put(file, "/big", ember_tensor_1d(big, EMBER_F32, 1 << 18)), EMBER_E_IO, FILE_NAME);
            check_fails(ember_h5_put(file, "/more", ember_tensor_1d(big, EMBER_F32, 10)), variant ? EMBER_E_STATE : EMBER_E_IO, FILE_NAME);
            ember_h5_abort(file);
        } else {
            check_fails(ember_h5_commit(file), EMBER_E_IO, FILE_NAME);
        }
        nothing_is_left();
    }
    write_sample(FILE_NAME);
    assert_int_equal(unlink(FILE_NAME), 0);
}

static void test_identity(void **state) {
    (void)state;
    ember_h5_reader *file = NULL;
    write_sample(FILE_NAME);
    check_fails(ember_h5_open(&file, FILE_NAME, "ember-other", 3, true), EMBER_E_FORMAT, "ember-other");
    check_fails(ember_h5_open(&file, FILE_NAME, "ember-test", 2, true), EMBER_E_VERSION, "newer");
    check_fails(ember_h5_open(&file, "no.such.h5", "ember-test", 2, true), EMBER_E_NOT_FOUND, "no.such.h5");
    assert_int_equal(unlink(FILE_NAME), 0);
    FILE *text = fopen(FILE_NAME, "w");
    assert_non_null(text);
    (void)fputs("this is a text of some length, and certainly no HDF5 file at all", text);
    (void)fclose(text);
    check_fails(ember_h5_open(&file, FILE_NAME, "ember-test", 2, true), EMBER_E_FORMAT, "not an HDF5 file");
    check_fails(ember_h5_open_foreign(&file, FILE_NAME), EMBER_E_FORMAT, "not an HDF5 file");
    assert_int_equal(truncate(FILE_NAME, 0), 0);
    check_fails(ember_h5_open(&file, FILE_NAME, "ember-test", 2, true), EMBER_E_CORRUPT, "empty");
    assert_int_equal(unlink(FILE_NAME), 0);
    check_fails(ember_h5_open(&file, ".", "ember-test", 2, true), EMBER_E_IO, "regular");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_walk),
        cmocka_unit_test(test_long_texts),     cmocka_unit_test(test_pieces_and_alignment),
        cmocka_unit_test(test_writer_refuses), cmocka_unit_test(test_size_limit),
        cmocka_unit_test(test_full_disk),      cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
