#include "data/source.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/status.h"

int64_t ember_source_count(int64_t n_tokens, int64_t sequence_length) { return n_tokens < 2 ? 0 : (n_tokens - 2) / sequence_length + 1; }

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static ember_status add_shard(ember_source *source, const char *path, bool verify) {
    ember_shard **grown = realloc(source->shards, (size_t)(source->n_shards + 1) * sizeof *grown);
    if (!grown) return ember_fail(EMBER_E_MEMORY, "%s: no memory for one more shard", path);
    source->shards = grown;
    EMBER_TRY(ember_shard_open(&source->shards[source->n_shards], path, verify));
    source->n_shards++;
    return EMBER_OK;
}

static ember_status add_glob(ember_source *source, const char *pattern, bool verify) {
    /* A file may be named like a pattern. */
    if (access(pattern, F_OK) == 0) return add_shard(source, pattern, verify);
    glob_t found = {0};
    /* Unsorted: glob sorts by locale, and the order of the data must not depend on one. */
    const int failed = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    ember_status status = EMBER_OK;
    if (failed == GLOB_NOMATCH || (failed == GLOB_ABORTED && errno == ENOENT)) {
        status = ember_fail(EMBER_E_NOT_FOUND,
                            "%s: no such file, and no file matches it as a pattern (paths are relative to the working directory); "
                            "`ember data prepare` makes shards",
                            pattern);
    } else if (failed) {
        status =
            ember_fail(failed == GLOB_NOSPACE ? EMBER_E_MEMORY : EMBER_E_IO, "%s: cannot list the files: %s", pattern, strerror(errno));
    } else {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_names);
        for (size_t i = 0; i < found.gl_pathc && status == EMBER_OK; i++)
            status = add_shard(source, found.gl_pathv[i], verify);
    }
    globfree(&found);
    return status;
}

ember_status ember_source_open(ember_source *source, const char *const *globs, int64_t n_globs, int64_t sequence_length, bool verify) {
    source->sequence_length = sequence_length;
    for (int64_t i = 0; i < n_globs; i++)
        EMBER_TRY(add_glob(source, globs[i], verify));
    EMBER_TRY(ember_allocate((void **)&source->first_sequence, (size_t)source->n_shards + 1, sizeof *source->first_sequence, "shard list"));
    for (int64_t i = 0; i < source->n_shards; i++)
        source->first_sequence[i + 1] =
            source->first_sequence[i] + ember_source_count(ember_shard_n_tokens(source->shards[i]), sequence_length);
    if (ember_source_n_sequences(source) == 0) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: its %lld shards hold no sequence; one needs at least 2 tokens", globs[0],
                          (long long)source->n_shards);
    }
    return EMBER_OK;
}

void ember_source_close(ember_source *source) {
    for (int64_t i = 0; i < source->n_shards; i++)
        ember_shard_close(source->shards[i]);
    free(source->shards);
    ember_release(source->first_sequence);
    *source = (ember_source){0};
}

int64_t ember_source_n_sequences(const ember_source *source) { return source->first_sequence[source->n_shards]; }

ember_sequence ember_source_at(const ember_source *source, int64_t index) {
    int64_t low = 0; /* the last shard whose first sequence is at or before index */
    int64_t high = source->n_shards - 1;
    while (low < high) {
        const int64_t middle = high - (high - low) / 2;
        if (source->first_sequence[middle] <= index) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    const ember_shard *shard = source->shards[low];
    const int64_t first = (index - source->first_sequence[low]) * source->sequence_length;
    const int64_t left = ember_shard_n_tokens(shard) - 1 - first;
    return (ember_sequence){.shard = shard, .first = first, .n_inputs = left < source->sequence_length ? left : source->sequence_length};
}
