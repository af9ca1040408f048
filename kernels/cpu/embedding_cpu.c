/* embedding_cpu.c
 * Math   y_i = table[ids_i];  d_table[ids_i] += dy_i.
 * Shapes table, d_table [V, d]; y, dy [M, d]; ids [M].
 * Map    forward: tokens over threads; backward: blocks of columns over threads, so that every
 *        element has one owner and needs neither atomics nor a sort.
 * Cost   memory: forward M d read and written; backward dy read once, touched rows read and written.
 * Order  a row of d_table sums its tokens in order.
 * Limits 0 <= id < V, checked. */
#include <string.h>

#include "kernels/cpu/backend_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "lib/base/status.h"

static ember_status check(const char *op, ember_tensor rows, ember_tensor table, const int32_t *ids) {
    if (rows.n_dims != 2 || table.n_dims != 2 || rows.dims[1] != table.dims[1]) {
        return ember_fail(EMBER_E_SHAPE, "%s: rows of %lld values and a table of %lld columns do not fit", op, (long long)rows.dims[1],
                          (long long)table.dims[1]);
    }
    for (int64_t i = 0; i < rows.dims[0]; i++) {
        if (ids[i] < 0 || ids[i] >= table.dims[0]) {
            return ember_fail(EMBER_E_ARGUMENT, "%s: token %lld has id %d, and the vocabulary has ids 0 to %lld", op, (long long)i, ids[i],
                              (long long)table.dims[0] - 1);
        }
    }
    return EMBER_OK;
}

ember_status ember_embedding_forward_cpu(ember_backend *backend, ember_tensor y, ember_tensor table, const int32_t *ids) {
    EMBER_TRY(check("embedding_forward", y, table, ids));
    const int64_t m = y.dims[0];
    const int64_t d = y.dims[1];
    float *out = y.data;
    const float *rows = table.data;
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (m > 16)
    for (int64_t i = 0; i < m; i++)
        memcpy(out + i * d, rows + ids[i] * d, (size_t)d * sizeof *out);
    return EMBER_OK;
}

ember_status ember_embedding_backward_cpu(ember_backend *backend, ember_tensor d_table, ember_tensor dy, const int32_t *ids) {
    enum { COLUMN_BLOCK = 32 };
    EMBER_TRY(check("embedding_backward", dy, d_table, ids));
    const int64_t m = dy.dims[0];
    const int64_t d = dy.dims[1];
    float *rows = d_table.data;
    const float *in = dy.data;
#pragma omp parallel for num_threads(backend->n_threads) schedule(static)
    for (int64_t j = 0; j < d; j += COLUMN_BLOCK) {
        const int64_t width = ember_min64(COLUMN_BLOCK, d - j);
        for (int64_t i = 0; i < m; i++) {
            float *to = rows + ids[i] * d + j;
            const float *from = in + i * d + j;
#pragma omp simd
            for (int64_t c = 0; c < width; c++)
                to[c] += from[c];
        }
    }
    return EMBER_OK;
}
