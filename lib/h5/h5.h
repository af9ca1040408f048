/* h5.h - the one HDF5 wrapper: an Ember file is written whole or not at all, and is complete,
 * checked and of a known version before anything in it is believed. hdf5.h is included in this
 * folder only. Not thread-safe (libhdf5 is not): one thread at a time in this process. Files are
 * read without locks, because a complete file never changes. */
#ifndef EMBER_H5_H
#define EMBER_H5_H

#include "lib/base/memory.h"
#include "lib/base/tensor.h"

typedef struct ember_h5_writer ember_h5_writer;
typedef struct ember_h5_reader ember_h5_reader;

typedef struct ember_h5_info {
    ember_dtype dtype;
    int n_dims; /* 0: scalar */
    int64_t dims[EMBER_MAX_DIMS];
    uint64_t bytes;
    uint64_t file_offset; /* of the raw bytes when contiguous, unfiltered, little-endian and exactly
                             `dtype`; UINT64_MAX otherwise */
    bool is_text;         /* variable-length string */
} ember_h5_info;

/* "1.10.8", of the libhdf5 that runs. */
void ember_h5_library_version(char out[32]);

/* ---- writing: everything goes to a temporary name beside `path`. After any failure only _abort
 * may be called. Intermediate groups are created. Object paths are absolute, "/a/b/c". */
EMBER_CHECKED ember_status ember_h5_create(ember_h5_writer **out, const char *path, const char *format, int64_t version);
EMBER_CHECKED ember_status ember_h5_put_group(ember_h5_writer *file, const char *object);
/* Attributes of an existing object ("/" is the root). */
EMBER_CHECKED ember_status ember_h5_put_attribute_i64(ember_h5_writer *file, const char *object, const char *name, int64_t value);
EMBER_CHECKED ember_status ember_h5_put_attribute_i64s(ember_h5_writer *file, const char *object, const char *name, const int64_t *values,
                                                       size_t n);
EMBER_CHECKED ember_status ember_h5_put_attribute_f64(ember_h5_writer *file, const char *object, const char *name, double value);
EMBER_CHECKED ember_status ember_h5_put_attribute_text(ember_h5_writer *file, const char *object, const char *name, const char *value);
/* A variable-length string dataset (scalar); `n` bytes without NUL. */
EMBER_CHECKED ember_status ember_h5_put_text(ember_h5_writer *file, const char *object, const char *text, size_t n);
/* A whole dataset: contiguous, uncompressed, 4 KiB-aligned when 4 KiB or larger. */
EMBER_CHECKED ember_status ember_h5_put(ember_h5_writer *file, const char *object, ember_tensor tensor);
/* The same in pieces along dim 0: reserve once, then append rows in order until full. */
EMBER_CHECKED ember_status ember_h5_reserve(ember_h5_writer *file, const char *object, ember_dtype dtype, int n_dims, const int64_t *dims);
EMBER_CHECKED ember_status ember_h5_append_rows(ember_h5_writer *file, const char *object, const void *rows, int64_t n_rows);
/* Writes `manifest` and complete = 1, flushes, closes, re-opens, verifies every hash, renames onto
 * `path`. Frees the writer in every case; on failure the temporary file is gone and `path` is as before. */
EMBER_CHECKED ember_status ember_h5_commit(ember_h5_writer *file);
/* Closes, removes the temporary file, frees. NULL is fine. */
void ember_h5_abort(ember_h5_writer *file);

/* ---- reading. `format` = expected root attribute; `max_version` = newest understood version.
 * Errors name the file, and: EMBER_E_NOT_FOUND, EMBER_E_IO, EMBER_E_FORMAT (not HDF5, or another
 * format), EMBER_E_CORRUPT (incomplete, truncated, manifest disagrees), EMBER_E_VERSION.
 * `format` NULL takes every format whose name starts with "ember-" (see ember_h5_format).
 * Whatever `verify_data` says, ember_h5_get and ember_h5_get_text hash what they read.
 * `verify_data`: hash every dataset now; otherwise structure and attributes only. */
EMBER_CHECKED ember_status ember_h5_open(ember_h5_reader **out, const char *path, const char *format, int64_t max_version,
                                         bool verify_data);
/* Any HDF5 file without format, manifest or completeness (golden files, patterns). */
EMBER_CHECKED ember_status ember_h5_open_foreign(ember_h5_reader **out, const char *path);
void ember_h5_close(ember_h5_reader *file);
const char *ember_h5_path(const ember_h5_reader *file);
const char *ember_h5_format(const ember_h5_reader *file); /* "" for foreign files */
int64_t ember_h5_version(const ember_h5_reader *file);
bool ember_h5_has(const ember_h5_reader *file, const char *object);
EMBER_CHECKED ember_status ember_h5_get_info(const ember_h5_reader *file, const char *object, ember_h5_info *out);
EMBER_CHECKED ember_status ember_h5_get_attribute_i64(const ember_h5_reader *file, const char *object, const char *name, int64_t *out);
/* `out` of `capacity` elements, *n = elements present; more than capacity is EMBER_E_FORMAT. */
EMBER_CHECKED ember_status ember_h5_get_attribute_i64s(const ember_h5_reader *file, const char *object, const char *name, int64_t *out,
                                                       size_t capacity, size_t *n);
EMBER_CHECKED ember_status ember_h5_get_attribute_f64(const ember_h5_reader *file, const char *object, const char *name, double *out);
EMBER_CHECKED ember_status ember_h5_get_attribute_text(const ember_h5_reader *file, const char *object, const char *name, ember_bytes *out);
bool ember_h5_has_attribute(const ember_h5_reader *file, const char *object, const char *name);
EMBER_CHECKED ember_status ember_h5_get_text(const ember_h5_reader *file, const char *object, ember_bytes *out);
/* Reads a whole dataset into `tensor.data`, converting f32/f64/bf16 to tensor.dtype (integers only
 * between equal kinds); shape must equal tensor.dims exactly. */
EMBER_CHECKED ember_status ember_h5_get(const ember_h5_reader *file, const char *object, ember_tensor tensor);
/* Calls `visit` for every object below `group`, depth first in name order;
 * `manifest` is left out. */
typedef struct ember_h5_visit {
    ember_status (*object)(void *user, const char *path, bool is_group, const ember_h5_info *info);
    void *user;
} ember_h5_visit;
EMBER_CHECKED ember_status ember_h5_walk(const ember_h5_reader *file, const char *group, ember_h5_visit visit);
/* Calls `visit` with the name and printed value of each attribute of an object. */
typedef struct ember_h5_attribute_visit {
    ember_status (*attribute)(void *user, const char *name, const char *value);
    void *user;
} ember_h5_attribute_visit;
EMBER_CHECKED ember_status ember_h5_walk_attributes(const ember_h5_reader *file, const char *object, ember_h5_attribute_visit visit);
/* Hash every dataset against the manifest; EMBER_E_CORRUPT names the first that differs. */
EMBER_CHECKED ember_status ember_h5_verify(const ember_h5_reader *file);
/* The same for one dataset. */
EMBER_CHECKED ember_status ember_h5_verify_dataset(const ember_h5_reader *file, const char *object);
/* xxh3_64 of a dataset's bytes as the manifest has it; nothing is read. */
EMBER_CHECKED ember_status ember_h5_get_dataset_hash(const ember_h5_reader *file, const char *object, uint64_t *out);

#endif
