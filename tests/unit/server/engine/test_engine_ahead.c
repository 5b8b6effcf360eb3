/*
 * Steps that start before the host has read the tokens of earlier steps. At every depth the bytes
 * are equal (tokens, log-probabilities, likeliest ids, states). One engine runs images, lines with
 * and without rules, stop strings and scores, with cancellations in every phase of a job. No step
 * is wasted or runs in a slot of another owner. A suspended job continues from its place. A failed
 * step ends its jobs and no others. All this also holds while states move.
 *
 *   test_engine_ahead [BACKEND ...]    without a name: cpu, then reference (not for sanitizers)
 *
 * With the cuda back end of tests/simt, also: after the start a step allocates nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "tests/simt/counts.h"
#include "tests/support/engine_subject.h"

static int32_t n_requests(void)
{
    return subject_is_cuda() ? SUBJECT_REQUESTS / 2 : SUBJECT_REQUESTS;
}

static rig start(int32_t n_slots, int32_t ahead)
{
    rig_options o = subject_options(n_slots);
    o.ahead = ahead;
    return rig_start(o);
}

/* --- answers --- */

static void compute_alone(void)
{
    rig r = start(4, 0);
    subject_learn(&r, n_requests());
    assert_int_equal(gate_most_ahead(), 0);
    rig_stop(&r);
}

static void assert_same_together(int32_t n_slots, int32_t ahead)
{
    rig r = start(n_slots, ahead);
    subject_assert_same_together(&r);
    assert_true(gate_most_ahead() <= ahead);
    assert_true(!subject.of_pictures || gate_most_ahead() == ahead);
    rig_stop(&r);
}

static void same_bytes_at_every_depth(bool images)
{
    subject.of_pictures = images;
    compute_alone();
    for (int32_t ahead = subject_is_cuda() ? 2 : 0; ahead <= (subject_is_cuda() ? 2 : LX_MAX_AHEAD);
         ahead++) {
        assert_same_together(16, ahead);
        subject.move_bytes = 1;
        assert_same_together(2, ahead);
        subject.move_bytes = 0;
    }
    subject_forget();
}

static void lines_have_the_same_bytes(void **state)
{
    (void)state;
    same_bytes_at_every_depth(false);
}

static void pictures_have_the_same_bytes(void **state)
{
    (void)state;
    same_bytes_at_every_depth(true);
}

/* --- runs that go ahead --- */

static int64_t most_ahead_of(rig_request q, int64_t *steps)
{
    rig r = start(4, 2);
    int64_t before = gate_steps();
    lx_job *job = rig_submit(&r, &q);
    rig_expect(job, LX_OK);
    *steps = gate_steps() - before;
    int64_t most = gate_most_ahead();
    rig_stop(&r);
    return most;
}

/* And no step is wasted: as many as without. */
static void only_what_the_host_does_not_decide_goes_ahead(void **state)
{
    (void)state;
    int64_t steps = 0;
    subject.of_pictures = true;
    assert_int_equal(most_ahead_of((rig_request){.model = subject.pictures, .n_values = 0}, &steps),
                     2);
    assert_int_equal(steps, 48);
    subject.of_pictures = false;
    const char *line =
        request_lines[3]; /* two steps for the prompt: it pauses before its last row */
    assert_int_equal(most_ahead_of((rig_request){.line = line, .no_rules = true}, &steps), 2);
    int64_t free_steps = steps;
    assert_int_equal(most_ahead_of((rig_request){.line = line}, &steps), 2); /* its prompt's */
    assert_int_equal(steps, free_steps);
    (void)most_ahead_of((rig_request){.line = line, .no_rules = true, .stops = &request_stops},
                        &steps);
    assert_true(steps <= free_steps);
}

/* A lone job is gone without a further step, one of several at most `ahead` steps later. */
static void cancelling_is_at_most_so_many_steps_late(void **state)
{
    (void)state;
    subject.of_pictures = true;
    rig_request q = {.model = subject.pictures};
    for (int32_t ahead = 0; ahead <= LX_MAX_AHEAD; ahead++) {
        for (int32_t others = 0; others < 2; others++) {
            rig r = start(2, ahead);
            gate_close();
            lx_job *job = rig_submit(&r, &q), *other = others > 0 ? rig_submit(&r, &q) : NULL;
            gate_wait_for_step();
            gate_let_pass(12);
            gate_wait_for_step();
            lx_job_cancel(job);
            gate_let_pass(others > 0 ? 1 + ahead : 1); /* the step that waits has been made */
            lx_job_wait(job);
            rig_expect(job, LX_ERR_CANCELLED);
            gate_open();
            if (other != NULL)
                rig_expect(other, LX_OK);
            rig_assert_empty(&r);
            rig_stop(&r);
        }
    }
}

/* --- suspending --- */

