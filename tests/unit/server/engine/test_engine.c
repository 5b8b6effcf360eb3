/*
 * The engine's behaviour, step by step: a gate in the back end decides when a step begins, so each
 * phase of a job can be looked at while it lasts. Cancellation and deadlines in every phase, bounds
 * of the queue, order of service, drain and stop. Failures and figures: test_engine_failures.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "tests/support/rig.h"

static const char *const four = "海上明月"; /* 6 prompt rows, 4 tokens */

static void step(int32_t n)
{
    gate_let_pass(n);
    gate_wait_for_step();
}

static int32_t n_tokens(const lx_job *job, int32_t i)
{
    return lx_job_tokens(job, i, NULL, NULL);
}

/* --- cancellation --- */

/* The engine stands before a step: after that one step the job is gone. */
static void assert_gone_after_one_step(rig *r, lx_job *job, lx_status status)
{
    int64_t before = gate_steps();
    gate_let_pass(1);
    rig_expect(job, status);
    assert_int_equal(gate_steps(), before + 1);
    (void)r;
}

static void cancel_while_queued(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1});
    gate_close();
    lx_job *a = rig_submit(&r, &(rig_request){.line = four});
    gate_wait_for_step();
    lx_job *b = rig_submit(&r, &(rig_request){.line = four, .n = 2});
    lx_job *c = rig_submit(&r, &(rig_request){.line = four});
    assert_int_equal(r.metrics->queue_length, 2);
    lx_job_cancel(b);
    assert_gone_after_one_step(&r, b, LX_ERR_CANCELLED);
    gate_wait_for_step();
    assert_int_equal(r.metrics->queue_length, 1);
    gate_open();
    rig_expect(a, LX_OK);
    rig_expect(c, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void cancel_in_the_prompt(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 3; n += 2) {
        rig r = rig_start((rig_options){.n_slots = 4, .prompt_chunk = 2});
        gate_close();
        lx_job *a = rig_submit(&r, &(rig_request){.line = four, .n = n});
        gate_wait_for_step();
        step(1);
        assert_int_equal(n_tokens(a, 0), 0);
        assert_int_equal(r.metrics->slots_used, 1);
        lx_job_cancel(a);
        assert_gone_after_one_step(&r, a, LX_ERR_CANCELLED);
        rig_assert_empty(&r);
        rig_stop(&r);
    }
}

/* Two of five samples have a slot, the others wait with the prompt's state. */
static void cancel_with_samples_waiting(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 2});
    gate_close();
    lx_job *a = rig_submit(&r, &(rig_request){.line = four, .n = 5});
    gate_wait_for_step();
    step(2); /* the prompt, then the first tokens of two samples */
    assert_int_equal(n_tokens(a, 0), 1);
    assert_int_equal(n_tokens(a, 1), 1);
    assert_int_equal(n_tokens(a, 2), 0);
    assert_int_equal(r.metrics->slots_used, 2);
    lx_job *b = rig_submit(&r, &(rig_request){.line = four, .seed = 9});
    lx_job_cancel(a);
    assert_gone_after_one_step(&r, a, LX_ERR_CANCELLED);
    gate_open();
    rig_expect(b, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void cancel_while_generating(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 3});
    gate_close();
    lx_job *a = rig_submit(&r, &(rig_request){.line = four});
    lx_job *b = rig_submit(&r, &(rig_request){.line = four});
    gate_wait_for_step();
    step(2);
    assert_true(n_tokens(a, 0) >= 1 && n_tokens(a, 0) < 4);
    assert_int_equal(r.metrics->slots_used, 2);
    lx_job_cancel(a);
    assert_gone_after_one_step(&r, a, LX_ERR_CANCELLED);
    gate_wait_for_step();
    assert_int_equal(r.metrics->slots_used, 1);
    gate_open();
    rig_expect(b, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void cancel_before_submit_and_after_the_end(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){0});
    lx_job *a = rig_job(&(rig_request){.line = four}, NULL, NULL);
    lx_job_cancel(a);
    assert_int_equal(lx_engine_submit(r.engine, a, NULL), LX_OK);
    rig_expect(a, LX_ERR_CANCELLED);
    lx_job *b = rig_submit(&r, &(rig_request){.line = four});
    lx_job_wait(b);
    lx_job_cancel(b);
    lx_engine_poke(r.engine);
    rig_expect(b, LX_OK);
    assert_int_equal(gate_steps(), 4);
    rig_stop(&r);
}

