/* shard_writer.c - the number of tokens is known only at the end, and a contiguous dataset must know
 * it at the start: tokens and offsets first go to two unnamed raw files beside the output. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <xxhash.h>

#include "data/shard.h"
#include "data/shard_format.h"
#include "lib/base/atomic_file.h"
#include "lib/base/status.h"
#include "lib/h5/h5.h"

enum { PIECE_BYTES = 1 << 20 };

/* A raw file without a name: it vanishes with its descriptor, however the process ends. */
typedef struct raw_file {
    int fd;
    uint64_t written; /* bytes in the file */
    size_t n;         /* bytes waiting in `buffer` */
    char *buffer;     /* [PIECE_BYTES] */
} raw_file;

struct ember_shard_writer {
    char *path;
    raw_file tokens;
    raw_file documents;
    ember_dtype dtype;
    int64_t n_tokens;
    int64_t n_documents;
    bool document_pending; /* begun, and no token yet */
    int64_t vocab_size;
    int64_t eos;
    ember_bytes tokenizer_name;
    ember_bytes tokenizer_text;
};

static ember_status raw_open(raw_file *raw, const char *path, const char *suffix) {
    ember_bytes name = {0};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_temporary_name(&name, path), done);
    EMBER_TRY_GOTO(ember_bytes_printf(&name, ".%s", suffix), done);
    EMBER_TRY_GOTO(ember_allocate((void **)&raw->buffer, PIECE_BYTES, 1, "shard write buffer"), done);
    (void)unlink(name.data); /* left by a killed process that had our process id */
    raw->fd = open(name.data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (raw->fd < 0) {
        status = ember_fail(EMBER_E_IO, "%s: cannot create a temporary file beside it: %s", path, strerror(errno));
    } else if (unlink(name.data) != 0) {
        status = ember_fail(EMBER_E_IO, "%s: cannot unlink %s: %s", path, name.data, strerror(errno));
    }
done:
    ember_bytes_free(&name);
    return status;
}

static void raw_close(raw_file *raw) {
    if (raw->fd >= 0) (void)close(raw->fd);
    ember_release(raw->buffer);
    *raw = (raw_file){.fd = -1};
}

static ember_status raw_flush(raw_file *raw, const char *path) {
    size_t done = 0;
    struct rlimit limit;
    /* Past this limit the system would send a signal. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && raw->written + raw->n > limit.rlim_cur) {
        return ember_fail(EMBER_E_IO, "%s: needs a temporary file of more than %llu bytes, the limit on file sizes (ulimit -f)", path,
                          (unsigned long long)limit.rlim_cur);
    }
    while (done < raw->n) {
        const ssize_t wrote = write(raw->fd, raw->buffer + done, raw->n - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return ember_fail(EMBER_E_IO, "%s: cannot write its temporary file: %s", path, strerror(errno));
        done += (size_t)wrote;
    }
    raw->written += raw->n;
    raw->n = 0;
    return EMBER_OK;
}

/* Room for `n` bytes (at most PIECE_BYTES), or NULL with a status. */
static ember_status raw_room(raw_file *raw, const char *path, size_t n, char **out) {
    if (raw->n + n > PIECE_BYTES) EMBER_TRY(raw_flush(raw, path));
    *out = raw->buffer + raw->n;
    raw->n += n;
    return EMBER_OK;
}

ember_status ember_shard_create(ember_shard_writer **out, const char *path, const char *tokenizer_name, const char *tokenizer_text,
                                size_t tokenizer_bytes, int64_t vocab_size, int64_t eos) {
    *out = NULL;
    if (vocab_size < 1 || vocab_size > SHARD_MAX_VOCAB || eos < -1 || eos >= vocab_size) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: vocabulary %lld (1 to %lld) and end-of-text id %lld (-1 or inside it) do not go together",
                          path, (long long)vocab_size, (long long)SHARD_MAX_VOCAB, (long long)eos);
    }
    if (tokenizer_bytes > 0 && memchr(tokenizer_text, '\0', tokenizer_bytes)) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: the tokenizer's text holds a NUL byte", path);
    }
    ember_shard_writer *writer = NULL;
    EMBER_TRY(ember_allocate((void **)&writer, 1, sizeof *writer, "shard writer"));
    writer->tokens.fd = -1;
    writer->documents.fd = -1;
    writer->dtype = vocab_size <= 65536 ? EMBER_U16 : EMBER_U32;
    writer->vocab_size = vocab_size;
    writer->eos = eos;
    ember_status status = EMBER_OK;
    writer->path = strdup(path);
    if (!writer->path) {
        status = ember_fail(EMBER_E_MEMORY, "%s: no memory for the path", path);
        goto done;
    }
    EMBER_TRY_GOTO(ember_bytes_append(&writer->tokenizer_name, tokenizer_name, strlen(tokenizer_name)), done);
    EMBER_TRY_GOTO(ember_bytes_append(&writer->tokenizer_text, tokenizer_text, tokenizer_bytes), done);
    EMBER_TRY_GOTO(raw_open(&writer->tokens, path, "tok"), done);
    EMBER_TRY_GOTO(raw_open(&writer->documents, path, "doc"), done);
done:
    if (status != EMBER_OK) {
        ember_shard_abort(writer);
    } else {
        *out = writer;
    }
    return status;
}

ember_status ember_shard_begin_document(ember_shard_writer *writer) {
    writer->document_pending = true;
    return EMBER_OK;
}

