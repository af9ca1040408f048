#include "data/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "data/shard_format.h"
#include "lib/base/status.h"
#include "lib/h5/h5.h"

struct ember_shard {
    char *path;
    int fd; /* own descriptor for pread: libhdf5 is not thread-safe */
    ember_dtype dtype;
    uint64_t file_offset; /* of token 0 */
    int64_t n_tokens;
    int64_t n_documents;
    int64_t *documents; /* [n_documents] */
    int64_t vocab_size;
    int64_t eos;
    int64_t source_bytes;
    uint64_t tokenizer_hash;
    uint64_t content_hash;
    ember_bytes tokenizer_name;
    ember_bytes tokenizer_text;
};

/* 16 hexadecimal digits, as the writer prints them. */
static bool parse_hash(const ember_bytes *text, uint64_t *out) {
    if (text->n != 16) return false;
    uint64_t value = 0;
    for (size_t i = 0; i < 16; i++) {
        const char c = text->data[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return false;
        value = value << 4 | (uint64_t)digit;
    }
    *out = value;
    return true;
}

static ember_status read_tokenizer(ember_shard *shard, const ember_h5_reader *file) {
    ember_bytes hash = {0};
    ember_status status = EMBER_OK;
    EMBER_TRY_GOTO(ember_h5_get_attribute_text(file, "/", SHARD_TOKENIZER_NAME, &shard->tokenizer_name), done);
    EMBER_TRY_GOTO(ember_h5_get_attribute_text(file, "/", SHARD_TOKENIZER_HASH, &hash), done);
    EMBER_TRY_GOTO(ember_h5_get_text(file, SHARD_TOKENIZER, &shard->tokenizer_text), done);
    if (!parse_hash(&hash, &shard->tokenizer_hash)) {
        status = ember_fail(EMBER_E_FORMAT, "%s: attribute %s is \"%s\", not 16 hexadecimal digits", shard->path, SHARD_TOKENIZER_HASH,
                            hash.data ? hash.data : "");
        goto done;
    }
    const uint64_t found = XXH3_64bits(shard->tokenizer_text.data, shard->tokenizer_text.n);
    if (found != shard->tokenizer_hash) {
        status = ember_fail(EMBER_E_CORRUPT, "%s: dataset %s hashes to %016llx, but attribute %s says %s", shard->path, SHARD_TOKENIZER,
                            (unsigned long long)found, SHARD_TOKENIZER_HASH, hash.data);
    }
done:
    ember_bytes_free(&hash);
    return status;
}

static ember_status read_numbers(ember_shard *shard, const ember_h5_reader *file) {
    EMBER_TRY(ember_h5_get_attribute_i64(file, "/", SHARD_VOCAB_SIZE, &shard->vocab_size));
    EMBER_TRY(ember_h5_get_attribute_i64(file, "/", SHARD_EOS, &shard->eos));
    EMBER_TRY(ember_h5_get_attribute_i64(file, "/", SHARD_SOURCE_BYTES, &shard->source_bytes));
    if (shard->vocab_size < 1 || shard->vocab_size > SHARD_MAX_VOCAB) {
        return ember_fail(EMBER_E_FORMAT, "%s: attribute %s is %lld, outside 1..%lld", shard->path, SHARD_VOCAB_SIZE,
                          (long long)shard->vocab_size, (long long)SHARD_MAX_VOCAB);
    }
    if (shard->eos < -1 || shard->eos >= shard->vocab_size) {
        return ember_fail(EMBER_E_FORMAT, "%s: attribute %s is %lld, neither -1 nor below %s %lld", shard->path, SHARD_EOS,
                          (long long)shard->eos, SHARD_VOCAB_SIZE, (long long)shard->vocab_size);
    }
    if (shard->source_bytes < -1) {
        return ember_fail(EMBER_E_FORMAT, "%s: attribute %s is %lld, below -1", shard->path, SHARD_SOURCE_BYTES,
                          (long long)shard->source_bytes);
    }
    return EMBER_OK;
}

/* Finds the token bytes in the file, and that they lie inside it. */
static ember_status locate_tokens(ember_shard *shard, const ember_h5_reader *file) {
    ember_h5_info info;
    EMBER_TRY(ember_h5_get_info(file, SHARD_TOKENS, &info));
    if (info.is_text || info.n_dims != 1 || (info.dtype != EMBER_U16 && info.dtype != EMBER_U32)) {
        return ember_fail(EMBER_E_FORMAT, "%s: dataset %s must be one-dimensional uint16 or uint32", shard->path, SHARD_TOKENS);
    }
    shard->dtype = info.dtype;
    shard->n_tokens = info.dims[0];
    if (shard->n_tokens < 0) return ember_fail(EMBER_E_FORMAT, "%s: dataset %s has a negative length", shard->path, SHARD_TOKENS);
    if (shard->n_tokens == 0) return EMBER_OK;
    if (info.file_offset == UINT64_MAX) {
        return ember_fail(EMBER_E_FORMAT,
                          "%s: dataset %s is not contiguous, unfiltered and little-endian; `ember data prepare` writes it that way",
                          shard->path, SHARD_TOKENS);
    }
    shard->file_offset = info.file_offset;
    struct stat at_fd;
    struct stat at_path;
    if (fstat(shard->fd, &at_fd) != 0) return ember_fail(EMBER_E_IO, "%s: cannot stat: %s", shard->path, strerror(errno));
    if (stat(shard->path, &at_path) != 0 || at_path.st_ino != at_fd.st_ino || at_path.st_dev != at_fd.st_dev) {
        return ember_fail(EMBER_E_IO, "%s: was replaced while it was being opened; open it again", shard->path);
    }
    const uint64_t bytes = (uint64_t)shard->n_tokens * ember_dtype_bytes(shard->dtype);
    const uint64_t size = (uint64_t)at_fd.st_size;
    if (info.bytes != bytes || info.file_offset > size || size - info.file_offset < bytes) {
        return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s needs %llu bytes at offset %llu, but the file has %llu", shard->path,
                          SHARD_TOKENS, (unsigned long long)bytes, (unsigned long long)info.file_offset, (unsigned long long)size);
    }
    return EMBER_OK;
}