static void suspended_jobs_go_on(void)
{
    subject.of_pictures = true;
    rig_request q = {.model = subject.pictures, .seed = 3, .suspendable = true};
    rig r = start(1, 0);
    lx_job *whole = rig_submit(&r, &q);
    lx_job_wait(whole);
    rig_stop(&r);
    for (int32_t n = 1; n < 48; n += subject_is_cuda() ? 20 : 5) {
        rig first = start(2, 2), second = start(2, 2);
        lx_job *job = subject_suspended(&first, &q, n);
        assert_answer_begins(job, whole);
        rig_request rest = q;
        rest.start.state = lx_job_state(job, 0, &rest.start.rows);
        rest.start.n_tokens = lx_job_tokens(job, 0, &rest.start.tokens, NULL);
        assert_true(rest.start.n_tokens >= n);
        lx_job *end = rig_submit(&second, &rest);
        lx_job_wait(end);
        const int32_t *got, *want;
        int32_t n_want = lx_job_tokens(whole, 0, &want, NULL);
        assert_int_equal(lx_job_tokens(end, 0, &got, NULL), n_want);
        assert_memory_equal(got, want, (size_t)n_want * sizeof *got);
        rig_expect(end, LX_OK);
        rig_expect(job, LX_ERR_UNAVAILABLE);
        rig_stop(&first);
        rig_stop(&second);
    }
    rig_expect(whole, LX_OK);
}

static void suspended_jobs_go_on_where_they_were(void **state)
{
    (void)state;
    for (subject.move_bytes = 0; subject.move_bytes < 2; subject.move_bytes++)
        suspended_jobs_go_on();
    subject.move_bytes = 0;
}

/* --- failures --- */

static void a_failed_step_ends_its_jobs_and_no_other(void **state)
{
    (void)state;
    subject.of_pictures = true;
    compute_alone();
    rig r = start(2, 2);
    subject_assert_failed_step_ends_its_jobs(&r, 7);
    rig_stop(&r);
    subject_forget();
}

static void a_lost_device_ends_all(void **state)
{
    (void)state;
    subject.of_pictures = true;
    rig r = start(2, 2);
    gate_close();
    lx_job *jobs[4];
    for (int32_t i = 0; i < 4; i++)
        jobs[i] = rig_submit(&r, &(rig_request){.model = subject.pictures, .seed = 1, .n = 2});
    gate_wait_for_step();
    gate_let_pass(5);
    gate_wait_for_step();
    gate_lose_device();
    gate_open();
    for (int32_t i = 0; i < 4; i++)
        rig_expect(jobs[i], LX_ERR_DEVICE);
    assert_false(lx_engine_healthy(r.engine));
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* One sample without a token: its run ends when its steps under way are done; others continue. */
static void a_broken_sample_ends_its_run_only(void **state)
{
    (void)state;
    subject.of_pictures = false;
    rig_request q = {.line = request_lines[4], .seed = 5, .no_rules = true, .n = 2}, bad = q;
    bad.seed = 6;
    rig r = start(3, 0);
    lx_job *want = rig_submit(&r, &q);
    lx_job_wait(want);
    rig_stop(&r);
    r = start(3, 3);
    gate_spoil_seed(6);
    gate_close();
    lx_job *spoilt = rig_submit(&r, &bad), *sound = rig_submit(&r, &q);
    gate_open();
    lx_job_wait(sound);
    assert_same_answer(sound, want);
    rig_expect(spoilt, LX_ERR_INTERNAL);
    rig_expect(sound, LX_OK);
    rig_expect(want, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* --- allocations --- */

static void nothing_is_allocated_after_the_start(void **state)
{
    (void)state;
    if (!subject_is_cuda())
        return; /* other back ends have neither this promise nor the counter */
    void *library = dlopen("libkernels_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library != NULL ? dlsym(library, "simt_count") : NULL;
    simt_counts before, after;
    simt_count_fn count = NULL;
    memcpy(&count, &symbol, sizeof count);
    assert_non_null(count);
    for (int32_t images = 0; images < 2; images++) {
        subject.of_pictures = images > 0;
        rig r = start(7 + images, 2); /* buckets that are full, and one that never is */
        lx_job *jobs[SUBJECT_REQUESTS];
        count(&before);
        assert_true(before.allocations > 100);
        for (int32_t i = 0; i < n_requests(); i++) {
            rig_request q = subject_request(i);
            jobs[i] = rig_submit(&r, &q);
        }
        for (int32_t i = 0; i < n_requests(); i++)
            rig_expect(jobs[i], LX_OK);
        count(&after);
        assert_int_equal(after.allocations, before.allocations);
        assert_int_equal(after.captured, before.captured);
        assert_true(after.replayed > before.replayed + 10);
        rig_stop(&r);
    }
    (void)dlclose(library);
}

static int run(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_the_same_bytes),
        cmocka_unit_test(pictures_have_the_same_bytes),
        cmocka_unit_test(only_what_the_host_does_not_decide_goes_ahead),
        cmocka_unit_test(cancelling_is_at_most_so_many_steps_late),
        cmocka_unit_test(suspended_jobs_go_on_where_they_were),
        cmocka_unit_test(a_failed_step_ends_its_jobs_and_no_other),
        cmocka_unit_test(a_lost_device_ends_all),
        cmocka_unit_test(a_broken_sample_ends_its_run_only),
        cmocka_unit_test(nothing_is_allocated_after_the_start),
    };
    return cmocka_run_group_tests_name(name, tests, subject_setup, subject_teardown);
}

int main(int argc, char **argv)
{
    return subject_main(argc, argv, run);
}
