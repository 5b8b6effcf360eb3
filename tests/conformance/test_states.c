/*
 * Slot states: zero at first, zeroed slots equal fresh ones, copies and export/import round trips
 * are exact, and no call touches another slot.
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
        if (d->k->state_import(d->be, s, i, x) != LX_OK)
            return NULL;
    }
    return s;
}

/* Slot i must hold what slot is[i] was filled with; is[i] = -1: zeros. */
static bool check_slots(device *d, const lx_states *s, const int32_t *is)
{
    for (int32_t i = 0; i < SLOTS; i++) {
        float got[FLOATS + 1], want[FLOATS] = {0};
        got[FLOATS] = -7.0f;
        if (is[i] >= 0)
            content(want, is[i]);
        CHECK_OK(d->k->state_export(d->be, s, i, got));
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
    CHECK_OK(dut->k->state_copy(dut->be, s, 4, 2));
    CHECK_OK(dut->k->state_copy(dut->be, s, 3, 3));
    return check_slots(dut, s, copied);
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

/* A sequence goes on in a fork, and in a slot of another `states` it was carried to. */
static bool sequences_go_on_elsewhere(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {11};
    float *qkv = random_floats(&r, 9 * WIDTH, UNIFORM, 0, 0), *carried = floats(STATE);
    float *here = floats(5 * HEADS * M), *there = floats(5 * HEADS * M);
    lx_states *s = dev_states(dut, STATE, 3), *other = dev_states(dut, STATE, 2);
    if (!attend(dut, s, 2, qkv, 4, here))
        return false;
    CHECK_OK(dut->k->state_copy(dut->be, s, 0, 2));
    CHECK_OK(dut->k->state_export(dut->be, s, 2, carried));
    CHECK_OK(dut->k->state_import(dut->be, other, 1, carried));
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
    {"zeroed_slot_equals_fresh", zeroed_slot_equals_fresh},
    {"sequences_go_on_elsewhere", sequences_go_on_elsewhere},
    {NULL, NULL},
};
