/* Choosing among samples: tones, words, and answers that differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/tasks/choose.h"
#include "model/utf8.h"

enum { MOST = 16 };

static int32_t decode(const char *text, uint32_t *out)
{
    int32_t n = 0;
    for (size_t at = 0, bytes = strlen(text); at < bytes;)
        out[n++] = (uint32_t)lx_utf8_next(text, bytes, &at);
    return n;
}

static double judge(const char *given, const char *answer)
{
    lx_line_pair pair = {0};
    pair.n = decode(given, pair.given);
    assert_int_equal(pair.n, decode(answer, pair.answer));
    return lx_judge_line(&pair);
}

static double judge_poem(const char *text, double unrhymed)
{
    uint32_t chars[LX_MOST_PAIRED];
    int32_t n = decode(text, chars);
    return lx_judge_poem(chars, n, unrhymed);
}

static void test_tones(void **state)
{
    (void)state;
    assert_true(judge("春风送暖", "瑞雪迎春") == 0);
    assert_true(judge("春风送暖", "瑞雪迎夏") < 0); /* both end obliquely */
    assert_true(judge("春风送暖", "山川迎春") < 0); /* 风 and 川 are level */
    assert_true(judge("春风送暖", "山川迎夏") < judge("春风送暖", "瑞雪迎夏"));
    assert_true(judge("天", "地") == 0);
    assert_true(judge("，", "，") == 0);
}

static void test_words(void **state)
{
    (void)state;
    assert_true(judge("门前千里路", "死鬼一声秋") < judge("门前千里路", "柳外一声秋") - 1);
    /* A word of the line before it costs nothing. */
    assert_true(judge("生死路", "死生门") > judge("生前路", "死生门") + 1);
    assert_true(judge("瑞雪兆丰年好", "春风到福满门") < judge("瑞雪兆丰年好", "春风到杏花村"));
    assert_true(judge("生意兴隆通四海", "财源茂盛惠三农") <
                judge("生意兴隆通四海", "财源茂盛达三江"));
}

static void test_poems(void **state)
{
    (void)state;
    assert_true(judge_poem("", 0) == 0);
    assert_true(judge_poem("床前明月光，疑是地上霜。", 0) == 0);
    assert_true(judge_poem("秋月夜明月，秋月夜明月。", 0) <
                judge_poem("秋月夜明月，春花朝落花。", 0));
    assert_true(judge_poem("花", 1) < judge_poem("花", 0.5) && judge_poem("花", 0.5) < 0);
    assert_true(judge_poem("鴈过", 0) < 0 && judge_poem("劍光", 0) < 0);
}

static void expect_chosen(const int32_t (*tokens)[2], const double *scores, int32_t n, int32_t k,
                          const int32_t *want)
{
    lx_pool_sample samples[MOST] = {0};
    int32_t chosen[MOST] = {0};
    for (int32_t i = 0; i < n; i++)
        samples[i] = (lx_pool_sample){.tokens = tokens[i], .n_tokens = 2, .score = scores[i]};
    lx_choose_diverse(samples, n, k, chosen);
    for (int32_t i = 0; i < k; i++)
        assert_int_equal(chosen[i], want[i]);
}

static void test_the_best_comes_first(void **state)
{
    (void)state;
    static const int32_t tokens[][2] = {{1, 2}, {3, 4}, {5, 6}};
    expect_chosen(tokens, (double[]){-2, -1, -3}, 3, 3, (int32_t[]){1, 0, 2});
    expect_chosen(tokens, (double[]){-1, -1, -1}, 3, 2, (int32_t[]){0, 1});
}

static void test_chosen_lines_differ(void **state)
{
    (void)state;
    static const int32_t tokens[][2] = {{1, 2}, {1, 2}, {1, 3}, {4, 5}};
    /* The equal line comes last, and the one that begins alike after a worse one. */
    expect_chosen(tokens, (double[]){-1, -1, -1.1, -1.5}, 4, 4, (int32_t[]){0, 3, 2, 1});
    /* Far worse lines do not displace it. */
    expect_chosen(tokens, (double[]){-1, -1, -1.1, -9}, 4, 2, (int32_t[]){0, 2});
}

static void test_the_best_without_repetitions(void **state)
{
    (void)state;
    static const int32_t tokens[][2] = {{1, 2}, {3, 4}, {1, 2}, {5, 6}};
    static const double scores[] = {-2, -3, -1, -2.5};
    lx_pool_sample samples[4] = {0};
    int32_t chosen[4];
    for (int32_t i = 0; i < 4; i++)
        samples[i] = (lx_pool_sample){.tokens = tokens[i], .n_tokens = 2, .score = scores[i]};
    assert_int_equal(lx_choose_distinct(samples, 4, 4, chosen), 3);
    assert_int_equal(chosen[0], 2);
    assert_int_equal(chosen[1], 3);
    assert_int_equal(chosen[2], 1);
    assert_int_equal(lx_choose_distinct(samples, 4, 2, chosen), 2);
    samples[1].n_tokens = samples[3].n_tokens = 0; /* two empty answers are one */
    assert_int_equal(lx_choose_distinct(samples, 4, 4, chosen), 2);
}

static void test_reviews(void **state)
{
    (void)state;
    lx_pool_sample samples[] = {{.score = -1, .reviewed = true, .review = -2},
                                {.score = -1},
                                {.score = -1, .reviewed = true, .review = -4}};
    lx_judge_reviews(samples, 3, 0.5);
    assert_true(samples[0].score == -2 && samples[1].score == -3 && samples[2].score == -3);
    lx_judge_reviews(samples, 3, -1); /* the sample without a review gains least */
    assert_true(samples[0].score == 0 && samples[1].score == -1 && samples[2].score == 1);
    lx_pool_sample none = {.score = -1};
    lx_judge_reviews(&none, 1, 1);
    assert_true(none.score == -1);
}

/* Samples that were cut are of several lengths, and may have no token at all. */
static void test_short_samples(void **state)
{
    (void)state;
    static const int32_t tokens[] = {7, 8};
    lx_pool_sample samples[] = {{.tokens = tokens, .n_tokens = 2, .score = -1},
                                {.tokens = tokens, .n_tokens = 0, .score = -2},
                                {.tokens = tokens, .n_tokens = 1, .score = -1.5}};
    int32_t chosen[3];
    lx_choose_diverse(samples, 3, 3, chosen);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1] + chosen[2], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tones),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_poems),
        cmocka_unit_test(test_the_best_comes_first),
        cmocka_unit_test(test_chosen_lines_differ),
        cmocka_unit_test(test_the_best_without_repetitions),
        cmocka_unit_test(test_reviews),
        cmocka_unit_test(test_short_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
