/*
 * States that move while steps run. A state that is stuck on its way delays no other job, neither
 * where it leaves nor where it arrives. A job that is to be cancelled or suspended, and samples
 * that start from it, wait for it. The model's state grows, so its pages move too. With the
 * argument "cuda": on that back end. test_engine_ahead.c checks that answers are the same bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/rig.h"
#include "tests/support/tiny_model.h"

enum { SIDE = 14, HEIGHT = 12, FIRST = 70 };

static const uint8_t drawn[SIDE * HEIGHT];
static const char *backend = "cpu";
static char *folder;
static lx_model *model;

static int setup(void **state)
{
    tiny_model_options o = tiny_model_image;
    o.width = SIDE;
    o.height = HEIGHT;
    o.attention = "[{\"kind\": \"softmax\"}, {\"kind\": \"linear\", \"feature_map\": \"elu+1\", "
                  "\"eps\": 1e-6}]";
    folder = tiny_model_make("moves", &o);
    if (rig_setup(state) != 0 || folder == NULL || lx_model_load(folder, &model, NULL) != LX_OK)
        return -1;
    return 0;
}

static int teardown(void **state)
{
    lx_model_free(model);
    tiny_model_remove(folder);
    return rig_teardown(state);
}

static rig start(void)
{
    return rig_start((rig_options){.model = model,
                                   .n_slots = 4,
                                   .ahead = strcmp(backend, "cuda") == 0 ? 2 : 0,
                                   .move_bytes = 1,
                                   .backend = backend});
}

/* A picture of which the first values are given. */
static rig_request picture(uint64_t seed, int32_t n_values)
{
    return (rig_request){.model = model, .seed = seed, .values = drawn, .n_values = n_values};
}

/* A job that is done with its state kept, after three values. */
static lx_job *submit_kept(rig *r)
{
    rig_request q = picture(5, FIRST);
    q.keep_state = true;
    q.max_new = 3;
    return rig_submit(r, &q);
}

static void no_other_waits_for_a_state_that_leaves(void **state)
{
    (void)state;
    rig r = start();
    rig_request other = picture(6, 150);
    gate_hold_moves(true);
    lx_job *kept = submit_kept(&r);
    for (int32_t i = 0; i < 3; i++) /* the later ones come while nothing else is under way */
        rig_expect(rig_submit(&r, &other), LX_OK);
    gate_wait_for_moves(1); /* its own thread begins it, which may come late */
    assert_int_equal(gate_moves(), 1);
    assert_false(lx_job_finished(kept));
    gate_hold_moves(false);
    rig_expect(kept, LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void no_other_waits_for_a_state_that_comes(void **state)
{
    (void)state;
    rig r = start();
    rig_request other = picture(6, 150), next = picture(5, FIRST);
    lx_job *kept = submit_kept(&r);
    lx_job_wait(kept);
    next.start.state = lx_job_state(kept, 0, &next.start.rows);
    next.start.n_tokens = lx_job_tokens(kept, 0, &next.start.tokens, NULL);
    rig_request forked = next;
    forked.n = 3;
    gate_hold_moves(true);
    lx_job *samples = rig_submit(&r, &forked), *cancelled = rig_submit(&r, &next);
    rig_expect(rig_submit(&r, &other), LX_OK);
    lx_job_cancel(cancelled);
    rig_expect(rig_submit(&r, &other), LX_OK);
    assert_false(lx_job_finished(samples));
    assert_false(lx_job_finished(cancelled));
    gate_hold_moves(false);
    rig_expect(cancelled, LX_ERR_CANCELLED);
    lx_job_wait(samples);
    rig_expect(samples, LX_OK);
    rig_expect(kept, LX_OK);
    assert_int_equal(gate_moves(), 3);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* It ends when its state has arrived, and not before. */
static void a_suspended_job_ends_with_its_state(void **state)
{
    (void)state;
    rig r = start();
    rig_request q = picture(7, FIRST);
    q.suspendable = true;
    gate_close();
    lx_job *job = rig_submit(&r, &q);
    gate_wait_for_step();
    gate_hold_moves(true);
    gate_let_pass(5);
    gate_wait_for_step();
    lx_engine_suspend(r.engine);
    gate_open();
    while (gate_moves() == 0)
        lx_engine_poke(r.engine);
    assert_false(lx_job_finished(job));
    gate_hold_moves(false);
    lx_job_wait(job);
    int32_t rows = 0;
    assert_true(lx_job_suspended(job));
    assert_non_null(lx_job_state(job, 0, &rows));
    int32_t n_prompt = lx_job_plan(job)->n_prompt;
    assert_int_equal(rows, n_prompt + lx_job_tokens(job, 0, NULL, NULL) - 1);
    rig_expect(job, LX_ERR_UNAVAILABLE);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* A state on its way when the engine ends has arrived before its memory is gone. */
static void the_engine_ends_after_its_moves(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 20; i++) {
        rig r = start();
        lx_job *jobs[3];
        for (int32_t k = 0; k < 3; k++)
            jobs[k] = submit_kept(&r);
        while (gate_moves() <= i % 3)
            lx_engine_poke(r.engine);
        rig_stop(&r);
        for (int32_t k = 0; k < 3; k++) {
            lx_job_wait(jobs[k]);
            lx_status st = lx_job_status(jobs[k], NULL);
            assert_true(st == LX_OK || st == LX_ERR_UNAVAILABLE);
            lx_job_unref(jobs[k]);
        }
    }
}

/* Samples that have ended and whose states are on their way hold their slots but are not active: no
   more samples begin than there are slots left. */
static void no_more_begin_than_there_are_slots(void **state)
{
    (void)state;
    enum { N_JOBS = 12 };
    rig r = rig_start((rig_options){.n_slots = 2, .n_spare = 2, .move_bytes = 1, .max_queue = 64});
    lx_job *jobs[N_JOBS];
    gate_close();
    for (int32_t i = 0; i < N_JOBS; i++) {
        rig_request q = {
            .line = "天地玄黄宇宙洪荒", .seed = (uint64_t)i, .keep_state = true, .max_new = 3};
        jobs[i] = rig_submit(&r, &q);
    }
    gate_hold_moves(true);
    gate_open();
    gate_wait_for_moves(1);
    gate_hold_moves(false);
    for (int32_t i = 0; i < N_JOBS; i++) {
        lx_job_wait(jobs[i]);
        assert_int_equal(lx_job_status(jobs[i], NULL), LX_OK);
    }
    for (int32_t i = 0; i < N_JOBS; i++) {
        rig_request q = {
            .line = "天地玄黄宇宙洪荒", .seed = (uint64_t)i, .keep_state = true, .max_new = 3};
        lx_job *alone = rig_submit(&r, &q);
        lx_job_wait(alone);
        assert_true(rig_hash(alone) == rig_hash(jobs[i]));
        lx_job_unref(alone);
        lx_job_unref(jobs[i]);
    }
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_waits_for_a_state_that_leaves),
        cmocka_unit_test(no_other_waits_for_a_state_that_comes),
        cmocka_unit_test(a_suspended_job_ends_with_its_state),
        cmocka_unit_test(the_engine_ends_after_its_moves),
        cmocka_unit_test(no_more_begin_than_there_are_slots),
    };
    if (argc > 1)
        backend = argv[1];
    return cmocka_run_group_tests(tests, setup, teardown);
}
