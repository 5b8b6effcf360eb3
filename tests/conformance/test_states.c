/*
 * Slot states: zero at first, zeroed slots equal fresh ones, copies and export/import round trips
 * are exact, and no call touches another slot. Pages: a slot has its mapped pages, contents stay
 * with the page, and a page that is not mapped is refused.
 */
#include <string.h>

#include "conformance.h"

enum { SLOTS = 5, FLOATS = 37 }; /* a size that is no multiple of a cache line */

static void content(float *x, int32_t slot)
{
    for (int i = 0; i < FLOATS; i++)
        x[i] = (float)(slot * 1000 + i + 1);
}

static lx_states *filled(device *d)
{
    lx_states *s = dev_states(d, FLOATS, SLOTS);
    float x[FLOATS];
    for (int32_t i = 0; i < SLOTS; i++) {
        content(x, i);
        if (d->k->state_import(d->be, s, i, x, 0) != LX_OK)
            return NULL;
    }
    return s;
}

/* Slot i must hold the values that slot is[i] was filled with; is[i] = -1: zeros. */
static bool check_slots(device *d, const lx_states *s, const int32_t *is)
{
    for (int32_t i = 0; i < SLOTS; i++) {
        float got[FLOATS + 1], want[FLOATS] = {0};
        got[FLOATS] = -7.0f;
        if (is[i] >= 0)
            content(want, is[i]);
        CHECK_OK(d->k->state_export(d->be, s, i, got, 0));
        CHECK(same_bytes(got, want, FLOATS), "slot %d is not what slot %d was", i, is[i]);
        CHECK(got[FLOATS] == -7.0f, "export wrote too much");
    }
    return true;
}

static bool states_begin_as_zeros(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t zeros[SLOTS] = {-1, -1, -1, -1, -1};
    return check_slots(dut, dev_states(dut, FLOATS, SLOTS), zeros);
}

static bool state_calls_touch_one_slot(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t zeroed[SLOTS] = {0, -1, 2, 3, 4}, copied[SLOTS] = {0, 1, 2, 3, 2};
    lx_states *s = filled(dut);
    CHECK(s != NULL, "import failed");
    CHECK_OK(dut->k->state_zero(dut->be, s, 1));
    if (!check_slots(dut, s, zeroed))
        return false;
    s = filled(dut);
    CHECK(s != NULL, "import failed");
    CHECK_OK(dut->k->state_copy(dut->be, s, 4, 2, 0));
    CHECK_OK(dut->k->state_copy(dut->be, s, 3, 3, 0));
    return check_slots(dut, s, copied);
}

/* --- pages --- */

enum { PAGE = 21, POOL = 7, MOST = 3, ALL = FLOATS + MOST * PAGE };

static const lx_state_layout paged = {FLOATS, PAGE, POOL, MOST};

static lx_status map(device *d, lx_states *s, int32_t slot, int32_t first, int32_t page)
{
    return d->k->state_map(d->be, s, slot, first, 1, &page);
}

/* Slot 0 has pages 5, 1, 6 of the pool, slot 1 has 0, 3, 4; slot 0 is filled with x [ALL]. */
static lx_states *mapped(device *d, lx_state_layout layout, float *x)
{
    static const int32_t of[2][MOST] = {{5, 1, 6}, {0, 3, 4}};
    lx_states *s = dev_states_of(d, layout, 3);
    for (int i = 0; i < ALL; i++)
        x[i] = (float)(i + 1);
    bool ok = true;
    for (int32_t slot = 0; slot < 2; slot++)
        ok = ok && d->k->state_map(d->be, s, slot, 0, MOST, of[slot]) == LX_OK;
    return ok && d->k->state_import(d->be, s, 0, x, MOST) == LX_OK ? s : NULL;
}

/* The slot with n pages exports n_floats: these. */
static bool check_state(device *d, const lx_states *s, int32_t slot, int32_t n, const float *want,
                        int64_t n_floats)
{
    float *got = floats(ALL + 1);
    got[n_floats] = -7.0f;
    CHECK_OK(d->k->state_export(d->be, s, slot, got, n));
    CHECK(same_bytes(got, want, n_floats), "slot %d with %d pages differs", slot, n);
    CHECK(got[n_floats] == -7.0f, "export wrote too much");
    return true;
}

