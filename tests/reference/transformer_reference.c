#include "tests/reference/transformer_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reference_layer {
    const double *attention_norm, *q, *k, *v, *q_bias, *k_bias, *v_bias, *q_norm, *k_norm, *o, *ffn_norm, *gate, *up, *down;
} reference_layer;

static double *zeros(int64_t n) {
    double *block = calloc((size_t)(n > 0 ? n : 1), sizeof(double));
    if (!block) abort();
    return block;
}

/* Every parameter by what it is. */
typedef struct reference_model {
    const double *embedding, *final_norm, *head;
    reference_layer layers[EMBER_MAX_LAYERS];
} reference_model;

static void find_params(reference_model *out, const ember_hparams *p, double *const *params) {
    memset(out, 0, sizeof *out);
    for (int64_t i = 0; i < ember_hparams_n_params(p); i++) {
        const ember_param_spec spec = ember_hparams_param(p, i);
        reference_layer *layer = &out->layers[spec.layer < 0 ? 0 : spec.layer];
        switch (spec.role) {
        case EMBER_PARAM_EMBEDDING: out->embedding = params[i]; break;
        case EMBER_PARAM_FINAL_NORM: out->final_norm = params[i]; break;
        case EMBER_PARAM_HEAD: out->head = params[i]; break;
        case EMBER_PARAM_ATTENTION_NORM: layer->attention_norm = params[i]; break;
        case EMBER_PARAM_Q: layer->q = params[i]; break;
        case EMBER_PARAM_K: layer->k = params[i]; break;
        case EMBER_PARAM_V: layer->v = params[i]; break;
        case EMBER_PARAM_Q_BIAS: layer->q_bias = params[i]; break;
        case EMBER_PARAM_K_BIAS: layer->k_bias = params[i]; break;
        case EMBER_PARAM_V_BIAS: layer->v_bias = params[i]; break;
        case EMBER_PARAM_Q_NORM: layer->q_norm = params[i]; break;
        case EMBER_PARAM_K_NORM: layer->k_norm = params[i]; break;
        case EMBER_PARAM_O: layer->o = params[i]; break;
        case EMBER_PARAM_FFN_NORM: layer->ffn_norm = params[i]; break;
        case EMBER_PARAM_GATE: layer->gate = params[i]; break;
        case EMBER_PARAM_UP: layer->up = params[i]; break;
        case EMBER_PARAM_DOWN: layer->down = params[i]; break;
        }
    }
    if (!out->head) out->head = out->embedding;
}

/* y[n_rows] = w[n_rows, n] x + bias */
static void multiply(double *y, const double *w, const double *bias, const double *x, int64_t n_rows, int64_t n) {
    for (int64_t row = 0; row < n_rows; row++) {
        double sum = bias ? bias[row] : 0.0;
        for (int64_t i = 0; i < n; i++)
            sum += w[row * n + i] * x[i];
        y[row] = sum;
    }
}

static void rmsnorm(double *y, const double *x, const double *weight, int64_t n, double eps) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    const double scale = 1.0 / sqrt(sum / (double)n + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * scale * weight[i];
}

/* Radians per position of a pair (i, i + D/2); Su et al. 2021; scalings as the Llama configs define them. */
static double rope_frequency(const ember_hparams *p, int64_t pair) {
    const double base = 1.0 / pow(p->rope_theta, (double)(2 * pair) / (double)p->head_dim);
    if (p->rope_scaling == EMBER_ROPE_NONE) return base;
    if (p->rope_scaling == EMBER_ROPE_LINEAR) return base / p->rope_factor;
    const double turns = (double)p->rope_original_max_position_embeddings * base / (2.0 * acos(-1.0));
    if (turns < p->rope_low_freq_factor) return base / p->rope_factor;
    if (turns > p->rope_high_freq_factor) return base;
    const double smooth = (turns - p->rope_low_freq_factor) / (p->rope_high_freq_factor - p->rope_low_freq_factor);
    return base * (smooth + (1.0 - smooth) / p->rope_factor);
}

static void rotate(const ember_hparams *p, double *head, int64_t position) {
    const int64_t half = p->head_dim / 2;
    for (int64_t pair = 0; pair < half; pair++) {
        const double angle = (double)position * rope_frequency(p, pair);
        const double a = head[pair], b = head[pair + half];
        head[pair] = a * cos(angle) - b * sin(angle);
        head[pair + half] = b * cos(angle) + a * sin(angle);
    }
}

