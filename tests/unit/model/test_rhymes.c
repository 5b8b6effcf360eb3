/* Tables of rhymes: groups by lines, and what is no table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/rhymes.h"

static void groups_are_lines(void **state)
{
    (void)state;
    static const char text[] = "春人\n\n天𠀀\n日";
    lx_rhymes *r = NULL;
    assert_int_equal(lx_rhymes_read(text, sizeof text - 1, "r", &r, NULL), LX_OK);
    assert_int_equal(lx_rhymes_groups(r), 3);
    assert_int_equal(lx_rhymes_group(r, U'春'), 0);
    assert_int_equal(lx_rhymes_group(r, U'人'), 0);
    assert_int_equal(lx_rhymes_group(r, U'𠀀'), 1);
    assert_int_equal(lx_rhymes_group(r, U'日'), 2);
    assert_int_equal(lx_rhymes_group(r, U'月'), -1);
    assert_int_equal(lx_rhymes_groups(NULL), 0);
    assert_int_equal(lx_rhymes_group(NULL, U'春'), -1);
    lx_rhymes_free(r);
    lx_rhymes_free(NULL);
}

static void an_empty_file_has_no_groups(void **state)
{
    (void)state;
    lx_rhymes *r = NULL;
    assert_int_equal(lx_rhymes_read("", 0, "r", &r, NULL), LX_OK);
    assert_int_equal(lx_rhymes_groups(r), 0);
    lx_rhymes_free(r);
}

static void expect_fault(const char *text, const char *says)
{
    lx_rhymes *r = NULL;
    lx_error err = {0};
    assert_int_equal(lx_rhymes_read(text, strlen(text), "r", &r, &err), LX_ERR_FORMAT);
    if (strstr(err.text, says) == NULL)
        fail_msg("%s", err.text);
}

static void what_is_no_table_is_refused(void **state)
{
    (void)state;
    char many[4 * (LX_MAX_RHYME_GROUPS + 1) + 1] = "";
    for (int i = 0; i <= LX_MAX_RHYME_GROUPS; i++)
        (void)snprintf(many + strlen(many), 5, "%c%c%c\n", 0xe4, 0xb8 + i / 64, 0x80 + i % 64);
    expect_fault(many, "more than 64 groups");
    expect_fault("春\n\xe6\x98", "line 2");
    expect_fault("春 人", "line 1");
    expect_fault("春\r\n人", "line 1");
    expect_fault("春\n人\n春", "U+6625 is there twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_lines),
        cmocka_unit_test(an_empty_file_has_no_groups),
        cmocka_unit_test(what_is_no_table_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
