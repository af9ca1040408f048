#include "lib/model/sampler.h"

#include <math.h>

#include "lib/base/philox.h"
#include "lib/base/status.h"

/* Below this, two different float32 logits never share probability: it is greedy but for ties. */
static const double greedy_temperature = 1e-20;

typedef struct candidate {
    float value; /* logit */
    int32_t token;
} candidate;

ember_status ember_sampler_check(const ember_sampler *sampler) {
    if (!(sampler->temperature >= 0) || !isfinite(sampler->temperature)) {
        return ember_fail(EMBER_E_ARGUMENT, "temperature is %g; it must be finite and not negative (0: greedy)", sampler->temperature);
    }
    if (sampler->top_k < 0) {
        return ember_fail(EMBER_E_ARGUMENT, "top-k is %lld; it must be 0 (off) or more", (long long)sampler->top_k);
    }
    if (!(sampler->top_p >= 0 && sampler->top_p <= 1)) {
        return ember_fail(EMBER_E_ARGUMENT, "top-p is %g; it must be 0 to 1 (1: off)", sampler->top_p);
    }
    return EMBER_OK;
}

/* More likely first; equal logits in the order of their ids. */
static bool before(candidate a, candidate b) { return a.value > b.value || (a.value == b.value && a.token < b.token); }

static void sift_down(candidate *heap, int64_t n, int64_t at) {
    const candidate moving = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], moving)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static double weight(float logit, float top, double temperature) { return exp(((double)logit - (double)top) / temperature); }

/* Draws in the order of ids: nothing to sort when no candidate is cut off. */
static int32_t draw_from_all(const float *logits, int64_t n, float top, double temperature, double uniform) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++)
        total += weight(logits[i], top, temperature);
    double left = uniform * total;
    int32_t last = 0;
    for (int64_t i = 0; i < n; i++) {
        const double w = weight(logits[i], top, temperature);
        if (w == 0.0) continue;
        last = (int32_t)i;
        left -= w;
        if (left < 0) break;
    }
    return last;
}

/* Keeps the top_k most likely, of those the fewest that reach top_p, and draws among them. A heap
 * gives them in order without sorting the whole vocabulary; kept ones gather at the array's end. */
static int32_t draw_from_best(candidate *heap, int64_t n, const ember_sampler *sampler, float top, double uniform) {
    for (int64_t at = n / 2 - 1; at >= 0; at--)
        sift_down(heap, n, at);
    const int64_t most = sampler->top_k > 0 && sampler->top_k < n ? sampler->top_k : n;
    double total = 0.0;
    if (sampler->top_p < 1 && most == n) {
        for (int64_t i = 0; i < n; i++)
            total += weight(heap[i].value, top, sampler->temperature);
    }
    int64_t kept = 0;
    double kept_weight = 0.0;
    while (kept < most) {
        const candidate best = heap[0];
        heap[0] = heap[n - 1 - kept];
        heap[n - 1 - kept] = best;
        kept++;
        sift_down(heap, n - kept, 0);
        kept_weight += weight(best.value, top, sampler->temperature);
        if (total > 0 && kept_weight >= sampler->top_p * total) break;
    }
    /* top-p after top-k: the share is of what top-k left. */
    if (sampler->top_p < 1 && most < n) {
        const double all = kept_weight;
        kept_weight = 0.0;
        for (int64_t i = 0; i < kept; i++) {
            kept_weight += weight(heap[n - 1 - i].value, top, sampler->temperature);
            if (kept_weight >= sampler->top_p * all) kept = i + 1;
        }
    }
    double left = uniform * kept_weight;
    int64_t chosen = 0;
    for (int64_t i = 0; i < kept; i++) {
        const double w = weight(heap[n - 1 - i].value, top, sampler->temperature);
        if (w == 0.0) break;
        chosen = i;
        left -= w;
        if (left < 0) break;
    }
    return heap[n - 1 - chosen].token;
}

ember_status ember_sample(ember_sampler *sampler, const float *logits, int64_t n, void *scratch, int32_t *token) {
    EMBER_TRY(ember_sampler_check(sampler));
    if (n < 1) return ember_fail(EMBER_E_ARGUMENT, "%lld logits to sample from; there must be at least one", (long long)n);
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(logits[i])) {
            return ember_fail(EMBER_E_NUMERIC, "the logit of token %lld is %g; every logit must be finite", (long long)i,
                              (double)logits[i]);
        }
        if (logits[i] > logits[best]) best = i;
    }
    const double uniform = ember_philox_uniform(sampler->seed, EMBER_STREAM_SAMPLER, sampler->index++);
    if (sampler->temperature < greedy_temperature || sampler->top_k == 1) {
        *token = (int32_t)best;
        return EMBER_OK;
    }
    const float top = logits[best];
    if ((sampler->top_k == 0 || sampler->top_k >= n) && sampler->top_p == 1) {
        *token = draw_from_all(logits, n, top, sampler->temperature, uniform);
        return EMBER_OK;
    }
    candidate *heap = scratch;
    for (int64_t i = 0; i < n; i++)
        heap[i] = (candidate){.value = logits[i], .token = (int32_t)i};
    *token = draw_from_best(heap, n, sampler, top, uniform);
    return EMBER_OK;
}
