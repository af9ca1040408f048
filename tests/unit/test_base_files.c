/* rooms: base */
/* A file appears whole or not at all, and nothing is left beside it. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/atomic_file.h"
#include "tests/check.h"

static char folder[] = "base_files_XXXXXX";

static int entries(const char *path) {
    DIR *listing = opendir(path);
    assert_non_null(listing);
    int n = 0;
    for (const struct dirent *entry = readdir(listing); entry; entry = readdir(listing))
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 ? 1 : 0;
    (void)closedir(listing);
    return n;
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? chdir(folder) : 1;
}

static int tear_down(void **state) {
    (void)state;
    return chdir("..") != 0 || rmdir(folder) != 0 ? 1 : 0;
}

static void written_and_read(void **state) {
    (void)state;
    static const char content[] = "line\n\0more";
    check_ok(ember_write_file("a", content, sizeof content));
    ember_bytes back = {0};
    check_ok(ember_read_file(&back, "a", 0));
    assert_int_equal(back.n, sizeof content);
    assert_memory_equal(back.data, content, sizeof content);
    ember_bytes_free(&back);
    /* Replaced as a whole; an empty file is a file. */
    check_ok(ember_write_file("a", "", 0));
    check_ok(ember_read_file(&back, "a", 0));
    assert_int_equal(back.n, 0);
    assert_string_equal(back.data, "");
    ember_bytes_free(&back);
    assert_int_equal(entries("."), 1);
    assert_int_equal(unlink("a"), 0);
}

static void large_file(void **state) {
    (void)state;
    const size_t n = 3000001;
    char *content = malloc(n);
    assert_non_null(content);
    for (size_t i = 0; i < n; i++)
        content[i] = (char)(i * 31 + i / 251);
    check_ok(ember_write_file("big", content, n));
    ember_bytes back = {0};
    check_ok(ember_read_file(&back, "big", n));
    assert_int_equal(back.n, n);
    assert_memory_equal(back.data, content, n);
    ember_bytes_free(&back);
    check_fails(ember_read_file(&back, "big", n - 1), EMBER_E_FORMAT, "big");
    assert_null(back.data);
    free(content);
    assert_int_equal(unlink("big"), 0);
}

static void odd_names(void **state) {
    (void)state;
    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    const char *const names[] = {"a b", "it's \"q\"", "new\nline", "\xc3\xa4\xff", "-rf", longest};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_ok(ember_write_file(names[i], "x", 1));
        ember_bytes back = {0};
        check_ok(ember_read_file(&back, names[i], 0));
        assert_int_equal(back.n, 1);
        ember_bytes_free(&back);
        assert_int_equal(entries("."), 1);
        assert_int_equal(unlink(names[i]), 0);
    }
}

static void failures_leave_nothing(void **state) {
    (void)state;
    ember_bytes back = {0};
    check_fails(ember_read_file(&back, "absent", 0), EMBER_E_NOT_FOUND, "absent");
    check_fails(ember_read_file(&back, ".", 0), EMBER_E_IO, ".");
    check_fails(ember_write_file("no/such/folder/a", "x", 1), EMBER_E_IO, "no/such/folder");
    check_fails(ember_write_file("folder/", "x", 1), EMBER_E_ARGUMENT, "folder/");
    /* The name is taken by a folder: the rename fails, the temporary goes. */
    assert_int_equal(mkdir("taken", 0777), 0);
    check_fails(ember_write_file("taken", "x", 1), EMBER_E_IO, "taken");
    assert_int_equal(entries("."), 1);
    assert_int_equal(rmdir("taken"), 0);
}

/* What a killed writer left is removed by the next one of the same path; what is being written, or is another's, stays. */
static void leftovers(void **state) {
    (void)state;
    int alive = -1;
    ember_bytes name = {0};
    check_ok(ember_create_temporary(&alive, &name, "out.h5"));
    const char *const others[] = {".out.h5.12-0123456.tmp", ".out.h5.x-01234567.tmp", ".out.h5.b.12-01234567.tmp",
                                  ".out.h.12-01234567.tmp"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const int fd = open(others[i], O_WRONLY | O_CREAT, 0666);
        assert_true(fd >= 0);
        assert_int_equal(close(fd), 0);
    }
    const int dead = open(".out.h5.12-01234567.tmp", O_WRONLY | O_CREAT, 0666);
    assert_true(dead >= 0);
    assert_int_equal(close(dead), 0);
    check_ok(ember_write_file("out.h5", "x", 1));
    assert_int_equal(access(".out.h5.12-01234567.tmp", F_OK), -1);
    assert_int_equal(access(name.data, F_OK), 0);
    assert_int_equal(entries("."), 2 + (int)(sizeof others / sizeof others[0]));
    assert_int_equal(close(alive), 0);
    check_ok(ember_write_file("./out.h5", "x", 1));
    assert_int_equal(access(name.data, F_OK), -1);
    ember_bytes_free(&name);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(unlink(others[i]), 0);
    assert_int_equal(unlink("out.h5"), 0);
    assert_int_equal(entries("."), 0);
    /* One byte more than a name may have: refused before anything is written. */
    char name_of_256[257];
    memset(name_of_256, 'n', 256);
    name_of_256[256] = '\0';
    check_fails(ember_temporary_name(&name, name_of_256), EMBER_E_IO, "too long");
}

