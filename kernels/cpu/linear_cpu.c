/* linear_cpu.c
 * Math   y = beta y + x W^T + bias;  dx = beta dx + dy W;  dW += dy^T x;  d_bias += column sums of dy.
 * Shapes x [M, K], W [N, K], y and dy [M, N].
 * Map    the products are ember_sgemm; bias by rows, column sums by blocks of columns.
 * Cost   2 M N K FLOP each.
 * Order  fixed panels; a column sum runs over the tokens in order, in double.
 * Limits shapes must agree; float32. */
#include "kernels/cpu/backend_cpu.h"
#include "kernels/cpu/gemm_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "lib/base/status.h"

/* a [M, N], b [M, K], w [N, K] */
static ember_status check(const char *op, ember_tensor a, ember_tensor b, ember_tensor w) {
    if (a.n_dims != 2 || b.n_dims != 2 || w.n_dims != 2 || a.dims[0] != b.dims[0] || a.dims[1] != w.dims[0] || b.dims[1] != w.dims[1]) {
        return ember_fail(EMBER_E_SHAPE,
                          "%s: outputs [%lld, %lld], inputs [%lld, %lld], weight [%lld, %lld] do not fit as [M, N], [M, K], [N, K]", op,
                          (long long)a.dims[0], (long long)a.dims[1], (long long)b.dims[0], (long long)b.dims[1], (long long)w.dims[0],
                          (long long)w.dims[1]);
    }
    if (a.dtype != EMBER_F32 || b.dtype != EMBER_F32 || w.dtype != EMBER_F32) {
        return ember_fail(EMBER_E_SHAPE, "%s: the CPU takes f32, got %s, %s, %s", op, ember_dtype_name(a.dtype), ember_dtype_name(b.dtype),
                          ember_dtype_name(w.dtype));
    }
    return EMBER_OK;
}

ember_status ember_linear_forward_cpu(ember_backend *backend, ember_tensor y, ember_tensor x, ember_tensor w, const float *bias,
                                      float beta) {
    EMBER_TRY(check("linear_forward", y, x, w));
    const int64_t m = y.dims[0];
    const int64_t n = y.dims[1];
    const int64_t k = x.dims[1];
    ember_sgemm(backend, false, true, m, n, k, 1.0F, x.data, k, w.data, k, beta, y.data, n);
    if (!bias) return EMBER_OK;
    float *out = y.data;
#pragma omp parallel for num_threads(backend->n_threads) schedule(static) if (m > 16)
    for (int64_t i = 0; i < m; i++) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            out[i * n + j] += bias[j];
    }
    return EMBER_OK;
}

ember_status ember_linear_backward_input_cpu(ember_backend *backend, ember_tensor dx, ember_tensor dy, ember_tensor w, float beta) {
    EMBER_TRY(check("linear_backward_input", dy, dx, w));
    const int64_t n = dy.dims[1];
    const int64_t k = dx.dims[1];
    ember_sgemm(backend, false, false, dx.dims[0], k, n, 1.0F, dy.data, n, w.data, k, beta, dx.data, k);
    return EMBER_OK;
}

static void column_sums(const ember_backend *backend, int64_t m, int64_t n, const float *dy, float *d_bias) {
    enum { BLOCK = 32 };
    const int64_t n_blocks = ember_ceil_div(n, BLOCK);
#pragma omp parallel for num_threads(backend->n_threads) schedule(static)
    for (int64_t block = 0; block < n_blocks; block++) {
        const int64_t j = block * BLOCK;
        const int64_t width = ember_min64(BLOCK, n - j);
        double sums[BLOCK] = {0};
        for (int64_t i = 0; i < m; i++) {
            for (int64_t c = 0; c < width; c++)
                sums[c] += (double)dy[i * n + j + c];
        }
        for (int64_t c = 0; c < width; c++)
            d_bias[j + c] += (float)sums[c];
    }
}

ember_status ember_linear_backward_weight_cpu(ember_backend *backend, ember_tensor dw, float *d_bias, ember_tensor dy, ember_tensor x) {
    EMBER_TRY(check("linear_backward_weight", dy, x, dw));
    const int64_t m = dy.dims[0];
    const int64_t n = dy.dims[1];
    const int64_t k = x.dims[1];
    ember_sgemm(backend, true, false, n, k, m, 1.0F, dy.data, n, x.data, k, 1.0F, dw.data, k);
    if (d_bias) column_sums(backend, m, n, dy.data, d_bias);
    return EMBER_OK;
}
