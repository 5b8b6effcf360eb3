/* The store of states in memory: limits, times, copies that outlive a removal, threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "server/states/store.h"
#include "tests/support/store.h"

enum { LONG = 1000000 };

typedef struct answer {
    int calls;
    lx_status status;
    char text[64];
    size_t size;
    int64_t ttl_ms;
} answer;

/* Of most tests: no limits of its own. */
static const lx_owner owner = {.name = ""};

static void note(void *context, const lx_store_result *r)
{
    answer *a = context;
    a->calls++;
    a->status = r->status;
    a->size = r->size;
    a->ttl_ms = r->ttl_ms;
    if (r->blob != NULL && r->size < sizeof a->text)
        memcpy(a->text, r->blob, r->size);
    if ((r->status == LX_OK) != (r->err == NULL))
        a->calls += 100;
}

static lx_status put(lx_state_store *s, const char *id, const char *text, int64_t ttl_ms)
{
    answer a = {0};
    store_put(s, &owner, id, text, strlen(text), ttl_ms, note, &a);
    assert_int_equal(a.calls, 1);
    return a.status;
}

static answer get(lx_state_store *s, const char *id, int64_t ttl_ms)
{
    answer a = {0};
    store_get(s, &owner, id, ttl_ms, note, &a);
    assert_int_equal(a.calls, 1);
    return a;
}

static lx_status drop(lx_state_store *s, const char *id)
{
    answer a = {0};
    store_remove(s, &owner, id, note, &a);
    assert_int_equal(a.calls, 1);
    return a.status;
}

static lx_state_store *open_store(int64_t max_states, int64_t max_bytes)
{
    lx_state_store *s = NULL;
    assert_int_equal(lx_state_memory_open(max_states, max_bytes, &s, NULL), LX_OK);
    return s;
}

static void assert_held(lx_state_store *s, int64_t states, int64_t bytes)
{
    lx_store_stats held;
    s->ops->stats(s, &held);
    assert_int_equal(held.states, states);
    assert_int_equal(held.bytes, bytes);
}

/* Sleeps until a time in the store's past is also in the past here. */
static void sleep_past_ms(long ms)
{
    struct timespec t = {.tv_nsec = (ms + 1) * 1000000};
    (void)nanosleep(&t, NULL); /* check-tests: a time to live has to be over */
}

