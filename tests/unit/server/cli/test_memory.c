/* How the memory of a container or a machine is shared out: the sum fits into any whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/cli/memory.h"

#define MIB ((int64_t)1 << 20)
#define WEIGHTS (48 * MIB)
#define PROGRAM (24 * MIB)

static lx_memory_wishes wishes(int64_t whole)
{
    return (lx_memory_wishes){.whole = whole,
                              .weights = WEIGHTS,
                              .one_body = 25 * MIB,
                              .prefixes = 128 * MIB,
                              .connections = 12000};
}

/* The sum of all parts when the slots take their maximum. */
static int64_t sum_of(const lx_memory *m)
{
    int64_t own = PROGRAM + WEIGHTS;
    return lx_memory_sum(m, own, m->states, lx_memory_answers(m, own, m->states));
}

static void the_sum_fits(void **state)
{
    (void)state;
    for (int64_t whole = 160 * MIB; whole < 65536 * MIB; whole += whole / 8) {
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            lx_memory_wishes w = wishes(whole);
            w.kept_elsewhere = w.tls = elsewhere;
            lx_memory m = lx_memory_share(&w);
            assert_true(sum_of(&m) <= whole);
            assert_true(m.bodies >= w.one_body && m.bodies <= 128 * MIB);
            assert_true(m.answers >= 4 * MIB && m.answers <= 1024 * MIB);
            assert_true(m.kept > 0 && m.kept <= 1024 * MIB);
            assert_true(m.prefixes > 0 && m.prefixes <= w.prefixes);
            assert_true(m.connections >= 50 && m.connections <= w.connections);
        }
    }
}

static void much_memory_has_the_usual_limits(void **state)
{
    (void)state;
    lx_memory_wishes w = wishes(65536 * MIB);
    lx_memory m = lx_memory_share(&w);
    assert_int_equal(m.answers, 1024 * MIB);
    assert_int_equal(m.bodies, 128 * MIB);
    assert_int_equal(m.kept, 1024 * MIB);
    assert_int_equal(m.prefixes, 128 * MIB);
    assert_int_equal(m.connections, 12000);
}

static void what_was_chosen_stays(void **state)
{
    (void)state;
    lx_memory_wishes w = wishes(256 * MIB);
    w.answers = 512 * MIB;
    w.kept = 100 * MIB;
    w.bodies = 30 * MIB;
    lx_memory m = lx_memory_share(&w);
    assert_int_equal(m.answers, 512 * MIB);
    assert_int_equal(lx_memory_answers(&m, PROGRAM, m.states), 512 * MIB);
    assert_int_equal(m.kept, 100 * MIB);
    assert_int_equal(m.bodies, 30 * MIB);
    assert_true(sum_of(&m) > w.whole); /* of which the log warns */
    w.kept_elsewhere = true;
    m = lx_memory_share(&w);
    assert_true(m.kept < 100 * MIB); /* the limit is that of a store in memory */
}

/* When weights in memory are larger than their files, or slots are, answers get the rest. */
static void answers_give_way(void **state)
{
    (void)state;
    lx_memory_wishes w = wishes(512 * MIB);
    lx_memory m = lx_memory_share(&w);
    int64_t usual = lx_memory_answers(&m, PROGRAM + WEIGHTS, m.states);
    assert_int_equal(lx_memory_answers(&m, PROGRAM + 2 * WEIGHTS, m.states), usual - WEIGHTS);
    assert_int_equal(lx_memory_answers(&m, PROGRAM + WEIGHTS, 4 * m.states), 4 * MIB);
    assert_true(lx_memory_answers(&m, PROGRAM, m.states) > usual);
}

