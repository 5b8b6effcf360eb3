/* A sound on its way: who holds it, how it ends, and who is woken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "server/speech/hearing.h"

static atomic_int n_wakes;

static void wake(void *context)
{
    (void)context;
    atomic_fetch_add(&n_wakes, 1);
}

static lx_hearing *new_hearing(lx_hearing_params p)
{
    lx_hearing *h = NULL;
    lx_error err = {0};
    atomic_store(&n_wakes, 0);
    p.wake = wake;
    assert_int_equal(lx_hearing_new(&p, &h, &err), LX_OK);
    return h;
}

static void test_it_keeps_a_copy(void **state)
{
    (void)state;
    char file[] = "RIFF";
    lx_hearing *h = new_hearing((lx_hearing_params){.file = file, .bytes = 4});
    memset(file, 0, sizeof file);
    assert_memory_equal(h->params.file, "RIFF", 4);
    lx_hearing_unref(h);
    h = new_hearing((lx_hearing_params){.file = file, .bytes = 0});
    assert_non_null(h->params.file);
    lx_hearing_unref(h);
    lx_hearing_unref(NULL);
}

static void test_faults(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_hearing *h =
        new_hearing((lx_hearing_params){.file = "", .deadline_ns = 1000, .queue_deadline_ns = 500});
    assert_int_equal(lx_hearing_fault(h, 499, &err), LX_OK);
    assert_int_equal(lx_hearing_fault(h, 500, &err), LX_ERR_BUSY);
    atomic_store(&h->started_ns, 400);
    assert_int_equal(lx_hearing_fault(h, 999, &err), LX_OK);
    assert_int_equal(lx_hearing_fault(h, 1000, &err), LX_ERR_TIMEOUT);
    lx_hearing_cancel(h);
    assert_int_equal(lx_hearing_fault(h, 0, &err), LX_ERR_CANCELLED);
    lx_hearing_unref(h);
    h = new_hearing((lx_hearing_params){.file = "", .deadline_ns = INT64_MAX});
    assert_int_equal(lx_hearing_fault(h, INT64_MAX - 1, &err), LX_OK); /* no time in the queue */
    lx_hearing_unref(h);
}

static void test_the_end(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_hearing *h = new_hearing((lx_hearing_params){.file = "x", .bytes = 1});
    lx_status st = lx_fail(&err, LX_ERR_INVALID, "file", "it is no sound");
    assert_false(lx_hearing_done(h));
    lx_hearing_finish(h, st, &err);
    assert_true(lx_hearing_done(h));
    assert_int_equal(atomic_load(&n_wakes), 1);
    assert_int_equal(h->status, LX_ERR_INVALID);
    assert_string_equal(h->err.param, "file");
    assert_null(h->params.file); /* memory that only the way needed is gone */
    lx_hearing_unref(h);
}

static void test_nobody_is_woken_after_detach(void **state)
{
    (void)state;
    const lx_error err = {0};
    lx_hearing *h = new_hearing((lx_hearing_params){.file = ""});
    lx_hearing *other = lx_hearing_ref(h);
    lx_hearing_detach(h);
    lx_hearing_unref(h);
    lx_hearing_finish(other, LX_OK, &err);
    assert_int_equal(atomic_load(&n_wakes), 0);
    lx_hearing_unref(other);
}

static void test_its_bytes_are_given_back(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_budget b;
    lx_reserve *r = NULL;
    lx_budget_init(&b, "answer-memory", 100);
    assert_int_equal(lx_reserve_new(&b, 60, "file", &r, &err), LX_OK);
    lx_hearing *h = new_hearing((lx_hearing_params){.file = "", .reserve = r});
    lx_reserve_unref(r);
    assert_int_equal(atomic_load(&b.used), 60);
    lx_hearing_unref(lx_hearing_ref(h));
    assert_int_equal(atomic_load(&b.used), 60);
    lx_hearing_unref(h);
    assert_int_equal(atomic_load(&b.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_keeps_a_copy),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_the_end),
        cmocka_unit_test(test_nobody_is_woken_after_detach),
        cmocka_unit_test(test_its_bytes_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
