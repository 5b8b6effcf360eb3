/* Traditional characters: every entry of the table is found, and its simplified form is simple. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/characters.h"

static void simplified_forms_are_simple(void **state)
{
    (void)state;
    int32_t n = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint32_t s = lx_simplified(c);
        n += s != c;
        assert_int_equal(lx_simplified(s), s);
    }
    assert_true(n > 4000); /* a table that is not ascending would hide entries */
}

static void characters_with_other_meanings_stay(void **state)
{
    (void)state;
    assert_int_equal(lx_simplified(U'雲'), U'云');
    assert_int_equal(lx_simplified(U'乾'), U'乾');
    assert_int_equal(lx_simplified(U'云'), U'云');
    assert_int_equal(lx_simplified('a'), 'a');
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(simplified_forms_are_simple),
        cmocka_unit_test(characters_with_other_meanings_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