/* The plan follows the models: weights count as at the start, when they were packed. */
static void a_reload_is_planned(void **state)
{
    (void)state;
    _Atomic int64_t limit = 0;
    lx_memory_wishes w = wishes(512 * MIB);
    lx_memory m = lx_memory_share(&w);
    m.limit = &limit;
    lx_serving_bytes all = {.weights = WEIGHTS, .held = m.states, .prefixes = m.prefixes};
    lx_error err = {0};
    assert_int_equal(lx_memory_settle(&m, &all, &err), LX_OK);
    m.own = PROGRAM + WEIGHTS; /* not this test's */
    assert_int_equal(lx_memory_settle(&m, &all, &err), LX_OK);
    int64_t first = limit;
    all.weights += 10 * MIB;
    assert_int_equal(lx_memory_settle(&m, &all, &err), LX_OK);
    assert_int_equal(limit, first - 10 * MIB);
    all.held += m.states / 4;
    assert_int_equal(lx_memory_settle(&m, &all, &err), LX_OK);
    assert_int_equal(limit, first - 10 * MIB - m.states / 4);
    lx_serving_bytes more = all;
    more.weights += 512 * MIB;
    assert_int_equal(lx_memory_settle(&m, &more, &err), LX_ERR_TOO_LARGE);
    assert_string_equal(err.param, "models");
    assert_int_equal(limit, first - 10 * MIB - m.states / 4);
    all.weights = WEIGHTS;
    assert_int_equal(lx_memory_settle(&m, &all, &err), LX_OK);
    assert_int_equal(limit, first - m.states / 4);
    m.own = PROGRAM + WEIGHTS;
    assert_int_equal(lx_memory_own(&m, 3 * WEIGHTS), PROGRAM + 3 * WEIGHTS);
}

/* A server that had too little at its start may change its models, but not for larger ones. */
static void too_little_memory_can_be_reloaded(void **state)
{
    (void)state;
    _Atomic int64_t limit = 0;
    lx_memory_wishes w = wishes(48 * MIB);
    lx_memory m = lx_memory_share(&w);
    m.limit = &limit;
    lx_serving_bytes all = {.weights = WEIGHTS, .held = m.states, .prefixes = m.prefixes};
    lx_error err = {0};
    assert_int_equal(lx_memory_settle(&m, &all, &err), LX_OK);
    m.own = PROGRAM + WEIGHTS; /* not this test's */
    m.models = m.own + all.held + all.prefixes;
    assert_int_equal(lx_memory_settle(&m, &all, &err), LX_OK);
    all.weights += MIB;
    assert_int_equal(lx_memory_settle(&m, &all, &err), LX_ERR_TOO_LARGE);
    lx_memory_wishes none = wishes(0);
    lx_memory other = lx_memory_share(&none);
    assert_int_equal(lx_memory_has_room(&other, MIB, &err), LX_OK);
    assert_int_equal(lx_memory_has_room(&other, INT64_MAX / 4, &err), LX_ERR_TOO_LARGE);
}

static void too_little_memory_still_serves(void **state)
{
    (void)state;
    lx_memory_wishes w = wishes(48 * MIB);
    lx_memory m = lx_memory_share(&w);
    assert_true(m.states > 0 && m.prefixes > 0 && m.kept > 0 && m.answers > 0);
    assert_true(sum_of(&m) > w.whole);
    w.whole = 0; /* the system does not report it */
    m = lx_memory_share(&w);
    assert_true(m.whole > 0 && sum_of(&m) <= m.whole);
}

static void small_states_are_counted(void **state)
{
    (void)state;
    assert_int_equal(lx_memory_most_states(100000, 1024 * MIB), 100000);
    assert_int_equal(lx_memory_most_states(100000, MIB), 4096);
    assert_int_equal(lx_memory_most_states(100000, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_fits),
        cmocka_unit_test(much_memory_has_the_usual_limits),
        cmocka_unit_test(what_was_chosen_stays),
        cmocka_unit_test(answers_give_way),
        cmocka_unit_test(a_reload_is_planned),
        cmocka_unit_test(too_little_memory_can_be_reloaded),
        cmocka_unit_test(too_little_memory_still_serves),
        cmocka_unit_test(small_states_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