static ember_status append_piece(ember_shard_writer *writer, const uint32_t *ids, size_t n) {
    char *to = NULL;
    EMBER_TRY(raw_room(&writer->tokens, writer->path, n * ember_dtype_bytes(writer->dtype), &to));
    if (writer->dtype == EMBER_U16) {
        for (size_t i = 0; i < n; i++) {
            const uint16_t id = (uint16_t)ids[i];
            memcpy(to + 2 * i, &id, 2);
        }
    } else {
        memcpy(to, ids, 4 * n);
    }
    return EMBER_OK;
}

ember_status ember_shard_append(ember_shard_writer *writer, const uint32_t *ids, size_t n) {
    enum { PIECE = 65536 };
    if (n == 0) return EMBER_OK;
    for (size_t i = 0; i < n; i++) {
        if ((int64_t)ids[i] >= writer->vocab_size) {
            return ember_fail(EMBER_E_ARGUMENT, "%s: token %lld has id %u, but the vocabulary has %lld entries", writer->path,
                              (long long)(writer->n_tokens + (int64_t)i), ids[i], (long long)writer->vocab_size);
        }
    }
    if (writer->document_pending) {
        char *to = NULL;
        EMBER_TRY(raw_room(&writer->documents, writer->path, sizeof writer->n_tokens, &to));
        memcpy(to, &writer->n_tokens, sizeof writer->n_tokens);
        writer->n_documents++;
        writer->document_pending = false;
    } else if (writer->n_documents == 0) {
        return ember_fail(EMBER_E_STATE, "%s: tokens before the first document was begun", writer->path);
    }
    for (size_t done = 0; done < n;) {
        const size_t piece = n - done < PIECE ? n - done : PIECE;
        EMBER_TRY(append_piece(writer, ids + done, piece));
        done += piece;
    }
    writer->n_tokens += (int64_t)n;
    return EMBER_OK;
}

/* Streams a raw file into a dataset of `n` elements. */
static ember_status copy_raw(ember_h5_writer *file, const char *object, raw_file *raw, ember_dtype dtype, int64_t n, const char *path) {
    EMBER_TRY(raw_flush(raw, path));
    EMBER_TRY(ember_h5_reserve(file, object, dtype, 1, &n));
    const size_t width = ember_dtype_bytes(dtype);
    const int64_t rows = (int64_t)(PIECE_BYTES / width);
    for (int64_t done = 0; done < n;) {
        const int64_t piece = n - done < rows ? n - done : rows;
        const size_t want = (size_t)piece * width;
        for (size_t have = 0; have < want;) {
            const ssize_t got = pread(raw->fd, raw->buffer + have, want - have, (off_t)((size_t)done * width + have));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0)
                return ember_fail(EMBER_E_IO, "%s: cannot read its temporary file: %s", path, got < 0 ? strerror(errno) : "it is short");
            have += (size_t)got;
        }
        EMBER_TRY(ember_h5_append_rows(file, object, raw->buffer, piece));
        done += piece;
    }
    return EMBER_OK;
}

static ember_status put_attributes(ember_h5_writer *file, const ember_shard_writer *writer, int64_t source_bytes) {
    char hash[17];
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH3_64bits(writer->tokenizer_text.data, writer->tokenizer_text.n));
    EMBER_TRY(ember_h5_put_attribute_text(file, "/", SHARD_TOKENIZER_NAME, writer->tokenizer_name.data));
    EMBER_TRY(ember_h5_put_attribute_text(file, "/", SHARD_TOKENIZER_HASH, hash));
    EMBER_TRY(ember_h5_put_attribute_i64(file, "/", SHARD_VOCAB_SIZE, writer->vocab_size));
    EMBER_TRY(ember_h5_put_attribute_i64(file, "/", SHARD_EOS, writer->eos));
    EMBER_TRY(ember_h5_put_attribute_i64(file, "/", SHARD_SOURCE_BYTES, source_bytes));
    return ember_h5_put_text(file, SHARD_TOKENIZER, writer->tokenizer_text.data, writer->tokenizer_text.n);
}

ember_status ember_shard_commit(ember_shard_writer *writer, int64_t source_bytes) {
    ember_h5_writer *file = NULL;
    ember_status status = EMBER_OK;
    if (source_bytes < -1) {
        status = ember_fail(EMBER_E_ARGUMENT, "%s: %lld source bytes; -1 stands for unknown", writer->path, (long long)source_bytes);
        goto done;
    }
    EMBER_TRY_GOTO(ember_h5_create(&file, writer->path, SHARD_FORMAT, SHARD_VERSION), done);
    EMBER_TRY_GOTO(put_attributes(file, writer, source_bytes), done);
    EMBER_TRY_GOTO(copy_raw(file, SHARD_DOCUMENTS, &writer->documents, EMBER_I64, writer->n_documents, writer->path), done);
    EMBER_TRY_GOTO(copy_raw(file, SHARD_TOKENS, &writer->tokens, writer->dtype, writer->n_tokens, writer->path), done);
    status = ember_h5_commit(file);
    file = NULL;
done:
    ember_h5_abort(file);
    ember_shard_abort(writer);
    return status;
}

void ember_shard_abort(ember_shard_writer *writer) {
    if (!writer) return;
    raw_close(&writer->tokens);
    raw_close(&writer->documents);
    free(writer->path);
    ember_bytes_free(&writer->tokenizer_name);
    ember_bytes_free(&writer->tokenizer_text);
    ember_release(writer);
}
