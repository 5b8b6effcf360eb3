/*
 * A job alone: the test is the engine. Tokens read from another thread while they are written,
 * ranking, parameters out of range, waiting, and detach against a running wake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "server/engine/job.h"
#include "tests/support/patience.h"

/* A task of which a job needs nothing but the end of a plan. */
static const lx_task_ops task = {.name = "none"};
static const lx_model model = {.task = &task};

static lx_plan *make_plan(int32_t n_new)
{
    lx_plan *plan = calloc(1, sizeof *plan);
    assert_non_null(plan);
    plan->model = &model;
    plan->n_prompt = 1;
    plan->n_new = n_new;
    return plan;
}

static lx_job *make_job(int32_t n, int32_t max_new, lx_job_wake wake, void *context)
{
    lx_job_params p = {.n = n, .max_new = max_new, .deadline_ns = INT64_MAX};
    lx_job *job = NULL;
    assert_int_equal(lx_job_new(make_plan(max_new), &p, wake, context, &job, NULL), LX_OK);
    return job;
}

static void nap(void)
{
    /* check-tests: a thread that takes its time, so that others come in between */
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void refuses_sizes_out_of_range(void **state)
{
    (void)state;
    static const struct {
        int32_t n, max_new;
        const char *param;
    } bad[] = {{0, 4, "n"},         {-1, 4, "n"},         {LX_MAX_JOB_TOKENS, 2, "n"},
               {INT32_MAX, 4, "n"}, {1, 0, "max_tokens"}, {1, 5, "max_tokens"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lx_job_params p = {.n = bad[i].n, .max_new = bad[i].max_new};
        lx_job *job = NULL;
        lx_error err = {0};
        assert_int_equal(lx_job_new(make_plan(4), &p, NULL, NULL, &job, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, bad[i].param);
        assert_null(job);
    }
}

static void keeps_samples_apart(void **state)
{
    (void)state;
    lx_job *job = make_job(3, 2, NULL, NULL);
    const int32_t *tokens = NULL;
    const float *logprobs = NULL;
    lx_job_push(job, 0, 10, -1);
    lx_job_push(job, 2, 30, -3);
    lx_job_push(job, 2, 31, -4);
    assert_int_equal(lx_job_tokens(job, 0, &tokens, &logprobs), 1);
    assert_int_equal(tokens[0], 10);
    assert_int_equal(lx_job_tokens(job, 1, NULL, NULL), 0);
    assert_int_equal(lx_job_tokens(job, 2, &tokens, &logprobs), 2);
    assert_int_equal(tokens[1], 31);
    assert_true(logprobs[1] == -4);
    assert_true(lx_job_get_times(job).first_token > 0);
    lx_job_unref(job);
}

static void wakes_for_wanted_tokens_only(void **state)
{
    (void)state;
    lx_job *job = make_job(2, 4, NULL, NULL);
    assert_true(lx_job_push(job, 0, 1, -1)); /* at first every token is wanted */
    lx_job_want(job, 0, 3);
    assert_false(lx_job_push(job, 0, 2, -1));
    assert_true(lx_job_push(job, 1, 2, -1));
    assert_true(lx_job_push(job, 0, 3, -1));
    assert_true(
        lx_job_push(job, 0, 4, -1)); /* the reader is late: again, until it says otherwise */
    lx_job_unref(job);
}

static void ranks_by_mean_logprob(void **state)
{
    (void)state;
    enum { N = 37 };
    lx_job *job = make_job(N, 2, NULL, NULL);
    int32_t order[N];
    for (int32_t i = 0; i < N - 1; i++) { /* the last one has no token at all */
        lx_job_push(job, i, 0, (float)-((i * 7) % 12));
        lx_job_push(job, i, 0, 0);
    }
    lx_job_finish(job, LX_OK, NULL);
    lx_job_rank(job, order);
    assert_int_equal(order[N - 1], N - 1);
    for (int32_t k = 1; k < N; k++) {
        float a = lx_job_mean_logprob(job, order[k - 1]), b = lx_job_mean_logprob(job, order[k]);
        assert_true(a > b || (a == b && order[k - 1] < order[k]));
    }
    assert_true(lx_job_mean_logprob(job, 1) == -3.5f);
    lx_job_unref(job);
}

static void ends_with_a_status_and_its_text(void **state)
{
    (void)state;
    lx_job *job = make_job(1, 1, NULL, NULL);
    lx_error why = {0}, err = {0};
    (void)lx_fail(&why, LX_ERR_TIMEOUT, NULL, "too late");
    assert_false(lx_job_finished(job));
    lx_job_finish(job, LX_ERR_TIMEOUT, &why);
    lx_job_wait(job);
    assert_true(lx_job_finished(job));
    assert_int_equal(lx_job_status(job, &err), LX_ERR_TIMEOUT);
    assert_string_equal(err.text, "too late");
    assert_true(lx_job_get_times(job).finished > 0);
    lx_job_unref(job);
}

/* --- two threads --- */

enum { SAMPLES = 4, TOKENS = 3000 };

static void *write_tokens(void *context)
{
    lx_job *job = context;
    for (int32_t k = 0; k < TOKENS; k++) {
        for (int32_t i = 0; i < SAMPLES; i++)
            (void)lx_job_push(job, i, i * TOKENS + k, -1);
        lx_job_notify(job);
    }
    lx_job_finish(job, LX_OK, NULL);
    lx_job_notify(job);
    lx_job_unref(job);
    return NULL;
}

static void tokens_below_the_count_are_always_there(void **state)
{
    (void)state;
    lx_job *job = make_job(SAMPLES, TOKENS, NULL, NULL);
    pthread_t thread;
    int32_t seen[SAMPLES] = {0};
    lx_job_ref(job);
    assert_int_equal(pthread_create(&thread, NULL, write_tokens, job), 0);
    for (bool last = false; !last;) {
        last = lx_job_finished(job); /* after it, one more look sees everything */
        for (int32_t i = 0; i < SAMPLES; i++) {
            const int32_t *tokens = NULL;
            int32_t n = lx_job_tokens(job, i, &tokens, NULL);
            assert_true(n >= seen[i]);
            for (; seen[i] < n; seen[i]++)
                assert_int_equal(tokens[seen[i]], i * TOKENS + seen[i]);
        }
        nap();
    }
    for (int32_t i = 0; i < SAMPLES; i++)
        assert_int_equal(seen[i], TOKENS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    lx_job_unref(job);
}

typedef struct reader {
    _Atomic int32_t n_wakes;
    atomic_bool inside, detached, late;
} reader;

static void slow_wake(void *context)
{
    reader *r = context;
    atomic_store(&r->inside, true);
    if (atomic_load(&r->detached))
        atomic_store(&r->late, true);
    nap();
    if (atomic_load(&r->detached))
        atomic_store(&r->late, true);
    atomic_fetch_add(&r->n_wakes, 1);
    atomic_store(&r->inside, false);
}

static void *notify_often(void *context)
{
    lx_job *job = context;
    for (int32_t i = 0; i < 50; i++)
        lx_job_notify(job);
    lx_job_unref(job);
    return NULL;
}

static void detach_waits_for_a_running_wake(void **state)
{
    (void)state;
    for (int32_t round = 0; round < 20; round++) {
        reader r = {0};
        lx_job *job = make_job(1, 1, slow_wake, &r);
        pthread_t thread;
        lx_job_ref(job);
        assert_int_equal(pthread_create(&thread, NULL, notify_often, job), 0);
        wait_until(atomic_load(&r.n_wakes) > 0);
        lx_job_detach(job);
        assert_false(atomic_load(&r.inside));
        atomic_store(&r.detached, true);
        int32_t n = atomic_load(&r.n_wakes);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_false(atomic_load(&r.late));
        assert_int_equal(atomic_load(&r.n_wakes), n);
        lx_job_unref(job);
    }
}

static void cancelling_is_only_a_request(void **state)
{
    (void)state;
    lx_job *job = make_job(1, 1, NULL, NULL);
    assert_false(lx_job_cancelled(job));
    lx_job_cancel(job);
    assert_true(lx_job_cancelled(job));
    assert_false(lx_job_finished(job));
    lx_job_finish(job, LX_OK, NULL); /* it was complete before the engine looked */
    assert_int_equal(lx_job_status(job, NULL), LX_OK);
    lx_job_unref(job);
    lx_job_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_sizes_out_of_range),
        cmocka_unit_test(keeps_samples_apart),
        cmocka_unit_test(wakes_for_wanted_tokens_only),
        cmocka_unit_test(ranks_by_mean_logprob),
        cmocka_unit_test(ends_with_a_status_and_its_text),
        cmocka_unit_test(tokens_below_the_count_are_always_there),
        cmocka_unit_test(detach_waits_for_a_running_wake),
        cmocka_unit_test(cancelling_is_only_a_request),
    };
    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
