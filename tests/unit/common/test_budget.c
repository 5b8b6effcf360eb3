/* Budgets: requests that fit, requests that never fit, and that many threads never pass the
   limit. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/budget.h"

enum { LIMIT = 1000, THREADS = 4, ROUNDS = 50000 };

static void test_fits_or_not(void **state)
{
    (void)state;
    lx_budget b;
    lx_budget_init(&b, "some-flag", LIMIT);
    assert_true(lx_budget_try(&b, 600));
    assert_false(lx_budget_try(&b, 401));
    assert_true(lx_budget_try(&b, 400));
    assert_true(lx_budget_try(&b, 0));
    assert_false(lx_budget_try(&b, INT64_MAX));
    assert_int_equal(atomic_load(&b.used), LIMIT);
    assert_int_equal(atomic_load(&b.refused), 2);
    lx_budget_release(&b, 600);
    lx_budget_release(&b, 400);
    assert_int_equal(atomic_load(&b.used), 0);
}

static void test_shared(void **state)
{
    (void)state;
    lx_budget b;
    lx_error err = {0};
    lx_reserve *one = NULL, *two = NULL;
    lx_budget_init(&b, "some-flag", LIMIT);
    assert_int_equal(lx_reserve_new(&b, 700, "n", &one, &err), LX_OK);
    assert_ptr_equal(lx_reserve_ref(one), one);
    assert_int_equal(lx_reserve_new(&b, 301, "n", &two, &err), LX_ERR_BUSY);
    assert_string_equal(err.param, "n");
    assert_non_null(strstr(err.text, "301 bytes"));
    assert_int_equal(lx_reserve_new(&b, LIMIT + 1, "n", &two, &err), LX_ERR_INVALID);
    assert_non_null(strstr(err.text, "1001 bytes"));
    assert_non_null(strstr(err.text, "1000 (--some-flag)"));
    assert_null(two);
    lx_reserve_unref(one);
    assert_int_equal(atomic_load(&b.used), 700);
    lx_reserve_unref(one);
    lx_reserve_unref(NULL);
    assert_null(lx_reserve_ref(NULL));
    assert_int_equal(atomic_load(&b.used), 0);
}

static void *take_and_give(void *context)
{
    lx_budget *b = context;
    intptr_t passed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (!lx_budget_try(b, 300))
            continue;
        passed += atomic_load(&b->used) > LIMIT;
        lx_budget_release(b, 300);
    }
    return (void *)passed;
}

static void test_threads(void **state)
{
    (void)state;
    lx_budget b;
    pthread_t threads[THREADS];
    lx_budget_init(&b, "some-flag", LIMIT);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &b), 0);
    for (int i = 0; i < THREADS; i++) {
        void *passed = NULL;
        assert_int_equal(pthread_join(threads[i], &passed), 0);
        assert_null(passed);
    }
    assert_int_equal(atomic_load(&b.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fits_or_not),
                                       cmocka_unit_test(test_shared),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