static ember_status read_documents(ember_shard *shard, const ember_h5_reader *file) {
    ember_h5_info info;
    EMBER_TRY(ember_h5_get_info(file, SHARD_DOCUMENTS, &info));
    if (info.is_text || info.n_dims != 1 || info.dtype != EMBER_I64) {
        return ember_fail(EMBER_E_FORMAT, "%s: dataset %s must be one-dimensional int64", shard->path, SHARD_DOCUMENTS);
    }
    shard->n_documents = info.dims[0];
    if ((shard->n_documents == 0) != (shard->n_tokens == 0) || shard->n_documents < 0 || shard->n_documents > shard->n_tokens) {
        return ember_fail(EMBER_E_FORMAT, "%s: %lld documents cannot cover %lld tokens; every document has at least one", shard->path,
                          (long long)shard->n_documents, (long long)shard->n_tokens);
    }
    if (shard->n_documents == 0) return EMBER_OK;
    EMBER_TRY(ember_allocate((void **)&shard->documents, (size_t)shard->n_documents, sizeof *shard->documents, "document offsets"));
    EMBER_TRY(ember_h5_get(file, SHARD_DOCUMENTS, ember_tensor_1d(shard->documents, EMBER_I64, shard->n_documents)));
    if (shard->documents[0] != 0) {
        return ember_fail(EMBER_E_CORRUPT, "%s: the first document starts at token %lld, not 0", shard->path,
                          (long long)shard->documents[0]);
    }
    for (int64_t i = 1; i < shard->n_documents; i++) {
        if (shard->documents[i] <= shard->documents[i - 1] || shard->documents[i] >= shard->n_tokens) {
            return ember_fail(EMBER_E_CORRUPT, "%s: document %lld starts at token %lld, after %lld, of %lld tokens; offsets must ascend",
                              shard->path, (long long)i, (long long)shard->documents[i], (long long)shard->documents[i - 1],
                              (long long)shard->n_tokens);
        }
    }
    return EMBER_OK;
}

static ember_status read_content_hash(ember_shard *shard, const ember_h5_reader *file) {
    uint64_t hashes[2] = {0};
    EMBER_TRY(ember_h5_get_dataset_hash(file, SHARD_TOKENS, &hashes[0]));
    EMBER_TRY(ember_h5_get_dataset_hash(file, SHARD_DOCUMENTS, &hashes[1]));
    shard->content_hash = XXH3_64bits(hashes, sizeof hashes);
    return EMBER_OK;
}

