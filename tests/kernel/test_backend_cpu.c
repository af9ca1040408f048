/* rooms: kernels base */
/* The CPU backend itself: threads, instruction set, planned scratch. */
#include "kernels/cpu/backend_cpu.h"
#include "kernels/cpu/ops_cpu.h"
#include "tests/check.h"

static const ember_workspace_shape small = {.n_tokens = 8,
                                            .sequence_length = 8,
                                            .hidden = 8,
                                            .n_neurons = 8,
                                            .vocab_size = 8,
                                            .n_heads = 1,
                                            .n_kv_heads = 1,
                                            .head_dim = 8,
                                            .compression = 8,
                                            .spill_capacity = 64,
                                            .training = true};

static void create(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 0));
    assert_true(backend->n_threads >= 1);
    ember_backend_free(backend);
    check_ok(ember_cpu_backend_create(&backend, 3));
    assert_int_equal(backend->n_threads, 3);
    ember_bytes line = {0};
    check_ok(ember_cpu_describe(backend, &line));
    assert_non_null(strstr(line.data, "3 threads"));
    assert_non_null(strstr(line.data, ember_cpu_isa_name(ember_cpu_isa_of(backend))));
    assert_non_null(strstr(line.data, "BLAS") ? strstr(line.data, "BLAS") : strstr(line.data, "BLIS"));
    ember_bytes_free(&line);
    ember_backend_free(backend);
    check_fails(ember_cpu_backend_create(&backend, -1), EMBER_E_ARGUMENT, "-1");
    assert_null(backend);
    ember_backend_free(NULL);
}

static void instruction_set(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    assert_int_equal(setenv("EMBER_CPU", "plain", 1), 0);
    check_ok(ember_cpu_backend_create(&backend, 1));
    assert_int_equal(ember_cpu_isa_of(backend), EMBER_ISA_PLAIN);
    ember_cpu_set_isa(backend, EMBER_ISA_AVX512);
    assert_int_equal(ember_cpu_isa_of(backend), ember_cpu_isa_best());
    ember_backend_free(backend);
    assert_int_equal(setenv("EMBER_CPU", "avx512", 1), 0);
    check_ok(ember_cpu_backend_create(&backend, 1));
    assert_int_equal(ember_cpu_isa_of(backend), ember_cpu_isa_best());
    ember_backend_free(backend);
    assert_int_equal(setenv("EMBER_CPU", "sse9", 1), 0);
    check_fails(ember_cpu_backend_create(&backend, 1), EMBER_E_ARGUMENT, "sse9");
    assert_int_equal(unsetenv("EMBER_CPU"), 0);
}

static void scratch(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 2));
    check_fails(ember_cpu_need(backend, "some_op", 64, 0), EMBER_E_STATE, "some_op");
    check_ok(backend->ops->prepare(backend, &small));
    const size_t before = ember_cpu_scratch_bytes(backend);
    assert_int_equal(backend->ops->workspace_bytes(backend, &small), 2 * before + ember_cpu_shared_scratch_bytes(backend));
    ember_workspace_shape larger = small;
    larger.sequence_length = 4096;
    check_ok(backend->ops->prepare(backend, &larger));
    assert_true(ember_cpu_scratch_bytes(backend) > before);
    const size_t after = ember_cpu_scratch_bytes(backend);
    check_ok(backend->ops->prepare(backend, &small)); /* never shrinks */
    assert_int_equal(ember_cpu_scratch_bytes(backend), after);
    assert_int_equal((uintptr_t)ember_cpu_scratch(backend, 1) % EMBER_ALIGNMENT, 0);
    memset(ember_cpu_scratch(backend, 1), 1, after);
    ember_backend_free(backend);
}

/* The logits of a vocabulary of 131,072 take a bounded buffer whatever the number of tokens. */
static void bounded_logits(void **state) {
    (void)state;
    ember_workspace_shape shape = small;
    shape.vocab_size = 131072;
    shape.n_tokens = 1 << 20;
    assert_true(ember_cross_entropy_shared_scratch_bytes(&shape) <= (size_t)40 << 20);
}

static void memory(void **state) {
    (void)state;
    ember_backend *backend = NULL;
    check_ok(ember_cpu_backend_create(&backend, 1));
    void *block = NULL;
    check_ok(backend->ops->allocate(backend, &block, 16, "block"));
    check_ok(backend->ops->upload(backend, block, "0123456789abcdef", 16));
    char back[16];
    check_ok(backend->ops->download(backend, back, block, 16));
    assert_memory_equal(back, "0123456789abcdef", 16);
    check_ok(backend->ops->clear(backend, block, 15));
    assert_int_equal(((char *)block)[14], 0);
    assert_int_equal(((char *)block)[15], 'f');
    backend->ops->release(backend, block);
    ember_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(create), cmocka_unit_test(instruction_set), cmocka_unit_test(scratch),
                                       cmocka_unit_test(bounded_logits), cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