static bool pages_are_the_slots_that_have_them(device *dut, device *oracle)
{
    (void)oracle;
    float *x = floats(ALL), *zeros = floats(ALL), *moved = floats(ALL);
    lx_states *s = mapped(dut, paged, x);
    CHECK(s != NULL, "mapping or import failed");
    if (!check_state(dut, s, 1, MOST, zeros, ALL) || !check_state(dut, s, 2, 0, zeros, FLOATS))
        return false;
    for (int32_t n = 0; n <= MOST; n++) {
        if (!check_state(dut, s, 0, n, x, FLOATS + n * PAGE))
            return false;
    }
    /* Slot 2 takes over the second page of slot 0, without the fixed part. */
    CHECK_OK(map(dut, s, 0, 1, -1));
    CHECK_OK(map(dut, s, 2, 0, 1));
    memcpy(moved + FLOATS, x + FLOATS + PAGE, PAGE * sizeof *x);
    return check_state(dut, s, 2, 1, moved, FLOATS + PAGE) &&
           check_state(dut, s, 0, 1, x, FLOATS + PAGE);
}

static bool pages_are_copied_as_far_as_asked(device *dut, device *oracle)
{
    (void)oracle;
    float *x = floats(ALL), *want = floats(ALL);
    lx_states *s = mapped(dut, paged, x);
    CHECK(s != NULL, "mapping or import failed");
    CHECK_OK(dut->k->state_copy(dut->be, s, 1, 0, 2));
    memcpy(want, x, (FLOATS + 2 * PAGE) * sizeof *x);
    if (!check_state(dut, s, 1, MOST, want, ALL))
        return false;
    CHECK_OK(dut->k->state_copy(dut->be, s, 0, 0, MOST));
    CHECK_OK(dut->k->state_zero(dut->be, s, 0));
    memset(x, 0, FLOATS * sizeof *x);
    return check_state(dut, s, 0, MOST, x, ALL) && check_state(dut, s, 1, MOST, want, ALL);
}

/* Slot 1 has the first two pages of slot 0, and one of its own. */
static bool what_two_slots_share_is_not_copied(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t shared[] = {5, 1};
    float *x = floats(ALL), *want = floats(ALL);
    lx_states *s = mapped(dut, paged, x);
    CHECK(s != NULL, "mapping or import failed");
    CHECK_OK(dut->k->state_map(dut->be, s, 1, 0, 2, shared));
    CHECK_OK(dut->k->state_copy(dut->be, s, 1, 0, MOST));
    memcpy(want, x, ALL * sizeof *x);
    for (int32_t i = 0; i < ALL; i++)
        x[i] += 1.0f;
    CHECK_OK(dut->k->state_import(dut->be, s, 0, x, MOST));
    memcpy(want + FLOATS, x + FLOATS, 2 * PAGE * sizeof *x);
    return check_state(dut, s, 1, MOST, want, ALL);
}

static bool a_state_may_only_grow(device *dut, device *oracle)
{
    (void)oracle;
    float *x = floats(ALL);
    lx_state_layout layout = paged;
    layout.fixed_floats = 0;
    lx_states *s = mapped(dut, layout, x);
    CHECK(s != NULL, "mapping or import failed");
    CHECK_OK(dut->k->state_zero(dut->be, s, 0));
    CHECK_OK(dut->k->state_copy(dut->be, s, 1, 0, MOST));
    return check_state(dut, s, 1, MOST, x, MOST * PAGE) && check_state(dut, s, 1, 1, x, PAGE) &&
           check_state(dut, s, 2, 0, x, 0);
}

static bool missing_pages_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    const lx_kernels *k = dut->k;
    lx_backend *be = dut->be;
    static const int32_t two[] = {2, POOL}, below[] = {-2};
    float *x = floats(ALL), *other = floats(ALL);
    lx_states *s = mapped(dut, paged, x), *fixed = dev_states(dut, FLOATS, 1);
    CHECK(s != NULL, "mapping or import failed");
    CHECK(map(dut, s, 3, 0, 2) == LX_ERR_INVALID, "a slot that is not there");
    CHECK(map(dut, s, 0, -1, 2) == LX_ERR_INVALID, "a place before the first");
    CHECK(map(dut, s, 0, MOST, 2) == LX_ERR_INVALID, "a place after the last");
    CHECK(k->state_map(be, s, 0, 0, -1, two) == LX_ERR_INVALID, "fewer than none");
    CHECK(k->state_map(be, s, 0, 0, 2, two) == LX_ERR_INVALID, "a page after the last");
    CHECK(k->state_map(be, s, 0, 0, 1, below) == LX_ERR_INVALID, "a page before the first");
    CHECK(map(dut, fixed, 0, 0, 0) == LX_ERR_INVALID, "a page of states without pages");
    CHECK(k->state_export(be, s, 2, other, 1) == LX_ERR_INVALID, "export of no page");
    CHECK(k->state_import(be, s, 2, other, 1) == LX_ERR_INVALID, "import into no page");
    CHECK(k->state_copy(be, s, 2, 0, 1) == LX_ERR_INVALID, "copy into no page");
    CHECK(k->state_copy(be, s, 0, 2, 1) == LX_ERR_INVALID, "copy from no page");
    CHECK(k->state_export(be, s, 0, other, MOST + 1) == LX_ERR_INVALID, "a page too many");
    CHECK(k->state_export(be, s, 0, other, -1) == LX_ERR_INVALID, "fewer than no pages");
    return check_state(dut, s, 0, MOST, x, ALL);
}

