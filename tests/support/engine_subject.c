/* See engine_subject.h. */
#include "tests/support/engine_subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/tiny_model.h"

enum { CANCELLED = 5, FAILING = 4 };

engine_subject subject;

bool subject_is_cuda(void)
{
    return strcmp(subject.backend, "cuda") == 0;
}

int subject_setup(void **state)
{
    lx_error err = {0};
    char *folder = tiny_model_make("pictures", &tiny_model_image);
    lx_status st = folder != NULL ? lx_model_load(folder, &subject.pictures, &err) : LX_ERR_IO;
    tiny_model_remove(folder);
    if (st != LX_OK)
        print_error("no tiny model of pictures: %s\n", err.text);
    return st == LX_OK ? rig_setup(state) : -1;
}

int subject_teardown(void **state)
{
    lx_model_free(subject.pictures);
    subject.pictures = NULL;
    return rig_teardown(state);
}

static int run_on(const char *backend, int (*run)(const char *))
{
    subject.backend = backend;
    return run(backend);
}

int subject_main(int argc, char **argv, int (*run)(const char *))
{
    int n_failed = 0;
    if (argc < 2)
        n_failed = run_on("cpu", run) + (SANITIZED ? 0 : run_on("reference", run));
    for (int i = 1; i < argc; i++)
        n_failed += run_on(argv[i], run);
    return n_failed;
}

rig_options subject_options(int32_t n_slots)
{
    return (rig_options){.n_slots = n_slots,
                         .move_bytes = subject.move_bytes,
                         .max_queue = 100,
                         .prompt_chunk = 5,
                         .n_prefixes = 8,
                         .backend = subject.backend,
                         .model = subject.of_pictures ? subject.pictures : rig_model()};
}

rig_request subject_request(int32_t i)
{
    return subject.of_pictures ? picture_request(subject.pictures, i) : line_request(i);
}

void subject_learn(rig *r, int32_t n)
{
    for (subject.n_known = 0; subject.n_known < n; subject.n_known++) {
        rig_request q = subject_request(subject.n_known);
        lx_job *job = rig_submit(r, &q);
        lx_job_wait(job);
        assert_int_equal(lx_job_status(job, NULL), LX_OK);
        subject.known[subject.n_known] = job;
    }
}

void subject_forget(void)
{
    while (subject.n_known > 0)
        lx_job_unref(subject.known[--subject.n_known]);
}

void subject_assert_same_together(rig *r)
{
    lx_job *jobs[SUBJECT_REQUESTS], *cancelled[CANCELLED];
    int32_t n = subject.n_known;
    gate_close(); /* so that all are there when the engine begins */
    for (int32_t i = 0; i < n; i++) {
        rig_request q = subject_request(i), also = subject_request(i / 2);
        jobs[i] = rig_submit(r, &q);
        if (i % 2 == 0 && i / 2 < CANCELLED)
            cancelled[i / 2] = rig_submit(r, &also);
    }
    for (int32_t i = 0; i < CANCELLED; i++) { /* in any phase */
        gate_wait_for_step();
        lx_job_cancel(cancelled[i]);
        gate_let_pass(1 + i % 4);
    }
    gate_open();
    for (int32_t i = 0; i < n; i++) {
        lx_job_wait(jobs[i]);
        assert_same_answer(jobs[i], subject.known[i]);
        rig_expect(jobs[i], LX_OK);
    }
    for (int32_t i = 0; i < CANCELLED; i++) {
        lx_job_wait(cancelled[i]);
        assert_answer_begins(cancelled[i], subject.known[i]);
        rig_expect(cancelled[i],
                   lx_job_status(cancelled[i], NULL) == LX_OK ? LX_OK : LX_ERR_CANCELLED);
    }
    rig_assert_empty(r);
}

lx_job *subject_suspended(rig *r, const rig_request *q, int32_t n_steps)
{
    gate_close();
    lx_job *job = rig_submit(r, q);
    gate_wait_for_step();
    gate_let_pass(n_steps);
    gate_wait_for_step();
    lx_engine_suspend(r->engine);
    gate_open();
    lx_job_wait(job);
    assert_int_equal(lx_job_status(job, NULL), LX_ERR_UNAVAILABLE);
    assert_true(lx_job_suspended(job));
    return job;
}

void subject_assert_failed_step_ends_its_jobs(rig *r, int32_t n_steps)
{
    lx_job *jobs[FAILING];
    int32_t n_failed = 0;
    gate_close();
    for (int32_t i = 0; i < FAILING; i++) {
        rig_request q = subject_request(i + 1); /* all of them longer than the passing ones */
        jobs[i] = rig_submit(r, &q);
    }
    gate_wait_for_step();
    gate_let_pass(n_steps);
    gate_wait_for_step();
    gate_fail_step();
    gate_open();
    for (int32_t i = 0; i < FAILING; i++) {
        lx_job_wait(jobs[i]);
        lx_status st = lx_job_status(jobs[i], NULL);
        n_failed += st == LX_ERR_INTERNAL;
        if (st == LX_OK)
            assert_same_answer(jobs[i], subject.known[i + 1]);
        rig_expect(jobs[i], st == LX_OK ? LX_OK : LX_ERR_INTERNAL);
    }
    assert_in_range(n_failed, 1, FAILING); /* all that had begun */
    rig_assert_empty(r);
}