/* --- deadlines --- */

/* The engine stands before a step, so this is no race; a real deadline might pass before it stands
   there. */
static void end_its_time(const lx_job *job)
{
    ((lx_job_params *)lx_job_get_params(job))->deadline_ns = lx_now_ns();
}

static void deadlines_end_queued_and_running_jobs(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1});
    gate_close();
    lx_job *a = rig_submit(&r, &(rig_request){.line = four, .n = 2});
    gate_wait_for_step();
    lx_job *b = rig_submit(&r, &(rig_request){.line = four});
    lx_job *c = rig_submit(&r, &(rig_request){.line = four});
    end_its_time(a);
    end_its_time(b);
    assert_false(lx_job_finished(a));
    gate_let_pass(1);
    rig_expect(a, LX_ERR_TIMEOUT);
    rig_expect(b, LX_ERR_TIMEOUT);
    gate_open();
    rig_expect(c, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* --- the queue --- */

static lx_status try_submit(rig *r, int32_t n, lx_job **job, lx_error *err)
{
    *job = rig_job(&(rig_request){.line = four, .n = n}, NULL, NULL);
    lx_status st = lx_engine_submit(r->engine, *job, err);
    if (st != LX_OK)
        lx_job_unref(*job);
    return st;
}

/* Free slots count, not how quick the engine's thread is: 2 + 3 jobs fit, however fast they come.
 */
static void the_queue_has_a_bound(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 2, .max_queue = 3});
    lx_job *jobs[6];
    lx_error err = {0};
    gate_close();
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(try_submit(&r, 1, &jobs[i], &err), LX_OK);
    assert_int_equal(r.metrics->queue_length, 3);
    assert_int_equal(try_submit(&r, 1, &jobs[5], &err), LX_ERR_BUSY);
    assert_non_null(strstr(err.text, "3 requests are waiting"));
    assert_int_equal(r.metrics->queue_length, r.metrics->queue_limit);
    gate_open();
    for (int32_t i = 0; i < 5; i++)
        rig_expect(jobs[i], LX_OK);
    assert_int_equal(try_submit(&r, 1, &jobs[5], &err), LX_OK);
    rig_expect(jobs[5], LX_OK);
    rig_stop(&r);
}

static void without_a_queue_only_free_slots_are_given(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 3, .max_queue = -1});
    lx_job *a, *b, *c;
    gate_close();
    assert_int_equal(try_submit(&r, 2, &a, NULL), LX_OK);
    assert_int_equal(try_submit(&r, 5, &b, NULL), LX_OK); /* one slot now, the rest in turn */
    assert_int_equal(try_submit(&r, 1, &c, NULL), LX_ERR_BUSY);
    gate_open();
    rig_expect(a, LX_OK);
    rig_expect(b, LX_OK);
    rig_stop(&r);
}

/* A job that follows another waits beyond the bound, until the queue's memory is full, and comes
   before jobs that waited when it came. */
static void a_job_that_follows_is_queued_beyond_the_bound(void **state)
{
    (void)state;
    enum { QUEUE = 12, JOBS = QUEUE + 1, ROOM = 2 * JOBS };
    rig r = rig_start((rig_options){.n_slots = 1, .n_spare = 2, .max_queue = QUEUE});
    lx_job *jobs[JOBS], *follows[ROOM + 1], *more = NULL;
    gate_close();
    for (int32_t i = 0; i < JOBS; i++)
        assert_int_equal(try_submit(&r, 1, &jobs[i], NULL), LX_OK);
    gate_wait_for_step(); /* the first job has the slot */
    assert_int_equal(try_submit(&r, 1, &more, NULL), LX_ERR_BUSY);
    int32_t n = 0;
    lx_status st = LX_OK;
    while (st == LX_OK && n <= ROOM) {
        more = rig_job(&(rig_request){.line = four, .follows = true}, NULL, NULL);
        st = lx_engine_submit(r.engine, more, NULL);
        if (st == LX_OK)
            follows[n++] = more;
    }
    lx_job_unref(more);
    assert_int_equal(st, LX_ERR_BUSY);
    assert_in_range(n, ROOM - QUEUE, ROOM);
    assert_int_equal(lx_engine_jobs(r.engine), JOBS);
    gate_open();
    for (int32_t i = 0; i < JOBS; i++)
        lx_job_wait(jobs[i]);
    for (int32_t i = 0; i < n; i++) {
        assert_true(lx_job_get_times(follows[i]).started <
                    lx_job_get_times(jobs[JOBS - 1]).started);
        rig_expect(follows[i], LX_OK);
    }
    for (int32_t i = 0; i < JOBS; i++)
        rig_expect(jobs[i], LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void retry_after_follows_the_work_left(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1, .max_queue = 100});
    lx_job *jobs[100];
    assert_int_equal(lx_engine_retry_after_s(r.engine), 1);
    gate_slow_down(20 * LX_NS_PER_MS);
    rig_expect(rig_submit(&r, &(rig_request){.line = four}), LX_OK);
    assert_true(lx_engine_step_s(r.engine) >= 0.02);
    gate_close();
    for (int32_t i = 0; i < 100; i++)
        jobs[i] = rig_submit(&r, &(rig_request){.line = four, .n = 1 + i % 2});
    double seconds = 600 * lx_engine_step_s(r.engine); /* 600 tokens, one at a time */
    assert_int_equal(lx_engine_retry_after_s(r.engine), (int32_t)ceil(seconds));
    gate_slow_down(0);
    gate_open();
    for (int32_t i = 0; i < 100; i++) {
        lx_job_cancel(jobs[i]);
        lx_job_wait(jobs[i]);
        lx_job_unref(jobs[i]);
    }
    assert_int_equal(lx_engine_retry_after_s(r.engine), 1);
    rig_stop(&r);
}

