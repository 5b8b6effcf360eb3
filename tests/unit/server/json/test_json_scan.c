/* The scan of JSON: its counts, its limits, and that the library's tree stays within the bound.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <malloc.h>

#include "server/json/scan.h"

static lx_json_extent scan(const char *text)
{
    lx_json_extent e;
    lx_json_scan(text, strlen(text), &e);
    return e;
}

static void test_counts(void **state)
{
    (void)state;
    lx_json_extent e =
        scan("{\"a\": [1, true, null, -2.5e3], \"b\": {\"c\\\"d\": \"x,{[\"}, \"z\":\"\"}");
    assert_int_equal(e.depth, 2);
    assert_int_equal(e.containers, 3);
    assert_int_equal(e.strings, 6);
    assert_int_equal(e.scalars, 4);
    assert_string_equal(e.key, "z");
    e = scan("");
    assert_int_equal(e.containers + e.strings + e.scalars + e.depth, 0);
    assert_string_equal(e.key, "body");
    e = scan("\"never ends\\");
    assert_int_equal(e.strings, 1);
    e = scan("]]]]}{");
    assert_int_equal(e.containers, 1);
}

/* begin, then `piece` n times, then end. */
static char *repeat(const char *begin, const char *piece, int n, const char *end)
{
    size_t each = strlen(piece), length = strlen(begin);
    char *text = malloc(length + each * (size_t)n + strlen(end) + 1), *at = text;
    assert_non_null(text);
    at = stpcpy(at, begin);
    for (int i = 0; i < n; i++)
        at = stpcpy(at, piece);
    (void)stpcpy(at, end);
    return text;
}

/* param: NULL where the text is within the limits. */
static void check_named(const char *begin, const char *piece, int n, const char *end,
                        const char *param)
{
    lx_error err = {0};
    char *text = repeat(begin, piece, n, end);
    lx_json_extent e = scan(text);
    assert_int_equal(lx_json_check_extent(&e, &err), param == NULL ? LX_OK : LX_ERR_INVALID);
    if (param != NULL)
        assert_string_equal(err.param, param);
    free(text);
}

static void check(const char *begin, const char *piece, int n, const char *end, lx_status wanted)
{
    check_named(begin, piece, n, end, wanted == LX_OK ? NULL : "x"); /* not y, which comes last */
}

/* A key that cannot be named, and a list, leave no name of another field. */
static void test_only_the_field_at_fault_is_named(void **state)
{
    (void)state;
    enum { DEEP = 100 };
    static const char *const keys[] = {
        "my key", "\xe6\x9c\x88", "a\\nb", "",
        "a_key_that_is_longer_than_the_names_of_fields_that_errors_have"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char begin[128];
        (void)snprintf(begin, sizeof begin, "{\"seed\":1,\"%s\":", keys[i]);
        check_named(begin, "[", DEEP, "", "body");
    }
    check_named("[\"a\",\"seed\",", "[", DEEP, "", "body");
    check_named("[{\"a\":1},\"seed\",", "[", DEEP, "", "body");
    check_named("{\"my key\":1,\"seed\":", "[", DEEP, "", "seed");
    check_named("{\"a\":[1,\"b\"],\"seed\":", "[", DEEP, "", "seed");
}

static void test_limits(void **state)
{
    (void)state;
    enum { TOKENS = 262000, FEW = 40000, MANY = 60000 }; /* TOKENS: 1 MiB of them */
    static const char end[] = "0],\"y\":[1]}";
    check("{\"x\":[", "123,", TOKENS, end, LX_OK);
    check("{\"x\":[", "\"\",", FEW, end, LX_OK);
    check("{\"x\":[", "{},", FEW, end, LX_OK);
    check("{\"x\":[", "{},", MANY, end, LX_ERR_INVALID);
    check("{\"x\":[", "\"\",", 2 * MANY, end, LX_ERR_INVALID);
    check("{\"x\":[", "7,", 2 * TOKENS, end, LX_ERR_INVALID);
    check("{\"x\":", "[", LX_JSON_MAX_DEPTH - 1, "", LX_OK);
    check("{\"x\":", "[", LX_JSON_MAX_DEPTH, "],\"y\":1", LX_ERR_INVALID);
}

/* --- the bound --- */

static int64_t in_use, most;

static void *counting_malloc(size_t n)
{
    void *p = malloc(n);
    in_use += (int64_t)malloc_usable_size(p) + 8;
    most = in_use > most ? in_use : most;
    return p;
}

static void counting_free(void *p)
{
    in_use -= p != NULL ? (int64_t)malloc_usable_size(p) + 8 : 0;
    free(p);
}

static void check_bound(const char *begin, const char *piece, int n, const char *end)
{
    char *text = repeat(begin, piece, n, end);
    lx_json_extent e = scan(text);
    in_use = most = 0;
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    json_decref(root);
    assert_int_equal(in_use, 0);
    assert_in_range(most, 1, lx_json_tree_bytes(&e) + 2048);
    free(text);
}

static void test_bound(void **state)
{
    (void)state;
    json_set_alloc_funcs(counting_malloc, counting_free);
    for (int n = 1; n < 20000; n = n * 3 + 1) {
        check_bound("{\"x\":[", "{},", n, "0]}");
        check_bound("{\"x\":[", "[],", n, "0]}");
        check_bound("{\"x\":[", "{\"abc\":{}},", n, "0]}");
        check_bound("{\"x\":[", "\"\",", n, "0]}");
        check_bound("{\"x\":[", "\"forty bytes of text, not one more of it\",", n, "0]}");
        check_bound("{\"x\":[", "1.5,", n, "0]}");
        check_bound("{\"x\":\"", "long ", n, "\"}");
    }
    char *keys = malloc(1 << 20), *at = keys;
    at = stpcpy(at, "{");
    for (int i = 0; i < 30000; i++)
        at += snprintf(at, 16, "\"%d\":0,", i);
    (void)stpcpy(at, "\"x\":0}");
    check_bound(keys, "", 0, "");
    free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_only_the_field_at_fault_is_named),
                                       cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
