/* shuffle.c - a balanced Feistel network on 2 * half_bits bits is a bijection whatever its round function
 * (Luby, Rackoff, "How to construct pseudorandom permutations from pseudorandom functions", 1988); walking
 * along its cycle until the value is below n restricts it to [0, n) (Black, Rogaway, "Ciphers with
 * arbitrary finite domains", 2002). The domain is less than 4n, so a walk takes less than 4 steps on
 * average. Eight rounds, because halves of a few bits mix slowly. */
#include "data/shuffle.h"

#include "lib/base/philox.h"

enum { ROUNDS = 8 };

ember_shuffle ember_shuffle_make(uint64_t seed, uint64_t source, uint64_t pass, uint64_t n) {
    const ember_philox_block block = ember_philox(seed, (uint64_t)EMBER_STREAM_SHUFFLE | (source + 1) << 32, pass);
    ember_shuffle shuffle = {.n = n, .key = (uint64_t)block.word[1] << 32 | block.word[0], .half_bits = 1};
    while (shuffle.half_bits < 31 && (UINT64_C(1) << (2 * shuffle.half_bits)) < n)
        shuffle.half_bits++;
    return shuffle;
}

uint64_t ember_shuffle_at(const ember_shuffle *shuffle, uint64_t index) {
    const uint32_t bits = shuffle->half_bits;
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t value = index;
    do {
        uint64_t left = value >> bits;
        uint64_t right = value & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            const uint64_t mixed = left ^ (ember_philox(shuffle->key, round, right).word[0] & mask);
            left = right;
            right = mixed;
        }
        value = left << bits | right;
    } while (value >= shuffle->n);
    return value;
}
