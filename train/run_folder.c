#include "train/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/atomic_file.h"
#include "lib/base/parse.h"
#include "lib/base/status.h"

struct ember_run_folder {
    char *path;
    ember_bytes lock_path;
    int lock;
    bool made_folder;
    bool made_lock;
};

ember_status ember_run_folder_file(ember_bytes *out, const char *folder, const char *name) {
    out->n = 0;
    return ember_bytes_printf(out, "%s/%s", folder, name);
}

static ember_status take_lock(ember_run_folder *folder) {
    const char *path = folder->lock_path.data;
    folder->made_lock = access(path, F_OK) != 0;
    folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (folder->lock < 0) {
        folder->made_lock = false;
        return ember_fail(EMBER_E_IO, "%s: cannot open: %s", path, strerror(errno));
    }
    if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0) return EMBER_OK;
    folder->made_lock = false;
    if (errno == EWOULDBLOCK)
        return ember_fail(EMBER_E_IO, "%s: another run is using this folder; wait for it, or give this run its own run.output",
                          folder->path);
    /* A file system without locks cannot protect the folder, and that is no reason not to train. */
    if (errno == ENOTSUP || errno == ENOLCK || errno == ENOSYS) return EMBER_OK;
    return ember_fail(EMBER_E_IO, "%s: cannot lock: %s", path, strerror(errno));
}

/* Calls `each` with every name in a folder; a folder that does not exist has none. */
static ember_status each_name(const char *path, ember_status (*each)(void *user, const char *name), void *user) {
    DIR *directory = opendir(path);
    if (!directory) {
        if (errno == ENOENT) return EMBER_OK;
        return ember_fail(EMBER_E_IO, "%s: cannot read the folder: %s", path, strerror(errno));
    }
    ember_status status = EMBER_OK;
    for (const struct dirent *entry = readdir(directory); entry && status == EMBER_OK; entry = readdir(directory))
        status = each(user, entry->d_name);
    (void)closedir(directory);
    return status;
}

static bool starts_with(const char *name, const char *prefix) { return strncmp(name, prefix, strlen(prefix)) == 0; }

/* Temporary files of a run that was killed while it wrote; the lock says that nobody writes them now. */
static ember_status remove_leftover(void *user, const char *name) {
    const ember_run_folder *folder = user;
    const size_t n = strlen(name);
    const bool ours = starts_with(name, ".step_") || starts_with(name, ".best.h5.") || starts_with(name, ".ffn_costs.json.");
    if (!ours || n < 4 || strcmp(name + n - 4, ".tmp") != 0) return EMBER_OK;
    ember_bytes path = {0};
    const ember_status status = ember_run_folder_file(&path, folder->path, name);
    if (status == EMBER_OK) (void)unlink(path.data);
    ember_bytes_free(&path);
    return status;
}

ember_status ember_run_folder_open(ember_run_folder **out, const char *path) {
    *out = NULL;
    void *block = NULL;
    ember_status status;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_run_folder), "run folder"));
    ember_run_folder *folder = block;
    folder->lock = -1;
    EMBER_TRY_GOTO(ember_allocate(&block, strlen(path) + 1, 1, "run folder"), fail);
    folder->path = block;
    memcpy(folder->path, path, strlen(path) + 1);
    EMBER_TRY_GOTO(ember_run_folder_file(&folder->lock_path, path, ".lock"), fail);
    folder->made_folder = access(path, F_OK) != 0;
    EMBER_TRY_GOTO(ember_make_folders(path), fail);
    EMBER_TRY_GOTO(take_lock(folder), fail);
    EMBER_TRY_GOTO(each_name(path, remove_leftover, folder), fail);
    *out = folder;
    return EMBER_OK;
fail:
    ember_run_folder_undo(folder);
    return status;
}

void ember_run_folder_close(ember_run_folder *folder) {
    if (!folder) return;
    if (folder->lock >= 0) (void)close(folder->lock);
    ember_bytes_free(&folder->lock_path);
    ember_release(folder->path);
    ember_release(folder);
}

void ember_run_folder_undo(ember_run_folder *folder) {
    if (!folder) return;
    if (folder->made_lock) (void)unlink(folder->lock_path.data);
    if (folder->made_folder && folder->path) (void)rmdir(folder->path);
    ember_run_folder_close(folder);
}

const char *ember_run_folder_path(const ember_run_folder *folder) { return folder->path; }

int64_t ember_run_folder_step_of(const char *name) {
    const char *prefix = "step_";
    const char *suffix = ".h5";
    const size_t n = strlen(name);
    if (n <= 8 || n > 40 || memcmp(name, prefix, 5) != 0 || strcmp(name + n - 3, suffix) != 0) return -1;
    char digits[40];
    memcpy(digits, name + 5, n - 8);
    digits[n - 8] = '\0';
    int64_t step = -1;
    return ember_parse_i64(digits, &step) && step >= 0 ? step : -1;
}

static ember_status count_name(void *user, const char *name) {
    if (ember_run_folder_step_of(name) >= 0 || strcmp(name, "best.h5") == 0) ++*(int64_t *)user;
    return EMBER_OK;
}

