/* The store of states in memory: limits, times, copies that outlive a removal, threads. */
enum { MANY = 10000, HAMMERED = 3000 };

#include "tests/support/store_cases.h"

static lx_state_store *open_store(int64_t max_states, int64_t max_bytes)
{
    lx_state_store *s = NULL;
    assert_int_equal(lx_state_memory_open(max_states, max_bytes, &s, NULL), LX_OK);
    return s;
}

static void limits_refuse_and_drop_nothing(void **state)
{
    (void)state;
    lx_state_store *s = open_store(2, 10);
    assert_int_equal(put(s, "a", "12345", LONG), LX_OK);
    assert_int_equal(put(s, "b", "123456", LONG), LX_ERR_BUSY);
    assert_int_equal(put(s, "b", "12345678901", LONG), LX_ERR_TOO_LARGE);
    assert_int_equal(put(s, "b", "12345", LONG), LX_OK);
    assert_int_equal(put(s, "c", "", LONG), LX_ERR_BUSY);
    assert_int_equal(put(s, "a", "123456", LONG), LX_ERR_BUSY);
    assert_int_equal(put(s, "a", "1234", LONG), LX_OK);
    assert_held(s, 2, 9);
    assert_string_equal(get(s, "b", 0).text, "12345");
    s->ops->close(s);
}

static void droppable_states_of_others_make_room(void **state)
{
    (void)state;
    static const lx_owner alice = {.name = "alice"}, bob = {.name = "bob"};
    lx_state_store *s = open_store(3, 12);
    assert_int_equal(put_droppable(s, &alice, "a"), LX_OK);
    assert_int_equal(put_of(s, &alice, "b", "1234"), LX_OK);
    assert_int_equal(put_droppable(s, &bob, "a"), LX_OK);
    assert_int_equal(put_droppable(s, &bob, "a"), LX_OK); /* in its own place */
    assert_held(s, 3, 12);
    assert_int_equal(put_of(s, &bob, "c", "12345678"), LX_OK); /* both go */
    assert_held(s, 2, 12);
    assert_int_equal(put_of(s, &bob, "d", ""), LX_OK);
    assert_int_equal(put_of(s, &bob, "e", ""), LX_ERR_BUSY);
    s->ops->close(s);
}

static void time_ends_a_state_and_makes_room(void **state)
{
    (void)state;
    lx_state_store *s = open_store(2, 100);
    assert_int_equal(put(s, "short", "x", 1), LX_OK);
    assert_int_equal(put(s, "long", "y", LONG), LX_OK);
    assert_true(get(s, "long", 0).ttl_ms > LONG - 100000);
    sleep_past_ms(1);
    assert_int_equal(put(s, "new", "z", LONG), LX_OK);
    assert_int_equal(get(s, "short", 0).status, LX_ERR_NOT_FOUND);
    assert_string_equal(get(s, "long", 0).text, "y");
    assert_held(s, 2, 2);
    s->ops->close(s);
}

static void reading_may_start_the_time_anew(void **state)
{
    (void)state;
    lx_state_store *s = open_store(2, 100);
    assert_int_equal(put(s, "a", "x", LONG), LX_OK);
    assert_true(get(s, "a", 3 * LONG).ttl_ms > 2 * LONG);
    assert_true(get(s, "a", 1).ttl_ms <= 1);
    sleep_past_ms(1);
    assert_held(s, 0, 0);
    assert_int_equal(put(s, "b", "x", INT64_MAX), LX_OK);
    assert_int_equal(get(s, "b", 0).status, LX_OK);
    s->ops->close(s);
}

static void the_store_limits_owners_without_limits(void **state)
{
    (void)state;
    static const lx_owner alice = {.name = "alice", .max_states = 2}, bob = {.name = "bob"};
    lx_state_store *s = open_store(3, 100);
    assert_int_equal(put_of(s, &alice, "a", "12"), LX_OK);
    assert_int_equal(put_of(s, &bob, "a", "123456789"), LX_OK);
    assert_int_equal(put_of(s, &bob, "b", "123456789"), LX_OK);
    assert_int_equal(put_of(s, &bob, "c", ""), LX_ERR_BUSY);
    assert_int_equal(put_of(s, &alice, "b", ""), LX_ERR_BUSY);
    assert_held(s, 3, 2 + 18);
    s->ops->close(s);
}

static void wrong_limits_are_refused(void **state)
{
    (void)state;
    lx_state_store *s = NULL;
    lx_error err;
    assert_int_equal(lx_state_memory_open(0, 1, &s, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "max_states");
    assert_int_equal(lx_state_memory_open(1, 0, &s, &err), LX_ERR_INVALID);
    assert_int_equal(lx_state_memory_open(INT64_MAX, 1, &s, &err), LX_ERR_INVALID);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASES,
        cmocka_unit_test(limits_refuse_and_drop_nothing),
        cmocka_unit_test(droppable_states_of_others_make_room),
        cmocka_unit_test(time_ends_a_state_and_makes_room),
        cmocka_unit_test(reading_may_start_the_time_anew),
        cmocka_unit_test(the_store_limits_owners_without_limits),
        cmocka_unit_test(wrong_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