/* q, k or v of one token: product, norm of each head, rotation. */
static void project(const ember_hparams *p, double *out, const double *x, const double *w, const double *bias, const double *norm,
                    int64_t n_heads, int64_t position, bool with_rope) {
    multiply(out, w, bias, x, n_heads * p->head_dim, p->hidden_size);
    for (int64_t head = 0; head < n_heads; head++) {
        if (norm) rmsnorm(out + head * p->head_dim, out + head * p->head_dim, norm, p->head_dim, p->rms_norm_eps);
        if (with_rope) rotate(p, out + head * p->head_dim, position);
    }
}

/* Attention of one query head over keys [first, last] of its key/value head. */
static void attend(const ember_hparams *p, double *out, const double *q, const double *k, const double *v, int64_t stride, int64_t first,
                   int64_t last) {
    double *share = zeros(last + 1);
    double total = 0.0, top = -INFINITY;
    for (int64_t t = first; t <= last; t++) {
        double dot = 0.0;
        for (int64_t i = 0; i < p->head_dim; i++)
            dot += q[i] * k[t * stride + i];
        share[t] = dot / sqrt((double)p->head_dim);
        top = fmax(top, share[t]);
    }
    for (int64_t t = first; t <= last; t++)
        total += share[t] = exp(share[t] - top);
    for (int64_t i = 0; i < p->head_dim; i++) {
        out[i] = 0.0;
        for (int64_t t = first; t <= last; t++)
            out[i] += share[t] / total * v[t * stride + i];
    }
    free(share);
}

static void attention_block(const ember_hparams *p, const reference_layer *w, double *x, const int32_t *document_start, int64_t length) {
    const int64_t d = p->hidden_size;
    const int64_t q_n = p->num_attention_heads * p->head_dim;
    const int64_t kv_n = p->num_key_value_heads * p->head_dim;
    double *normed = zeros(d), *q = zeros(length * q_n), *k = zeros(length * kv_n), *v = zeros(length * kv_n);
    double *heads = zeros(q_n), *y = zeros(d);
    for (int64_t t = 0; t < length; t++) {
        rmsnorm(normed, x + t * d, w->attention_norm, d, p->rms_norm_eps);
        project(p, q + t * q_n, normed, w->q, w->q_bias, w->q_norm, p->num_attention_heads, t, true);
        project(p, k + t * kv_n, normed, w->k, w->k_bias, w->k_norm, p->num_key_value_heads, t, true);
        project(p, v + t * kv_n, normed, w->v, w->v_bias, NULL, p->num_key_value_heads, t, false);
    }
    for (int64_t t = 0; t < length; t++) {
        for (int64_t head = 0; head < p->num_attention_heads; head++) {
            const int64_t kv_head = head / (p->num_attention_heads / p->num_key_value_heads);
            attend(p, heads + head * p->head_dim, q + t * q_n + head * p->head_dim, k + kv_head * p->head_dim, v + kv_head * p->head_dim,
                   kv_n, document_start ? document_start[t] : 0, t);
        }
        multiply(y, w->o, NULL, heads, d, q_n);
        for (int64_t i = 0; i < d; i++)
            x[t * d + i] += y[i];
    }
    free(y);
    free(heads);
    free(v);
    free(k);
    free(q);
    free(normed);
}

static double activate(ember_activation activation, double g) {
    if (activation == EMBER_SILU) return g / (1.0 + exp(-g));
    const double relu = g > 0 ? g : 0.0;
    return activation == EMBER_RELU2 ? relu * relu : relu;
}

