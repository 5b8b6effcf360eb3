/* Tokenizers: hand-written files of every family, streams, bounds, failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/tokenizers/tokenizer.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

/* "▁" is one blank; the merges make "▁ab" of it, a and b. */
static const char llama_file[] =
    "{\"version\": \"1.0\","
    " \"added_tokens\": [{\"id\": 8, \"content\": \"<s>\", \"special\": true, \"normalized\": "
    "false},"
    "  {\"id\": 9, \"content\": \"<m>\", \"lstrip\": true, \"rstrip\": true, \"normalized\": "
    "false}],"
    " \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": ["
    "  {\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"},"
    "  {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}]},"
    " \"pre_tokenizer\": null,"
    " \"post_processor\": {\"type\": \"TemplateProcessing\","
    "  \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}],"
    "  \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [8], \"tokens\": [\"<s>\"]}}},"
    " \"decoder\": {\"type\": \"Sequence\", \"decoders\": ["
    "  {\"type\": \"Replace\", \"pattern\": {\"String\": \"\xe2\x96\x81\"}, \"content\": \" \"},"
    "  {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"},"
    "  {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]},"
    " \"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\", \"fuse_unk\": true,"
    "  \"byte_fallback\": true, \"vocab\": {\"<unk>\": 0, \"<0xC3>\": 1, \"<0xA9>\": 2, \"a\": 3,"
    "  \"b\": 4, \"\xe2\x96\x81\": 5, \"ab\": 6, \"\xe2\x96\x81"
    "ab\": 7},"
    "  \"merges\": [[\"a\", \"b\"], \"\xe2\x96\x81 ab\"]}}";

static lx_tokenizer *load(const char *name, const char *text)
{
    lx_error err = {0};
    lx_tokenizer *t = NULL;
    if (lx_tokenizer_load_file(scratch_write(name, text, strlen(text)), &t, &err) != LX_OK)
        fail_msg("%s", err.text);
    return t;
}

/* The ids of a text as words. */
static const char *ids_of(const lx_tokenizer *t, const char *text, unsigned flags)
{
    static char words[512];
    lx_error err = {0};
    lx_token_list ids;
    int at = 0;
    lx_token_list_init(&ids, 100);
    assert_int_equal(lx_tokenizer_encode(t, text, strlen(text), flags, &ids, &err), LX_OK);
    words[0] = '\0';
    for (size_t i = 0; i < ids.n; i++)
        at += snprintf(words + at, sizeof words - (size_t)at, i > 0 ? " %d" : "%d", ids.ids[i]);
    lx_token_list_fini(&ids);
    return words;
}

static void llama_joins_falls_back_and_knows_added_tokens(void **state)
{
    (void)state;
    lx_tokenizer *t = load("tokenizer.json", llama_file);
    assert_string_equal(lx_tokenizer_family_name(t), "fallback");
    assert_int_equal(lx_tokenizer_size(t), 10);
    assert_string_equal(ids_of(t, "ab ab", 0), "7 7");
    assert_string_equal(ids_of(t, "ab", LX_ENCODE_TEMPLATE), "8 7");
    assert_string_equal(ids_of(t, "", LX_ENCODE_TEMPLATE), "8");
    assert_string_equal(ids_of(t, "\xc3\xa9", 0), "5 1 2");
    assert_string_equal(ids_of(t, "xyb", 0), "5 0 4"); /* unknown neighbours are one */
    assert_string_equal(ids_of(t, "a <m> b<s>", 0), "5 3 9 5 4 8");
    assert_string_equal(ids_of(t, "<s>", LX_ENCODE_PLAIN_SPECIALS), "5 0");
    assert_int_equal(lx_tokenizer_find(t, "<m>"), 9);
    assert_int_equal(lx_tokenizer_find(t, "<n>"), -1);
    assert_true(lx_tokenizer_is_special(t, 8));
    assert_false(lx_tokenizer_is_special(t, 9));
    lx_tokenizer_free(t);
}

/* Pushes ids one by one and compares the text of each; a bar follows every text. */
static void expect_stream(const lx_tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                          const char *expected)
{
    lx_buffer out;
    lx_detokenizer d;
    lx_buffer_init(&out, 1000);
    lx_detokenizer_init(&d, t, flags);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(lx_detokenizer_push(&d, ids[i], &out, NULL), LX_OK);
        lx_buffer_puts(&out, "|");
    }
    lx_detokenizer_finish(&d, &out);
    assert_string_equal(out.data, expected);
    lx_buffer_fini(&out);
}

