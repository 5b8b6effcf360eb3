/* A model's share of memory: for any share the result fits, or is the least that serves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/engine/scheduler.h"
#include "server/registry/room.h"

enum { KIB = 1 << 10, STATE = 264 * KIB, ROW = 28 * KIB };
#define MIB ((int64_t)1 << 20)

static lx_room_sizes couplet(int64_t bytes)
{
    return (lx_room_sizes){.bytes = bytes,
                           .state = STATE,
                           .fixed = STATE,
                           .row = ROW,
                           .most_slots = 256,
                           .most_drafts = 16};
}

static void every_share_holds_what_is_made_of_it(void **state)
{
    (void)state;
    int32_t before = 1;
    for (int64_t bytes = 3 * MIB; bytes < 1024 * MIB; bytes += MIB / 2) {
        lx_room_sizes s = couplet(bytes);
        lx_room r = lx_room_choose(&s);
        assert_true(r.held <= bytes);
        assert_true(r.n_slots >= before); /* more memory is never fewer slots */
        assert_true(r.n_spare >= LX_LEAST_SPARE && r.n_spare <= lx_fair_spare(r.n_slots));
        assert_int_equal(r.page_bytes, 0);
        before = r.n_slots;
    }
    assert_int_equal(before, 256);
}

static void a_share_that_is_too_small_serves_one(void **state)
{
    (void)state;
    lx_room_sizes s = couplet(0);
    lx_room r = lx_room_choose(&s);
    assert_int_equal(r.n_slots, 1);
    assert_int_equal(r.n_spare, LX_LEAST_SPARE);
    assert_int_equal(r.prompt_rows, 32);
    assert_true(r.held > 0);
}

/* In a container of 192 MiB with three models more a share has 9 MiB. */
static void little_memory_has_several_slots(void **state)
{
    (void)state;
    lx_room_sizes s = couplet(9 * MIB);
    lx_room r = lx_room_choose(&s);
    assert_true(r.n_slots >= 4 && r.n_spare >= 4);
}

static void chosen_slots_stay_and_spare_places_give_way(void **state)
{
    (void)state;
    lx_room_sizes s = couplet(1024 * MIB);
    s.n_slots = 16;
    lx_room r = lx_room_choose(&s);
    assert_int_equal(r.n_slots, 16);
    assert_int_equal(r.n_spare, lx_fair_spare(16));
    s.bytes = 12 * MIB;
    r = lx_room_choose(&s);
    assert_int_equal(r.n_slots, 16);
    assert_true(r.n_spare >= LX_LEAST_SPARE && r.n_spare < lx_fair_spare(16));
    assert_true(r.held <= s.bytes);
    s.n_slots = 1000;
    r = lx_room_choose(&s);
    assert_int_equal(r.n_slots, 1000);
    assert_true(r.held > s.bytes);
}

static void growing_states_share_what_is_left(void **state)
{
    (void)state;
    for (int64_t bytes = 8 * MIB; bytes < 16384 * MIB; bytes = bytes * 3 / 2) {
        lx_room_sizes s = couplet(bytes);
        s.state = STATE + 64 * MIB;
        lx_room r = lx_room_choose(&s);
        assert_true(r.n_slots >= 4);
        assert_true(r.page_bytes > 0 && r.held <= bytes);
        int64_t most = ((int64_t)r.n_slots + r.n_spare) * 64 * MIB;
        assert_true(r.page_bytes <= most);
        assert_true(r.page_bytes == most || r.held == bytes);
    }
    lx_room_sizes s = couplet(0);
    s.state = 2 * (int64_t)STATE;
    assert_int_equal(lx_room_choose(&s).page_bytes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_share_holds_what_is_made_of_it),
        cmocka_unit_test(a_share_that_is_too_small_serves_one),
        cmocka_unit_test(little_memory_has_several_slots),
        cmocka_unit_test(chosen_slots_stay_and_spare_places_give_way),
        cmocka_unit_test(growing_states_share_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
