/*
 * Thoughts and answer are separated as in the whole text, however the text is cut into tokens, and
 * the text held back is bounded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/chat_thinking.h"
#include "tests/support/rig.h"

typedef struct sample {
    lx_thinking_begin begin;
    const char *text, *thought, *answer;
} sample;

static const sample samples[] = {
    {LX_THINKS_MARK, "<think>a b</think>c", "a b", "c"},
    {LX_THINKS_MARK, "\n<think>\n\na\nb\n\n</think>\n\n\nc\n", "a\nb", "c\n"},
    {LX_THINKS_MARK, "hello", "", "hello"},
    {LX_THINKS_MARK, "\n\nhello <think>a</think>", "", "\n\nhello <think>a</think>"},
    {LX_THINKS_MARK, "<thin air>", "", "<thin air>"},
    {LX_THINKS_MARK, "\n<th", "", "\n<th"},
    {LX_THINKS_MARK, " <think>a</think>", "", " <think>a</think>"},
    {LX_THINKS_MARK, "<think></think>c</think>", "", "c</think>"},
    {LX_THINKS_MARK, "<think>", "", ""},
    {LX_THINKS_MARK, "", "", ""},
    {LX_THINKS_AT_ONCE, "a</think>c", "a", "c"},
    {LX_THINKS_AT_ONCE, "<think>a</think>c", "<think>a", "c"},
    {LX_THINKS_AT_ONCE, "\n</</thin</think></think>", "</</thin", "</think>"},
    {LX_THINKS_AT_ONCE, "\na\n<\n</t", "a\n<\n</t", ""},
    {LX_THINKS_AT_ONCE, "a\n\n", "a\n\n", ""},
    {LX_THINKS_AT_ONCE, "</think>\n", "", ""},
    {LX_THINKS_NOT, "<think>a</think>c", "", "<think>a</think>c"},
};

/* Splits one token; its texts are added to `thought` and `answer`. */
static void feed(lx_thinking *t, const char *text, size_t n, bool last, lx_buffer *thought,
                 lx_buffer *answer)
{
    lx_error err = {0};
    const lx_json_token token = {.text = text, .bytes = n, .id = 3};
    lx_json_choice choice = {.text = text, .text_bytes = n, .tokens = &token, .n_tokens = n > 0};
    assert_int_equal(lx_thinking_split(t, last, &choice, &err), LX_OK);
    lx_buffer_append(thought, choice.thought, choice.thought_bytes);
    lx_buffer_append(answer, choice.text, choice.text_bytes);
}

static void expect(const lx_buffer *got, const char *want)
{
    assert_int_equal(got->length, strlen(want));
    assert_memory_equal(got->data != NULL ? got->data : "", want, got->length);
}

/* In tokens of `step` bytes; the end comes with the last token, or after it. */
static void check(const sample *s, size_t step, bool late)
{
    lx_thinking t;
    lx_buffer thought, answer;
    size_t n = strlen(s->text);
    lx_buffer_init(&thought, 1000);
    lx_buffer_init(&answer, 1000);
    lx_thinking_init(&t, s->begin, rig_model(), NULL, n);
    for (size_t at = 0; at < n; at += step) {
        size_t bytes = n - at < step ? n - at : step;
        feed(&t, s->text + at, bytes, at + bytes == n && !late, &thought, &answer);
    }
    if (late || n == 0)
        feed(&t, "", 0, true, &thought, &answer);
    expect(&thought, s->thought);
    expect(&answer, s->answer);
    lx_thinking_fini(&t);
    lx_buffer_fini(&thought);
    lx_buffer_fini(&answer);
}

static void any_cut_gives_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (size_t step = 1; step < 30; step++) {
            check(&samples[i], step, false);
            check(&samples[i], step, true);
        }
}

static void line_feeds_are_held_to_a_bound(void **state)
{
    (void)state;
    lx_thinking t;
    lx_buffer thought, answer;
    lx_buffer_init(&thought, 1000);
    lx_buffer_init(&answer, 1000);
    lx_thinking_init(&t, LX_THINKS_AT_ONCE, rig_model(), NULL, 1);
    feed(&t, "a", 1, false, &thought, &answer);
    for (int i = 0; i < 5 * LX_THINKING_HELD; i++)
        feed(&t, "\n", 1, false, &thought, &answer);
    assert_true(thought.length + LX_THINKING_HELD >= 1 + 5 * LX_THINKING_HELD);
    feed(&t, "b", 1, true, &thought, &answer);
    assert_int_equal(thought.length, 2 + 5 * LX_THINKING_HELD);
    lx_thinking_fini(&t);
    lx_buffer_fini(&thought);
    lx_buffer_fini(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_cut_gives_the_same),
                                       cmocka_unit_test(line_feeds_are_held_to_a_bound)};
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
