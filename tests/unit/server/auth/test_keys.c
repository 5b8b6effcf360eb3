/* API keys: accepted forms, how they are found, and their limits over time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "server/auth/keys.h"
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

static const lx_owner *owner_of(lx_keys *k, const char *authorization)
{
    return lx_key_owner(lx_keys_find(k, authorization));
}

static void test_rights_and_limits(void **state)
{
    (void)state;
    lx_keys *k = NULL;
    lx_key_limits limits = {.max_states = 7, .max_state_bytes = 8};
    assert_int_equal(lx_keys_new(&limits, &k, NULL), LX_OK);
    assert_true(lx_key_is_admin(lx_keys_find(k, ""))); /* without keys */
    assert_true(lx_keys_have_admin(k));
    assert_int_equal(owner_of(k, "")->max_states, 7);
    assert_int_equal(add_file(k, "alice 1 max-states=5\nbob 2\tmax-state-bytes=6 \r\n", NULL),
                     LX_OK);
    assert_false(lx_keys_have_admin(k));
    assert_false(lx_key_is_admin(lx_keys_public(k)));
    assert_int_equal(owner_of(k, "Bearer 1")->max_states, 5);
    assert_int_equal(owner_of(k, "Bearer 1")->max_bytes, 8);
    assert_int_equal(owner_of(k, "Bearer 2")->max_states, 7);
    assert_int_equal(owner_of(k, "Bearer 2")->max_bytes, 6);
    assert_int_equal(add_file(k, "carol 3 max-states=9 admin\n", NULL), LX_OK);
    assert_true(lx_keys_have_admin(k));
    assert_true(lx_key_is_admin(lx_keys_find(k, "Bearer 3")));
    assert_false(lx_key_is_admin(lx_keys_find(k, "Bearer 1")));
    assert_int_equal(lx_keys_add(k, "default", "4", NULL), LX_OK);
    assert_true(lx_key_is_admin(lx_keys_find(k, "Bearer 4")));
    lx_keys_free(k);
}

static void test_states_belong_to_names(void **state)
{
    (void)state;
    lx_keys *k = new_keys(0, 0), *later = new_keys(0, 0);
    assert_string_equal(owner_of(k, "")->name, "");
    assert_int_equal(add_file(k, "alice old\nsecret\nother\n", NULL), LX_OK);
    assert_int_equal(lx_keys_add(k, "default", "flag", NULL), LX_OK);
    assert_string_equal(owner_of(k, "Bearer old")->name, "alice");
    assert_string_equal(owner_of(k, "Bearer flag")->name, ""); /* as without keys */
    /* a new secret under an old name, a line that has moved */
    assert_int_equal(add_file(later, "other\nalice new\nsecret\n", NULL), LX_OK);
    assert_string_equal(owner_of(later, "Bearer new")->name, "alice");
    assert_string_equal(owner_of(k, "Bearer secret")->name, owner_of(later, "Bearer secret")->name);
    assert_string_not_equal(owner_of(k, "Bearer secret")->name, owner_of(k, "Bearer other")->name);
    assert_int_equal(owner_of(k, "Bearer secret")->name[0], '#');
    assert_int_equal(strlen(owner_of(k, "Bearer secret")->name), 17);
    assert_string_equal(lx_key_owner(lx_keys_public(k))->name, "#public");
    lx_keys_free(k);
    lx_keys_free(later);
}

