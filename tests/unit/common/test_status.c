/* Texts of errors. A text that is too long ends with a whole character. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/status.h"

/* As many spaces, then characters of three bytes. */
static void a_cut_text_ends_with_a_whole_character(void **state)
{
    (void)state;
    char text[400];
    for (size_t spaces = 0; spaces < 3; spaces++) {
        lx_error err;
        memset(text, ' ', spaces);
        for (size_t at = spaces; at + 3 < sizeof text; at += 3)
            memcpy(text + at, "诗", 4);
        (void)lx_fail(&err, LX_ERR_INVALID, "form", "%s", text);
        size_t n = strlen(err.text);
        assert_true(n < sizeof err.text && n + 4 > sizeof err.text);
        assert_int_equal((n - spaces) % 3, 0);
        assert_memory_equal(err.text, text, n);
    }
}

static void a_short_text_is_whole(void **state)
{
    (void)state;
    lx_error err;
    assert_int_equal(lx_fail(&err, LX_ERR_INVALID, "form", "%s", "诗"), LX_ERR_INVALID);
    assert_string_equal(err.text, "诗");
    assert_string_equal(err.param, "form");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_text_ends_with_a_whole_character),
        cmocka_unit_test(a_short_text_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
