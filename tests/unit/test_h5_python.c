/* rooms: h5 base */
/* h5py and h5dump against this wrapper, both ways: 16-bit floats by value, and files of others. */
#include <unistd.h>

#include "lib/h5/h5.h"
#include "tests/check.h"

#define FILE_NAME "test_h5_python.tmp.h5"
#define PYTHON "/usr/bin/python3"

static void run(const char *command) {
    const int code = system(command);
    if (code != 0) fail_msg("exit %d of: %s", code, command);
}

static void test_bf16(void **state) {
    (void)state;
    ember_h5_writer *file = NULL;
    uint16_t values[5] = {0x3f80, 0xc020, 0x4049, 0x477f, 0x006d}; /* 1, -2.5, 3.140625, 65280, 1.0010069e-38 */
    check_ok(ember_h5_create(&file, FILE_NAME, "ember-test", 1));
    check_ok(ember_h5_put(file, "/a/b", ember_tensor_1d(values, EMBER_BF16, 5)));
    check_ok(ember_h5_put_text(file, "/text", "gr\xc3\xbc\xc3\x9f", 6));
    check_ok(ember_h5_commit(file));
    run(PYTHON " -c \"\n"
               "import h5py, numpy as np\n"
               "f = h5py.File('" FILE_NAME "', 'r')\n"
               "d = f['/a/b']\n"
               "assert d.id.get_type().get_size() == 2 and d.id.get_type().get_ebias() == 127\n"
               "v = np.empty(5, 'f4'); d.read_direct(v)\n"
               "assert v.tolist() == [1.0, -2.5, 3.140625, 65280.0, float(np.uint32(0x006d0000).view('f4'))], v\n"
               "assert f['text'].asstr()[()] == 'gr\\u00fc\\u00df'\n"
               "assert f['manifest'][0]['name'] == b'/'\n"
               "\"");
    run("h5dump -w 0 -d /a/b " FILE_NAME
        " > test_h5_python.tmp.txt && grep -q '1, -2.5, 3.14062, 65280, 1.00101e-38' test_h5_python.tmp.txt && rm test_h5_python.tmp.txt");
    assert_int_equal(unlink(FILE_NAME), 0);
}

static void test_files_of_others(void **state) {
    (void)state;
    ember_h5_reader *file = NULL;
    ember_h5_info info;
    ember_bytes text = {0};
    float values[6];
    int32_t ids[6];
    double number = 0;
    run(PYTHON " -c \"\n"
               "import h5py, numpy as np\n"
               "f = h5py.File('" FILE_NAME "', 'w')\n"
               "v = np.arange(6, dtype='f4').reshape(2, 3)\n"
               "f['little'] = v\n"
               "f['big'] = v.astype('>f4')\n"
               "f.create_dataset('zip', data=v, chunks=(1, 3), compression='gzip')\n"
               "f['half'] = v.astype('f2')\n"
               "f['ids'] = np.arange(6, dtype='>i4').reshape(2, 3)\n"
               "f['scalar'] = np.float64(2.5)\n"
               "f['text'] = 'variable'\n"
               "f['fixed'] = np.bytes_(b'fixed text')\n"
               "f['complex'] = np.zeros(3, 'c8')\n"
               "f['deep/group/x'] = v\n"
               "f['loop'] = h5py.SoftLink('/')\n"
               "f.attrs['lr'] = 0.25\n"
               "f.attrs['torch'] = 'two'\n"
               "\"");
    check_ok(ember_h5_open_foreign(&file, FILE_NAME));
    static const char *const same[] = {"/little", "/big", "/zip", "/half", "/deep/group/x"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        memset(values, 0xff, sizeof values);
        check_ok(ember_h5_get(file, same[i], ember_tensor_2d(values, EMBER_F32, 2, 3)));
        for (int k = 0; k < 6; k++)
            assert_true(values[k] == (float)k);
        check_ok(ember_h5_get_info(file, same[i], &info));
        const bool direct = strcmp(same[i], "/big") != 0 && strcmp(same[i], "/zip") != 0;
        assert_true((info.file_offset != UINT64_MAX) == direct);
    }
    check_ok(ember_h5_get(file, "/ids", ember_tensor_2d(ids, EMBER_I32, 2, 3)));
    assert_true(ids[0] == 0 && ids[5] == 5);
    check_ok(ember_h5_get(file, "/scalar", (ember_tensor){.data = &number, .dtype = EMBER_F64}));
    assert_true(number == 2.5);
    check_ok(ember_h5_get_text(file, "/text", &text));
    assert_string_equal(text.data, "variable");
    ember_bytes_free(&text);
    check_ok(ember_h5_get_text(file, "/fixed", &text));
    assert_string_equal(text.data, "fixed text");
    ember_bytes_free(&text);
    check_ok(ember_h5_get_attribute_f64(file, "/", "lr", &number));
    assert_true(number == 0.25);
    check_ok(ember_h5_get_attribute_text(file, "/", "torch", &text));
    assert_string_equal(text.data, "two");
    ember_bytes_free(&text);
    check_fails(ember_h5_get_info(file, "/complex", &info), EMBER_E_UNSUPPORTED, "/complex");
    check_fails(ember_h5_get(file, "/complex", ember_tensor_1d(values, EMBER_F32, 3)), EMBER_E_UNSUPPORTED, "/complex");
    assert_false(ember_h5_has(file, "/loop"));
    ember_h5_close(file);
    check_fails(ember_h5_open(&file, FILE_NAME, "ember-test", 1, false), EMBER_E_FORMAT, "not one of Ember");
    assert_int_equal(unlink(FILE_NAME), 0);
}

int main(void) {
    if (system(PYTHON " -c 'import h5py' 2> /dev/null") != 0 || system("command -v h5dump > /dev/null") != 0) {
        printf("skipped: h5py for %s or h5dump is not installed\n", PYTHON);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bf16), cmocka_unit_test(test_files_of_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
