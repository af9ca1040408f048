/* rooms: train */
#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/atomic_file.h"
#include "train/metrics.h"
#include "train/run_folder.h"

enum { LAYERS = 3 };

typedef struct row_arrays {
    float l0[LAYERS];
    float l1[LAYERS];
    int32_t dead[LAYERS];
    uint8_t mode[LAYERS];
    int64_t spill[LAYERS];
} row_arrays;

static ember_history_row make_row(row_arrays *arrays, int64_t step) {
    for (int i = 0; i < LAYERS; i++) {
        arrays->l0[i] = (float)(step * 10 + i) + 0.5f;
        arrays->l1[i] = (float)(step * 100 + i);
        arrays->dead[i] = (int32_t)(step + i);
        arrays->mode[i] = (uint8_t)((step + i) % 2);
        arrays->spill[i] = step << 33;
    }
    return (ember_history_row){.step = step,
                               .tokens_seen = step * 1000,
                               .loss = 3.0 / (double)step,
                               .ce = 0.1,
                               .l1 = 7,
                               .valid_loss = step % 2 ? (double)NAN : 1.5,
                               .lr = 1e-3,
                               .lambda = 0,
                               .grad_norm = 2,
                               .tokens_per_s = 99,
                               .l0 = arrays->l0,
                               .l1_per_layer = arrays->l1,
                               .dead = arrays->dead,
                               .mode = arrays->mode,
                               .spill = arrays->spill};
}

static char folder[] = "ember_history_XXXXXX";

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    DIR *directory = opendir(folder);
    if (!directory) return -1;
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' || strcmp(entry->d_name, ".lock") == 0) (void)unlink(path);
    }
    (void)closedir(directory);
    return rmdir(folder);
}

static const char *in_folder(char out[600], const char *name) {
    (void)snprintf(out, 600, "%s/%s", folder, name);
    return out;
}

static void rows_come_back(void **state) {
    (void)state;
    ember_history *history = NULL;
    row_arrays arrays;
    check_ok(ember_history_create(&history, LAYERS));
    for (int64_t step = 5; step < 300; step++) {
        const ember_history_row row = make_row(&arrays, step);
        check_ok(ember_history_append(history, &row));
    }
    assert_int_equal(ember_history_n(history), 295);
    for (int64_t i = 0; i < 295; i++) {
        const ember_history_row wanted = make_row(&arrays, i + 5);
        const ember_history_row got = ember_history_at(history, i);
        assert_int_equal(got.step, wanted.step);
        assert_int_equal(got.tokens_seen, wanted.tokens_seen);
        assert_memory_equal(&got.loss, &wanted.loss, sizeof got.loss);
        assert_memory_equal(&got.valid_loss, &wanted.valid_loss, sizeof got.valid_loss);
        assert_memory_equal(got.l0, wanted.l0, sizeof arrays.l0);
        assert_memory_equal(got.l1_per_layer, wanted.l1_per_layer, sizeof arrays.l1);
        assert_memory_equal(got.dead, wanted.dead, sizeof arrays.dead);
        assert_memory_equal(got.mode, wanted.mode, sizeof arrays.mode);
        assert_memory_equal(got.spill, wanted.spill, sizeof arrays.spill);
    }
    ember_history_set_valid_loss(history, 10, 0.25);
    assert_true(ember_history_at(history, 10).valid_loss == 0.25);
    assert_true(isnan(ember_history_at(history, 12).valid_loss));
    ember_history_free(history);
}

static void steps_have_no_gaps(void **state) {
    (void)state;
    ember_history *history = NULL;
    row_arrays arrays;
    check_ok(ember_history_create(&history, LAYERS));
    ember_history_row row = make_row(&arrays, 7);
    check_ok(ember_history_append(history, &row));
    check_fails(ember_history_append(history, &row), EMBER_E_STATE, "step 7 cannot follow step 7");
    row = make_row(&arrays, 9);
    check_fails(ember_history_append(history, &row), EMBER_E_STATE, "step 9");
    assert_int_equal(ember_history_n(history), 1);
    ember_history_free(history);
    check_fails(ember_history_create(&history, 0), EMBER_E_ARGUMENT, "0 layers");
}

