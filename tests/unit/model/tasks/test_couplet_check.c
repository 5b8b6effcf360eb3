/* The judge of couplets, itself judged by hand-written pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/tasks/couplet.h"
#include "model/utf8.h"

enum { MAX_CHARS = 32 };

static int32_t decode(const char *text, size_t n, uint32_t *out, int32_t max)
{
    int32_t count = 0;
    for (size_t pos = 0; pos < n;) {
        int32_t c = lx_utf8_next(text, n, &pos);
        assert_true(c >= 0 && count < max);
        out[count++] = (uint32_t)c;
    }
    return count;
}

typedef struct pair {
    const char *upper, *lower;
    unsigned broken;
} pair;

static const pair pairs[] = {
    {"海上明月", "山中清风", 0},
    {"月", "风", 0},
    {"，，", "，，", 0},
    {"春风，夏雨", "秋月，冬霜", 0},
    {"风风雨雨", "暮暮朝朝", 0},
    {"海上明月", "山中清", LX_COUPLET_LENGTH},
    {"海上", "山中清风", LX_COUPLET_LENGTH},
    {"海上", "", LX_COUPLET_LENGTH},
    {"海，上", "山中，", LX_COUPLET_PUNCTUATION},
    {"海，上", "山。中", LX_COUPLET_PUNCTUATION},
    {"海上月", "山，中", LX_COUPLET_PUNCTUATION},
    {"海上，", "山中", LX_COUPLET_LENGTH | LX_COUPLET_PUNCTUATION},
    {"风风雨雨", "花草树木", LX_COUPLET_REPETITION},
    {"海上明月", "山中山月", LX_COUPLET_REPETITION | LX_COUPLET_SHARED},
    {"海上明月", "山中山水", LX_COUPLET_REPETITION},
    {"风雨风雨", "花草草花", LX_COUPLET_REPETITION},
    {"海上明月", "月中清风", LX_COUPLET_SHARED},
    {"海上明月", "山中清月", LX_COUPLET_SHARED},
    {"海上明月", "山中\xef\xbf\xbd风", LX_COUPLET_UNKNOWN},
    {"海上明月", "\xef\xbf\xbd中\xef\xbf\xbd风", LX_COUPLET_UNKNOWN},
    {"海，海", "海，山", LX_COUPLET_REPETITION | LX_COUPLET_SHARED},
    {"海", "海，", LX_COUPLET_LENGTH | LX_COUPLET_PUNCTUATION | LX_COUPLET_SHARED},
};

static void the_judge_finds_each_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        uint32_t upper[MAX_CHARS], lower[MAX_CHARS];
        int32_t n = decode(pairs[i].upper, strlen(pairs[i].upper), upper, MAX_CHARS);
        int32_t m = decode(pairs[i].lower, strlen(pairs[i].lower), lower, MAX_CHARS);
        unsigned broken = lx_couplet_check(upper, n, lower, m);
        if (broken != pairs[i].broken)
            fail_msg("%s / %s: %#x, not %#x", pairs[i].upper, pairs[i].lower, broken,
                     pairs[i].broken);
    }
    assert_string_equal(lx_couplet_rule_name(0), "length");
    assert_string_equal(lx_couplet_rule_name(4), "unknown");
    assert_string_equal(lx_couplet_rule_name(5), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_judge_finds_each_fault)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
