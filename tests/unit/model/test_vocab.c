/* vocab.txt: look-ups both ways, and every file that is not one, refused with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "model/vocab.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

static const char good[] = "<unk>\n<s>\n<sep>\n<none>\n，\n的\na\n<\n>\n人\n\xf0\xa0\x80\x80\n";

static void entries_are_found_both_ways(void **state)
{
    (void)state;
    lx_vocab *v = NULL;
    const char *path = scratch_write("vocab.txt", good, sizeof good - 1);
    assert_int_equal(lx_vocab_load(path, &v, NULL), LX_OK);
    assert_int_equal(lx_vocab_size(v), 11);
    assert_int_equal(lx_vocab_special(v, "<none>"), 3);
    assert_int_equal(lx_vocab_special(v, "<pad>"), -1);
    assert_int_equal(lx_vocab_special(v, "<"), -1);
    assert_int_equal(lx_vocab_char(v, 0x4eba), 9);
    assert_int_equal(lx_vocab_char(v, 0x20000), 10);
    assert_int_equal(lx_vocab_char(v, '<'), 7);
    assert_int_equal(lx_vocab_char(v, 0x4e00), -1);
    assert_int_equal(lx_vocab_char(v, 0), -1);
    assert_string_equal(lx_vocab_text(v, 5), "的");
    assert_string_equal(lx_vocab_text(v, 2), "<sep>");
    for (int32_t id = 0; id < lx_vocab_size(v); id++) {
        uint32_t c = lx_vocab_codepoint(v, id);
        assert_int_equal(lx_vocab_is_special(v, id), id < 4);
        assert_int_equal(c == 0, id < 4);
        assert_int_equal(id < 4 ? id : lx_vocab_char(v, c), id);
    }
    lx_vocab_free(v);
    lx_vocab_free(NULL);
}

#define CASE(text, part)                                                                           \
    {                                                                                              \
        text, sizeof text - 1, part                                                                \
    }

static void what_is_no_vocabulary_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *part;
    } cases[] = {
        CASE("", "the file is empty"),
        CASE("a\nb", "the last line has no end"),
        CASE("\n", "line 1"),
        CASE("a\n\nb\n", "line 2"),
        CASE("a\nbc\n", "line 2"),
        CASE("a\r\nb\r\n", "line 1"),
        CASE("\xef\xbb\xbf"
             "a\nb\n",
             "line 1"),
        CASE("a\n\xe4\xbd\n", "line 2"),
        CASE("a\n\xed\xa0\x80\n", "line 2"),
        CASE("\t\n", "line 1"),
        CASE("a\n\0\n", "line 2"),
        CASE("<s\0>\n", "line 1"),
        CASE("\x7f\n", "line 1"),
        CASE("\xc2\x85\n", "line 1"),
        CASE("<S>\n", "line 1"),
        CASE("<>\n", "line 1"),
        CASE("<a\n", "line 1"),
        CASE("<abcdefghijklmnopqrstuvwxyz012345>\n", "line 1"),
        CASE("a\nb\nc\nb\n", "lines 2 and 4"),
        CASE("<s>\na\n<s>\n", "line 3: <s> is there twice"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_vocab *v = NULL;
        lx_error err = {0};
        const char *path = scratch_write("bad.txt", cases[i].text, cases[i].n);
        lx_status st = lx_vocab_load(path, &v, &err);
        scratch_expect(st, &err, LX_ERR_FORMAT, cases[i].part);
        scratch_expect(st, &err, LX_ERR_FORMAT, "bad.txt");
        assert_null(v);
    }
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    lx_vocab *v = NULL;
    lx_error err = {0};
    scratch_expect(lx_vocab_load(scratch_path("absent"), &v, &err), &err, LX_ERR_NOT_FOUND,
                   "absent");
    scratch_expect(lx_vocab_load(scratch_path("."), &v, &err), &err, LX_ERR_FORMAT,
                   "not a regular file");
    const char *pipe = scratch_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    scratch_expect(lx_vocab_load(pipe, &v, &err), &err, LX_ERR_FORMAT, "not a regular file");
}

static void too_many_specials_are_refused(void **state)
{
    (void)state;
    char text[300 * 8];
    size_t n = 0;
    lx_vocab *v = NULL;
    lx_error err = {0};
    for (int i = 0; i < 257; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "<x%d>\n", i);
    const char *path = scratch_write("bad.txt", text, n);
    scratch_expect(lx_vocab_load(path, &v, &err), &err, LX_ERR_FORMAT, "line 257");
}

/* Loads any file; an accepted one must be consistent. */
static void load_anything(const char *text, size_t n)
{
    lx_vocab *v = NULL;
    lx_error err = {0};
    if (lx_vocab_load(scratch_write("any.txt", text, n), &v, &err) != LX_OK) {
        assert_non_null(strstr(err.text, "any.txt"));
        return;
    }
    for (int32_t id = 0; id < lx_vocab_size(v); id++) {
        int32_t again = lx_vocab_is_special(v, id) ? lx_vocab_special(v, lx_vocab_text(v, id))
                                                   : lx_vocab_char(v, lx_vocab_codepoint(v, id));
        assert_int_equal(again, id);
    }
    lx_vocab_free(v);
}

static void no_damage_is_fatal(void **state)
{
    (void)state;
    uint64_t r = 1;
    for (size_t n = 0; n < sizeof good; n++)
        load_anything(good, n);
    for (int i = 0; i < 2000; i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (uint64_t k = 1 + scratch_random(&r) % 3; k > 0; k--)
            text[scratch_random(&r) % (sizeof good - 1)] = (char)scratch_random(&r);
        load_anything(text, sizeof good - 1);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const char *path = scratch_write("vocab.txt", good, sizeof good - 1);
    int n = 1;
    for (;; n++) {
        lx_vocab *v = NULL;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_vocab_load(path, &v, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            lx_vocab_free(v);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "vocab.txt");
    }
    assert_true(n >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_both_ways),
        cmocka_unit_test(what_is_no_vocabulary_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(too_many_specials_are_refused),
        cmocka_unit_test(no_damage_is_fatal),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
