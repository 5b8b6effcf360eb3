/*
 * The engine when samples, steps and the device fail: some jobs end, and all other jobs continue.
 * And its figures: counters, and the processor time of an idle engine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

#include "common/clock.h"
#include "tests/support/rig.h"

enum { PATIENCE_S = 60 };

static const char *const four = "海上明月"; /* 6 prompt rows, 4 tokens */

static void sleep_ms(int64_t ms)
{
    /* check-tests: the test measures this span */
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static uint64_t histogram_count(const lx_histogram *h)
{
    uint64_t n = 0;
    for (int32_t i = 0; i <= LX_N_BUCKETS; i++)
        n += h->buckets[i];
    return n;
}

/* --- failures --- */

static void a_sample_without_finite_logits_ends_only_its_job(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 4});
    gate_spoil_seed(666);
    gate_close();
    lx_job *a = rig_submit(&r, &(rig_request){.line = four, .n = 2, .seed = 1});
    lx_job *b = rig_submit(&r, &(rig_request){.line = four, .n = 3, .seed = 666});
    lx_job *c = rig_submit(&r, &(rig_request){.line = four, .seed = 2});
    gate_open();
    rig_expect(b, LX_ERR_INTERNAL);
    rig_expect(a, LX_OK);
    rig_expect(c, LX_OK);
    assert_true(lx_engine_healthy(r.engine));
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void a_failed_step_ends_its_jobs_and_the_engine_goes_on(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1});
    gate_close();
    lx_job *a = rig_submit(&r, &(rig_request){.line = four, .n = 2});
    gate_wait_for_step();
    lx_job *b = rig_submit(&r, &(rig_request){.line = four, .n = 2}); /* queued: not touched */
    gate_fail_step();
    gate_let_pass(1);
    rig_expect(a, LX_ERR_INTERNAL);
    gate_open();
    rig_expect(b, LX_OK);
    rig_expect(rig_submit(&r, &(rig_request){.line = four, .n = 2}), LX_OK);
    assert_true(lx_engine_healthy(r.engine));
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* The step was to leave the state of the prompt, in a branch. */
static void a_failed_step_leaves_no_kept_state(void **state)
{
    (void)state;
    rig_request q = {.line = four, .seed = 3};
    rig plain = rig_start((rig_options){.n_slots = 1});
    lx_job *want = rig_submit(&plain, &q);
    lx_job_wait(want);
    rig r = rig_start((rig_options){.n_slots = 1, .n_prefixes = 8});
    gate_fail_step();
    rig_expect(rig_submit(&r, &q), LX_ERR_INTERNAL);
    lx_job *job = rig_submit(&r, &q);
    lx_job_wait(job);
    assert_int_equal(lx_job_cached_rows(job), 0);
    assert_true(rig_hash(job) == rig_hash(want));
    rig_expect(job, LX_OK);
    rig_expect(want, LX_OK);
    rig_stop(&r);
    rig_stop(&plain);
}

static void a_lost_device_ends_all_jobs_for_good(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1});
    rig_request q = {.line = four, .n = 1};
    gate_close();
    lx_job *a = rig_submit(&r, &q), *b = rig_submit(&r, &q), *c = rig_job(&q, NULL, NULL);
    gate_lose_device();
    gate_open();
    rig_expect(a, LX_ERR_DEVICE);
    rig_expect(b, LX_ERR_DEVICE);
    assert_false(lx_engine_healthy(r.engine));
    assert_int_equal(lx_engine_submit(r.engine, c, NULL), LX_ERR_DEVICE);
    lx_job_unref(c);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* --- figures --- */

static void counts_what_it_did(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 2});
    int64_t started = lx_engine_last_step_ns(r.engine);
    assert_int_equal(r.metrics->slots_total, 2);
    rig_expect(rig_submit(&r, &(rig_request){.line = four}), LX_OK);
    rig_expect(rig_submit(&r, &(rig_request){.line = four, .n = 3}), LX_OK);
    rig_expect(rig_submit(&r, &(rig_request){.line = "月", .n = 1}), LX_OK);
    const lx_metrics *m = r.metrics;
    assert_int_equal(m->generated_tokens, 4 + 12 + 1);
    assert_int_equal(m->prompt_tokens, 6 + 6 + 3); /* each prompt once, for any n */
    assert_int_equal(m->step_rows, 6 + 3 + 5 + 12 + 3);
    assert_int_equal(m->steps, gate_steps());
    assert_int_equal(histogram_count(&m->step_time), gate_steps());
    assert_int_equal(histogram_count(&m->queue_time), 3);
    assert_int_equal(histogram_count(&m->time_to_first_token), 3);
    assert_int_equal(histogram_count(&m->inter_token), 3 + 9);
    assert_true(lx_engine_last_step_ns(r.engine) > started);
    rig_stop(&r);
}

/* Time of processors that this process uses while this thread sleeps. */
static int64_t used_in(int64_t ms)
{
    struct timespec a, b;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    sleep_ms(ms);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    return (b.tv_sec - a.tv_sec) * LX_NS_PER_S + b.tv_nsec - a.tv_nsec;
}

static void sleeps_while_there_is_nothing_to_do(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){0});
    rig_expect(rig_submit(&r, &(rig_request){.line = four}), LX_OK);
    int64_t end = lx_now_ns() + PATIENCE_S * LX_NS_PER_S;
    while (used_in(100) >= 10 * LX_NS_PER_MS)
        assert_true(lx_now_ns() < end);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_without_finite_logits_ends_only_its_job),
        cmocka_unit_test(a_failed_step_ends_its_jobs_and_the_engine_goes_on),
        cmocka_unit_test(a_failed_step_leaves_no_kept_state),
        cmocka_unit_test(a_lost_device_ends_all_jobs_for_good),
        cmocka_unit_test(counts_what_it_did),
        cmocka_unit_test(sleeps_while_there_is_nothing_to_do),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
