/* rooms: kernels base */
#include "tests/op_check.h"

static void cases(void **state) {
    (void)state;
    op_check_list(&ember_add_cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
