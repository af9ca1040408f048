/* ffn_case.h - one feed-forward problem: generator, guarded outputs, reference in double, cost.
 * Tests, `ember bench` and the choice of modes build their problems here. */
#ifndef EMBER_FFN_CASE_H
#define EMBER_FFN_CASE_H

#include "kernels/cases/cases.h"
#include "kernels/cases/ffn_reference.h"

/* What fires, the first that is given: given_g, a pattern, else a random share. A share is made by weights (one input is
 * constant and shifts the gate product), so the gate product runs as in a model; a pattern needs given
 * values, and `time_gate` then runs the gate product beside them. */
typedef struct ember_ffn_case_spec {
    ember_ffn_shape shape;
    double density;           /* 0..1, of (token, neuron) pairs */
    const float *given_g;     /* [M, h], copied; NULL: none */
    const int64_t *row_start; /* [pattern_rows + 1]; token t fires row t mod pattern_rows; NULL: none */
    const uint16_t *neurons;
    int64_t pattern_rows;
    uint64_t seed;
    bool with_mask;         /* every fifth token is padding */
    bool backward;          /* dy, dx and gradients exist */
    float l1_scale;         /* lambda' */
    int64_t spill_capacity; /* to begin with; ember_ffn_case_run grows it */
} ember_ffn_case_spec;

enum { EMBER_FFN_CASE_ZONE = 256 }; /* bytes of a red zone */

typedef struct ember_ffn_case {
    ember_backend *backend; /* borrowed */
    ember_ffn_shape shape;
    ember_ffn_args args;      /* all but mode and saved */
    ember_ffn_saved saved[2]; /* by mode */
    uint64_t l0_sum;
    double l1_sum;
    float *given_g; /* also kept when not used as args.given_g */
    int n_outputs;
    struct {
        const char *name;
        void *block; /* red zone, payload, red zone */
        size_t bytes;
        bool overwritten; /* by a call: filled with NaN before it; others begin at zero */
    } outputs[8];
    int n_inputs;
    void *inputs[8];
} ember_ffn_case;

EMBER_CHECKED ember_status ember_ffn_case_create(ember_ffn_case **out, ember_backend *backend, const ember_ffn_case_spec *spec);
void ember_ffn_case_free(ember_ffn_case *problem);

/* NaN in outputs that a call overwrites and in the saved block, zero in those it adds to, fresh red zones. */
void ember_ffn_case_reset(ember_ffn_case *problem, ember_ffn_mode mode);
/* A new saved block for this spill capacity, and the backend's scratch for it. */
EMBER_CHECKED ember_status ember_ffn_case_plan(ember_ffn_case *problem, ember_ffn_mode mode, int64_t spill_capacity);
/* One call, nothing else. */
EMBER_CHECKED ember_status ember_ffn_case_forward(ember_ffn_case *problem, ember_ffn_mode mode);
EMBER_CHECKED ember_status ember_ffn_case_backward(ember_ffn_case *problem, ember_ffn_mode mode);
/* reset, plan where the spill array is too small, forward, and backward where the case has one. */
EMBER_CHECKED ember_status ember_ffn_case_run(ember_ffn_case *problem, ember_ffn_mode mode);
/* Payload of output i, as the call sees it. */
static inline void *ember_ffn_case_output(const ember_ffn_case *problem, int i) {
    return (unsigned char *)problem->outputs[i].block + EMBER_FFN_CASE_ZONE;
}
/* Name of the first output whose red zone changed, or NULL. */
const char *ember_ffn_case_broken_zone(const ember_ffn_case *problem);

/* Largest |value - reference| / (2^-24 sqrt(terms) sum of magnitudes) over every element of every output. */
typedef struct ember_ffn_distance {
    double worst;
    const char *output;
    int64_t row;
    int64_t column;
    double value;
    double reference;
} ember_ffn_distance;
ember_ffn_distance ember_ffn_case_distance(const ember_ffn_case *problem, const ember_ffn_reference *reference);

enum { EMBER_FFN_TOLERANCE = 2 }; /* of `worst`; a lost firing is above it up to 20,000 terms a sum */

/* Floating-point operations of the mode as it ran: dense products, or one and the rest by non-zeros. */
double ember_ffn_case_flop(const ember_ffn_case *problem, ember_ffn_mode mode);

#endif
