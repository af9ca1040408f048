#include "lib/base/philox.h"

#include <math.h>

static void multiply(uint32_t a, uint32_t b, uint32_t *high, uint32_t *low) {
    const uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
}

ember_philox_block ember_philox(uint64_t seed, uint64_t stream, uint64_t block) {
    uint32_t key0 = (uint32_t)seed;
    uint32_t key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)block;
    uint32_t c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)stream;
    uint32_t c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint32_t high0, low0, high1, low1;
        multiply(0xD2511F53u, c0, &high0, &low0);
        multiply(0xCD9E8D57u, c2, &high1, &low1);
        c0 = high1 ^ c1 ^ key0;
        c1 = low1;
        c2 = high0 ^ c3 ^ key1;
        c3 = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return (ember_philox_block){{c0, c1, c2, c3}};
}

uint32_t ember_philox_u32(uint64_t seed, uint64_t stream, uint64_t element) {
    return ember_philox(seed, stream, element >> 2).word[element & 3u];
}

double ember_philox_uniform(uint64_t seed, uint64_t stream, uint64_t element) {
    return ((double)ember_philox_u32(seed, stream, element) + 0.5) * 0x1p-32;
}

float ember_philox_normal(uint64_t seed, uint64_t stream, uint64_t element) {
    const ember_philox_block block = ember_philox(seed, stream, element >> 2);
    const unsigned pair = (unsigned)(element & 2u);
    const float u = (float)(((double)block.word[pair] + 0.5) * 0x1p-32);
    const float v = (float)(((double)block.word[pair + 1] + 0.5) * 0x1p-32);
    const float radius = sqrtf(-2.0f * logf(u < 1.0f ? u : 0x1.fffffep-1f));
    const float angle = 6.2831853071795864769f * v;
    return (element & 1u) ? radius * sinf(angle) : radius * cosf(angle);
}