/* --- order --- */

/* However many samples one job has, another begins in the next step and has half of the slots. */
static void a_large_job_holds_nobody_up(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 2});
    gate_close();
    lx_job *a = rig_submit(&r, &(rig_request){.line = four, .n = 100});
    gate_wait_for_step();
    step(6);
    assert_int_equal(n_tokens(a, 0), 4);
    assert_int_equal(n_tokens(a, 1), 4);
    lx_job *b = rig_submit(&r, &(rig_request){.line = four});
    step(2); /* the step under way, and b's prompt */
    assert_int_equal(n_tokens(b, 0), 1);
    assert_true(r.metrics->preemptions > 0);
    step(3);
    rig_expect(b, LX_OK); /* a step each, as if it were alone */
    lx_job_cancel(a);
    gate_open();
    rig_expect(a, LX_ERR_CANCELLED);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* Prompts of several samples that begin together share the slots, and all end. */
static void jobs_with_several_samples_share(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 4, .prompt_chunk = 2});
    gate_close();
    lx_job *before = rig_submit(&r, &(rig_request){.line = "月"});
    gate_wait_for_step();
    lx_job *a = rig_submit(&r, &(rig_request){.line = four, .n = 8});
    lx_job *b = rig_submit(&r, &(rig_request){.line = four, .n = 8});
    lx_job_cancel(before);
    step(1);
    rig_expect(before, LX_ERR_CANCELLED);
    assert_int_equal(r.metrics->slots_used, 2); /* one each for the prompts */
    step(4); /* 5 rows of each, two at a time, then the first tokens */
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(n_tokens(a, i), i < 2);
        assert_int_equal(n_tokens(b, i), i < 2);
    }
    gate_open();
    rig_expect(a, LX_OK);
    rig_expect(b, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void one_slot_serves_any_n(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1, .max_tokens = 16});
    lx_job *a = rig_submit(&r, &(rig_request){.line = four, .n = 20, .seed = 3});
    lx_job_wait(a);
    for (int32_t i = 0; i < 20; i++)
        assert_int_equal(n_tokens(a, i), 4);
    rig_expect(a, LX_OK);
    assert_int_equal(gate_steps(), 1 + 20 * 4);
    rig_stop(&r);
}

/* --- waking --- */

typedef struct reader {
    lx_job *job;
    _Atomic int32_t n_wakes, n_uneven;
} reader;

/* At a wake all tokens of the step have arrived: samples that started together have equally
   many. */
static void look(void *context)
{
    reader *r = context;
    for (int32_t i = 1; i < lx_job_get_params(r->job)->n; i++)
        r->n_uneven += n_tokens(r->job, i) != n_tokens(r->job, 0);
    r->n_wakes++;
}

static void wakes_once_a_step_after_all_tokens(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 8});
    reader seen = {0};
    lx_job *a = rig_job(&(rig_request){.line = four, .n = 5}, look, &seen);
    seen.job = a;
    assert_int_equal(lx_engine_submit(r.engine, a, NULL), LX_OK);
    lx_job_wait(a);
    lx_engine_stop(r.engine); /* the last wake comes after the job's end */
    r.engine = NULL;
    assert_int_equal(seen.n_wakes, 4);
    assert_int_equal(seen.n_uneven, 0);
    rig_expect(a, LX_OK);
    rig_stop(&r);
}

