/* Shares of the budget of bodies: how much a client may hold, and who counts as one client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>

#include "server/http/shares.h"

static lx_body_owner of_address(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return lx_body_owner_of(NULL, (const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return lx_body_owner_of(NULL, (const struct sockaddr *)&v6);
}

static void check_same(const char *a, const char *b, bool same)
{
    lx_body_owner x = of_address(a), y = of_address(b);
    assert_int_equal(memcmp(&x, &y, sizeof x) == 0, same);
}

static void test_clients(void **state)
{
    (void)state;
    check_same("192.0.2.1", "192.0.2.1", true);
    check_same("192.0.2.1", "192.0.2.2", false);
    check_same("192.0.2.1", "::ffff:192.0.2.1", true);
    check_same("::ffff:192.0.2.1", "::ffff:192.0.2.2", false);
    check_same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true); /* of one network */
    check_same("2001:db8:1:2::1", "2001:db8:1:3::1", false);
    int keys[2];
    lx_body_owner a = lx_body_owner_of(&keys[0], NULL), b = lx_body_owner_of(&keys[1], NULL);
    assert_memory_not_equal(&a, &b, sizeof a);
}

static void test_halves(void **state)
{
    (void)state;
    lx_budget budget;
    lx_budget_init(&budget, "body-memory", 1000);
    lx_shares s;
    lx_shares_init(&s, &budget);
    int keys[3];
    lx_share *of[3];
    for (int i = 0; i < 3; i++) {
        lx_body_owner owner = lx_body_owner_of(&keys[i], NULL);
        of[i] = lx_shares_join(&s, &owner);
        assert_non_null(of[i]);
    }
    lx_body_owner again = lx_body_owner_of(&keys[0], NULL);
    assert_ptr_equal(lx_shares_join(&s, &again), of[0]); /* a second body */
    assert_true(lx_shares_take(&s, of[0], 300));
    assert_true(lx_shares_have(&s, of[0], 200));
    assert_false(lx_shares_have(&s, of[0], 201));
    assert_true(lx_shares_take(&s, of[0], 200));
    assert_false(lx_shares_take(&s, of[0], 1));
    assert_false(lx_shares_take(&s, of[1], 251));
    assert_true(lx_shares_take(&s, of[1], 250));
    assert_true(lx_shares_take(&s, of[2], 125));
    assert_int_equal(atomic_load(&budget.used), 875);
    assert_int_equal(atomic_load(&budget.refused), 3);
    assert_true(lx_budget_try(&budget, 125)); /* for parsing */
    assert_false(lx_shares_have(&s, of[2], 1));
    lx_budget_release(&budget, 125);
    lx_shares_leave(&s, of[1], 250);
    lx_shares_leave(&s, of[0], 300);
    assert_true(lx_shares_take(&s, of[2], 275)); /* others hold 200 */
    assert_false(lx_shares_take(&s, of[2], 1));
    lx_shares_leave(&s, of[0], 200);
    lx_shares_leave(&s, of[2], 400);
    assert_null(s.first);
    assert_int_equal(s.bytes, 0);
    assert_int_equal(atomic_load(&budget.used), 0);
    lx_shares_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
