/*
 * Jobs that hand out their final state, and jobs that continue from one. At every token boundary
 * the second half equals, bit for bit, the rest of an answer without the stop. This also holds for
 * suspended jobs, and for samples forked from a state. A job that cannot fit is refused before it
 * reaches a step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/rig.h"

static const char line[] = "海上明月春风花雨";

enum { N = 8, SEED = 11 }; /* the line's characters, so many are generated */

static size_t state_floats(void)
{
    return (size_t)rig_model()->state.fixed_floats;
}

/* The state and tokens of sample i as a start for another job; state and tokens are the job's. */
static lx_job_start start_of(const lx_job *job, int32_t i)
{
    lx_job_start s = {.first_sample = (uint32_t)i};
    s.state = lx_job_state(job, i, &s.rows);
    s.n_tokens = lx_job_tokens(job, i, &s.tokens, NULL);
    return s;
}

static lx_job *finished(rig *r, rig_request q)
{
    lx_job *job = rig_submit(r, &q);
    lx_job_wait(job);
    assert_int_equal(lx_job_status(job, NULL), LX_OK);
    return job;
}

/* Tokens, and the bits of log-probabilities from `from` on, of sample i and of sample k are equal.
 */
static void assert_same(const lx_job *a, int32_t i, const lx_job *b, int32_t k, int32_t from)
{
    const int32_t *x, *y;
    const float *p, *q;
    int32_t n = lx_job_tokens(a, i, &x, &p);
    assert_int_equal(lx_job_tokens(b, k, &y, &q), n);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
    assert_memory_equal(p + from, q + from, (size_t)(n - from) * sizeof *p);
}

static void going_on_is_as_never_stopped(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 2, .prompt_chunk = 3});
    lx_job *whole =
        finished(&r, (rig_request){.line = line, .seed = SEED, .keep_state = true, .max_new = N});
    for (int32_t stop = 0; stop < N; stop++) {
        lx_job *half = finished(
            &r, (rig_request){.line = line, .seed = SEED, .keep_state = true, .max_new = stop});
        lx_job *rest = finished(&r, (rig_request){.line = line,
                                                  .seed = SEED,
                                                  .keep_state = true,
                                                  .max_new = N,
                                                  .start = start_of(half, 0)});
        assert_same(whole, 0, rest, 0, stop);
        int32_t rows = 0, rows_whole = 0;
        const float *end = lx_job_state(rest, 0, &rows);
        const float *end_whole = lx_job_state(whole, 0, &rows_whole);
        assert_int_equal(rows, rows_whole);
        assert_memory_equal(end, end_whole, state_floats() * sizeof *end);
        rig_expect(half, LX_OK);
        rig_expect(rest, LX_OK);
    }
    rig_expect(whole, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* From the state after some of the prompt's rows the rest of the prompt is computed. */
static void a_prompt_may_begin_in_the_middle(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 2});
    lx_job *whole = finished(&r, (rig_request){.line = line, .seed = SEED, .n = 3});
    lx_job *prompt = finished(&r, (rig_request){.line = line, .keep_state = true});
    lx_job_start start = start_of(prompt, 0);
    assert_int_equal(start.rows, lx_job_plan(prompt)->n_prompt - 1);
    lx_job *again = finished(&r, (rig_request){.line = line, .seed = SEED, .n = 3, .start = start});
    for (int32_t i = 0; i < 3; i++)
        assert_same(whole, i, again, i, 0);
    lx_job *third =
        finished(&r, (rig_request){.line = line, .seed = SEED, .start = {.first_sample = 2}});
    assert_same(whole, 2, third, 0, 0);
    rig_expect(whole, LX_OK);
    rig_expect(prompt, LX_OK);
    rig_expect(again, LX_OK);
    rig_expect(third, LX_OK);
    rig_stop(&r);
}