static void write_rows(ember_metrics *metrics, int64_t first, int64_t last) {
    const int64_t neurons[LAYERS] = {100, 200, 300};
    row_arrays arrays;
    for (int64_t step = first; step <= last; step++) {
        const ember_history_row row = make_row(&arrays, step);
        check_ok(ember_metrics_write(metrics, &row, neurons, LAYERS, (double)NAN));
    }
}

/* Loads every line strictly; returns their number and the step of the last. */
static int check_lines(const char *path, int64_t *last_step) {
    ember_bytes text = {0};
    int n = 0;
    check_ok(ember_read_file(&text, path, 0));
    for (char *line = text.data; line && *line; n++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        json_error_t error;
        json_t *object = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, &error);
        if (!object) fail_msg("line %d: %s", n + 1, error.text);
        *last_step = (int64_t)json_integer_value(json_object_get(object, "step"));
        assert_int_equal(json_array_size(json_object_get(object, "l0")), LAYERS);
        json_decref(object);
        line = end + 1;
    }
    ember_bytes_free(&text);
    return n;
}

static void metrics_are_strict_json(void **state) {
    (void)state;
    char path[600];
    ember_metrics *metrics = NULL;
    check_ok(ember_metrics_open(&metrics, in_folder(path, "metrics.jsonl"), 0));
    write_rows(metrics, 1, 6);
    ember_metrics_close(metrics);
    int64_t last = 0;
    assert_int_equal(check_lines(path, &last), 6);
    assert_int_equal(last, 6);
    ember_bytes text = {0};
    check_ok(ember_read_file(&text, path, 0));
    assert_non_null(strstr(text.data, "\"valid_loss\": null"));
    assert_non_null(strstr(text.data, "\"valid_bits_per_byte\": null"));
    assert_non_null(strstr(text.data, "\"mode\": [\"twell\", \"dense\", \"twell\"]"));
    assert_null(strstr(text.data, "nan"));
    ember_bytes_free(&text);
}

/* A resumed run writes the lines after its checkpoint again, and half a line of a killed run goes. */
static void resume_cuts_later_lines(void **state) {
    (void)state;
    char path[600];
    ember_metrics *metrics = NULL;
    int64_t last = 0;
    check_ok(ember_metrics_open(&metrics, in_folder(path, "resumed.jsonl"), 0));
    write_rows(metrics, 1, 6);
    ember_metrics_close(metrics);
    const int file = open(path, O_WRONLY | O_APPEND);
    assert_true(file >= 0);
    assert_int_equal(write(file, "{\"step\": 7, \"lo", 15), 15);
    (void)close(file);
    check_ok(ember_metrics_open(&metrics, path, 4));
    write_rows(metrics, 5, 8);
    ember_metrics_close(metrics);
    assert_int_equal(check_lines(path, &last), 8);
    assert_int_equal(last, 8);
}

