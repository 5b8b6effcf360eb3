/* The growing buffer: its maximum, its sticky errors, and how a caller takes bytes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buffer.h"
#include "tests/support/failing.h"

static void pieces_are_joined(void **state)
{
    (void)state;
    lx_buffer b;
    lx_buffer_init(&b, 1000);
    lx_buffer_puts(&b, "one ");
    lx_buffer_append(&b, "two\0", 4);
    lx_buffer_printf(&b, " %d%s", 3, "!");
    assert_int_equal(b.status, LX_OK);
    assert_int_equal(b.length, 11);
    assert_memory_equal(b.data, "one two\0 3!", 12);
    lx_buffer_fini(&b);
    assert_null(b.data);
}

static void it_grows_to_its_maximum_and_no_further(void **state)
{
    (void)state;
    for (size_t max = 0; max < 600; max += 37) {
        lx_buffer b;
        lx_buffer_init(&b, max);
        for (size_t i = 0; i < max; i++)
            lx_buffer_append(&b, "x", 1);
        assert_int_equal(b.status, LX_OK);
        assert_int_equal(b.length, max);
        lx_buffer_append(&b, "y", 1);
        assert_int_equal(b.status, LX_ERR_TOO_LARGE);
        assert_int_equal(b.length, max);
        lx_buffer_append(&b, "", 0);
        lx_buffer_printf(&b, "%s", "");
        assert_int_equal(b.status, LX_ERR_TOO_LARGE);
        assert_null(lx_buffer_take(&b, NULL));
    }
}

static void a_size_near_the_largest_does_not_wrap(void **state)
{
    (void)state;
    lx_buffer b;
    lx_buffer_init(&b, 64);
    lx_buffer_puts(&b, "abc");
    lx_buffer_append(&b, "d", SIZE_MAX);
    assert_int_equal(b.status, LX_ERR_TOO_LARGE);
    assert_string_equal(b.data, "abc");
    lx_buffer_fini(&b);
}

static void printf_keeps_to_the_maximum(void **state)
{
    (void)state;
    lx_buffer b;
    lx_buffer_init(&b, 5);
    lx_buffer_printf(&b, "%d", 12345);
    assert_int_equal(b.status, LX_OK);
    assert_string_equal(b.data, "12345");
    lx_buffer_printf(&b, "%d", 6);
    assert_int_equal(b.status, LX_ERR_TOO_LARGE);
    assert_string_equal(b.data, "12345");
    lx_buffer_fini(&b);
}

static void take_hands_over_and_starts_again(void **state)
{
    (void)state;
    lx_buffer b;
    size_t n = 99;
    lx_buffer_init(&b, 10);
    char *empty = lx_buffer_take(&b, &n);
    assert_string_equal(empty, "");
    assert_int_equal(n, 0);
    lx_buffer_puts(&b, "text");
    char *text = lx_buffer_take(&b, NULL);
    assert_string_equal(text, "text");
    assert_null(b.data);
    assert_int_equal(b.max, 10);
    free(empty);
    free(text);
}

static void no_memory_is_sticky_and_keeps_the_content(void **state)
{
    (void)state;
    lx_buffer b;
    lx_buffer_init(&b, 100000);
    lx_buffer_puts(&b, "kept");
    failing_arm(1);
    for (int i = 0; i < 100; i++)
        lx_buffer_puts(&b, "0123456789");
    assert_true(failing_hit());
    assert_int_equal(b.status, LX_ERR_NO_MEMORY);
    assert_memory_equal(b.data, "kept0123456789", 14);
    assert_int_equal(b.data[b.length], '\0');
    assert_true(b.length < 1000);
    assert_null(lx_buffer_take(&b, NULL));
    assert_int_equal(b.status, LX_OK); /* emptied, fit for use again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_joined),
        cmocka_unit_test(it_grows_to_its_maximum_and_no_further),
        cmocka_unit_test(a_size_near_the_largest_does_not_wrap),
        cmocka_unit_test(printf_keeps_to_the_maximum),
        cmocka_unit_test(take_hands_over_and_starts_again),
        cmocka_unit_test(no_memory_is_sticky_and_keeps_the_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