static void test_no_key_of_several_fills_a_store(void **state)
{
    (void)state;
    lx_keys *none = new_keys(0, 0), *one = new_keys(0, 0), *two = new_keys(0, 0);
    lx_keys_share(none, 9, 100);
    assert_int_equal(owner_of(none, "")->max_states, 0);
    assert_int_equal(add_file(one, "a 1\n", NULL), LX_OK);
    lx_keys_share(one, 9, 100);
    assert_int_equal(owner_of(one, "Bearer 1")->max_states, 0);
    assert_int_equal(add_file(two, "a 1\nb 2 max-states=8\n", NULL), LX_OK);
    lx_keys_share(two, 9, 100);
    assert_int_equal(owner_of(two, "Bearer 1")->max_states, 5);
    assert_int_equal(owner_of(two, "Bearer 1")->max_bytes, 50);
    assert_int_equal(owner_of(two, "Bearer 2")->max_states, 8);
    assert_int_equal(owner_of(two, "Bearer 2")->max_bytes, 50);
    assert_int_equal(lx_key_owner(lx_keys_public(two))->max_states, 5);
    lx_keys_free(none);
    lx_keys_free(one);
    lx_keys_free(two);
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
    assert_null(strstr(err.text, " c")); /* a key may stand in the wrong place */
    static const char *const options[] = {"admin=yes",
                                          "Admin",
                                          "max-states",
                                          "max-states=",
                                          "max-states=0",
                                          "max-states=-1",
                                          "max-states=1x",
                                          "max-states=99999999",
                                          "max-state-bytes=0",
                                          "max-states= 5",
                                          "max-state-bytes=1e9",
                                          "max-state-bytes",
                                          "=",
                                          "max-states=+1",
                                          "admin admin",
                                          "weight=1 admin weight=1"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char line[80];
        (void)snprintf(line, sizeof line, "n%zu k%zu %s\n", i, i, options[i]);
        if (add_file(k, line, &err) != LX_ERR_INVALID)
            fail_msg("%s is an option", options[i]);
    }
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
    lx_key_load five = {.n_samples = 5, .samples_field = "best_of"}, rest = {.n_tokens = 40};
    lx_key_load many = {.n_tokens = 61, .tokens_field = "max_new"}, unnamed = {.n_tokens = 61};
    assert_int_equal(lx_key_take(key, &five, now, &wait, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "best_of");
    assert_int_equal(lx_key_take(key, &many, now, &wait, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "max_new");
    assert_int_equal(lx_key_take(key, &unnamed, now, &wait, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "");
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

/* The file is read again: its new keys count at once, removed ones no longer, and keys with an
   unchanged line keep their counts. */
static void test_reload(void **state)
{
    (void)state;
    lx_keys *k = new_keys(1, 0);
    lx_key_changes c;
    lx_error err = {0};
    int32_t wait = 0;
    assert_int_equal(lx_keys_add(k, "default", "flag", NULL), LX_OK);
    assert_int_equal(add_file(k, "alice 1\nbob 2\ncarol 3\n", NULL), LX_OK);
    lx_keys_share(k, 100, 1000);
    lx_key *alice = lx_keys_find(k, "Bearer 1"), *carol = lx_keys_find(k, "Bearer 3");
    assert_int_equal(lx_key_enter(alice, 1, &wait, NULL), LX_OK);
    const char text[] = "alice 1\nbob 2 admin\ndave 4\n";
    const char *path = scratch_write("keys", text, strlen(text));
    assert_int_equal(lx_keys_reload(k, path, &c, &err), LX_OK);
    assert_int_equal(c.n, 4);
    assert_int_equal(c.n_added, 1);
    assert_int_equal(c.n_changed, 1);
    assert_int_equal(c.n_removed, 1);
    assert_int_equal(lx_keys_count(k), 4);
    assert_ptr_equal(lx_keys_find(k, "Bearer 1"), alice);
    assert_int_equal(lx_key_enter(alice, 1, &wait, NULL), LX_ERR_BUSY);
    assert_null(lx_keys_find(k, "Bearer 3"));
    assert_string_equal(lx_key_name(carol), "carol"); /* for requests that still run */
    assert_true(lx_key_is_admin(lx_keys_find(k, "Bearer 2")));
    assert_true(lx_key_is_admin(lx_keys_find(k, "Bearer flag")));
    assert_int_equal(lx_key_owner(lx_keys_find(k, "Bearer 4"))->max_states, 50);
    assert_int_equal(lx_keys_reload(k, path, &c, &err), LX_OK);
    assert_int_equal(c.n_added + c.n_changed + c.n_removed, 0);
    const char *bad[] = {"", "alice 1\nalice 1\n", "alice 1 nothing\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        path = scratch_write("keys", bad[i], strlen(bad[i]));
        assert_int_equal(lx_keys_reload(k, path, &c, &err), LX_ERR_INVALID);
        assert_ptr_equal(lx_keys_find(k, "Bearer 1"), alice);
        assert_int_equal(lx_keys_count(k), 4);
    }
    lx_key_leave(alice);
    lx_keys_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_without_keys),
        cmocka_unit_test(test_found_by_the_whole_key_only),
        cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_rights_and_limits),
        cmocka_unit_test(test_states_belong_to_names),
        cmocka_unit_test(test_no_key_of_several_fills_a_store),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_concurrency),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_options_of_a_key),
        cmocka_unit_test(test_samples_and_tokens),
        cmocka_unit_test(test_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
