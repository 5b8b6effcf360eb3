/* Tones: characters whose tones every reader knows, both readings, and what stands for itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/tones.h"

static void expect_marks(const char *text, const char *marks)
{
    lx_buffer out;
    lx_buffer_init(&out, 256);
    lx_tones_write(text, strlen(text), &out);
    assert_int_equal(out.status, LX_OK);
    assert_string_equal(out.length > 0 ? out.data : "", marks);
    lx_buffer_fini(&out);
}

static void test_well_known_lines(void **state)
{
    (void)state;
    expect_marks("春风送暖", "平平仄仄");
    expect_marks("明月松间照", "平仄平平仄");
    expect_marks("黄河入海流", "平平仄仄平");
    expect_marks("春\xff\xe6风", "平\xff\xe6平"); /* bytes that are no UTF-8 */
}

/* 长 has a level and an oblique reading; 国 and 学 are level today and were oblique. */
static void test_both_readings(void **state)
{
    (void)state;
    expect_marks("长国学一", "中中中中");
    assert_int_equal(lx_tone_of(U'长'), LX_TONE_BOTH);
}

static void test_other_characters_stand_for_themselves(void **state)
{
    (void)state;
    expect_marks("", "");
    expect_marks("山，a。\U0001f600", "平，a。\U0001f600");
    assert_int_equal(lx_tone_of(0x4dff), LX_TONE_UNKNOWN);
    assert_int_equal(lx_tone_of(0xa000), LX_TONE_UNKNOWN);
    assert_int_equal(lx_tone_of(UINT32_MAX), LX_TONE_UNKNOWN);
}

/* A text that does not fit leaves the buffer's status. */
static void test_a_full_buffer(void **state)
{
    (void)state;
    lx_buffer out;
    lx_buffer_init(&out, 4);
    lx_tones_write("春风", strlen("春风"), &out);
    assert_int_equal(out.status, LX_ERR_TOO_LARGE);
    lx_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_well_known_lines),
        cmocka_unit_test(test_both_readings),
        cmocka_unit_test(test_other_characters_stand_for_themselves),
        cmocka_unit_test(test_a_full_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
