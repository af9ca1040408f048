/* rooms: base */
#include <math.h>

#include "lib/base/philox.h"
#include "tests/check.h"

static uint64_t pair(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/* Known answers of Philox4x32-10 from the generator's authors: counter and key all zero, all one, digits of pi.
 * The counter's low half is the block, its high half the stream. */
static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const ember_philox_block block =
            ember_philox(pair(known[i].key[0], known[i].key[1]), pair(known[i].counter[2], known[i].counter[3]),
                         pair(known[i].counter[0], known[i].counter[1]));
        for (int j = 0; j < 4; j++)
            assert_int_equal(block.word[j], known[i].out[j]);
    }
}

static void elements_are_words_of_blocks(void **state) {
    (void)state;
    for (uint64_t element = 0; element < 64; element++) {
        const ember_philox_block block = ember_philox(9, 4, element / 4);
        assert_int_equal(ember_philox_u32(9, 4, element), block.word[element % 4]);
        assert_true(ember_philox_uniform(9, 4, element) == ((double)block.word[element % 4] + 0.5) / 4294967296.0);
    }
}

/* All 64 bits of the seed and of the stream count (A5.7). */
static void every_bit_counts(void **state) {
    (void)state;
    const ember_philox_block base = ember_philox(0, 0, 0);
    for (int bit = 0; bit < 64; bit++) {
        const ember_philox_block seed = ember_philox((uint64_t)1 << bit, 0, 0);
        const ember_philox_block stream = ember_philox(0, (uint64_t)1 << bit, 0);
        const ember_philox_block counter = ember_philox(0, 0, (uint64_t)1 << bit);
        assert_true(memcmp(&seed, &base, sizeof base) != 0);
        assert_true(memcmp(&stream, &base, sizeof base) != 0);
        assert_true(memcmp(&counter, &base, sizeof base) != 0);
    }
}

static void moments(void **state) {
    (void)state;
    enum { N = 200000 };
    double uniform = 0;
    double normal = 0;
    double square = 0;
    double fourth = 0;
    for (uint64_t i = 0; i < N; i++) {
        const double u = ember_philox_uniform(1, 2, i);
        assert_true(u > 0 && u < 1);
        const double x = (double)ember_philox_normal(1, 3, i);
        assert_true(isfinite(x));
        uniform += u;
        normal += x;
        square += x * x;
        fourth += x * x * x * x;
    }
    /* Five standard errors. */
    assert_true(fabs(uniform / N - 0.5) < 5 * 0.2887 / sqrt(N));
    assert_true(fabs(normal / N) < 5 / sqrt(N));
    assert_true(fabs(square / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(fourth / N - 3) < 5 * sqrt(96.0 / N));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(elements_are_words_of_blocks),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
