/* tensor.h - element types and the tensor view. */
#ifndef EMBER_BASE_TENSOR_H
#define EMBER_BASE_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum { EMBER_MAX_DIMS = 4 };

typedef enum ember_dtype {
    EMBER_F32 = 1,
    EMBER_F64 = 2,
    EMBER_BF16 = 3,
    EMBER_F16 = 4, /* read from safetensors only */
    EMBER_U8 = 5,
    EMBER_U16 = 6,
    EMBER_U32 = 7,
    EMBER_U64 = 8,
    EMBER_I8 = 9,
    EMBER_I16 = 10,
    EMBER_I32 = 11,
    EMBER_I64 = 12
} ember_dtype;

/* A view by value, row-major, contiguous; it owns nothing. */
typedef struct ember_tensor {
    void *data;
    ember_dtype dtype;
    int n_dims;
    int64_t dims[EMBER_MAX_DIMS];
} ember_tensor;

/* Bytes of one element; 0 for a value that is no dtype. */
size_t ember_dtype_bytes(ember_dtype dtype);
/* "f32", "bf16", "u16", ... */
const char *ember_dtype_name(ember_dtype dtype);
/* Product of dims; 1 for n_dims = 0; -1 when it overflows int64 or a dim is negative. */
int64_t ember_count(int n_dims, const int64_t *dims);
int64_t ember_tensor_count(ember_tensor tensor);

static inline ember_tensor ember_tensor_1d(void *data, ember_dtype dtype, int64_t n) {
    return (ember_tensor){.data = data, .dtype = dtype, .n_dims = 1, .dims = {n}};
}
static inline ember_tensor ember_tensor_2d(void *data, ember_dtype dtype, int64_t rows, int64_t columns) {
    return (ember_tensor){.data = data, .dtype = dtype, .n_dims = 2, .dims = {rows, columns}};
}

/* bf16 <-> float32, round to nearest even; NaN stays NaN. f16 -> float32 exact. */
uint16_t ember_bf16_from_f32(float value);
float ember_f32_from_bf16(uint16_t bits);
float ember_f32_from_f16(uint16_t bits);

#endif
