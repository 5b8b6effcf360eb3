/* Traditional characters and old forms: every entry of the tables is found, and its simplified form
 * is simple. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <uchar.h>

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

static void old_forms_become_todays(void **state)
{
    (void)state;
    static const char32_t pairs[] = U"遶绕鼇鳌疎疏髪发鎗枪";
    for (size_t i = 0; i + 1 < sizeof pairs / sizeof *pairs; i += 2)
        assert_int_equal(lx_simplified(pairs[i]), pairs[i + 1]);
    assert_int_equal(lx_simplified(U'馀'), U'馀'); /* an heir of 餘 where 余 would be "I" */
    assert_int_equal(lx_simplified(U'卍'), U'卍'); /* Unihan's variant is 万 */
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(simplified_forms_are_simple),
        cmocka_unit_test(characters_with_other_meanings_stay),
        cmocka_unit_test(old_forms_become_todays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
