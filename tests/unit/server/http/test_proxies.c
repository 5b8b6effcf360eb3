/* The client's address through trusted proxies: lists of networks, and X-Forwarded-For from its
 * end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "server/http/proxies.h"

static lx_address address_of(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    lx_address a;
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        lx_address_set(&a, (const struct sockaddr *)&v4);
        return a;
    }
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    lx_address_set(&a, (const struct sockaddr *)&v6);
    return a;
}

static bool trusts(const char *list, const char *address)
{
    lx_proxies *p = NULL;
    lx_address a = address_of(address);
    assert_int_equal(lx_proxies_new(list, &p, NULL), LX_OK);
    bool trusted = lx_proxies_trust(p, &a);
    lx_proxies_free(p);
    return trusted;
}

static void test_lists(void **state)
{
    (void)state;
    assert_true(trusts("10.0.0.0/8", "10.255.1.2"));
    assert_false(trusts("10.0.0.0/8", "11.0.0.1"));
    assert_true(trusts("192.0.2.128/25", "192.0.2.129"));
    assert_false(trusts("192.0.2.128/25", "192.0.2.127"));
    assert_true(trusts("192.0.2.1", "192.0.2.1"));
    assert_false(trusts("192.0.2.1", "192.0.2.2"));
    assert_true(trusts("::1, 10.0.0.0/8", "::ffff:10.1.1.1")); /* a socket of both families */
    assert_true(trusts("fd00::/8", "fd12::1"));
    assert_false(trusts("fd00::/8", "fe00::1"));
    assert_true(trusts("0.0.0.0/0", "203.0.113.9"));
    assert_false(trusts("0.0.0.0/0", "2001:db8::1"));
    lx_proxies *none = (lx_proxies *)&state;
    assert_int_equal(lx_proxies_new(NULL, &none, NULL), LX_OK);
    assert_null(none);
    assert_int_equal(lx_proxies_new(" , ", &none, NULL), LX_OK);
    assert_null(none);
}

static void test_bad_lists(void **state)
{
    (void)state;
    const char *bad[] = {"proxy",    "10.0.0.0/33", "10.0.0.0/",       "::1/129",
                         "10.0.0/8", "1.2.3.4/8x",  "1.2.3.4,someone", "1.2.3.4/-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lx_error err = {0};
        lx_proxies *p = NULL;
        assert_int_equal(lx_proxies_new(bad[i], &p, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, "trusted-proxies");
        assert_null(p);
    }
}

/* The address found for a peer 10.0.0.1, by these headers; the list trusts 10.0.0.0/8. */
static void check_client(const char *first, const char *second, const char *expected)
{
    lx_proxies *p = NULL;
    lx_forwarded f = {.n = 0};
    lx_address client = address_of("10.0.0.1");
    char text[64];
    assert_int_equal(lx_proxies_new("10.0.0.0/8", &p, NULL), LX_OK);
    if (first != NULL)
        lx_forwarded_add(&f, first);
    if (second != NULL)
        lx_forwarded_add(&f, second);
    lx_proxies_find_client(p, &f, &client);
    lx_address_write(&client, text, sizeof text);
    assert_string_equal(text, expected);
    lx_proxies_free(p);
}

static void test_the_last_untrusted_address_counts(void **state)
{
    (void)state;
    check_client(NULL, NULL, "10.0.0.1");
    check_client("198.51.100.7", NULL, "198.51.100.7");
    check_client("198.51.100.7, 10.0.0.2", NULL, "198.51.100.7");
    check_client("1.1.1.1, 198.51.100.7", NULL, "198.51.100.7"); /* 1.1.1.1 is the client's text */
    check_client("1.1.1.1", "198.51.100.7", "198.51.100.7");     /* HAProxy adds a header */
    check_client("10.0.0.3", "10.0.0.2", "10.0.0.3");            /* all are trusted */
    check_client("198.51.100.7:4711", NULL, "198.51.100.7");
    check_client("[2001:db8::1]:4711", NULL, "2001:db8::1");
    check_client("2001:db8::1", NULL, "2001:db8::1");
    check_client("someone", NULL, "10.0.0.1");
    check_client("198.51.100.7, someone, 10.0.0.2", NULL, "10.0.0.2");
    check_client(" ,, ", "", "10.0.0.1");
}

static void test_many_headers(void **state)
{
    (void)state;
    lx_forwarded f = {.n = 0};
    static const char *const texts[] = {"first", "other", "last"};
    lx_forwarded_add(&f, texts[0]);
    for (int i = 0; i < 2 * LX_MAX_FORWARDED; i++)
        lx_forwarded_add(&f, texts[1]);
    lx_forwarded_add(&f, texts[2]);
    assert_int_equal(f.n, LX_MAX_FORWARDED);
    assert_ptr_equal(f.values[0], texts[1]);
    assert_ptr_equal(f.values[f.n - 1], texts[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_the_last_untrusted_address_counts),
        cmocka_unit_test(test_many_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
