/*
 * The waits of a state that moves to or from the host: for all work queued for it, and for no step
 * of other slots. In the tests' streams, queued work runs only when the program waits for it. So
 * the number of threads that have met since shows which steps ran. LINNET_SIMT_SEED may let work
 * run earlier; then the tests compare the moved state only.
 */
#include "tests/simt/test_moves.h"

#include <stdlib.h>
#include <string.h>

#include "tests/simt/world.h"

enum { STEPS = 8, FLOATS = WORLD_STATE + WORLD_PAGE };

static world w;
static const simt *sim;
static long a_step; /* how often threads meet in a step of one row */

static long meetings(void)
{
    simt_counts c;
    sim->count(&c);
    return c.meetings;
}

/* Whether n steps of one row have run since threads had met so often. */
static bool ran(long since, long n)
{
    return getenv("LINNET_SIMT_SEED") != NULL || meetings() - since == n * a_step;
}

static uint64_t start(int32_t slot)
{
    lx_error err = {0};
    uint64_t number = 0;
    check(world_start(&w, slot, -1, &number, &err) == LX_OK, "a step", err.text);
    return number;
}

static void step(int32_t slot)
{
    lx_error err = {0};
    check(w.k->sync(w.be, start(slot), &err) == LX_OK, "a step", err.text);
}

static void put(int32_t slot, const float *state, int32_t pages)
{
    check(w.k->state_import(w.be, w.states, slot, state, pages) == LX_OK, "a state", "not put");
}

static void get(int32_t slot, float *state, int32_t pages)
{
    check(w.k->state_export(w.be, w.states, slot, state, pages) == LX_OK, "a state", "not got");
}

static void copy(int32_t to, int32_t from, int32_t pages)
{
    check(w.k->state_copy(w.be, w.states, to, from, pages) == LX_OK, "a state", "not copied");
}

static void map(int32_t slot, int32_t page)
{
    check(w.k->state_map(w.be, w.states, slot, 0, 1, &page) == LX_OK, "a page", "not mapped");
}

static void holds(int32_t slot, const float *state, int32_t pages, const char *what)
{
    float now[FLOATS];
    size_t n = WORLD_STATE + (size_t)pages * WORLD_PAGE;
    get(slot, now, pages);
    check(memcmp(now, state, n * sizeof *now) == 0, what, "has another state");
}

static float *filled(float *state, float with)
{
    for (int i = 0; i < FLOATS; i++)
        state[i] = with;
    return state;
}

/* A step of another slot that is under way is not waited for, however old this slot's last is. */
static void test_others(float *after_step)
{
    step(0);
    long before = meetings();
    (void)start(1);
    get(0, after_step, 0);
    check(ran(before, 0), "a state that leaves", "waits for another's step");
    put(0, after_step, 0);
    check(ran(before, 0), "a state that comes", "waits for another's step");
    for (int i = 0; i < STEPS - 2; i++)
        step(1);
    before = meetings();
    (void)start(1); /* the step of slot 0 is the eighth before this one */
    holds(0, after_step, 0, "a slot that was idle");
    check(ran(before, 0), "a state of an old step", "waits for another's step");
    step(1);
}

/* Its own is, and no later one: of every number that a step may have. */
static void test_own(const float *after_step)
{
    lx_error err = {0};
    for (int i = 0; i < STEPS + 1; i++) {
        long before = meetings();
        check(w.k->state_zero(w.be, w.states, 0) == LX_OK, "a state", "not cleared");
        (void)start(0);
        uint64_t last = start(1);
        holds(0, after_step, 0, "a slot with a step under way");
        check(ran(before, 1), "a step of the slot", "is not waited for alone");
        check(w.k->sync(w.be, last, &err) == LX_OK, "a step", err.text);
    }
}

