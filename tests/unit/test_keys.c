/* API keys: what is accepted as one, how they are found, and their limits over time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "server/keys.h"
#include "tests/support/scratch.h"

static lx_keys *new_keys(int32_t concurrent, int32_t per_minute)
{
    lx_keys *k = NULL;
    lx_key_limits limits = {.concurrent = concurrent, .per_minute = per_minute};
    assert_int_equal(lx_keys_new(&limits, &k, NULL), LX_OK);
    return k;
}

static lx_status add_file(lx_keys *k, const char *text, lx_error *err)
{
    return lx_keys_add_file(k, scratch_write("keys", text, strlen(text)), err);
}

static void test_everybody_without_keys(void **state)
{
    (void)state;
    lx_keys *k = new_keys(0, 0);
    assert_int_equal(lx_keys_count(k), 0);
    assert_non_null(lx_keys_find(k, ""));
    assert_ptr_equal(lx_keys_find(k, ""), lx_keys_find(k, "Bearer anything"));
    assert_string_equal(lx_key_name(lx_keys_find(k, "")), "");
    lx_keys_free(k);
}

static void test_found_by_the_whole_key_only(void **state)
{
    (void)state;
    lx_keys *k = new_keys(0, 0);
    assert_int_equal(lx_keys_add(k, "a", "sk-one", NULL), LX_OK);
    assert_int_equal(lx_keys_add(k, "b", "sk-two", NULL), LX_OK);
    assert_string_equal(lx_key_name(lx_keys_find(k, "Bearer sk-one")), "a");
    assert_string_equal(lx_key_name(lx_keys_find(k, "bearer  sk-two")), "b");
    const char *wrong[] = {"",
                           "sk-one",
                           "Bearer",
                           "Bearer ",
                           "Bearer sk-on",
                           "Bearer sk-one2",
                           "Basic sk-one",
                           "Bearer sk-one sk-two"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(lx_keys_find(k, wrong[i]));
    lx_keys_free(k);
}

static void test_bad_keys(void **state)
{
    (void)state;
    lx_keys *k = new_keys(0, 0);
    lx_error err = {0};
    char big[LX_MAX_KEY_BYTES + 2];
    memset(big, 'k', sizeof big);
    big[sizeof big - 1] = '\0';
    assert_int_equal(lx_keys_add(k, "a", "", &err), LX_ERR_INVALID);
    assert_int_equal(lx_keys_add(k, "a", "two words", &err), LX_ERR_INVALID);
    assert_int_equal(lx_keys_add(k, "a", "\xc3\xa4", &err), LX_ERR_INVALID);
    assert_int_equal(lx_keys_add(k, "a", big, &err), LX_ERR_INVALID);
    assert_int_equal(lx_keys_add(k, "a", "twice", &err), LX_OK);
    assert_int_equal(lx_keys_add(k, "b", "twice", &err), LX_ERR_INVALID);
    assert_non_null(strstr(err.text, "twice"));
    assert_int_equal(lx_keys_count(k), 1);
    lx_keys_free(k);
}

static void test_file(void **state)
{
    (void)state;
    lx_keys *k = new_keys(0, 0);
    assert_int_equal(add_file(k, "# ours\n\nalice sk-1\r\n\t sk-2  \n", NULL), LX_OK);
    assert_int_equal(lx_keys_count(k), 2);
    assert_string_equal(lx_key_name(lx_keys_find(k, "Bearer sk-1")), "alice");
    assert_string_equal(lx_key_name(lx_keys_find(k, "Bearer sk-2")), "key-2");
    lx_keys_free(k);
}

static void test_bad_files(void **state)
{
    (void)state;
    lx_keys *k = new_keys(0, 0);
    lx_error err = {0};
    assert_int_equal(lx_keys_add_file(k, scratch_path("nowhere"), &err), LX_ERR_INVALID);
    assert_non_null(strstr(err.text, "nowhere"));
    assert_int_equal(add_file(k, "", &err), LX_ERR_INVALID);
    assert_int_equal(add_file(k, "# nothing\n", &err), LX_ERR_INVALID);
    assert_int_equal(add_file(k, "a b c\n", &err), LX_ERR_INVALID);
    assert_int_equal(add_file(k, "same\nsame\n", &err), LX_ERR_INVALID);
    assert_int_equal(lx_keys_add_file(k, scratch_write("nul", "a\0b", 3), &err), LX_ERR_INVALID);
    lx_keys_free(k);
}

static void test_concurrency(void **state)
{
    (void)state;
    lx_keys *k = new_keys(2, 0);
    lx_error err = {0};
    int32_t retry = 0;
    assert_int_equal(lx_keys_add(k, "a", "one", NULL), LX_OK);
    assert_int_equal(lx_keys_add(k, "b", "two", NULL), LX_OK);
    lx_key *one = lx_keys_find(k, "Bearer one"), *two = lx_keys_find(k, "Bearer two");
    assert_int_equal(lx_key_enter(one, 1, &retry, &err), LX_OK);
    assert_int_equal(lx_key_enter(one, 1, &retry, &err), LX_OK);
    assert_int_equal(lx_key_enter(one, 1, &retry, &err), LX_ERR_BUSY);
    assert_true(retry >= 1);
    assert_int_equal(lx_key_enter(two, 1, &retry, &err), LX_OK);
    lx_key_leave(one);
    assert_int_equal(lx_key_enter(one, 1, &retry, &err), LX_OK);
    lx_keys_free(k);
}

static void test_rate(void **state)
{
    (void)state;
    lx_keys *k = new_keys(0, 30); /* one in two seconds */
    lx_error err = {0};
    int32_t retry = 0;
    int64_t t = LX_NS_PER_S;
    lx_key *key = lx_keys_find(k, "");
    for (int i = 0; i < 30; i++)
        assert_int_equal(lx_key_enter(key, t, &retry, &err), LX_OK);
    assert_int_equal(lx_key_enter(key, t, &retry, &err), LX_ERR_BUSY);
    assert_int_equal(retry, 2);
    assert_int_equal(lx_key_enter(key, t + LX_NS_PER_S, &retry, &err), LX_ERR_BUSY);
    assert_int_equal(retry, 1);
    t += 2 * LX_NS_PER_S + LX_NS_PER_MS;
    assert_int_equal(lx_key_enter(key, t, &retry, &err), LX_OK);
    assert_int_equal(lx_key_enter(key, t, &retry, &err), LX_ERR_BUSY);
    t += 3600 * LX_NS_PER_S; /* no more than a minute's worth is saved up */
    for (int i = 0; i < 30; i++)
        assert_int_equal(lx_key_enter(key, t, &retry, &err), LX_OK);
    assert_int_equal(lx_key_enter(key, t, &retry, &err), LX_ERR_BUSY);
    lx_keys_free(k);
}

