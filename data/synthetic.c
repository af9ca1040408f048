#include "data/synthetic.h"

#include <math.h>

#include "data/shard_format.h"
#include "lib/base/philox.h"
#include "lib/base/status.h"

struct ember_synthetic {
    uint64_t seed;
    int64_t vocab_size;
    double *cumulative; /* [vocab_size], the last is the sum */
};

ember_status ember_synthetic_create(ember_synthetic **out, uint64_t seed, int64_t vocab_size, double exponent) {
    *out = NULL;
    if (vocab_size < 1 || vocab_size > SHARD_MAX_VOCAB) {
        return ember_fail(EMBER_E_ARGUMENT, "synthetic data: a vocabulary of %lld; 1 to %lld are possible", (long long)vocab_size,
                          (long long)SHARD_MAX_VOCAB);
    }
    if (!(exponent >= 0.0 && exponent <= 100.0)) {
        return ember_fail(EMBER_E_ARGUMENT, "synthetic data: a Zipf exponent of %g; 0 to 100 are possible", exponent);
    }
    ember_synthetic *synthetic = NULL;
    EMBER_TRY(ember_allocate((void **)&synthetic, 1, sizeof *synthetic, "synthetic source"));
    synthetic->seed = seed;
    synthetic->vocab_size = vocab_size;
    const ember_status status =
        ember_allocate((void **)&synthetic->cumulative, (size_t)vocab_size, sizeof *synthetic->cumulative, "synthetic frequencies");
    if (status != EMBER_OK) {
        ember_synthetic_free(synthetic);
        return status;
    }
    double sum = 0.0;
    for (int64_t i = 0; i < vocab_size; i++) {
        sum += pow((double)(i + 1), -exponent);
        synthetic->cumulative[i] = sum;
    }
    *out = synthetic;
    return EMBER_OK;
}

void ember_synthetic_free(ember_synthetic *synthetic) {
    if (!synthetic) return;
    ember_release(synthetic->cumulative);
    ember_release(synthetic);
}

void ember_synthetic_read(const ember_synthetic *synthetic, uint64_t k, int64_t n, uint32_t *out) {
    const uint64_t first = k << 24; /* a sequence owns 2^24 elements of the stream */
    const double sum = synthetic->cumulative[synthetic->vocab_size - 1];
    for (int64_t t = 0; t < n; t++) {
        const double wanted = ember_philox_uniform(synthetic->seed, EMBER_STREAM_SYNTHETIC, first + (uint64_t)t) * sum;
        int64_t low = 0;
        int64_t high = synthetic->vocab_size - 1;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (synthetic->cumulative[middle] > wanted) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        out[t] = (uint32_t)low;
    }
}