static void streams_hold_back_what_is_no_whole_character(void **state)
{
    (void)state;
    lx_tokenizer *t = load("tokenizer.json", llama_file);
    const int32_t whole[] = {8, 7, 1, 2, 7}, broken[] = {1, 4, 2, 1};
    expect_stream(t, whole, 5, 0, "|ab||\xc3\xa9| ab|");
    expect_stream(t, whole, 5, LX_DECODE_SPECIALS, "<s>| ab||\xc3\xa9| ab|");
    expect_stream(t, whole, 5, LX_DECODE_CONTINUES, "| ab||\xc3\xa9| ab|");
    expect_stream(t, broken, 4, 0,
                  "|\xef\xbf\xbd"
                  "b|\xef\xbf\xbd||\xef\xbf\xbd");
    lx_tokenizer_free(t);
    assert_int_equal(lx_tokenizer_new_bytes(&t, NULL), LX_OK);
    const int32_t four[] = {0xf0, 0x9f, 0x98, 0x80}, cut[] = {0xf0, 0x9f, 0x41, 0xe0, 0x80};
    expect_stream(t, four, 4, 0, "|||\xf0\x9f\x98\x80|");
    expect_stream(t, cut, 5, 0,
                  "||\xef\xbf\xbd"
                  "A||\xef\xbf\xbd\xef\xbf\xbd|");
    lx_tokenizer_free(t);
}

static void ids_and_texts_out_of_bounds_are_errors(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_token_list ids;
    lx_buffer out;
    lx_tokenizer *t = load("tokenizer.json", llama_file);
    const int32_t wrong = 10;
    lx_buffer_init(&out, 10);
    scratch_expect(lx_tokenizer_decode(t, &wrong, 1, 0, &out, &err), &err, LX_ERR_INVALID,
                   "token 10");
    lx_token_list_init(&ids, 2);
    scratch_expect(lx_tokenizer_encode(t, "ab ab ab", 8, 0, &ids, &err), &err, LX_ERR_TOO_LARGE,
                   "more than 2 tokens");
    lx_token_list_fini(&ids);
    scratch_expect(lx_tokenizer_encode(t, "a\xff", 2, 0, &ids, &err), &err, LX_ERR_INVALID,
                   "byte 1");
    scratch_expect(lx_tokenizer_encode(t, "", (size_t)LX_TOKENIZER_MAX_TEXT + 1, 0, &ids, &err),
                   &err, LX_ERR_TOO_LARGE, "at once");
    lx_token_list_fini(&ids);
    lx_buffer_fini(&out);
    lx_tokenizer_free(t);
}

static void characters_without_unknown_refuse_what_they_lack(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_token_list ids;
    lx_token_list_init(&ids, 10);
    lx_tokenizer *t = load("vocab.txt", "a\n\xc3\xa9\n<s>\n");
    assert_string_equal(ids_of(t, "a\xc3\xa9", 0), "0 1");
    scratch_expect(lx_tokenizer_encode(t, "ab", 2, 0, &ids, &err), &err, LX_ERR_INVALID, "U+0062");
    lx_token_list_fini(&ids);
    lx_tokenizer_free(t);
    t = load("vocab.txt", "<unk>\na\n");
    assert_string_equal(ids_of(t, "ab", 0), "1 0");
    lx_tokenizer_free(t);
}

static void a_field_that_is_not_known_is_refused(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_tokenizer *t = NULL;
    char *text = scratch_replace(llama_file, "\"fuse_unk\"", "\"melt_unk\"");
    const char *path = scratch_write("tokenizer.json", text, strlen(text));
    scratch_expect(lx_tokenizer_load_file(path, &t, &err), &err, LX_ERR_UNSUPPORTED,
                   "model.melt_unk");
    free(text);
}

/* --- Unigram --- */

