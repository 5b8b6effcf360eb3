/* Names in Host and Origin: which of them a foreign site can own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/auth/hosts.h"

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *host, *name; /* NULL: it is none */
    } cases[] = {{"localhost:8080", "localhost"},
                 {"a.example", "a.example"},
                 {"a.example.:80", "a.example"},
                 {"127.0.0.1:1", "127.0.0.1"},
                 {"[::1]:8080", "::1"},
                 {"[::1]", "::1"},
                 {"x", "x"},
                 {"-", "-"},
                 {"", NULL},
                 {":80", NULL},
                 {"a:b", NULL},
                 {"a:1234567", NULL},
                 {"a b", NULL},
                 {"a@localhost", NULL},
                 {"a,localhost", NULL},
                 {"localhost/a", NULL},
                 {"[a.example]", NULL},
                 {"[::1", NULL},
                 {"[::1]a", NULL},
                 {"::1", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        assert_int_equal(lx_host_name(cases[i].host, name, sizeof name), cases[i].name != NULL);
        if (cases[i].name != NULL)
            assert_string_equal(name, cases[i].name);
    }
    char small[4];
    assert_false(lx_host_name("abcd", small, sizeof small));
}

static void local_names(void **state)
{
    (void)state;
    static const char *const local[] = {
        "localhost", "app.localhost", "127.0.0.1",          "10.1.2.3",
        "::1",       "linnet",        "linnet.default.svc", "linnet.default.svc.cluster.local",
        "a.LOCAL",   "a.internal"};
    static const char *const foreign[] = {
        "evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "1.2.3",
        "1.2.3.4.5",    "evillocal.com",          "a.svc.com"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        assert_true(lx_host_is_local(local[i]));
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        assert_false(lx_host_is_local(foreign[i]));
}

static void entries(void **state)
{
    (void)state;
    assert_true(lx_host_matches("api.example", "API.example"));
    assert_false(lx_host_matches("api.example", "a.api.example"));
    assert_true(lx_host_matches("*.example", "api.example"));
    assert_false(lx_host_matches("*.example", "example"));
    assert_false(lx_host_matches("*.example", "evilexample"));
    assert_true(lx_host_matches("*", "anything.example"));
    static const char *const good[] = {"*", "*.a.example", "a.example", "localhost"};
    static const char *const bad[] = {"", "*a", "a.*", "https://a", "a:80", "*.", "a b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(lx_host_entry_ok(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(lx_host_entry_ok(bad[i]));
}

static void origins(void **state)
{
    (void)state;
    assert_true(lx_host_of_origin("http://localhost:3000", "localhost:8080"));
    assert_true(lx_host_of_origin("https://A.example", "a.example"));
    assert_true(lx_host_of_origin("http://[::1]:1", "[::1]:2"));
    assert_false(lx_host_of_origin("https://evil.example", "a.example"));
    assert_false(lx_host_of_origin("null", "null"));
    assert_false(lx_host_of_origin("https://a.example.evil.example", "a.example"));
    assert_false(lx_host_of_origin("https://a.example", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(local_names),
        cmocka_unit_test(entries),
        cmocka_unit_test(origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
