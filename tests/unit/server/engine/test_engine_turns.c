/*
 * What a crowd of more requests than places in a step takes, in steps and preemptions. The engine
 * stands before a closed gate and takes one step at a time, so the numbers depend on no clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "tests/support/rig.h"

enum { PLACES = 4, MOST = 24 };

static const char *const long_line =
    "海上明月春风花雨山水天地人心一二三千里云中日年江河红绿大小高低来";

typedef struct crowd {
    rig r;
    lx_job *jobs[MOST];
    int32_t n;
} crowd;

static void step(void)
{
    gate_let_pass(1);
    gate_wait_for_step();
}

/* The first request of all stands before the gate when the others come. Otherwise the number of
   requests in the first step would depend on the time at which the engine's thread wakes. */
static void join(crowd *c, int32_t n, int32_t samples)
{
    for (int32_t i = 0; i < n; i++) {
        c->jobs[c->n++] =
            rig_submit(&c->r, &(rig_request){.line = long_line, .n = samples, .no_draft = true});
        if (c->n == 1)
            gate_wait_for_step();
    }
}

static int32_t tokens(const crowd *c, int32_t job)
{
    return lx_job_tokens(c->jobs[job], 0, NULL, NULL);
}

/* Steps until all requests have a token. */
static int32_t begin_all(crowd *c)
{
    int32_t steps = 0;
    for (int32_t i = 0; i < c->n; i++)
        for (; tokens(c, i) == 0; steps++)
            step();
    return steps;
}

static crowd start(void)
{
    crowd c = {
        .r = rig_start((rig_options){.n_slots = PLACES, .max_queue = MOST, .prompt_beside = 3})};
    gate_close();
    return c;
}

static void end(crowd *c)
{
    for (int32_t i = 0; i < c->n; i++)
        lx_job_cancel(c->jobs[i]);
    gate_open();
    for (int32_t i = 0; i < c->n; i++) {
        lx_job_wait(c->jobs[i]);
        lx_job_unref(c->jobs[i]);
    }
    rig_assert_empty(&c->r);
    rig_stop(&c->r);
}

/* Next to streams the prompts of a step share few rows. A prompt for which none is left gives its
   place to a stream. If it kept the place, the three prompts would take 31 steps, in which the
   streams get 59 tokens and 87 samples are preempted. */
static void prompts_that_wait_for_rows_leave_places_to_streams(void **state)
{
    (void)state;
    enum { STREAMS = 5, PROMPTS = 3 };
    crowd c = start();
    join(&c, STREAMS, 1);
    (void)begin_all(&c);
    uint64_t preempted = c.r.metrics->preemptions;
    int32_t before = 0, after = 0;
    for (int32_t i = 0; i < STREAMS; i++)
        before += tokens(&c, i);
    join(&c, PROMPTS, 1);
    assert_int_equal(begin_all(&c), 28);
    for (int32_t i = 0; i < STREAMS; i++)
        after += tokens(&c, i);
    assert_int_equal(after - before, 83);
    assert_int_equal(c.r.metrics->preemptions - preempted, 48);
    end(&c);
}

/* Requests without an end come one after the other. Every one has its share of turns at once: with
   k requests a prompt of 34 rows takes about nine turns of four rows, and a turn comes in one of
   k / 4 steps. A sample that misses a step costs nothing, so every step may change the places. */
static void the_last_of_a_crowd_has_its_share_of_turns(void **state)
{
    (void)state;
    enum { TURNS = 10 };
    crowd c = start();
    uint64_t steps = 0;
    for (int32_t i = 0; i < MOST; i++) {
        join(&c, 1, 100);
        int32_t waited = begin_all(&c);
        steps += (uint64_t)waited;
        assert_in_range(waited, 1, i < PLACES ? TURNS + 1 : TURNS * (i + 1) / PLACES + 2);
    }
    assert_int_equal(steps, 764);
    assert_int_equal(c.r.metrics->steps, steps);
    assert_int_equal(c.r.metrics->preemptions, 2734);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_that_wait_for_rows_leave_places_to_streams),
        cmocka_unit_test(the_last_of_a_crowd_has_its_share_of_turns),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
