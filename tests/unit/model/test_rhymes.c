/* Tables of rhymes: groups by lines, and refused tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/rhymes.h"
#include "model/vocab.h"
#include "tests/support/scratch.h"

static const char vocabulary[] = "<unk>\n春\n人\n天\n日\n月\n𠀀\n";
static lx_vocab *vocab;
static lx_tokenizer *tokenizer;

static int make_tokenizer(void **state)
{
    if (scratch_setup(state) != 0)
        return -1;
    const char *path = scratch_write("vocab.txt", vocabulary, sizeof vocabulary - 1);
    bool ok = lx_vocab_load(path, &vocab, NULL) == LX_OK &&
              lx_tokenizer_new_characters(vocab, &tokenizer, NULL) == LX_OK;
    return ok ? 0 : -1;
}

static int free_tokenizer(void **state)
{
    lx_tokenizer_free(tokenizer);
    lx_vocab_free(vocab);
    return scratch_teardown(state);
}

static int32_t group(const lx_rhymes *r, const char *character)
{
    return lx_rhymes_group(r, lx_tokenizer_find(tokenizer, character));
}

static void groups_are_lines(void **state)
{
    (void)state;
    static const char text[] = "春人\n\n天𠀀\n日木";
    lx_rhymes *r = NULL;
    assert_int_equal(lx_rhymes_read(text, sizeof text - 1, "r", tokenizer, &r, NULL), LX_OK);
    assert_int_equal(lx_rhymes_groups(r), 3);
    assert_int_equal(group(r, "春"), 0);
    assert_int_equal(group(r, "人"), 0);
    assert_int_equal(group(r, "𠀀"), 1);
    assert_int_equal(group(r, "日"), 2);
    assert_int_equal(group(r, "月"), -1);
    assert_int_equal(group(r, "<unk>"), -1);
    assert_int_equal(lx_rhymes_group(r, -1), -1);
    assert_int_equal(lx_rhymes_group(r, lx_tokenizer_size(tokenizer)), -1);
    assert_int_equal(lx_rhymes_groups(NULL), 0);
    assert_int_equal(group(NULL, "春"), -1);
    lx_rhymes_free(r);
    lx_rhymes_free(NULL);
}

static void an_empty_file_has_no_groups(void **state)
{
    (void)state;
    lx_rhymes *r = NULL;
    assert_int_equal(lx_rhymes_read("", 0, "r", tokenizer, &r, NULL), LX_OK);
    assert_int_equal(lx_rhymes_groups(r), 0);
    lx_rhymes_free(r);
}

static void expect_fault(const char *text, const char *says)
{
    lx_rhymes *r = NULL;
    lx_error err = {0};
    assert_int_equal(lx_rhymes_read(text, strlen(text), "r", tokenizer, &r, &err), LX_ERR_FORMAT);
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
    return cmocka_run_group_tests(tests, make_tokenizer, free_tokenizer);
}
