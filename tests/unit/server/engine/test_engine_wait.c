/*
 * The mean step and the foretold wait, which /v1/capacity and Retry-After tell. The mean includes
 * pauses between steps and leaves out idle time. The wait is 0 only without a queue. It counts the
 * steps of jobs that will follow the queued ones, as the scores of a pool's samples do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <time.h>

#include "common/clock.h"
#include "tests/support/patience.h"
#include "tests/support/rig.h"

enum { PAUSE_MS = 5, MOST_STEPS = 64 }; /* the mean of so many steps weighs all of them alike */
enum { N_FOLLOWING = 4, N_QUEUED = 4, MAX_TOKENS = 40 };

static const char *const line = "海上明月";

static const char *const long_line =
    "海上明月春风花雨山水天地人心一二三千里云中日年江河红绿大小高低来";

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

/* Waits for the job, and then scores its answer N_FOLLOWING times. A score takes one step and hands
   out as many tokens as the answer has. */
static void expect_with_followers(rig *r, lx_job *job)
{
    const int32_t *answer = NULL;
    int32_t targets[MAX_TOKENS];
    lx_job_wait(job);
    int32_t n = lx_job_tokens(job, 0, &answer, NULL);
    assert_in_range(n, 1, MAX_TOKENS);
    memcpy(targets, answer, (size_t)n * sizeof *targets);
    rig_expect(job, LX_OK);
    for (int32_t i = 0; i < N_FOLLOWING; i++)
        rig_expect(
            rig_submit(r, &(rig_request){.line = long_line, .targets = targets, .follows = true}),
            LX_OK);
}

static void the_wait_counts_jobs_that_will_follow(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1});
    for (int32_t i = 0; i < 4; i++)
        expect_with_followers(&r, rig_submit(&r, &(rig_request){.line = long_line, .seed = 1}));
    wait_until(lx_engine_idle(r.engine));

    gate_close();
    lx_job *jobs[N_QUEUED];
    for (int32_t i = 0; i < N_QUEUED; i++)
        jobs[i] = rig_submit(&r, &(rig_request){.line = long_line, .seed = 1});
    gate_wait_for_step();
    uint64_t before = atomic_load(&r.metrics->steps);
    double foretold = lx_engine_wait_s(r.engine) / lx_engine_step_s(r.engine);
    gate_open();
    for (int32_t i = 0; i < N_QUEUED; i++)
        expect_with_followers(&r, jobs[i]);
    wait_until(lx_engine_idle(r.engine));
    double steps = (double)(atomic_load(&r.metrics->steps) - before);
    print_message("foretold %.0f steps, took %.0f\n", foretold, steps);
    assert_true(foretold >= 0.8 * steps && foretold <= 1.25 * steps);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_between_steps_count),
        cmocka_unit_test(idle_time_does_not_count),
        cmocka_unit_test(the_wait_is_zero_only_without_a_queue),
        cmocka_unit_test(the_wait_counts_jobs_that_will_follow),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