ember_status ember_run_folder_count(const char *path, int64_t *n_checkpoints) {
    *n_checkpoints = 0;
    return each_name(path, count_name, n_checkpoints);
}

/* The step numbers found in a folder, within limits. */
typedef struct step_list {
    int64_t low;
    int64_t high;
    ember_bytes steps; /* int64_t each */
} step_list;

static ember_status collect_step(void *user, const char *name) {
    step_list *list = user;
    const int64_t step = ember_run_folder_step_of(name);
    if (step < list->low || step > list->high) return EMBER_OK;
    return ember_bytes_append(&list->steps, &step, sizeof step);
}

static int64_t n_steps(const step_list *list) { return (int64_t)(list->steps.n / sizeof(int64_t)); }

static int64_t step_at(const step_list *list, int64_t index) {
    int64_t step;
    memcpy(&step, list->steps.data + (size_t)index * sizeof step, sizeof step);
    return step;
}

static int ascending(const void *a, const void *b) {
    int64_t x;
    int64_t y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static ember_status list_steps(step_list *list, const char *path) {
    EMBER_TRY(each_name(path, collect_step, list));
    if (list->steps.n > 0) qsort(list->steps.data, (size_t)n_steps(list), sizeof(int64_t), ascending);
    return EMBER_OK;
}

ember_status ember_run_folder_prune(const ember_run_folder *folder, int64_t step, int64_t keep) {
    step_list list = {.low = 0, .high = step};
    ember_bytes path = {0};
    ember_status status;
    EMBER_TRY_GOTO(list_steps(&list, folder->path), done);
    const int64_t kept = keep < 1 ? 1 : keep;
    for (int64_t i = 0; i + kept < n_steps(&list); i++) {
        path.n = 0;
        EMBER_TRY_GOTO(ember_bytes_printf(&path, "%s/step_%lld.h5", folder->path, (long long)step_at(&list, i)), done);
        if (unlink(path.data) != 0 && errno != ENOENT)
            EMBER_TRY_GOTO(ember_fail(EMBER_E_IO, "%s: cannot remove the old checkpoint: %s", path.data, strerror(errno)), done);
    }
done:
    ember_bytes_free(&path);
    ember_bytes_free(&list.steps);
    return status;
}

/* A name that is free: a folder may have been branched more than once. */
static ember_status superseded_name(ember_bytes *out, const ember_run_folder *folder, const char *name) {
    for (int i = 1; i < 10000; i++) {
        out->n = 0;
        EMBER_TRY(i == 1 ? ember_bytes_printf(out, "%s/superseded_%s", folder->path, name)
                         : ember_bytes_printf(out, "%s/superseded_%d_%s", folder->path, i, name));
        if (access(out->data, F_OK) != 0) return EMBER_OK;
    }
    return ember_fail(EMBER_E_IO, "%s: no free name is left; remove older superseded files", out->data);
}

ember_status ember_run_folder_set_aside(const ember_run_folder *folder, const char *name, const ember_log *log) {
    ember_bytes from = {0};
    ember_bytes to = {0};
    ember_status status;
    EMBER_TRY_GOTO(ember_run_folder_file(&from, folder->path, name), done);
    EMBER_TRY_GOTO(superseded_name(&to, folder, name), done);
    if (rename(from.data, to.data) != 0)
        EMBER_TRY_GOTO(ember_fail(EMBER_E_IO, "%s: cannot rename to %s: %s", from.data, to.data, strerror(errno)), done);
    ember_logf(log, EMBER_LOG_NOTE, "%s is of a later step than the resumed checkpoint; kept as %s", from.data, to.data);
done:
    ember_bytes_free(&to);
    ember_bytes_free(&from);
    return status;
}

ember_status ember_run_folder_supersede(const ember_run_folder *folder, int64_t step, const ember_log *log) {
    step_list list = {.low = step + 1, .high = INT64_MAX};
    ember_status status;
    EMBER_TRY_GOTO(list_steps(&list, folder->path), done);
    for (int64_t i = 0; i < n_steps(&list); i++) {
        char name[48];
        (void)snprintf(name, sizeof name, "step_%lld.h5", (long long)step_at(&list, i));
        EMBER_TRY_GOTO(ember_run_folder_set_aside(folder, name, log), done);
    }
done:
    ember_bytes_free(&list.steps);
    return status;
}

bool ember_run_folder_holds(const char *folder, const char *path) {
    struct stat of_folder;
    struct stat of_parent;
    ember_bytes parent = {0};
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    ember_status status = slash ? ember_bytes_append(&parent, n > 0 ? path : "/", n > 0 ? n : 1) : ember_bytes_append(&parent, ".", 1);
    const bool same = status == EMBER_OK && stat(folder, &of_folder) == 0 && stat(parent.data, &of_parent) == 0 &&
                      of_folder.st_dev == of_parent.st_dev && of_folder.st_ino == of_parent.st_ino;
    ember_bytes_free(&parent);
    return same;
}
