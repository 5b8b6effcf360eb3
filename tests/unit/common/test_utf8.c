/*
 * UTF-8 in both directions: every code point comes back, and every other sequence of bytes is
 * refused. No byte after the end is read: the text fills its allocation, so that a sanitizer
 * reports such a read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/utf8.h"

static int is_scalar(uint32_t c)
{
    return c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
}

static void every_code_point_comes_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char text[4];
        if (!is_scalar(c))
            continue;
        size_t n = lx_utf8_put(c, text), pos = 0;
        assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        if (lx_utf8_next(text, n, &pos) != (int32_t)c || pos != n)
            fail_msg("U+%04X", (unsigned)c);
    }
}

/* How many sequences of n bytes that begin with first .. last are one whole code point. An accepted
   sequence must be the one that lx_utf8_put writes, so no code point has two forms. */
static int32_t count_accepted(size_t n, unsigned first, unsigned last)
{
    int32_t accepted = 0;
    uint32_t rest = n == 4 ? 1u << 18 : 1u << 8 * (n - 1); /* the last byte of four: 4 of 256 */
    for (unsigned lead = first; lead <= last; lead++) {
        for (uint32_t i = 0; i < rest; i++) {
            uint32_t bits = n == 4 ? i >> 2 << 8 | (0x7f + 0x30 * (i & 3)) : i;
            char text[4] = {(char)lead}, again[4];
            for (size_t j = 1; j < n; j++)
                text[j] = (char)(bits >> 8 * (n - 1 - j));
            size_t pos = 0;
            int32_t c = lx_utf8_next(text, n, &pos);
            if (c < 0 ? pos == 0 : pos < n)
                continue;
            accepted++;
            assert_int_equal(lx_utf8_put((uint32_t)c, again), n);
            assert_memory_equal(text, again, n);
        }
    }
    return accepted;
}

static void nothing_else_is_accepted(void **state)
{
    (void)state;
    assert_int_equal(count_accepted(1, 0, 255), 128);
    assert_int_equal(count_accepted(2, 0xc0, 0xff), 0x800 - 0x80);
    assert_int_equal(count_accepted(3, 0xe0, 0xff), 0x10000 - 0x800 - 0x800);
    /* of the last bytes 7f, af, df and 10f cut to 0f, only af continues a sequence */
    assert_int_equal(count_accepted(4, 0xf0, 0xff), (0x110000 - 0x10000) / 64);
}

static void malformed_text_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",
        "\xbf\xbf",
        "\xc0\xaf",
        "\xc1\xbf",
        "\xe0\x80\xaf",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x80\x80\xaf",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xfe",
        "\xff",
        "\xe4\xbd",
        "\xe4\xbd/",
        "\xf0\x9f\x98",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n = strlen(bad[i]), pos = 0;
        char *exact = malloc(n);
        assert_non_null(exact);
        memcpy(exact, bad[i], n);
        if (lx_utf8_next(exact, n, &pos) != -1 || pos != 0)
            fail_msg("case %zu", i);
        free(exact);
    }
}

static void text_is_walked(void **state)
{
    (void)state;
    static const char text[] = "a海\xf0\x9f\x8c\x99"; /* the last one is U+1F319 */
    static const int32_t expected[] = {'a', 0x6d77, 0x1f319};
    size_t pos = 0;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(lx_utf8_next(text, sizeof text - 1, &pos), expected[i]);
    assert_int_equal(pos, sizeof text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_comes_back),
        cmocka_unit_test(nothing_else_is_accepted),
        cmocka_unit_test(malformed_text_is_refused),
        cmocka_unit_test(text_is_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
