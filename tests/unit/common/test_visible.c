/* Characters that a terminal may get unchanged, and the escapes of all others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/visible.h"

static void check(const char *text, const char *shown)
{
    char *line = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&line, &n);
    assert_non_null(out);
    lx_visible_line(out, "%s", text);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(line[n - 1], '\n');
    line[n - 1] = '\0';
    assert_string_equal(line, shown);
    free(line);
}

static void what_is_shown_stays(void **state)
{
    (void)state;
    check("", "");
    check("models/Qwen 3 \\x1b ~", "models/Qwen 3 \\x1b ~");
    check("海上明月 é \xf0\x9f\x8c\x99 \xc2\xa0", "海上明月 é \xf0\x9f\x8c\x99 \xc2\xa0");
}

static void controls_are_escaped(void **state)
{
    (void)state;
    check("\x1b]0;title\a", "\\x1b]0;title\\x07");
    check("two\nlines\r\t\x7f", "two\\x0alines\\x0d\\x09\\x7f");
    check("\xc2\x80 \xc2\x9b"
          "31m \xc2\x9f",
          "\\u0080 \\u009b31m \\u009f");
}

static void directions_are_escaped(void **state)
{
    (void)state;
    check("\xd8\x9c \xe2\x80\x8e \xe2\x80\x8f", "\\u061c \\u200e \\u200f");
    check("\xe2\x80\xa8 \xe2\x80\xa9 \xe2\x80\xaa \xe2\x80\xae", "\\u2028 \\u2029 \\u202a \\u202e");
    check("\xe2\x81\xa6 \xe2\x81\xa9", "\\u2066 \\u2069");
    check("\xe2\x80\x8d \xe2\x80\xaf", "\xe2\x80\x8d \xe2\x80\xaf"); /* neighbours of these */
}

static void bytes_that_are_no_text_are_escaped(void **state)
{
    (void)state;
    check("\x9b"
          "31m \xff \xc3",
          "\\x9b31m \\xff \\xc3");
    check("\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80",
          "\\xc0\\x80 \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_shown_stays),
        cmocka_unit_test(controls_are_escaped),
        cmocka_unit_test(directions_are_escaped),
        cmocka_unit_test(bytes_that_are_no_text_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
