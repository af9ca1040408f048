/* rooms: config base */
/* Numbers mean the same under a locale with a decimal comma. Skipped where no such locale is installed. */
#include <locale.h>
#include <unistd.h>

#include "lib/base/parse.h"
#include "lib/config/config.h"
#include "tests/check.h"

static void comma_locale_changes_nothing(void **state) {
    (void)state;
    double value = 0;
    assert_true(ember_parse_f64("0.5", &value) && value == 0.5);
    assert_false(ember_parse_f64("0,5", &value));
    char text[32];
    ember_format_f64(text, 0.5);
    assert_string_equal(text, "0.5");
    static const char yaml[] = "model: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2}\n"
                               "data: {train: a.h5}\ntrain: {steps: 10, lr: 2.5e-3}\nsparsity: {l1: [0.25, 1e-4]}\n";
    ember_config *config = NULL;
    check_ok(ember_config_parse(&config, yaml, strlen(yaml), "c.yaml", NULL, 0));
    assert_true(ember_config_settings(config)->train.lr == 0.0025);
    assert_true(ember_config_settings(config)->sparsity.l1.item[0] == 0.25);
    ember_bytes resolved = {0};
    check_ok(ember_config_to_yaml(config, &resolved));
    assert_non_null(strstr(resolved.data, "lr: 0.0025\n"));
    assert_non_null(strstr(resolved.data, "l1: [0.25, 0.0001]\n"));
    ember_bytes_free(&resolved);
    ember_config_free(config);
    static const char *const comma[] = {"train.lr=2,5"};
    check_fails(ember_config_parse(&config, yaml, strlen(yaml), "c.yaml", comma, 1), EMBER_E_CONFIG, "train.lr is 2,5");
}

/* An installed locale, else one compiled here from the sources that the package `locales` brings. */
static bool enter_comma_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "es_ES.UTF-8"};
    for (int attempt = 0; attempt < 3; attempt++) {
        /* First what the system has, then what an earlier run made, then a new one. */
        /* Where nothing was made yet the C library must not look: it would remember for ever that nothing is there. */
        if (attempt == 1 && access("locale/de_DE.UTF-8", F_OK) != 0) continue;
        if (attempt >= 1 && setenv("LOCPATH", "locale", 1) != 0) return false;
        if (attempt == 2 && system("mkdir -p locale && localedef -i de_DE -f UTF-8 locale/de_DE.UTF-8 >/dev/null 2>&1") != 0) return false;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (setlocale(LC_ALL, names[i]) && strcmp(localeconv()->decimal_point, ",") == 0) return true;
        }
    }
    return false;
}

int main(void) {
    if (!enter_comma_locale()) {
        printf("skipped: no locale with a decimal comma is installed, nor the package locales to make one\n");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(comma_locale_changes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