/* The FFN of one token, added to its residual; *l0 neurons fired, *l1 = sum |h_j|. */
static void feed_forward(const ember_hparams *p, const reference_layer *w, int64_t n_neurons, double *x, double *l0, double *l1) {
    const int64_t d = p->hidden_size;
    double *normed = zeros(d), *up = zeros(n_neurons), *gate = zeros(n_neurons);
    rmsnorm(normed, x, w->ffn_norm, d, p->rms_norm_eps);
    multiply(up, w->up, NULL, normed, n_neurons, d);
    if (w->gate) multiply(gate, w->gate, NULL, normed, n_neurons, d);
    *l0 = 0.0;
    *l1 = 0.0;
    for (int64_t j = 0; j < n_neurons; j++) {
        const double g = w->gate ? gate[j] : up[j];
        const double h = w->gate ? activate(p->activation, g) * up[j] : activate(p->activation, g);
        *l0 += p->activation == EMBER_SILU || g > 0 ? 1.0 : 0.0;
        *l1 += fabs(h);
        for (int64_t i = 0; i < d; i++)
            x[i] += h * w->down[j * d + i];
    }
    free(gate);
    free(up);
    free(normed);
}

static void token_loss(reference_result *out, const double *logits, int64_t vocab_size, int32_t target) {
    if (target < 0) return;
    double top = -INFINITY, total = 0.0;
    for (int64_t i = 0; i < vocab_size; i++)
        top = fmax(top, logits[i]);
    for (int64_t i = 0; i < vocab_size; i++)
        total += exp(logits[i] - top);
    out->ce_sum += top + log(total) - logits[target];
    out->n_targets++;
}

static void run_sequence(reference_result *out, double *logits, const ember_hparams *p, const reference_model *model,
                         const reference_batch *batch, int64_t sequence) {
    const int64_t d = p->hidden_size;
    const int64_t length = batch->sequence_length;
    const int64_t offset = sequence * length;
    double *x = zeros(length * d), *normed = zeros(d), *row = zeros(p->vocab_size);
    for (int64_t t = 0; t < length; t++)
        memcpy(x + t * d, model->embedding + batch->input_ids[offset + t] * d, (size_t)d * sizeof(double));
    for (int layer = 0; layer < (int)p->num_hidden_layers; layer++) {
        attention_block(p, &model->layers[layer], x, batch->document_start ? batch->document_start + offset : NULL, length);
        for (int64_t t = 0; t < length; t++) {
            double l0 = 0.0, l1 = 0.0;
            feed_forward(p, &model->layers[layer], p->neurons[layer], x + t * d, &l0, &l1);
            const bool real = !batch->mask || batch->mask[offset + t];
            out->l0_sum[layer] += real ? l0 : 0.0;
            out->l1_sum[layer] += real ? l1 : 0.0;
        }
    }
    for (int64_t t = 0; t < length; t++) {
        rmsnorm(normed, x + t * d, model->final_norm, d, p->rms_norm_eps);
        multiply(row, model->head, NULL, normed, p->vocab_size, d);
        if (logits) memcpy(logits + (offset + t) * p->vocab_size, row, (size_t)p->vocab_size * sizeof(double));
        token_loss(out, row, p->vocab_size, batch->target_ids ? batch->target_ids[offset + t] : -1);
        out->n_inputs += !batch->mask || batch->mask[offset + t] ? 1 : 0;
    }
    free(row);
    free(normed);
    free(x);
}

void transformer_reference_forward(reference_result *out, double *logits, const ember_hparams *p, double *const *params,
                                   const reference_batch *batch) {
    memset(out, 0, sizeof *out);
    static reference_model model; /* large */
    find_params(&model, p, params);
    for (int64_t sequence = 0; sequence < batch->n_sequences; sequence++)
        run_sequence(out, logits, p, &model, batch, sequence);
}

double transformer_reference_loss(const ember_hparams *p, double *const *params, const reference_batch *batch, const double *lambda) {
    reference_result result;
    transformer_reference_forward(&result, NULL, p, params, batch);
    double loss = result.ce_sum / (double)result.n_targets;
    for (int64_t layer = 0; layer < p->num_hidden_layers; layer++)
        loss += lambda[layer] / (double)p->num_hidden_layers * result.l1_sum[layer] / (double)result.n_inputs;
    return loss;
}

double transformer_reference_gradient(const ember_hparams *p, double *const *params, const reference_batch *batch, const double *lambda,
                                      int64_t index, int64_t element) {
    const double step = 1e-6;
    double *at = &params[index][element];
    const double before = *at;
    *at = before + step;
    const double above = transformer_reference_loss(p, params, batch, lambda);
    *at = before - step;
    const double below = transformer_reference_loss(p, params, batch, lambda);
    *at = before;
    return (above - below) / (2.0 * step);
}