/* n samples continue from one state, with fewer slots than samples. */
static void a_state_is_forked(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 2});
    lx_job *half =
        finished(&r, (rig_request){.line = line, .seed = SEED, .keep_state = true, .max_new = 3});
    lx_job *many = finished(&r, (rig_request){.line = line,
                                              .seed = 5,
                                              .n = 5,
                                              .keep_state = true,
                                              .max_new = N,
                                              .start = start_of(half, 0)});
    for (int32_t i = 0; i < 5; i++) {
        lx_job_start start = start_of(half, 0);
        start.first_sample = (uint32_t)i;
        lx_job *one = finished(&r, (rig_request){.line = line, .seed = 5, .start = start});
        assert_same(many, i, one, 0, 3);
        int32_t rows = 0;
        assert_non_null(lx_job_state(many, i, &rows));
        rig_expect(one, LX_OK);
    }
    rig_expect(half, LX_OK);
    rig_expect(many, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* Suspended after so many steps, among others that are not, and in the queue. */
static void suspended_jobs_go_on_elsewhere(void **state)
{
    (void)state;
    for (int32_t steps = 0; steps < N + 2; steps++) {
        rig r = rig_start((rig_options){.n_slots = 2, .max_queue = 4, .prompt_chunk = 4});
        rig_request q = {.line = line, .seed = SEED};
        lx_job *whole = finished(&r, q);
        gate_close();
        lx_job *stays = rig_submit(&r, &q);
        q.suspendable = true;
        lx_job *suspended = rig_submit(&r, &q), *queued = rig_submit(&r, &q);
        gate_let_pass(steps);
        gate_wait_for_step();
        lx_engine_suspend(r.engine);
        gate_open();
        lx_job_wait(suspended);
        lx_job_wait(queued);
        rig_expect(stays, LX_OK);
        assert_true(lx_job_suspended(suspended) == (lx_job_status(suspended, NULL) != LX_OK));
        rig_stop(&r);
        rig other = rig_start((rig_options){.n_slots = 1});
        lx_job *jobs[] = {suspended, queued};
        for (int i = 0; i < 2; i++) {
            lx_job_start start = start_of(jobs[i], 0);
            if (lx_job_suspended(jobs[i])) {
                rig_request go_on = {.line = line, .seed = SEED, .start = start};
                lx_job *rest = finished(&other, go_on);
                assert_same(whole, 0, rest, 0, start.n_tokens);
                rig_expect(rest, LX_OK);
            }
            lx_job_unref(jobs[i]);
        }
        rig_expect(whole, LX_OK);
        rig_stop(&other);
    }
}

/* A job that continues from a state and is suspended before it has begun. */
static void a_suspended_state_is_still_there(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 1, .max_queue = 4});
    lx_job *whole = finished(&r, (rig_request){.line = line, .seed = SEED});
    lx_job *half =
        finished(&r, (rig_request){.line = line, .seed = SEED, .keep_state = true, .max_new = 3});
    gate_close();
    lx_job *busy = rig_submit(&r, &(rig_request){.line = line});
    rig_request q = {.line = line, .seed = SEED, .start = start_of(half, 0), .suspendable = true};
    lx_job *queued = rig_submit(&r, &q);
    gate_wait_for_step();
    lx_engine_suspend(r.engine);
    gate_open();
    rig_expect(busy, LX_OK);
    lx_job_wait(queued);
    assert_true(lx_job_suspended(queued));
    rig_stop(&r);
    rig other = rig_start((rig_options){.n_slots = 1});
    lx_job_start start = start_of(queued, 0);
    assert_int_equal(start.n_tokens, 3);
    lx_job *rest = finished(&other, (rig_request){.line = line, .seed = SEED, .start = start});
    assert_same(whole, 0, rest, 0, 3);
    lx_job_unref(queued);
    rig_expect(whole, LX_OK);
    rig_expect(half, LX_OK);
    rig_expect(rest, LX_OK);
    rig_stop(&other);
}

/* The text of two tokens as a stop string. */
static lx_stops stop_at(const lx_job *job, int32_t step)
{
    lx_stops s = {.n = 1};
    const int32_t *tokens = NULL;
    lx_buffer text;
    lx_buffer_init(&text, LX_MAX_STOP_BYTES);
    (void)lx_job_tokens(job, 0, &tokens, NULL);
    const lx_plan *plan = lx_job_plan(job);
    plan->model->task->render(plan, step, tokens, &text);
    plan->model->task->render(plan, step + 1, tokens, &text);
    assert_int_equal(text.status, LX_OK);
    memcpy(s.stop[0].text, text.data, text.length);
    s.stop[0].bytes = text.length;
    lx_buffer_fini(&text);
    return s;
}