/* --- the end --- */

static void drain_refuses_new_jobs_and_ends_the_old(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1});
    lx_job *a, *b, *c;
    gate_close();
    assert_int_equal(try_submit(&r, 2, &a, NULL), LX_OK);
    assert_int_equal(try_submit(&r, 1, &b, NULL), LX_OK);
    lx_engine_drain(r.engine);
    assert_int_equal(try_submit(&r, 1, &c, NULL), LX_ERR_UNAVAILABLE);
    lx_job *follows = rig_submit(&r, &(rig_request){.line = four, .follows = true});
    assert_false(lx_engine_idle(r.engine));
    gate_open();
    rig_expect(a, LX_OK);
    rig_expect(b, LX_OK);
    rig_expect(follows, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void stop_ends_what_is_left(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 2});
    lx_job *jobs[5];
    gate_close();
    for (int32_t i = 0; i < 5; i++)
        jobs[i] = rig_submit(&r, &(rig_request){.line = four, .n = 100 + i});
    gate_wait_for_step();
    step(2);
    gate_slow_down(10 * LX_NS_PER_MS); /* two seconds for the first job, and a stop within them */
    rig_stop(&r);
    int32_t n_ended = 0;
    for (int32_t i = 0; i < 5; i++) {
        assert_true(lx_job_finished(jobs[i]));
        n_ended += lx_job_status(jobs[i], NULL) == LX_ERR_UNAVAILABLE;
        lx_job_unref(jobs[i]);
    }
    assert_int_equal(n_ended, 5);
}

static void refuses_options_out_of_range(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){0});
    static const lx_engine_options bad[] = {
        {.n_slots = 0, .max_queue = 1, .max_tokens = 8, .prompt_chunk = 8, .prompt_beside = 1},
        {.n_slots = 1, .max_queue = -1, .max_tokens = 8, .prompt_chunk = 8, .prompt_beside = 1},
        {.n_slots = 9, .max_queue = 1, .max_tokens = 8, .prompt_chunk = 8, .prompt_beside = 1},
        {.n_slots = 1, .max_queue = 1, .max_tokens = 8, .prompt_chunk = 0, .prompt_beside = 1},
        {.n_slots = 1, .max_queue = 1, .max_tokens = 8, .prompt_chunk = 8, .prompt_beside = 0},
        {.n_slots = 1,
         .max_queue = 1,
         .max_tokens = INT32_MAX,
         .prompt_chunk = 8,
         .prompt_beside = 1},
        {.n_slots = 1,
         .max_queue = 1,
         .max_tokens = 8,
         .prompt_chunk = 8,
         .prompt_beside = 1,
         .prefix_bytes = -1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lx_engine *e = NULL;
        lx_error err = {0};
        assert_int_equal(lx_engine_start(r.transformer, &bad[i], r.metrics, &e, &err),
                         LX_ERR_INVALID);
        assert_true(err.param[0] != '\0');
    }
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_while_queued),
        cmocka_unit_test(cancel_in_the_prompt),
        cmocka_unit_test(cancel_with_samples_waiting),
        cmocka_unit_test(cancel_while_generating),
        cmocka_unit_test(cancel_before_submit_and_after_the_end),
        cmocka_unit_test(deadlines_end_queued_and_running_jobs),
        cmocka_unit_test(the_queue_has_a_bound),
        cmocka_unit_test(a_job_that_follows_is_queued_beyond_the_bound),
        cmocka_unit_test(without_a_queue_only_free_slots_are_given),
        cmocka_unit_test(retry_after_follows_the_work_left),
        cmocka_unit_test(a_large_job_holds_nobody_up),
        cmocka_unit_test(jobs_with_several_samples_share),
        cmocka_unit_test(one_slot_serves_any_n),
        cmocka_unit_test(wakes_once_a_step_after_all_tokens),
        cmocka_unit_test(drain_refuses_new_jobs_and_ends_the_old),
        cmocka_unit_test(stop_ends_what_is_left),
        cmocka_unit_test(refuses_options_out_of_range),
    };
    return cmocka_run_group_tests_name("engine", tests, rig_setup, rig_teardown);
}