static void text_is_escaped(void **state) {
    (void)state;
    const struct {
        const char *raw;
        const char *json;
    } cases[] = {{"plain", "\"plain\""},
                 {"a\"b\\c", "\"a\\\"b\\\\c\""},
                 {"\n\t\x01\x7F", "\"\\u000a\\u0009\\u0001\\u007f\""},
                 {"h\xC3\xA9", "\"h\xC3\xA9\""},
                 {"\xFF\xC3", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
                 {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ember_bytes out = {0};
        json_error_t error;
        check_ok(ember_json_text(&out, cases[i].raw, strlen(cases[i].raw)));
        assert_string_equal(out.data, cases[i].json);
        json_t *value = json_loadb(out.data, out.n, JSON_DECODE_ANY, &error);
        if (!value) fail_msg("%s: %s", out.data, error.text);
        json_decref(value);
        ember_bytes_free(&out);
    }
}

static void touch(const char *name) {
    char path[600];
    check_ok(ember_write_file(in_folder(path, name), "x", 1));
}

static bool exists(const char *name) {
    char path[600];
    return access(in_folder(path, name), F_OK) == 0;
}

static void folder_is_used_by_one_run(void **state) {
    (void)state;
    ember_run_folder *first = NULL;
    ember_run_folder *second = NULL;
    check_ok(ember_run_folder_open(&first, folder));
    check_fails(ember_run_folder_open(&second, folder), EMBER_E_IO, "another run is using this folder");
    assert_null(second);
    ember_run_folder_close(first);
    check_ok(ember_run_folder_open(&second, folder));
    ember_run_folder_close(second);
}

static void leftovers_of_a_killed_run_go(void **state) {
    (void)state;
    ember_run_folder *run = NULL;
    touch(".step_7.h5.1234.tmp");
    touch(".best.h5.1234.tmp");
    touch(".other.tmp");
    check_ok(ember_run_folder_open(&run, folder));
    assert_false(exists(".step_7.h5.1234.tmp") || exists(".best.h5.1234.tmp"));
    assert_true(exists(".other.tmp"));
    ember_run_folder_close(run);
    char path[600];
    assert_int_equal(unlink(in_folder(path, ".other.tmp")), 0);
}

static void a_failed_start_leaves_nothing(void **state) {
    (void)state;
    char path[600];
    ember_run_folder *run = NULL;
    check_ok(ember_run_folder_open(&run, in_folder(path, "fresh")));
    assert_true(exists("fresh/.lock"));
    ember_run_folder_undo(run);
    assert_false(exists("fresh"));
    assert_int_equal(mkdir(path, 0777), 0);
    check_ok(ember_run_folder_open(&run, path));
    ember_run_folder_undo(run);
    assert_true(exists("fresh"));
    assert_false(exists("fresh/.lock"));
    assert_int_equal(rmdir(path), 0);
}

static void checkpoints_are_pruned_and_superseded_by_number(void **state) {
    (void)state;
    ember_run_folder *run = NULL;
    int64_t n = 0;
    const char *const names[] = {"step_2.h5", "step_10.h5", "step_9.h5", "step_30.h5", "step_07.h5", "step_x.h5", "best.h5"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        touch(names[i]);
    assert_int_equal(ember_run_folder_step_of("step_12.h5"), 12);
    assert_int_equal(ember_run_folder_step_of("step_07.h5"), -1);
    assert_int_equal(ember_run_folder_step_of("step_-1.h5"), -1);
    assert_int_equal(ember_run_folder_step_of("step_.h5"), -1);
    assert_int_equal(ember_run_folder_step_of("superseded_step_3.h5"), -1);
    check_ok(ember_run_folder_count(folder, &n));
    assert_int_equal(n, 5);
    check_ok(ember_run_folder_open(&run, folder));
    check_ok(ember_run_folder_prune(run, 10, 2));
    assert_false(exists("step_2.h5"));
    assert_true(exists("step_9.h5") && exists("step_10.h5") && exists("step_30.h5") && exists("step_07.h5") && exists("best.h5"));
    check_ok(ember_run_folder_supersede(run, 10, NULL));
    assert_false(exists("step_30.h5"));
    assert_true(exists("superseded_step_30.h5") && exists("step_10.h5"));
    ember_run_folder_close(run);
    check_ok(ember_run_folder_count("no/such/folder", &n));
    assert_int_equal(n, 0);
}

static void folder_of_a_file(void **state) {
    (void)state;
    char path[600];
    assert_true(ember_run_folder_holds(folder, in_folder(path, "step_1.h5")));
    assert_true(ember_run_folder_holds(".", "step_1.h5"));
    assert_false(ember_run_folder_holds(folder, "step_1.h5"));
    assert_false(ember_run_folder_holds("/", in_folder(path, "x")));
    assert_true(ember_run_folder_holds("/", "/x"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(steps_have_no_gaps),
        cmocka_unit_test(metrics_are_strict_json),
        cmocka_unit_test(resume_cuts_later_lines),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(folder_is_used_by_one_run),
        cmocka_unit_test(leftovers_of_a_killed_run_go),
        cmocka_unit_test(a_failed_start_leaves_nothing),
        cmocka_unit_test(checkpoints_are_pruned_and_superseded_by_number),
        cmocka_unit_test(folder_of_a_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