/* Scores of "ab" and of "a" and "b" are equal sums: the longer piece wins, as it begins first. */
static const char unigram_file[] =
    "{\"version\": \"1.0\","
    " \"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true, \"normalized\": "
    "false}],"
    " \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": ["
    "  {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"CAAAAAAAAAAAAAAA\"},"
    "  {\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": \" \"}]},"
    " \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\","
    "  \"prepend_scheme\": \"never\"}, \"post_processor\": null,"
    " \"decoder\": {\"type\": \"Metaspace\", \"replacement\": \"_\","
    "  \"prepend_scheme\": \"never\"},"
    " \"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0.0],"
    "  [\"<s>\", 0.0], [\"a\", -1.0], [\"b\", -2.0], [\"ab\", -3.0], [\"ba\", -2.5],"
    "  [\"_\", -4]]}}";

static void unigram_takes_the_best_sum(void **state)
{
    (void)state;
    lx_tokenizer *t = load("tokenizer.json", unigram_file);
    assert_string_equal(lx_tokenizer_family_name(t), "unigram");
    assert_string_equal(ids_of(t, "ab", 0), "4");
    assert_string_equal(ids_of(t, "aba", 0), "2 5");
    assert_string_equal(ids_of(t, "a  b", 0), "2 6 3");
    assert_string_equal(ids_of(t, "axyb", 0), "2 0 3"); /* unknown neighbours are one */
    assert_string_equal(ids_of(t, "a<s>", 0), "2 1");
    assert_string_equal(ids_of(t, "a<s>", LX_ENCODE_PLAIN_SPECIALS), "2 0");
    lx_tokenizer_free(t);
}

/* The ids and texts of tests/golden/unigram.py. */
static void unigram_gives_the_ids_of_the_library(void **state)
{
    (void)state;
    json_t *all = json_load_file(GOLDEN_UNIGRAM, 0, NULL);
    const char *name;
    json_t *golden;
    json_free_t release;
    size_t n_cases = 0;
    json_get_alloc_funcs(NULL, &release);
    json_object_foreach(all, name, golden)
    {
        char *file = json_dumps(json_object_get(golden, "file"), 0);
        lx_tokenizer *t = load("tokenizer.json", file);
        json_t *one;
        size_t i;
        json_array_foreach(json_object_get(golden, "cases"), i, one)
        {
            lx_error err = {0};
            lx_token_list ids;
            lx_buffer text;
            const json_t *given = json_object_get(one, "text"), *want = json_object_get(one, "ids");
            lx_token_list_init(&ids, 10000);
            lx_buffer_init(&text, 1 << 20);
            must(lx_tokenizer_encode(t, json_string_value(given), json_string_length(given),
                                     LX_ENCODE_TEMPLATE, &ids, &err),
                 &err);
            assert_int_equal(ids.n, json_array_size(want));
            for (size_t k = 0; k < ids.n; k++)
                assert_int_equal(ids.ids[k], json_integer_value(json_array_get(want, k)));
            must(lx_tokenizer_decode(t, ids.ids, ids.n, LX_DECODE_SPECIALS, &text, &err), &err);
            lx_buffer_append(&text, "", 0);
            assert_string_equal(text.data, json_string_value(json_object_get(one, "decoded")));
            lx_buffer_fini(&text);
            lx_token_list_fini(&ids);
            n_cases++;
        }
        lx_tokenizer_free(t);
        release(file);
    }
    assert_true(n_cases > 100);
    json_decref(all);
}

/* Where an error says which part is wrong, too. */
static void a_name_of_the_file_is_quoted(void **state)
{
    (void)state;
    static const char file[] =
        "{\"version\": \"1.0\", \"added_tokens\": [], \"model\": {\"type\": \"BPE\", \"vocab\": "
        "{\"a\": 0}, \"merges\": []}, \"post_processor\": {\"type\": \"TemplateProcessing\", "
        "\"single\": [{\"SpecialToken\": {\"id\": \"<\x7f>\"}}], \"special_tokens\": "
        "{\"<\x7f>\": {\"ids\": 4}}}}";
    lx_error err = {0};
    lx_tokenizer *t = NULL;
    const char *path = scratch_write("tokenizer.json", file, strlen(file));
    scratch_expect(lx_tokenizer_load_file(path, &t, &err), &err, LX_ERR_FORMAT,
                   "post_processor.special_tokens.<?>.ids must be a list");
}

/* Every allocation of loading and encoding fails once: an error each time, and nothing leaks. */
static void fail_each_allocation(const char *file)
{
    const char *path = scratch_write("tokenizer.json", file, strlen(file));
    for (int n = 1; n < 1000; n++) {
        lx_error err = {0};
        lx_tokenizer *t = NULL;
        lx_token_list ids;
        lx_token_list_init(&ids, 10);
        failing_arm(n);
        lx_status st = lx_tokenizer_load_file(path, &t, &err);
        if (st == LX_OK)
            st = lx_tokenizer_encode(t, "ab ab", 5, 0, &ids, &err);
        int hit = failing_hit();
        lx_token_list_fini(&ids);
        lx_tokenizer_free(t);
        assert_int_equal(st, hit ? LX_ERR_NO_MEMORY : LX_OK);
        if (!hit)
            return;
    }
    fail_msg("never without a failure");
}

static void failing_allocations_are_errors(void **state)
{
    (void)state;
    fail_each_allocation(llama_file);
    fail_each_allocation(unigram_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_joins_falls_back_and_knows_added_tokens),
        cmocka_unit_test(streams_hold_back_what_is_no_whole_character),
        cmocka_unit_test(ids_and_texts_out_of_bounds_are_errors),
        cmocka_unit_test(characters_without_unknown_refuse_what_they_lack),
        cmocka_unit_test(a_field_that_is_not_known_is_refused),
        cmocka_unit_test(a_name_of_the_file_is_quoted),
        cmocka_unit_test(unigram_takes_the_best_sum),
        cmocka_unit_test(unigram_gives_the_ids_of_the_library),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
