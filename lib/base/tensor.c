#include "lib/base/tensor.h"

#include <string.h>

size_t ember_dtype_bytes(ember_dtype dtype) {
    switch (dtype) {
    case EMBER_U8:
    case EMBER_I8: return 1;
    case EMBER_BF16:
    case EMBER_F16:
    case EMBER_U16:
    case EMBER_I16: return 2;
    case EMBER_F32:
    case EMBER_U32:
    case EMBER_I32: return 4;
    case EMBER_F64:
    case EMBER_U64:
    case EMBER_I64: return 8;
    }
    return 0;
}

const char *ember_dtype_name(ember_dtype dtype) {
    switch (dtype) {
    case EMBER_F32: return "f32";
    case EMBER_F64: return "f64";
    case EMBER_BF16: return "bf16";
    case EMBER_F16: return "f16";
    case EMBER_U8: return "u8";
    case EMBER_U16: return "u16";
    case EMBER_U32: return "u32";
    case EMBER_U64: return "u64";
    case EMBER_I8: return "i8";
    case EMBER_I16: return "i16";
    case EMBER_I32: return "i32";
    case EMBER_I64: return "i64";
    }
    return "unknown";
}

int64_t ember_count(int n_dims, const int64_t *dims) {
    int64_t count = 1;
    for (int i = 0; i < n_dims; i++) {
        if (dims[i] < 0 || __builtin_mul_overflow(count, dims[i], &count)) return -1;
    }
    return count;
}

int64_t ember_tensor_count(ember_tensor tensor) { return ember_count(tensor.n_dims, tensor.dims); }

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t ember_bf16_from_f32(float value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float ember_f32_from_bf16(uint16_t bits) { return float_of((uint32_t)bits << 16); }

float ember_f32_from_f16(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1fu) return float_of(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0) return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    const float magnitude = (float)mantissa * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}
