/* rooms: kernels base */
#include <math.h>

#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_rope_cases);
}

static void refusals(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    float qkv[12] = {0};
    static const float table[4] = {1, 1, 1, 1};
    static const int32_t positions[1] = {-2};
    ember_rope_args args = {.n_tokens = 1,
                            .n_heads = 1,
                            .n_kv_heads = 1,
                            .head_dim = 3,
                            .qkv = qkv,
                            .positions = positions,
                            .cos_table = table,
                            .sin_table = table};
    check_fails(backend->ops->rope(backend, &args), EMBER_E_SHAPE, "head_dim 3");
    args.head_dim = 4;
    check_fails(backend->ops->rope(backend, &args), EMBER_E_ARGUMENT, "-2");
    ember_backend_free(backend);
}

/* Half-split pairs, as Hugging Face stores them: element 0 turns with element D / 2, not with element 1;
 * v does not turn; backward undoes forward. */
static void pairs(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    float qkv[12] = {1, 0, 0, 0, 0, 2, 0, 0, 5, 6, 7, 8};
    static const float cosine[4] = {1, 1, 0, 0}; /* position 1: a quarter turn */
    static const float sine[4] = {0, 0, 1, 1};
    static const int32_t positions[1] = {1};
    ember_rope_args args = {.n_tokens = 1,
                            .n_heads = 1,
                            .n_kv_heads = 1,
                            .head_dim = 4,
                            .qkv = qkv,
                            .positions = positions,
                            .cos_table = cosine,
                            .sin_table = sine};
    check_ok(backend->ops->rope(backend, &args));
    static const float turned[12] = {0, 0, 1, 0, 0, 0, 0, 2, 5, 6, 7, 8};
    for (int i = 0; i < 12; i++)
        assert_float_equal(qkv[i], turned[i], 0.0F);
    args.backward = true;
    check_ok(backend->ops->rope(backend, &args));
    static const float back[12] = {1, 0, 0, 0, 0, 2, 0, 0, 5, 6, 7, 8};
    for (int i = 0; i < 12; i++)
        assert_float_equal(qkv[i], back[i], 0.0F);
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(refusals), cmocka_unit_test(pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