/* --- in use --- */

enum { HEADS = 2, D = 9, M = 11, WIDTH = HEADS * (2 * D + M), STATE = HEADS * D * (M + 1) };

/* n rows of qkv for one slot; y [n, HEADS * M] */
static bool attend(device *d, lx_states *s, int32_t slot, const float *qkv, int32_t n, float *y)
{
    lx_batch *b = ragged_batch(1, &n, &slot);
    lx_array *out = dev_array(d, NULL, (int64_t)n * HEADS * M);
    lx_attend_linear_args args = {.y = out,
                                  .qkv = dev_array(d, qkv, (int64_t)n * WIDTH),
                                  .states = s,
                                  .n_heads = HEADS,
                                  .d_key = D,
                                  .d_value = M,
                                  .eps = 1e-6f};
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->attend_linear(d->be, &args);
    return dev_finish(d) && dev_read(d, out, y, (int64_t)n * HEADS * M);
}

static bool zeroed_slot_equals_fresh(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {10};
    float *qkv = random_floats(&r, 8 * WIDTH, UNIFORM, 0, 0);
    float *fresh = floats(8 * HEADS * M), *again = floats(8 * HEADS * M);
    lx_states *s = dev_states(dut, STATE, 2);
    if (!attend(dut, s, 0, qkv, 8, fresh) || !attend(dut, s, 1, qkv + WIDTH, 7, again))
        return false;
    CHECK_OK(dut->k->state_zero(dut->be, s, 1));
    if (!attend(dut, s, 1, qkv, 8, again))
        return false;
    CHECK(same_bytes(fresh, again, 8 * HEADS * M), "a zeroed slot answers otherwise");
    return true;
}

/* A sequence continues in a fork, and in a slot of another `states` that received it. */
static bool sequences_go_on_elsewhere(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {11};
    float *qkv = random_floats(&r, 9 * WIDTH, UNIFORM, 0, 0), *carried = floats(STATE);
    float *here = floats(5 * HEADS * M), *there = floats(5 * HEADS * M);
    lx_states *s = dev_states(dut, STATE, 3), *other = dev_states(dut, STATE, 2);
    if (!attend(dut, s, 2, qkv, 4, here))
        return false;
    CHECK_OK(dut->k->state_copy(dut->be, s, 0, 2, 0));
    CHECK_OK(dut->k->state_export(dut->be, s, 2, carried, 0));
    CHECK_OK(dut->k->state_import(dut->be, other, 1, carried, 0));
    if (!attend(dut, s, 2, qkv + 4 * WIDTH, 5, here) ||
        !attend(dut, s, 0, qkv + 4 * WIDTH, 5, there))
        return false;
    CHECK(same_bytes(here, there, 5 * HEADS * M), "the fork answers otherwise");
    if (!attend(dut, other, 1, qkv + 4 * WIDTH, 5, there))
        return false;
    CHECK(same_bytes(here, there, 5 * HEADS * M), "the carried sequence answers otherwise");
    return true;
}

const test state_tests[] = {
    {"states_begin_as_zeros", states_begin_as_zeros},
    {"state_calls_touch_one_slot", state_calls_touch_one_slot},
    {"pages_are_the_slots_that_have_them", pages_are_the_slots_that_have_them},
    {"pages_are_copied_as_far_as_asked", pages_are_copied_as_far_as_asked},
    {"what_two_slots_share_is_not_copied", what_two_slots_share_is_not_copied},
    {"a_state_may_only_grow", a_state_may_only_grow},
    {"missing_pages_are_refused", missing_pages_are_refused},
    {"zeroed_slot_equals_fresh", zeroed_slot_equals_fresh},
    {"sequences_go_on_elsewhere", sequences_go_on_elsewhere},
    {NULL, NULL},
};
