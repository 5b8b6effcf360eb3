/* Stop strings in texts: where they begin, and how much is settled while more may come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/engine/stops.h"

static lx_stops stops_of(const char *const *texts)
{
    lx_stops s = {0};
    for (; texts[s.n] != NULL; s.n++) {
        s.stop[s.n].bytes = strlen(texts[s.n]);
        memcpy(s.stop[s.n].text, texts[s.n], s.stop[s.n].bytes);
    }
    return s;
}

static const struct {
    const char *stops[LX_MAX_STOPS + 1];
    const char *text;
    size_t found, settled; /* -1: not looked at */
} cases[] = {
    {{NULL}, "abc", 3, 3},
    {{"b"}, "abc", 1, (size_t)-1},
    {{"bc", "ab"}, "abc", 0, (size_t)-1},
    {{"c", "abc"}, "abc", 0, (size_t)-1}, /* the longer one began first */
    {{"cd"}, "abc", 3, 2},
    {{"abcd"}, "abc", 3, 0},
    {{"x", "cq", "bcd"}, "abc", 3, 1},
    {{"aab"}, "aa", 2, 0},
    {{"aab"}, "aaa", 3, 1}, /* not the first of them any more */
    {{"月"}, "山\xe6\x9c", 5, 3},
    {{"a"}, "", 0, 0},
    {{"abcdef"}, "x", 1, 1},
};

static void finds_and_settles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_stops s = stops_of(cases[i].stops);
        size_t n = strlen(cases[i].text);
        assert_int_equal(lx_stops_find(&s, cases[i].text, n), cases[i].found);
        if (cases[i].settled != (size_t)-1)
            assert_int_equal(lx_stops_settled(&s, cases[i].text, n), cases[i].settled);
    }
}

/* The text sent so far is always a beginning of the text that is left in the end. */
static void what_is_settled_stays(void **state)
{
    (void)state;
    static const char *const texts[] = {"abab", "bb", "baba", NULL};
    lx_stops s = stops_of(texts);
    for (unsigned bits = 0; bits < 1u << 12; bits++) {
        char text[12];
        size_t told = 0;
        for (size_t n = 1; n <= sizeof text; n++) {
            text[n - 1] = (bits >> (n - 1) & 1u) != 0 ? 'a' : 'b';
            size_t found = lx_stops_find(&s, text, n);
            assert_true(told <= found);
            if (found < n)
                break;
            size_t settled = lx_stops_settled(&s, text, n);
            assert_true(settled >= told);
            told = settled;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_and_settles),
        cmocka_unit_test(what_is_settled_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