ember_status ember_shard_open(ember_shard **out, const char *path, bool verify) {
    *out = NULL;
    ember_h5_reader *file = NULL;
    ember_shard *shard = NULL;
    EMBER_TRY(ember_allocate((void **)&shard, 1, sizeof *shard, "shard"));
    ember_status status = EMBER_OK;
    uint64_t file_bytes = 0;
    shard->fd = -1;
    EMBER_TRY_GOTO(ember_open_regular(&shard->fd, &file_bytes, path), done);
    shard->path = strdup(path);
    if (!shard->path) {
        status = ember_fail(EMBER_E_MEMORY, "%s: no memory for the path", path);
        goto done;
    }
    EMBER_TRY_GOTO(ember_h5_open(&file, path, SHARD_FORMAT, SHARD_VERSION, verify), done);
    EMBER_TRY_GOTO(read_numbers(shard, file), done);
    EMBER_TRY_GOTO(locate_tokens(shard, file), done);
    if (shard->dtype == EMBER_U32 ? shard->vocab_size <= 65536 : shard->vocab_size > 65536) {
        status = ember_fail(EMBER_E_FORMAT, "%s: dataset %s is %s, which does not go with a vocabulary of %lld (uint16 up to 65536)", path,
                            SHARD_TOKENS, ember_dtype_name(shard->dtype), (long long)shard->vocab_size);
        goto done;
    }
    EMBER_TRY_GOTO(read_documents(shard, file), done);
    EMBER_TRY_GOTO(read_tokenizer(shard, file), done);
    EMBER_TRY_GOTO(read_content_hash(shard, file), done);
done:
    ember_h5_close(file);
    if (status != EMBER_OK) {
        ember_shard_close(shard);
    } else {
        *out = shard;
    }
    return status;
}

void ember_shard_close(ember_shard *shard) {
    if (!shard) return;
    if (shard->fd >= 0) (void)close(shard->fd);
    free(shard->path);
    ember_release(shard->documents);
    ember_bytes_free(&shard->tokenizer_name);
    ember_bytes_free(&shard->tokenizer_text);
    ember_release(shard);
}

const char *ember_shard_path(const ember_shard *shard) { return shard->path; }
int64_t ember_shard_n_tokens(const ember_shard *shard) { return shard->n_tokens; }
int64_t ember_shard_n_documents(const ember_shard *shard) { return shard->n_documents; }
const int64_t *ember_shard_documents(const ember_shard *shard) { return shard->documents; }
int64_t ember_shard_vocab_size(const ember_shard *shard) { return shard->vocab_size; }
int64_t ember_shard_eos(const ember_shard *shard) { return shard->eos; }
int64_t ember_shard_source_bytes(const ember_shard *shard) { return shard->source_bytes; }
uint64_t ember_shard_tokenizer_hash(const ember_shard *shard) { return shard->tokenizer_hash; }
uint64_t ember_shard_content_hash(const ember_shard *shard) { return shard->content_hash; }

const char *ember_shard_tokenizer_name(const ember_shard *shard) { return shard->tokenizer_name.data ? shard->tokenizer_name.data : ""; }

const char *ember_shard_tokenizer_text(const ember_shard *shard, size_t *n) {
    if (n) *n = shard->tokenizer_text.n;
    return shard->tokenizer_text.data ? shard->tokenizer_text.data : "";
}

static ember_status read_bytes(const ember_shard *shard, uint64_t offset, void *out, size_t n) {
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(shard->fd, (char *)out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ember_fail(EMBER_E_IO, "%s: cannot read: %s", shard->path, strerror(errno));
        if (got == 0) {
            return ember_fail(EMBER_E_CORRUPT, "%s: ends at byte %llu inside its tokens; it was cut short after it was opened", shard->path,
                              (unsigned long long)(offset + done));
        }
        done += (size_t)got;
    }
    return EMBER_OK;
}

ember_status ember_shard_read(const ember_shard *shard, int64_t first, int64_t n, uint32_t *out) {
    enum { PIECE = 8192 };
    if (first < 0 || n < 0 || first > shard->n_tokens || n > shard->n_tokens - first) {
        return ember_fail(EMBER_E_ARGUMENT, "%s: %lld tokens from token %lld on reach outside its %lld tokens", shard->path, (long long)n,
                          (long long)first, (long long)shard->n_tokens);
    }
    const size_t width = ember_dtype_bytes(shard->dtype);
    for (int64_t done = 0; done < n;) {
        const int64_t piece = n - done < PIECE ? n - done : PIECE;
        const uint64_t offset = shard->file_offset + (uint64_t)(first + done) * width;
        uint32_t *to = out + done;
        if (shard->dtype == EMBER_U16) {
            uint16_t narrow[PIECE];
            EMBER_TRY(read_bytes(shard, offset, narrow, (size_t)piece * width));
            for (int64_t i = 0; i < piece; i++)
                to[i] = narrow[i];
        } else {
            EMBER_TRY(read_bytes(shard, offset, to, (size_t)piece * width));
        }
        for (int64_t i = 0; i < piece; i++) {
            if ((int64_t)to[i] >= shard->vocab_size) {
                return ember_fail(EMBER_E_CORRUPT, "%s: token %lld has id %u, but the vocabulary has %lld entries", shard->path,
                                  (long long)(first + done + i), to[i], (long long)shard->vocab_size);
            }
        }
        done += piece;
    }
    return EMBER_OK;
}
