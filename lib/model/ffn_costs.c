#include "lib/model/ffn_costs.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "lib/base/status.h"

const double ember_cost_densities[EMBER_COST_POINTS] = {0.002, 0.02, 0.08, 0.25};

static const char *const dense_keys[2] = {"dense_ms", "forward_dense_ms"};
static const char *const sparse_keys[2] = {"sparse_ms", "forward_sparse_ms"};

bool ember_ffn_costs_same_shape(const ember_ffn_shape *a, const ember_ffn_shape *b) {
    return a->hidden == b->hidden && a->n_neurons == b->n_neurons && a->kind == b->kind && a->activation == b->activation &&
           a->compression == b->compression;
}

double ember_ffn_cost_sparse(const ember_ffn_cost *cost, int direction, double density) {
    const double *ms = cost->sparse_ms[direction];
    int i = 0;
    while (i < EMBER_COST_POINTS - 2 && density > ember_cost_densities[i + 1])
        i++;
    const double slope = (ms[i + 1] - ms[i]) / (ember_cost_densities[i + 1] - ember_cost_densities[i]);
    const double at = ms[i] + slope * (density - ember_cost_densities[i]);
    return at > 0 ? at : 0;
}

static json_t *numbers(const double *values, int n) {
    json_t *array = json_array();
    for (int i = 0; array && i < n; i++) {
        if (json_array_append_new(array, json_real(values[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *entry_to_json(const ember_ffn_cost *cost) {
    const ember_ffn_shape *s = &cost->shape;
    json_t *entry = json_pack("{s:I, s:I, s:s, s:s, s:I, s:I}", "hidden", (json_int_t)s->hidden, "neurons", (json_int_t)s->n_neurons,
                              "kind", ember_ffn_kind_name(s->kind), "activation", ember_activation_name(s->activation), "compression",
                              (json_int_t)s->compression, "tokens", (json_int_t)s->n_tokens);
    int failed = entry ? 0 : 1;
    failed |= json_object_set_new(entry, "density", numbers(ember_cost_densities, EMBER_COST_POINTS));
    for (int k = 0; k < 2; k++) {
        failed |= json_object_set_new(entry, dense_keys[k], json_real(cost->dense_ms[k]));
        failed |= json_object_set_new(entry, sparse_keys[k], numbers(cost->sparse_ms[k], EMBER_COST_POINTS));
    }
    if (failed) {
        json_decref(entry);
        return NULL;
    }
    return entry;
}

ember_status ember_ffn_costs_to_json(const ember_ffn_costs *costs, ember_bytes *out) {
    json_t *root = json_pack("{s:s, s:i, s:s, s:[]}", "format", "ember-ffn-costs", "version", 1, "device", "cpu", "entries");
    ember_status status = root ? EMBER_OK : ember_fail(EMBER_E_MEMORY, "FFN cost table: no memory for its JSON");
    for (int64_t i = 0; status == EMBER_OK && i < costs->n; i++) {
        if (!costs->entry[i].measured) continue;
        if (json_array_append_new(json_object_get(root, "entries"), entry_to_json(&costs->entry[i])) != 0) {
            status = ember_fail(EMBER_E_MEMORY, "FFN cost table: no memory for its JSON");
        }
    }
    char *text = status == EMBER_OK ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    if (status == EMBER_OK && !text) status = ember_fail(EMBER_E_MEMORY, "FFN cost table: no memory for its text");
    if (status == EMBER_OK) status = ember_bytes_append(out, text, strlen(text));
    free(text);
    json_decref(root);
    return status;
}

static ember_status malformed(const char *name, const char *what) {
    return ember_fail(EMBER_E_FORMAT, "%s: not a usable FFN cost table: %s; delete it to measure anew", name, what);
}

/* A finite positive number. */
static bool read_ms(const json_t *value, double *out) {
    if (!json_is_number(value)) return false;
    *out = json_number_value(value);
    return isfinite(*out) && *out > 0;
}

static ember_status read_costs(const json_t *json, ember_ffn_cost *cost, const char *name) {
    const json_t *density = json_object_get(json, "density");
    if (json_array_size(density) != EMBER_COST_POINTS) return malformed(name, "\"density\" must have 4 values");
    for (size_t i = 0; i < EMBER_COST_POINTS; i++) {
        double at = 0;
        if (!read_ms(json_array_get(density, i), &at) || at != ember_cost_densities[i]) {
            return malformed(name, "\"density\" is not that of this version");
        }
    }
    for (int k = 0; k < 2; k++) {
        if (!read_ms(json_object_get(json, dense_keys[k]), &cost->dense_ms[k]))
            return malformed(name, "a dense time is missing or not positive");
        const json_t *sparse = json_object_get(json, sparse_keys[k]);
        if (json_array_size(sparse) != EMBER_COST_POINTS) return malformed(name, "a list of sparse times must have 4 values");
        for (size_t i = 0; i < EMBER_COST_POINTS; i++) {
            if (!read_ms(json_array_get(sparse, i), &cost->sparse_ms[k][i])) return malformed(name, "a sparse time is not positive");
        }
    }
    cost->measured = true;
    return EMBER_OK;
}

static bool read_shape(const json_t *json, ember_ffn_shape *shape) {
    const char *kind = json_string_value(json_object_get(json, "kind"));
    const char *activation = json_string_value(json_object_get(json, "activation"));
    if (!kind || !activation || !ember_ffn_kind_parse(kind, &shape->kind) || !ember_activation_parse(activation, &shape->activation))
        return false;
    shape->hidden = json_integer_value(json_object_get(json, "hidden"));
    shape->n_neurons = json_integer_value(json_object_get(json, "neurons"));
    shape->compression = json_integer_value(json_object_get(json, "compression"));
    shape->n_tokens = json_integer_value(json_object_get(json, "tokens"));
    return shape->n_tokens > 0;
}

static ember_status find_entry(const json_t *entries, ember_ffn_cost *cost, const char *name) {
    size_t i = 0;
    const json_t *json = NULL;
    json_array_foreach(entries, i, json) {
        ember_ffn_shape shape = {0};
        if (!read_shape(json, &shape)) return malformed(name, "an entry lacks a part of its shape");
        if (!ember_ffn_costs_same_shape(&shape, &cost->shape)) continue;
        cost->shape = shape;
        return read_costs(json, cost, name);
    }
    const ember_ffn_shape *s = &cost->shape;
    return ember_fail(EMBER_E_NOT_FOUND, "%s: the FFN cost table has no entry for hidden %lld, neurons %lld, %s %s, compression %lld", name,
                      (long long)s->hidden, (long long)s->n_neurons, ember_ffn_kind_name(s->kind), ember_activation_name(s->activation),
                      (long long)s->compression);
}

ember_status ember_ffn_costs_from_json(ember_ffn_costs *costs, const char *json, size_t n, const char *name) {
    json_error_t error;
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &error);
    if (!root) return ember_fail(EMBER_E_FORMAT, "%s: line %d: not JSON: %s", name, error.line, error.text);
    ember_ffn_costs filled = {.n = costs->n};
    void *block = NULL;
    ember_status status = ember_allocate(&block, (size_t)costs->n, sizeof(ember_ffn_cost), "FFN cost table");
    filled.entry = block;
    const char *format = json_string_value(json_object_get(root, "format"));
    if (status == EMBER_OK && (!format || strcmp(format, "ember-ffn-costs") != 0))
        status = malformed(name, "\"format\" is not ember-ffn-costs");
    if (status == EMBER_OK && json_integer_value(json_object_get(root, "version")) != 1) {
        status = ember_fail(EMBER_E_VERSION, "%s: FFN cost table of a version other than 1; delete it to measure anew", name);
    }
    for (int64_t i = 0; status == EMBER_OK && i < costs->n; i++) {
        filled.entry[i].shape = costs->entry[i].shape;
        status = find_entry(json_object_get(root, "entries"), &filled.entry[i], name);
    }
    if (status == EMBER_OK) memcpy(costs->entry, filled.entry, (size_t)costs->n * sizeof(ember_ffn_cost));
    ember_release(filled.entry);
    json_decref(root);
    return status;
}
