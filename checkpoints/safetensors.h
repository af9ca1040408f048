/* safetensors.h - reader of one .safetensors file, from disk or from memory. Everything in the
 * header is checked against the file before it is used. */
#ifndef EMBER_SAFETENSORS_H
#define EMBER_SAFETENSORS_H

#include "lib/base/memory.h"
#include "lib/base/tensor.h"

typedef struct ember_safetensors ember_safetensors;

typedef struct ember_safetensors_entry {
    const char *name;
    ember_dtype dtype;
    int n_dims;
    int64_t dims[EMBER_MAX_DIMS];
    uint64_t offset; /* absolute in the file */
    uint64_t bytes;
} ember_safetensors_entry;

enum { EMBER_SAFETENSORS_MAX_HEADER_BYTES = 100000000 };

EMBER_CHECKED ember_status ember_safetensors_open(ember_safetensors **out, const char *path);
/* `data` is borrowed for the life of the reader; `name` stands for the path in messages. */
EMBER_CHECKED ember_status ember_safetensors_from_memory(ember_safetensors **out, const void *data, size_t n, const char *name);
void ember_safetensors_close(ember_safetensors *file);
int64_t ember_safetensors_n(const ember_safetensors *file);
const ember_safetensors_entry *ember_safetensors_at(const ember_safetensors *file, int64_t index);
const ember_safetensors_entry *ember_safetensors_find(const ember_safetensors *file, const char *name); /* NULL: absent */
/* Rows [row0, row0 + n_rows) of dim 0 as float32 (f32, f16, bf16 sources). */
EMBER_CHECKED ember_status ember_safetensors_read_f32(const ember_safetensors *file, const ember_safetensors_entry *entry, int64_t row0,
                                                      int64_t n_rows, float *out);

#endif
