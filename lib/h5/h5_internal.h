/* h5_internal.h - what the files of this folder share. hdf5.h is included here and nowhere else. */
#ifndef EMBER_H5_INTERNAL_H
#define EMBER_H5_INTERNAL_H

#define H5_USE_110_API 1
#include <hdf5.h>
#include <xxhash.h>

#include "lib/base/status.h"
#include "lib/h5/h5.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Ember files hold little-endian bytes that are moved without conversion; this host is big-endian"
#endif

enum {
    H5_MAX_DEPTH = 32,        /* groups inside groups */
    H5_MAX_OBJECTS = 1 << 20, /* of one file */
    H5_MAX_PATH = 4096,       /* bytes of an object's path */
    H5_HASH_BYTES = 16,       /* xxh3_64 as lower-case hexadecimal */
    H5_BLOCK_BYTES = 1 << 20  /* of one read while hashing */
};

#define H5_MANIFEST "/manifest"
#define H5_MANIFEST_HASH "manifest_xxh3_64"
#define H5_COMPLETE "complete"

/* ---- h5_library.c: everything that is asked of libhdf5 once, in one place. */

/* Silences libhdf5's own printing and its exit handler. Call before anything else. */
EMBER_CHECKED ember_status h5_library(void);
/* ember_fail with the innermost message of libhdf5 behind ours; clears that message. */
ember_status h5_fail(ember_status status, const char *format, ...) EMBER_PRINTF(2, 3);
/* File access for Ember files: v110 bounds, 4 KiB alignment, no locks. */
EMBER_CHECKED ember_status h5_access(hid_t *out);
/* A creation list (close it) of H5P_FILE_CREATE, H5P_GROUP_CREATE or H5P_DATASET_CREATE that keeps links and
 * attributes inside the object header. That header has a checksum which is tested before anything in it is
 * used; the heaps and trees that libhdf5 would otherwise make from the ninth on crash it when damaged. */
hid_t h5_creation(hid_t class_of);
/* A new type identifier (close it) stored in the file for `dtype`. */
EMBER_CHECKED ember_status h5_type_of(hid_t *out, ember_dtype dtype);
/* The dtype that a stored type holds, whatever its byte order; 0 when it is none of ours. *exact:
 * little-endian and bit for bit what h5_type_of makes. */
ember_dtype h5_dtype_of(hid_t type, bool *exact);
void h5_hash_text(char out[H5_HASH_BYTES + 1], uint64_t hash);

/* ---- h5_attribute.c */

/* Canonical bytes of all attributes of an open object, in name order: what the manifest hashes. Left out at
 * the root: complete and the manifest's own hash, which are written after it. */
EMBER_CHECKED ember_status h5_attributes_hash(uint64_t *out, hid_t object, const char *file, const char *path, bool is_root);

/* ---- h5_index.c: every object of a file, found once. */

typedef struct h5_entry {
    char *path;
    bool is_group;
    ember_dtype dtype; /* 0: not readable through this interface (`why_not` says so) */
    const char *why_not;
    ember_h5_info info;
    uint64_t attributes_hash; /* valid once has_hash */
    uint64_t data_hash;
    bool has_hash; /* from the manifest; datasets of foreign files have none */
} h5_entry;

typedef struct h5_index {
    h5_entry *items; /* in strcmp order of path */
    size_t n;
    size_t capacity;
} h5_index;

struct ember_h5_reader {
    char *path;
    int fd; /* of the same file, for raw bytes */
    hid_t id;
    uint64_t file_bytes;
    bool foreign;
    int64_t version;
    char *format; /* NULL for foreign files */
    h5_index index;
    unsigned char *block; /* H5_BLOCK_BYTES */
};

EMBER_CHECKED ember_status h5_index_build(ember_h5_reader *file);
void h5_index_free(h5_index *index);
/* NULL when absent. A trailing slash is ignored. */
h5_entry *h5_index_find(const h5_index *index, const char *path);

/* ---- h5_manifest.c */

typedef struct h5_row {
    const char *path;
    const char *dtype; /* "group", "text", "f32", ... */
    int n_dims;
    const int64_t *dims;
    uint64_t data_hash;
    uint64_t attributes_hash;
    bool is_group;
} h5_row;

/* Writes the dataset /manifest and its hash attribute. */
EMBER_CHECKED ember_status h5_manifest_write(hid_t id, const char *file, const h5_row *rows, size_t n);
/* Reads it, compares names, dtypes, shapes and attributes with the index, and keeps the data hashes. */
EMBER_CHECKED ember_status h5_manifest_check(ember_h5_reader *file);

/* ---- h5_writer.c */

typedef struct h5_written {
    char *path;
    bool is_group;
    bool is_text;
    ember_dtype dtype;
    int n_dims;
    int64_t dims[EMBER_MAX_DIMS];
    int64_t rows_done;
    hid_t id;            /* open while rows are appended, else -1 */
    XXH3_state_t *state; /* likewise */
    uint64_t hash;
} h5_written;

struct ember_h5_writer {
    char *path;
    char *format;
    int64_t version;
    ember_bytes temporary;
    bool created; /* the temporary file exists */
    bool broken;  /* a libhdf5 call failed: `id` is not touched again */
    int fd;
    hid_t id;
    uint64_t reserved; /* bytes of disk the file owns */
    h5_written *items; /* in strcmp order of path */
    size_t n;
    size_t capacity;
};

/* Gives the handle up and returns EMBER_E_IO naming `object`. */
ember_status h5_writer_break(ember_h5_writer *file, const char *object);
/* Makes sure that `bytes` more of data, and the metadata around them, will fit on the disk. */
EMBER_CHECKED ember_status h5_writer_space(ember_h5_writer *file, uint64_t bytes);
/* Closes every dataset and the file; only while nothing has failed. False: the handle was given up. */
bool h5_writer_close(ember_h5_writer *file);
int64_t h5_written_rows(const h5_written *item);

/* ---- h5_data.c */

/* Reads exactly n bytes at `offset`; past the end is EMBER_E_CORRUPT naming `object`. */
EMBER_CHECKED ember_status h5_pread(const ember_h5_reader *file, void *out, size_t n, uint64_t offset, const char *object);
/* Hashes the stored bytes of one dataset and compares. */
EMBER_CHECKED ember_status h5_verify_entry(const ember_h5_reader *file, const h5_entry *entry);

#endif