static void test_options_of_a_key(void **state)
{
    (void)state;
    static const char *const bad[] = {"a sk-1 weight=0",   "a sk-1 weight=101", "a sk-1 weight",
                                      "a sk-1 weight=2x",  "a sk-1 weight= 2",  "a sk-1 wait=2",
                                      "a sk-1 weight=2 y", "a sk-1 =2"};
    lx_keys *k = new_keys(0, 0);
    lx_error err = {0};
    assert_int_equal(add_file(k, "a sk-one weight=7\nb sk-two\nsk-three\n", &err), LX_OK);
    assert_int_equal(lx_key_client(lx_keys_find(k, "Bearer sk-one")).weight, 7);
    assert_int_equal(lx_key_client(lx_keys_find(k, "Bearer sk-two")).weight, 1);
    assert_int_equal(lx_key_client(lx_keys_find(k, "Bearer sk-three")).weight, 1);
    lx_keys_free(k);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        k = new_keys(0, 0);
        assert_int_equal(add_file(k, bad[i], &err), LX_ERR_INVALID);
        lx_keys_free(k);
    }
}

static void test_samples_and_tokens(void **state)
{
    (void)state;
    lx_keys *k = NULL;
    lx_key_limits limits = {.samples = 4, .tokens = 60};
    assert_int_equal(lx_keys_new(&limits, &k, NULL), LX_OK);
    lx_key *key = lx_keys_find(k, "");
    lx_error err = {0};
    int32_t wait = 0;
    int64_t now = LX_NS_PER_S;
    lx_key_load three = {.n_tokens = 30, .n_samples = 3}, two = {.n_tokens = 10, .n_samples = 2};
    lx_key_load five = {.n_samples = 5}, many = {.n_tokens = 61}, rest = {.n_tokens = 40};
    assert_int_equal(lx_key_take(key, &five, now, &wait, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "n");
    assert_int_equal(lx_key_take(key, &many, now, &wait, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "max_tokens");
    assert_int_equal(lx_key_take(key, &three, now, &wait, &err), LX_OK);
    assert_int_equal(lx_key_take(key, &two, now, &wait, &err), LX_ERR_LIMIT);
    assert_non_null(strstr(err.text, "4 samples"));
    assert_int_equal(wait, 1);
    assert_int_equal(lx_key_take(key, &rest, now, &wait, &err), LX_ERR_LIMIT);
    assert_non_null(strstr(err.text, "60 new tokens"));
    assert_int_equal(wait, 10); /* a token a second, and 10 are missing */
    lx_key_give_back(key, &three, false);
    assert_int_equal(lx_key_take(key, &two, now, &wait, &err), LX_OK);
    lx_key_give_back(key, &two, true);
    assert_int_equal(lx_key_take(key, &rest, now + 10 * LX_NS_PER_S, &wait, &err), LX_OK);
    lx_keys_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_without_keys),
        cmocka_unit_test(test_found_by_the_whole_key_only),
        cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_concurrency),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_options_of_a_key),
        cmocka_unit_test(test_samples_and_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
