#include "train/history.h"

#include <string.h>

#include "lib/base/status.h"

/* One column: where it lies in a row, how wide a cell is, and what it is called in the file. */
typedef struct column {
    const char *name;
    ember_dtype dtype;
    bool per_layer;
} column;

enum { STEP, TOKENS_SEEN, LOSS, CE, L1, VALID_LOSS, LR, LAMBDA, GRAD_NORM, TOKENS_PER_S, L0_LAYER, L1_LAYER, DEAD, MODE, SPILL, N_COLUMNS };

static const column columns[N_COLUMNS] = {
    [STEP] = {"step", EMBER_I64, false},
    [TOKENS_SEEN] = {"tokens_seen", EMBER_I64, false},
    [LOSS] = {"loss", EMBER_F64, false},
    [CE] = {"ce", EMBER_F64, false},
    [L1] = {"l1", EMBER_F64, false},
    [VALID_LOSS] = {"valid_loss", EMBER_F64, false},
    [LR] = {"lr", EMBER_F64, false},
    [LAMBDA] = {"lambda", EMBER_F64, false},
    [GRAD_NORM] = {"grad_norm", EMBER_F64, false},
    [TOKENS_PER_S] = {"tokens_per_s", EMBER_F64, false},
    [L0_LAYER] = {"l0", EMBER_F32, true},
    [L1_LAYER] = {"l1_per_layer", EMBER_F32, true},
    [DEAD] = {"dead", EMBER_I32, true},
    [MODE] = {"mode", EMBER_U8, true},
    [SPILL] = {"spill", EMBER_I64, true},
};

struct ember_history {
    int64_t n_layers;
    int64_t n;
    int64_t capacity;
    void *data[N_COLUMNS]; /* [capacity] or [capacity, n_layers] */
};

static size_t row_bytes(const ember_history *history, int c) {
    return ember_dtype_bytes(columns[c].dtype) * (columns[c].per_layer ? (size_t)history->n_layers : 1);
}

ember_status ember_history_create(ember_history **out, int64_t n_layers) {
    *out = NULL;
    if (n_layers < 1 || n_layers > EMBER_MAX_LAYERS)
        return ember_fail(EMBER_E_ARGUMENT, "a history of %lld layers; 1 to %d are possible", (long long)n_layers, EMBER_MAX_LAYERS);
    void *block = NULL;
    EMBER_TRY(ember_allocate(&block, 1, sizeof(ember_history), "history"));
    *out = block;
    (*out)->n_layers = n_layers;
    return EMBER_OK;
}

void ember_history_free(ember_history *history) {
    if (!history) return;
    for (int c = 0; c < N_COLUMNS; c++)
        ember_release(history->data[c]);
    ember_release(history);
}

int64_t ember_history_n(const ember_history *history) { return history->n; }
int64_t ember_history_n_layers(const ember_history *history) { return history->n_layers; }

ember_status ember_history_reserve(ember_history *history, int64_t n) {
    if (n <= history->capacity) return EMBER_OK;
    void *grown[N_COLUMNS] = {NULL};
    for (int c = 0; c < N_COLUMNS; c++) {
        const ember_status status = ember_allocate(&grown[c], (size_t)n, row_bytes(history, c), "history column");
        if (status != EMBER_OK) {
            for (int done = 0; done < c; done++)
                ember_release(grown[done]);
            return status;
        }
    }
    for (int c = 0; c < N_COLUMNS; c++) {
        if (history->n > 0) memcpy(grown[c], history->data[c], (size_t)history->n * row_bytes(history, c));
        ember_release(history->data[c]);
        history->data[c] = grown[c];
    }
    history->capacity = n;
    return EMBER_OK;
}

/* Cell of column `c` in row `index`. */
static void *cell(const ember_history *history, int c, int64_t index) {
    return (char *)history->data[c] + (size_t)index * row_bytes(history, c);
}