/* A pipe that nobody writes is refused at once; a pipe, folder or device in the place of the output stays. */
static void special_files(void **state) {
    (void)state;
    int fd = 0;
    uint64_t bytes = 0;
    struct stat info;
    assert_int_equal(mkfifo("pipe", 0666), 0);
    check_fails(ember_open_regular(&fd, &bytes, "pipe"), EMBER_E_IO, "pipe: is not a regular file");
    assert_int_equal(fd, -1);
    check_fails(ember_open_regular(&fd, &bytes, "."), EMBER_E_IO, "not a regular file");
    check_fails(ember_open_regular(&fd, &bytes, "absent"), EMBER_E_NOT_FOUND, "absent");
    check_fails(ember_write_file("pipe", "x", 1), EMBER_E_IO, "pipe: is a device, a pipe or a socket");
    assert_int_equal(stat("pipe", &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(unlink("pipe"), 0);
    assert_int_equal(symlink("/dev/full", "device"), 0);
    check_fails(ember_write_file("device", "x", 1), EMBER_E_IO, "device");
    assert_int_equal(lstat("device", &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(entries("."), 1);
    assert_int_equal(unlink("device"), 0);
    check_ok(ember_write_file("file", "abc", 3));
    check_ok(ember_open_regular(&fd, &bytes, "file"));
    assert_int_equal(bytes, 3);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink("file"), 0);
}

/* No room: a limit on the size of files stands for a full disk. The old file stays. */
static void no_room(void **state) {
    (void)state;
    check_ok(ember_write_file("kept", "old", 3));
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    static char content[5000];
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const ember_status status = ember_write_file("kept", content, sizeof content);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, EMBER_E_IO);
    assert_non_null(strstr(ember_last_error(), "kept"));
    ember_bytes back = {0};
    check_ok(ember_read_file(&back, "kept", 0));
    assert_string_equal(back.data, "old");
    ember_bytes_free(&back);
    assert_int_equal(entries("."), 1);
    assert_int_equal(unlink("kept"), 0);
}

static void folders(void **state) {
    (void)state;
    check_ok(ember_make_folders("x/y/z"));
    check_ok(ember_make_folders("x/y/z"));
    check_ok(ember_make_folders("x//y/w/"));
    struct stat info;
    assert_int_equal(stat("x/y/w", &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    check_ok(ember_write_file("x/file", "x", 1));
    check_fails(ember_make_folders("x/file/sub"), EMBER_E_IO, "x/file");
    assert_int_equal(unlink("x/file"), 0);
    assert_int_equal(rmdir("x/y/z"), 0);
    assert_int_equal(rmdir("x/y/w"), 0);
    assert_int_equal(rmdir("x/y"), 0);
    assert_int_equal(rmdir("x"), 0);
}

static void temporary_names(void **state) {
    (void)state;
    ember_bytes name = {0};
    check_ok(ember_temporary_name(&name, "some/dir/file.h5"));
    assert_true(strncmp(name.data, "some/dir/.file.h5.", 18) == 0);
    assert_string_equal(name.data + name.n - 4, ".tmp");
    /* Process ids are not unique over containers that share a folder. */
    ember_bytes other = {0};
    check_ok(ember_temporary_name(&other, "some/dir/file.h5"));
    assert_string_not_equal(name.data, other.data);
    ember_bytes_free(&other);
    ember_bytes_free(&name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),       cmocka_unit_test(large_file),    cmocka_unit_test(odd_names),
        cmocka_unit_test(failures_leave_nothing), cmocka_unit_test(no_room),       cmocka_unit_test(folders),
        cmocka_unit_test(temporary_names),        cmocka_unit_test(special_files), cmocka_unit_test(leftovers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
