/* rooms: kernels base */
#include <math.h>

#include "lib/base/philox.h"
#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_attention_cached_cases);
}

enum { T = 75, CAPACITY = 80, H = 4, KV = 2, D = 10, WIDTH = (H + 2 * KV) * D };

/* Queries are aligned to the end of the keys: prefill in chunks of 1, 2, 7 and T tokens gives what one
 * pass of the training attention gives. */
static void chunks(void **state) {
    (void)state;
    static const int lengths[] = {1, 2, 7, 64, T};
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    const ember_workspace_shape shape = {.n_tokens = T,
                                         .sequence_length = CAPACITY,
                                         .n_heads = H,
                                         .n_kv_heads = KV,
                                         .head_dim = D,
                                         .hidden = 8,
                                         .n_neurons = 1,
                                         .vocab_size = 1,
                                         .compression = 8};
    check_ok(backend->ops->prepare(backend, &shape));
    static float qkv[T * WIDTH], whole[T * H * D], parts[T * H * D], k_cache[KV * CAPACITY * D], v_cache[KV * CAPACITY * D];
    for (int i = 0; i < T * WIDTH; i++)
        qkv[i] = ember_philox_normal(2, 1, (uint64_t)i);
    const ember_attention_args one = {
        .n_sequences = 1, .sequence_length = T, .n_heads = H, .n_kv_heads = KV, .head_dim = D, .qkv = qkv, .out = whole};
    check_ok(backend->ops->attention_forward(backend, &one));
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (int i = 0; i < KV * CAPACITY * D; i++)
            k_cache[i] = v_cache[i] = NAN; /* what is not stored must not be read */
        for (int past = 0; past < T; past += lengths[l]) {
            const int n_new = past + lengths[l] < T ? lengths[l] : T - past;
            const ember_attention_cached_args args = {.n_new = n_new,
                                                      .n_past = past,
                                                      .capacity = CAPACITY,
                                                      .n_heads = H,
                                                      .n_kv_heads = KV,
                                                      .head_dim = D,
                                                      .qkv = qkv + past * WIDTH,
                                                      .k_cache = k_cache,
                                                      .v_cache = v_cache,
                                                      .out = parts + past * H * D};
            check_ok(backend->ops->attention_cached(backend, &args));
        }
        for (int i = 0; i < T * H * D; i++)
            assert_float_equal(parts[i], whole[i], 2e-6F);
    }
    ember_backend_free(backend);
}

static void refusals(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    float block[64] = {0};
    ember_attention_cached_args args = {.n_new = 2,
                                        .n_past = 3,
                                        .capacity = 4,
                                        .n_heads = 1,
                                        .n_kv_heads = 1,
                                        .head_dim = 2,
                                        .qkv = block,
                                        .k_cache = block,
                                        .v_cache = block,
                                        .out = block};
    check_fails(backend->ops->attention_cached(backend, &args), EMBER_E_ARGUMENT, "cache of 4");
    args.capacity = 5;
    check_fails(backend->ops->attention_cached(backend, &args), EMBER_E_STATE, "prepare");
    args.head_dim = 257;
    check_fails(backend->ops->attention_cached(backend, &args), EMBER_E_SHAPE, "257");
    args.n_kv_heads = 0;
    check_fails(backend->ops->attention_cached(backend, &args), EMBER_E_SHAPE, "0 key/value heads");
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(chunks), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