/* Addresses of the row's fields, in column order. */
static void row_fields(ember_history_row *row, void *fields[N_COLUMNS]) {
    fields[STEP] = &row->step;
    fields[TOKENS_SEEN] = &row->tokens_seen;
    fields[LOSS] = &row->loss;
    fields[CE] = &row->ce;
    fields[L1] = &row->l1;
    fields[VALID_LOSS] = &row->valid_loss;
    fields[LR] = &row->lr;
    fields[LAMBDA] = &row->lambda;
    fields[GRAD_NORM] = &row->grad_norm;
    fields[TOKENS_PER_S] = &row->tokens_per_s;
    fields[L0_LAYER] = row->l0;
    fields[L1_LAYER] = row->l1_per_layer;
    fields[DEAD] = row->dead;
    fields[MODE] = row->mode;
    fields[SPILL] = row->spill;
}

ember_status ember_history_append(ember_history *history, const ember_history_row *row) {
    if (history->n > 0) {
        const int64_t last = *(const int64_t *)cell(history, STEP, history->n - 1);
        if (row->step != last + 1)
            return ember_fail(EMBER_E_STATE, "history: step %lld cannot follow step %lld", (long long)row->step, (long long)last);
    }
    if (history->n == history->capacity) EMBER_TRY(ember_history_reserve(history, history->n + history->n / 2 + 64));
    ember_history_row copy = *row;
    void *fields[N_COLUMNS];
    row_fields(&copy, fields);
    for (int c = 0; c < N_COLUMNS; c++)
        memcpy(cell(history, c, history->n), fields[c], row_bytes(history, c));
    history->n++;
    return EMBER_OK;
}

ember_history_row ember_history_at(const ember_history *history, int64_t index) {
    ember_history_row row = {.l0 = cell(history, L0_LAYER, index),
                             .l1_per_layer = cell(history, L1_LAYER, index),
                             .dead = cell(history, DEAD, index),
                             .mode = cell(history, MODE, index),
                             .spill = cell(history, SPILL, index)};
    void *fields[N_COLUMNS];
    row_fields(&row, fields);
    for (int c = 0; c < N_COLUMNS; c++) {
        if (!columns[c].per_layer) memcpy(fields[c], cell(history, c, index), row_bytes(history, c));
    }
    return row;
}

void ember_history_set_valid_loss(ember_history *history, int64_t index, double valid_loss) {
    memcpy(cell(history, VALID_LOSS, index), &valid_loss, sizeof valid_loss);
}

static ember_tensor column_tensor(const ember_history *history, int c) {
    if (columns[c].per_layer) return ember_tensor_2d(history->data[c], columns[c].dtype, history->n, history->n_layers);
    return ember_tensor_1d(history->data[c], columns[c].dtype, history->n);
}

ember_status ember_history_save(const ember_history *history, ember_checkpoint_writer *writer) {
    for (int c = 0; c < N_COLUMNS; c++)
        EMBER_TRY(ember_checkpoint_put(writer, "history", columns[c].name, column_tensor(history, c)));
    return EMBER_OK;
}

ember_status ember_history_load(ember_history *history, const ember_checkpoint *checkpoint) {
    ember_h5_info info;
    EMBER_TRY(ember_checkpoint_info(checkpoint, "history", columns[STEP].name, &info));
    if (info.n_dims != 1) return ember_fail(EMBER_E_SHAPE, "/history/step has %d dimensions, not 1", info.n_dims);
    history->n = 0;
    EMBER_TRY(ember_history_reserve(history, info.dims[0]));
    history->n = info.dims[0];
    for (int c = 0; c < N_COLUMNS; c++) {
        const ember_status status = ember_checkpoint_get(checkpoint, "history", columns[c].name, column_tensor(history, c));
        if (status != EMBER_OK) {
            history->n = 0;
            return status;
        }
    }
    const int64_t *steps = history->data[STEP];
    for (int64_t i = 1; i < history->n; i++) {
        if (steps[i] != steps[i - 1] + 1) {
            history->n = 0;
            return ember_fail(EMBER_E_CORRUPT, "/history/step: row %lld is step %lld after step %lld", (long long)i, (long long)steps[i],
                              (long long)steps[i - 1]);
        }
    }
    return EMBER_OK;
}
