/* A block holds its mutex until it ends, on every way out of it. Timed waits end by lx_now_ns(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "common/lock.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool is_free(void)
{
    bool taken = pthread_mutex_trylock(&mutex) == 0;
    if (taken)
        (void)pthread_mutex_unlock(&mutex);
    return taken;
}

/* Returns the state of the mutex as the returned expression sees it. */
static bool leave_early(bool early)
{
    LX_HOLD(&mutex);
    if (early)
        return is_free();
    assert_false(is_free());
    return is_free();
}

static void test_a_block_holds_its_mutex(void **state)
{
    (void)state;
    assert_false(leave_early(true));
    assert_true(is_free());
    assert_false(leave_early(false));
    assert_true(is_free());
    for (int i = 0; i < 2; i++) {
        LX_HOLD(&mutex);
        assert_false(is_free());
        if (i == 0)
            continue;
        break;
    }
    assert_true(is_free());
}

static void test_a_timed_wait_ends(void **state)
{
    (void)state;
    pthread_cond_t cond;
    assert_true(lx_timed_cond_init(&cond));
    int64_t end = lx_now_ns() + LX_NS_PER_MS;
    struct timespec until = {.tv_sec = end / LX_NS_PER_S, .tv_nsec = end % LX_NS_PER_S};
    LX_HOLD(&mutex);
    while (pthread_cond_timedwait(&cond, &mutex, &until) != ETIMEDOUT)
        assert_true(lx_now_ns() < end);
    assert_true(lx_now_ns() >= end);
    (void)pthread_cond_destroy(&cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_holds_its_mutex),
        cmocka_unit_test(test_a_timed_wait_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
