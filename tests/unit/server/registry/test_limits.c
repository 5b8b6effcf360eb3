/* Limits of single models: lists that are read, and lists that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/registry/limits.h"

static void test_lists(void **state)
{
    (void)state;
    lx_model_limits l;
    assert_int_equal(lx_model_limits_read("couplet=64, mnist=8", "model-slots", 100, &l, NULL),
                     LX_OK);
    assert_int_equal(lx_model_limit_of(&l, "couplet", 5), 64);
    assert_int_equal(lx_model_limit_of(&l, "mnist", 5), 8);
    assert_int_equal(lx_model_limit_of(&l, "poem", 5), 5);
    assert_int_equal(lx_model_limit_of(&l, "coupl", 5), 5);
    assert_int_equal(lx_model_limits_read(NULL, "model-slots", 100, &l, NULL), LX_OK);
    assert_int_equal(lx_model_limit_of(&l, "couplet", 5), 5);
}

static void test_bad_lists(void **state)
{
    (void)state;
    const char *bad[] = {"couplet",
                         "couplet=",
                         "=4",
                         "couplet=0",
                         "couplet=101",
                         "couplet=-1",
                         "couplet=4x",
                         "couplet=4,couplet=5",
                         "couplet=9999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lx_model_limits l;
        lx_error err = {0};
        assert_int_equal(lx_model_limits_read(bad[i], "model-slots", 100, &l, &err),
                         LX_ERR_INVALID);
        assert_string_equal(err.param, "model-slots");
        assert_non_null(strstr(err.text, "couplet") != NULL ? strstr(err.text, "couplet")
                                                            : strstr(err.text, "=4"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_bad_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