static void what_is_kept_comes_back(void **state)
{
    (void)state;
    lx_state_store *s = open_store(10, 1000);
    assert_int_equal(put(s, "a", "first", LONG), LX_OK);
    assert_int_equal(put(s, "b", "second", LONG), LX_OK);
    assert_string_equal(get(s, "a", 0).text, "first");
    assert_string_equal(get(s, "b", 0).text, "second");
    assert_int_equal(put(s, "a", "another", LONG), LX_OK);
    assert_string_equal(get(s, "a", 0).text, "another");
    assert_held(s, 2, 7 + 6);
    assert_int_equal(drop(s, "a"), LX_OK);
    assert_int_equal(get(s, "a", 0).status, LX_ERR_NOT_FOUND);
    assert_int_equal(drop(s, "a"), LX_ERR_NOT_FOUND);
    assert_held(s, 1, 6);
    s->ops->close(s);
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

static void ten_thousand_are_not_mixed_up(void **state)
{
    (void)state;
    enum { N = 10000 };
    lx_state_store *s = open_store(N, N * 8);
    char id[32], text[32];
    for (int i = 0; i < N; i++) {
        (void)snprintf(id, sizeof id, "state-%d", i);
        (void)snprintf(text, sizeof text, "%08d", i * 7);
        assert_int_equal(put(s, id, text, LONG), LX_OK);
    }
    for (int i = N - 1; i >= 0; i -= 3) {
        (void)snprintf(id, sizeof id, "state-%d", i);
        (void)snprintf(text, sizeof text, "%08d", i * 7);
        assert_string_equal(get(s, id, 0).text, text);
    }
    assert_held(s, N, N * 8);
    s->ops->close(s);
}

static lx_status put_of(lx_state_store *s, const lx_owner *o, const char *id, const char *text)
{
    answer a = {0};
    store_put(s, o, id, text, strlen(text), LONG, note, &a);
    assert_int_equal(a.calls, 1);
    return a.status;
}

static void owners_see_their_own_only(void **state)
{
    (void)state;
    static const lx_owner alice = {.name = "alice"}, bob = {.name = "bob"};
    lx_state_store *s = open_store(10, 1000);
    assert_int_equal(put_of(s, &alice, "x", "hers"), LX_OK);
    answer a = {0};
    store_get(s, &bob, "x", 0, note, &a);
    assert_int_equal(a.status, LX_ERR_NOT_FOUND);
    assert_int_equal(get(s, "x", 0).status, LX_ERR_NOT_FOUND);
    assert_int_equal(put_of(s, &bob, "x", "his own"), LX_OK);
    assert_held(s, 2, 4 + 7);
    a = (answer){0};
    store_remove(s, &bob, "x", note, &a);
    assert_int_equal(a.status, LX_OK);
    a = (answer){0};
    store_get(s, &alice, "x", 0, note, &a);
    assert_string_equal(a.text, "hers");
    assert_held(s, 1, 4);
    s->ops->close(s);
}

static void owners_have_limits(void **state)
{
    (void)state;
    static const lx_owner alice = {.name = "alice", .max_states = 2, .max_bytes = 8},
                          bob = {.name = "bob"};
    lx_state_store *s = open_store(4, 100);
    assert_int_equal(put_of(s, &alice, "a", "123456789"), LX_ERR_TOO_LARGE);
    assert_int_equal(put_of(s, &alice, "a", "1234"), LX_OK);
    assert_int_equal(put_of(s, &alice, "b", "12345"), LX_ERR_BUSY);
    assert_int_equal(put_of(s, &alice, "b", "1234"), LX_OK);
    assert_int_equal(put_of(s, &alice, "c", ""), LX_ERR_BUSY);
    assert_int_equal(put_of(s, &alice, "a", "12345"), LX_ERR_BUSY);
    assert_int_equal(put_of(s, &alice, "a", "12"), LX_OK); /* in place of the former state */
    assert_int_equal(put_of(s, &bob, "a", "123456789"), LX_OK);
    assert_int_equal(put_of(s, &bob, "b", "123456789"), LX_OK);
    assert_int_equal(put_of(s, &bob, "c", ""), LX_ERR_BUSY); /* the store's */
    assert_held(s, 4, 2 + 4 + 18);
    answer a = {0};
    store_remove(s, &alice, "b", note, &a);
    assert_int_equal(put_of(s, &alice, "c", "123456"), LX_OK);
    a = (answer){0};
    store_get(s, &alice, "c", 1, note, &a); /* it ends now */
    sleep_past_ms(1);
    assert_int_equal(put_of(s, &alice, "d", "123456"), LX_OK);
    s->ops->close(s);
}

static void *hammer(void *context)
{
    lx_state_store *s = context;
    for (int i = 0; i < 3000; i++) {
        char id[2] = {(char)('a' + i % 5), 0};
        answer a = {0};
        if (i % 7 == 0)
            store_remove(s, &owner, id, note, &a);
        else if (i % 3 == 0)
            store_put(s, &owner, id, id, 1, i % 11 == 0 ? 1 : LONG, note, &a);
        else
            store_get(s, &owner, id, 0, note, &a);
        if (a.calls != 1 || (a.size == 1 && a.text[0] != id[0]))
            return s;
    }
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    lx_state_store *s = open_store(5, 5);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, s), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
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
        cmocka_unit_test(what_is_kept_comes_back),
        cmocka_unit_test(limits_refuse_and_drop_nothing),
        cmocka_unit_test(time_ends_a_state_and_makes_room),
        cmocka_unit_test(reading_may_start_the_time_anew),
        cmocka_unit_test(ten_thousand_are_not_mixed_up),
        cmocka_unit_test(owners_see_their_own_only),
        cmocka_unit_test(owners_have_limits),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(wrong_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
