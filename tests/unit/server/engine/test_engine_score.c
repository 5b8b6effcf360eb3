/*
 * Scored jobs. Their log-probabilities equal those of generating the same tokens, bit for bit, at
 * any prompt chunk, rows per step and number of threads, alone and among running jobs. They count
 * as prompt work. Wrong targets are refused before they reach a step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/rig.h"

enum { N_LINES = 4, MAX_CHARS = 32 };

static const char *const lines[N_LINES] = {
    "月", "海上明月", "山山水水，花花草草",
    "海上明月春风花雨山水天地人心一二三千里云中日年江河红绿大小高低来"};

typedef struct answer {
    int32_t n, tokens[MAX_CHARS];
    uint64_t hash;
} answer;

static answer answers[N_LINES];

/* The model's own answers: tokens and the bits of their log-probabilities. */
static void write_answers(void)
{
    rig r = rig_start((rig_options){.n_slots = 2});
    for (int32_t i = 0; i < N_LINES; i++) {
        rig_request q = {.line = lines[i], .seed = 7 + (uint64_t)i, .no_rules = true};
        lx_job *job = rig_submit(&r, &q);
        const int32_t *tokens = NULL;
        lx_job_wait(job);
        answers[i].n = lx_job_tokens(job, 0, &tokens, NULL);
        memcpy(answers[i].tokens, tokens, (size_t)answers[i].n * sizeof *tokens);
        answers[i].hash = rig_hash(job);
        rig_expect(job, LX_OK);
    }
    rig_stop(&r);
}

static lx_job *submit_score(rig *r, int32_t i)
{
    rig_request q = {.line = lines[i], .no_rules = true, .targets = answers[i].tokens};
    return rig_submit(r, &q);
}

static void expect_score(lx_job *job, int32_t i)
{
    lx_job_wait(job);
    assert_int_equal(lx_job_tokens(job, 0, NULL, NULL), answers[i].n);
    assert_int_equal(rig_hash(job), answers[i].hash);
    rig_expect(job, LX_OK);
}

static void test_same_bits_as_generating(void **state)
{
    (void)state;
    static const rig_options cases[] = {
        {.n_slots = 1, .max_tokens = 1, .prompt_chunk = 1},
        {.n_slots = 1, .max_tokens = 7, .prompt_chunk = 5, .n_threads = 2},
        {.n_slots = 4, .max_tokens = 100, .prompt_chunk = 100},
        {.n_slots = 3, .max_tokens = 16, .prompt_chunk = 9, .n_threads = 3},
    };
    write_answers();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        rig r = rig_start(cases[c]);
        lx_job *jobs[N_LINES];
        for (int32_t i = 0; i < N_LINES; i++)
            jobs[i] = submit_score(&r, i);
        for (int32_t i = 0; i < N_LINES; i++)
            expect_score(jobs[i], i);
        rig_assert_empty(&r);
        rig_stop(&r);
    }
}

static void test_beside_running_jobs(void **state)
{
    (void)state;
    write_answers();
    rig r = rig_start((rig_options){.n_slots = 4, .max_queue = 64, .prompt_chunk = 3});
    lx_job *scored[N_LINES], *written[N_LINES];
    gate_close();
    for (int32_t i = 0; i < N_LINES; i++) {
        rig_request q = {.line = lines[i], .seed = 7 + (uint64_t)i, .no_rules = true};
        written[i] = rig_submit(&r, &q);
        scored[i] = submit_score(&r, i);
    }
    gate_open();
    for (int32_t i = 0; i < N_LINES; i++) {
        expect_score(written[i], i);
        expect_score(scored[i], i);
    }
    rig_stop(&r);
}

static void test_counts_as_prompt(void **state)
{
    (void)state;
    write_answers();
    rig r = rig_start((rig_options){.n_slots = 1});
    expect_score(submit_score(&r, 1), 1);
    assert_int_equal(r.metrics->generated_tokens, 0);
    assert_int_equal(r.metrics->prompt_tokens, 6 + 4 - 1); /* <s> 4 <sep>, 3 of the lower line */
    assert_int_equal(lx_engine_retry_after_s(r.engine), 1);
    rig_stop(&r);
}

static void test_cancelled_between_chunks(void **state)
{
    (void)state;
    write_answers();
    rig r = rig_start((rig_options){.n_slots = 1, .prompt_chunk = 4});
    gate_close();
    lx_job *job = submit_score(&r, 3);
    gate_wait_for_step();
    lx_job_cancel(job);
    gate_open();
    rig_expect(job, LX_ERR_CANCELLED);
    expect_score(submit_score(&r, 2), 2); /* the slot is clean */
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void refuse(const int32_t *targets, int32_t n, const char *param)
{
    lx_task_request request = {.text = lines[0], .text_bytes = strlen(lines[0])};
    lx_plan *plan = NULL;
    lx_job *job = NULL;
    lx_error err = {0};
    assert_int_equal(lx_plan_new(rig_model(), &request, &plan, &err), LX_OK);
    lx_job_params p = {
        .n = n, .max_new = 1, .sampling = {.top_p = 1}, .targets = targets, .n_targets = 1};
    assert_int_equal(lx_job_new(plan, &p, NULL, NULL, &job, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, param);
    assert_null(job);
}

static void test_bad_targets(void **state)
{
    (void)state;
    int32_t n_values = rig_model()->config.n_values;
    refuse((const int32_t[]){-1}, 1, "targets");
    refuse((const int32_t[]){n_values}, 1, "targets");
    refuse((const int32_t[]){0}, 2, "n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_as_generating),
        cmocka_unit_test(test_beside_running_jobs),
        cmocka_unit_test(test_counts_as_prompt),
        cmocka_unit_test(test_cancelled_between_chunks),
        cmocka_unit_test(test_bad_targets),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
