/* mixture.c - R. Tijdeman, "The chairman assignment problem", Discrete Mathematics 32 (1980): with
 * eligibility threshold 1/(2S - 2) and the earliest deadline first, every count stays within
 * 1 - 1/(2S - 2) of its share at every step. All in integers, so the schedule is the same everywhere. */
#include "data/mixture.h"

#include <math.h>

#include "lib/base/status.h"

typedef struct slot {
    uint32_t rank; /* sequences of the same source earlier in the period */
    uint16_t source;
} slot;

struct ember_mixture {
    int64_t n_sources;
    uint32_t share[EMBER_MIXTURE_MAX_SOURCES]; /* slots in a period; they sum to the period */
    slot slots[EMBER_MIXTURE_PERIOD];
};

/* Largest remainders: shares sum to the period exactly and differ from the weights by less than one. */
static ember_status round_shares(ember_mixture *mixture, const double *weights) {
    double sum = 0.0;
    for (int64_t s = 0; s < mixture->n_sources; s++)
        sum += weights[s];
    double remainder[EMBER_MIXTURE_MAX_SOURCES];
    int64_t left = EMBER_MIXTURE_PERIOD;
    for (int64_t s = 0; s < mixture->n_sources; s++) {
        const double exact = weights[s] / sum * EMBER_MIXTURE_PERIOD;
        if (!(exact >= 1.0)) {
            return ember_fail(
                EMBER_E_ARGUMENT,
                "mixture: weight %lld is %g of a sum of %g, below the smallest share of 1/%d; enlarge it or leave the source out",
                (long long)s, weights[s], sum, (int)EMBER_MIXTURE_PERIOD);
        }
        mixture->share[s] = (uint32_t)exact;
        remainder[s] = exact - floor(exact);
        left -= (int64_t)mixture->share[s];
    }
    for (; left > 0; left--) {
        int64_t best = 0;
        for (int64_t s = 1; s < mixture->n_sources; s++)
            if (remainder[s] > remainder[best]) best = s;
        mixture->share[best]++;
        remainder[best] = -1.0;
    }
    return EMBER_OK;
}

/* Source of slot k, given the counts before it. With n = period and w = share, a source is eligible when
 * (k+1) w/n - count >= 1/(2S-2), and its deadline is the first step at which it would lag too far:
 * ceil((count + 1 - 1/(2S-2)) n / w); the smaller numerator / w comes first. */
static int64_t choose(const ember_mixture *mixture, const uint32_t *counts, int64_t k) {
    const int64_t twice = 2 * mixture->n_sources - 2;
    int64_t best = -1;
    int64_t best_deadline = 0;
    for (int64_t s = 0; s < mixture->n_sources; s++) {
        const int64_t share = mixture->share[s];
        const int64_t lag = (k + 1) * share - (int64_t)counts[s] * EMBER_MIXTURE_PERIOD;
        if (lag * twice < EMBER_MIXTURE_PERIOD) continue;
        const int64_t numerator = ((int64_t)(counts[s] + 1) * twice - 1) * EMBER_MIXTURE_PERIOD;
        const int64_t deadline = (numerator + twice * share - 1) / (twice * share);
        if (best < 0 || deadline < best_deadline) {
            best = s;
            best_deadline = deadline;
        }
    }
    return best;
}

ember_status ember_mixture_create(ember_mixture **out, const double *weights, int64_t n_sources) {
    *out = NULL;
    if (n_sources < 1 || n_sources > EMBER_MIXTURE_MAX_SOURCES) {
        return ember_fail(EMBER_E_ARGUMENT, "mixture: %lld sources; 1 to %d are possible", (long long)n_sources,
                          (int)EMBER_MIXTURE_MAX_SOURCES);
    }
    for (int64_t s = 0; s < n_sources; s++) {
        if (!(weights[s] > 0.0) || weights[s] > 1e100) {
            return ember_fail(EMBER_E_ARGUMENT, "mixture: weight %lld is %g; a weight is positive and at most 1e100", (long long)s,
                              weights[s]);
        }
    }
    ember_mixture *mixture = NULL;
    EMBER_TRY(ember_allocate((void **)&mixture, 1, sizeof *mixture, "mixture schedule"));
    mixture->n_sources = n_sources;
    const ember_status status = round_shares(mixture, weights);
    if (status != EMBER_OK) {
        ember_mixture_free(mixture);
        return status;
    }
    uint32_t counts[EMBER_MIXTURE_MAX_SOURCES] = {0};
    for (int64_t k = 0; k < EMBER_MIXTURE_PERIOD; k++) {
        const int64_t source = n_sources == 1 ? 0 : choose(mixture, counts, k);
        mixture->slots[k] = (slot){.source = (uint16_t)source, .rank = counts[source]++};
    }
    *out = mixture;
    return EMBER_OK;
}

void ember_mixture_free(ember_mixture *mixture) { ember_release(mixture); }

void ember_mixture_at(const ember_mixture *mixture, uint64_t k, int64_t *source, uint64_t *position) {
    const slot *at = &mixture->slots[k % EMBER_MIXTURE_PERIOD];
    *source = at->source;
    *position = k / EMBER_MIXTURE_PERIOD * mixture->share[at->source] + at->rank;
}

uint64_t ember_mixture_count(const ember_mixture *mixture, uint64_t k, int64_t source) {
    uint64_t count = k / EMBER_MIXTURE_PERIOD * mixture->share[source];
    for (uint64_t i = 0; i < k % EMBER_MIXTURE_PERIOD; i++)
        count += mixture->slots[i].source == source;
    return count;
}

uint32_t ember_mixture_share(const ember_mixture *mixture, int64_t source) { return mixture->share[source]; }