/* Suspended with one half of a stop string, it makes the other half first. */
static void suspended_jobs_do_not_cut_stop_strings(void **state)
{
    (void)state;
    for (int32_t step = 0; step + 2 < N; step++) {
        rig r = rig_start((rig_options){.n_slots = 1});
        rig_request q = {.line = line, .seed = SEED};
        lx_job *whole = finished(&r, q);
        lx_stops stops = stop_at(whole, step);
        q.stops = &stops;
        lx_job *stopped = finished(&r, q);
        gate_close();
        q.suspendable = true;
        lx_job *suspended = rig_submit(&r, &q);
        while (lx_job_tokens(suspended, 0, NULL, NULL) <= step) {
            gate_let_pass(1);
            gate_wait_for_step();
        }
        lx_engine_suspend(r.engine);
        gate_open();
        lx_job_wait(suspended);
        const int32_t *tokens = NULL;
        int32_t n = lx_job_tokens(suspended, 0, &tokens, NULL);
        assert_int_equal(n, lx_job_tokens(stopped, 0, NULL, NULL));
        assert_false(lx_job_suspended(suspended));
        rig_expect(suspended, LX_OK);
        rig_expect(stopped, LX_OK);
        rig_expect(whole, LX_OK);
        rig_stop(&r);
    }
}

static lx_status refused(lx_job_params p, const char *param)
{
    lx_task_request request = {.text = line, .text_bytes = strlen(line), .rules = true};
    lx_plan *plan = NULL;
    lx_job *job = NULL;
    lx_error err = {0};
    assert_int_equal(lx_plan_new(rig_model(), &request, &plan, &err), LX_OK);
    p.sampling = (lx_sampling_params){.temperature = 1, .top_p = 1};
    p.deadline_ns = INT64_MAX;
    lx_status st = lx_job_new(plan, &p, NULL, NULL, &job, &err);
    assert_null(job);
    assert_string_equal(err.param, param);
    return st;
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    const int32_t tokens[N + 1] = {9, 9, 9, 9, 9, 9, 9, 9, 9}, wrong[] = {9, 1 << 20};
    float *floats = calloc(state_floats(), sizeof *floats);
    assert_non_null(floats);
    int32_t n_prompt = N + 2; /* start and separator */
    const lx_job_start starts[] = {
        {.n_tokens = 2, .tokens = wrong, .rows = n_prompt + 1, .state = floats},
        {.n_tokens = 2, .tokens = tokens, .rows = n_prompt, .state = floats},
        {.n_tokens = 2, .tokens = tokens, .rows = n_prompt + 1},
        {.n_tokens = 2, .tokens = tokens},
        {.n_tokens = N + 1, .tokens = tokens, .rows = n_prompt + N, .state = floats},
        {.n_tokens = -1},
        {.rows = n_prompt, .state = floats},
        {.rows = -1, .state = floats},
        {.state = floats},
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        assert_int_equal(
            refused((lx_job_params){.n = 1, .max_new = N, .start = starts[i]}, "state"),
            LX_ERR_INVALID);
    lx_job_start good = {.n_tokens = 2, .tokens = tokens, .rows = n_prompt + 1, .state = floats};
    assert_int_equal(refused((lx_job_params){.n = 1, .max_new = 2, .start = good}, "max_tokens"),
                     LX_ERR_INVALID);
    assert_int_equal(
        refused((lx_job_params){.n = 2, .max_new = 2, .start = good, .keep_state = true},
                "max_tokens"),
        LX_ERR_INVALID);
    assert_int_equal(
        refused(
            (lx_job_params){.n = 1, .max_new = N, .start = good, .targets = tokens, .n_targets = N},
            "state"),
        LX_ERR_INVALID);
    assert_int_equal(refused((lx_job_params){.n = 2, .max_new = N, .suspendable = true}, "park"),
                     LX_ERR_INVALID);
    free(floats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(going_on_is_as_never_stopped),
        cmocka_unit_test(a_prompt_may_begin_in_the_middle),
        cmocka_unit_test(a_state_is_forked),
        cmocka_unit_test(suspended_jobs_go_on_elsewhere),
        cmocka_unit_test(a_suspended_state_is_still_there),
        cmocka_unit_test(suspended_jobs_do_not_cut_stop_strings),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
