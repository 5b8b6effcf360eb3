/*
 * Asking whether a request's work is done changes nothing: no state goes into the store by a
 * question, and no reader loses its wakes. The test is the engine here, and the store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/generation.h"
#include "tests/support/rig.h"

static const char line[] = "海上明月";

/* A store that has a put, and answers it when the test lets it. */
static struct {
    int puts;
    lx_store_done done;
    void *context;
} store;

static void hold_put(lx_state_store *s, const lx_store_request *rq, lx_store_done done,
                     void *context)
{
    (void)s;
    assert_int_equal(rq->op, LX_STORE_PUT);
    assert_int_equal(rq->ttl_ms, 1000);
    store.puts++;
    store.done = done;
    store.context = context;
}

static const lx_store_ops held_ops = {.name = "held", .call = hold_put};

static void push_all(lx_job *job)
{
    const lx_plan *plan = lx_job_plan(job);
    for (int32_t k = 0; k < plan->n_new; k++)
        (void)lx_job_push(job, 0, 4, -1.0F);
}

/* The state of a finished job, as the engine would have exported it. */
static void fill_state(lx_job *job)
{
    const lx_plan *plan = lx_job_plan(job);
    float *state = lx_job_state_room(job, 0, plan->n_prompt + plan->n_new - 1);
    assert_non_null(state);
    memset(state, 0, (size_t)plan->model->state.fixed_floats * sizeof *state);
}

static lx_work work_of(lx_job *job, lx_api *api, lx_served_model *served, const lx_owner *owner)
{
    return (lx_work){.pending = {.api = api, .served = served},
                     .job = job,
                     .params = lx_job_get_params(job),
                     .return_state = lx_job_get_params(job)->keep_state,
                     .rq = {.owner = owner}};
}

static void assert_done(const lx_work *w, bool done)
{
    assert_int_equal(lx_work_is_done(w), done);
    assert_int_equal(lx_work_is_done(w), done);
}

static void asking_keeps_no_state(void **unused)
{
    (void)unused;
    static lx_owner owner;
    static lx_state_store held = {.ops = &held_ops};
    static lx_served_model served;
    lx_api api = {.states = &held, .state_ttl_ms = 1000};
    rig_request q = {.line = line, .keep_state = true, .max_new = 4};
    lx_job *job = rig_job(&q, NULL, NULL);
    served.model = (lx_model *)(uintptr_t)rig_model();
    lx_work w = work_of(job, &api, &served, &owner);
    memset(&store, 0, sizeof store);
    lx_work_advance(&w);
    assert_done(&w, false);
    push_all(job);
    fill_state(job);
    assert_done(&w, false);
    lx_job_finish(job, LX_OK, NULL);
    assert_done(&w, false);
    assert_int_equal(store.puts, 0);
    lx_work_advance(&w);
    lx_work_advance(&w);
    assert_int_equal(store.puts, 1);
    assert_done(&w, false);
    store.done(store.context, &(lx_store_result){.status = LX_OK});
    assert_done(&w, false); /* the store's answer takes effect by advancing only */
    lx_work_advance(&w);
    assert_done(&w, true);
    lx_work_advance(&w);
    assert_int_equal(store.puts, 1);
    lx_state_saver_fini(&w.saver);
    lx_job_unref(job);
}

static void asking_leaves_the_wakes(void **unused)
{
    (void)unused;
    static lx_served_model served;
    lx_api api = {.states = NULL};
    rig_request q = {.line = line};
    lx_job *job = rig_job(&q, NULL, NULL);
    lx_work w = work_of(job, &api, &served, NULL);
    lx_work_advance(&w);
    assert_done(&w, false);
    assert_true(lx_job_push(job, 0, 4, -1.0F)); /* a stream's reader is woken */
    lx_work_advance(&w);
    assert_done(&w, false);
    assert_true(lx_job_push(job, 0, 4, -1.0F));
    lx_work_await_end(&w);
    assert_false(lx_job_push(job, 0, 4, -1.0F)); /* a reader of the whole is not */
    lx_job_finish(job, LX_OK, NULL);
    assert_done(&w, true);
    lx_job_unref(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asking_keeps_no_state),
                                       cmocka_unit_test(asking_leaves_the_wakes)};
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
