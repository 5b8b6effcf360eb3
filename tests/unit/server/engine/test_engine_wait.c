/*
 * The mean step and the foretold wait, which /v1/capacity and Retry-After tell. The mean includes
 * pauses between steps and leaves out idle time. The wait is 0 only without a queue.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <time.h>

#include "common/clock.h"
#include "tests/support/patience.h"
#include "tests/support/rig.h"

enum { PAUSE_MS = 5, MOST_STEPS = 64 }; /* the mean of so many steps weighs all of them alike */

static const char *const line = "海上明月";

static void run_one(rig *r)
{
    rig_expect(rig_submit(r, &(rig_request){.line = line}), LX_OK);
    wait_until(lx_engine_idle(r->engine));
}

/* The time of all steps and of the pauses between them. */
static double paced_s(const rig *r)
{
    assert_true(r->metrics->steps < MOST_STEPS);
    return lx_engine_step_s(r->engine) * (double)r->metrics->steps;
}

/* Called by the engine between two steps. */
static void pause_engine(void *context)
{
    (void)context;
    /* check-tests: the test measures this span */
    (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * LX_NS_PER_MS}, NULL);
}

static void pauses_between_steps_count(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1});
    lx_error err = {0};
    lx_job *job = rig_job(&(rig_request){.line = line}, pause_engine, NULL);
    assert_int_equal(lx_engine_submit(r.engine, job, &err), LX_OK);
    rig_expect(job, LX_OK);
    wait_until(lx_engine_idle(r.engine));
    int64_t pauses = (int64_t)r.metrics->steps - 1; /* the pause after the last step is no part */
    assert_true(pauses > 0);
    assert_true(paced_s(&r) >= (double)pauses * PAUSE_MS / 1000);
    rig_stop(&r);
}

/* Probes run only while the engine is idle, so they show that idle time has passed. */
static void idle_time_does_not_count(void **state)
{
    (void)state;
    enum { IDLE_MS = 20 };
    rig r = rig_start((rig_options){.n_slots = 1, .probe_ns = LX_NS_PER_MS});
    run_one(&r);
    double before = paced_s(&r);
    int64_t idle_ns = lx_now_ns();
    wait_until(lx_now_ns() - idle_ns >= IDLE_MS * LX_NS_PER_MS);
    int64_t late_ns = lx_now_ns();
    uint64_t probes = atomic_load(&r.metrics->probes);
    wait_until(atomic_load(&r.metrics->probes) >= probes + 2); /* the second began after late_ns */
    run_one(&r);
    double most = (double)(lx_now_ns() - late_ns) / LX_NS_PER_S, rounding = 1e-6;
    assert_true(paced_s(&r) - before <= most + rounding);
    rig_stop(&r);
}

typedef struct end_of_job {
    rig *r;
    _Atomic int told; /* times that the engine woke the reader */
    int64_t used, waiting;
    double wait_s;
} end_of_job;

/* Called by the engine after the job has left its slot, before the next job gets it. */
static void look_at_wait(void *context)
{
    end_of_job *end = context;
    end->used = atomic_load(&end->r->metrics->slots_used);
    end->waiting = atomic_load(&end->r->metrics->queue_length);
    end->wait_s = lx_engine_wait_s(end->r->engine);
    atomic_fetch_add(&end->told, 1);
}

static void the_wait_is_zero_only_without_a_queue(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1, .n_spare = 1}); /* no room for turns */
    lx_error err = {0};
    end_of_job end = {.r = &r};
    run_one(&r); /* so that a step has a mean time */
    assert_true(lx_engine_wait_s(r.engine) == 0);

    gate_close();
    lx_job *first = rig_job(&(rig_request){.line = line}, look_at_wait, &end);
    assert_int_equal(lx_engine_submit(r.engine, first, &err), LX_OK);
    gate_wait_for_step();
    double alone = lx_engine_wait_s(r.engine); /* no job waits, but no slot is free */
    assert_true(alone > 0);
    lx_job *second = rig_submit(&r, &(rig_request){.line = line});
    assert_true(lx_engine_wait_s(r.engine) > alone);

    gate_open();
    rig_expect(first, LX_OK);
    rig_expect(second, LX_OK);
    wait_until(lx_engine_idle(r.engine));
    wait_until(atomic_load(&end.told) > 0);
    assert_int_equal(end.used, 0);
    assert_int_equal(end.waiting, 1);
    assert_true(end.wait_s > 0);
    assert_true(lx_engine_wait_s(r.engine) == 0);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_between_steps_count),
        cmocka_unit_test(idle_time_does_not_count),
        cmocka_unit_test(the_wait_is_zero_only_without_a_queue),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