/* A step whose second row continues in slot 2. */
static void test_branch(void)
{
    lx_error err = {0};
    float want[FLOATS], here[FLOATS];
    uint64_t number = 0;
    for (int i = 0; i < 2; i++) {
        check(w.k->state_zero(w.be, w.states, 0) == LX_OK, "a state", "not cleared");
        put(2, filled(here, 7.0f), 0);
        check(world_start(&w, 0, 2, &number, &err) == LX_OK, "a branch", err.text);
        if (i == 0) {
            check(w.k->sync(w.be, number, &err) == LX_OK, "a branch", err.text);
            get(2, want, 0);
        }
    }
    holds(2, want, 0, "a branch under way");
    check(memcmp(want, here, sizeof(float)) != 0, "a branch", "wrote nothing");
}

/* Work queued for the slot itself, before steps of other slots. */
static void test_queued(void)
{
    float a[FLOATS], b[FLOATS], zeros[FLOATS];
    put(3, filled(a, 1.0f), 0);
    put(4, filled(b, 2.0f), 0);
    long before = meetings();
    copy(4, 3, 0);
    (void)start(1);
    holds(4, a, 0, "a copy");
    copy(4, 3, 0);
    put(3, b, 0); /* the copy reads it before */
    holds(4, a, 0, "a copy of what came later");
    check(w.k->state_zero(w.be, w.states, 3) == LX_OK, "a state", "not cleared");
    put(3, b, 0);
    holds(3, b, 0, "a state that was cleared before it came");
    check(w.k->state_zero(w.be, w.states, 3) == LX_OK, "a state", "not cleared");
    holds(3, filled(zeros, 0.0f), 0, "a state that was cleared");
    step(1);
    check(ran(before, 2), "steps", "are not the started ones");
    before = meetings();
    copy(4, 3, 0);
    (void)start(1);
    holds(4, zeros, 0, "a copy before a step");
    check(ran(before, 0), "a copy", "makes others' steps waited for");
    step(1);
}

/* A change of another slot, after a step of a third. */
static void test_other_changes(const float *after_step)
{
    check(w.k->state_zero(w.be, w.states, 0) == LX_OK, "a state", "not cleared");
    step(0);
    long before = meetings();
    (void)start(1);
    check(w.k->state_zero(w.be, w.states, 5) == LX_OK, "a state", "not cleared");
    holds(0, after_step, 0, "a slot next to one that is cleared");
    check(ran(before, 0), "a state", "waits for a change of another slot");
    step(1);
}

/* A page that was another slot's before, which has a step under way. */
static void test_inherited_page(void)
{
    float a[FLOATS];
    const int32_t none = -1;
    long before = meetings();
    map(6, 0);
    (void)start(6);
    map(6, none);
    map(7, 0);
    get(7, a, 1);
    check(ran(before, 1), "a page of another slot's step", "is not waited for");
    map(7, none);
}

/* A page that was another slot's too, and was copied from there. */
static void test_pages(void)
{
    float a[FLOATS], b[FLOATS];
    const int32_t none = -1;
    map(2, 0);
    map(3, 1);
    put(2, filled(a, 3.0f), 1);
    step(2);
    map(5, 0);
    copy(3, 5, 1);
    map(5, none);
    put(2, filled(b, 4.0f), 1); /* of slot 2 there was only the step */
    get(3, b, 1);
    check(memcmp(a + WORLD_STATE, b + WORLD_STATE, WORLD_PAGE * sizeof *a) == 0, "a page",
          "was overwritten before it was copied");
    map(2, none);
    map(3, none);
}

void test_moves(const simt *s)
{
    const lx_state_layout layout = {.fixed_floats = WORLD_STATE};
    lx_states *fixed = NULL;
    lx_error err = {0};
    float after_step[FLOATS];
    sim = s;
    check(world_open(&w, &(lx_backend_options){.n_threads = 1}, &err) == LX_OK &&
              w.k->states_new(w.be, &layout, WORLD_ROWS, &fixed, &err) == LX_OK,
          "opening", err.text);
    lx_states *paged = w.states;
    w.states = fixed; /* without pages: there it is exact */
    step(1);
    a_step = meetings();
    step(1);
    a_step = meetings() - a_step;
    check(a_step > 0, "a step", "has no meetings");
    test_others(after_step);
    test_own(after_step);
    test_branch();
    test_queued();
    test_other_changes(after_step);
    w.states = paged;
    test_inherited_page();
    test_pages();
    w.k->states_free(w.be, fixed);
    world_close(&w);
}
