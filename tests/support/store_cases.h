/*
 * Cases that every store in this process must pass. The including file has the function open_store,
 * and MANY, a number of states, and HAMMERED, calls of a thread.
 */
#ifndef LINNET_TESTS_SUPPORT_STORE_CASES_H
#define LINNET_TESTS_SUPPORT_STORE_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include "server/states/store.h"
#include "tests/support/patience.h"
#include "tests/support/store.h"

static lx_state_store *open_store(int64_t max_states, int64_t max_bytes);

enum { LONG = 1000000 };

typedef struct answer {
    _Atomic int calls;
    lx_status status;
    char text[64];
    lx_store_entry entries[4];
    size_t size;
    int64_t ttl_ms;
} answer;

/* Of most tests: no limits of its own. */
static const lx_owner owner = {.name = ""};

static void note(void *context, const lx_store_result *r)
{
    answer *a = context;
    a->status = r->status;
    a->size = r->size;
    a->ttl_ms = r->ttl_ms;
    if (r->blob != NULL && r->size < sizeof a->text)
        memcpy(a->text, r->blob, r->size);
    if (r->blob != NULL && r->size <= sizeof a->entries)
        memcpy(a->entries, r->blob, r->size);
    atomic_fetch_add(&a->calls, (r->status == LX_OK) != (r->err == NULL) ? 100 : 1);
}

/* A store may answer later, by a thread of its own. */
static void wait_answered(answer *a)
{
    wait_until(atomic_load(&a->calls) > 0);
    assert_int_equal(a->calls, 1);
}

static answer call_of(lx_state_store *s, const lx_store_request *rq)
{
    answer a = {0};
    s->ops->call(s, rq, note, &a);
    wait_answered(&a);
    return a;
}

static lx_status put(lx_state_store *s, const char *id, const char *text, int64_t ttl_ms)
{
    answer a = {0};
    store_put(s, &owner, id, text, strlen(text), ttl_ms, note, &a);
    wait_answered(&a);
    return a.status;
}

static answer get_of(lx_state_store *s, const lx_owner *o, const char *id, int64_t ttl_ms)
{
    answer a = {0};
    store_get(s, o, id, ttl_ms, note, &a);
    wait_answered(&a);
    return a;
}

static answer get(lx_state_store *s, const char *id, int64_t ttl_ms)
{
    return get_of(s, &owner, id, ttl_ms);
}

static lx_status drop_of(lx_state_store *s, const lx_owner *o, const char *id)
{
    answer a = {0};
    store_remove(s, o, id, note, &a);
    wait_answered(&a);
    return a.status;
}

static lx_status drop(lx_state_store *s, const char *id)
{
    return drop_of(s, &owner, id);
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

static lx_status put_of(lx_state_store *s, const lx_owner *o, const char *id, const char *text)
{
    answer a = {0};
    store_put(s, o, id, text, strlen(text), LONG, note, &a);
    wait_answered(&a);
    return a.status;
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

static void many_are_not_mixed_up(void **state)
{
    (void)state;
    enum { N = MANY };
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

static void owners_see_their_own_only(void **state)
{
    (void)state;
    static const lx_owner alice = {.name = "alice"}, bob = {.name = "bob"};
    lx_state_store *s = open_store(10, 1000);
    assert_int_equal(put_of(s, &alice, "x", "hers"), LX_OK);
    assert_int_equal(get_of(s, &bob, "x", 0).status, LX_ERR_NOT_FOUND);
    assert_int_equal(get(s, "x", 0).status, LX_ERR_NOT_FOUND);
    assert_int_equal(put_of(s, &bob, "x", "his own"), LX_OK);
    assert_held(s, 2, 4 + 7);
    assert_int_equal(drop_of(s, &bob, "x"), LX_OK);
    assert_string_equal(get_of(s, &alice, "x", 0).text, "hers");
    assert_held(s, 1, 4);
    s->ops->close(s);
}

/* Lists at most `most` states of the owner after the id, and compares their ids. */
static void assert_listed(lx_state_store *s, const lx_owner *o, const char *after, size_t most,
                          const char *ids)
{
    char found[64];
    size_t at = 0;
    answer a =
        call_of(s, &(lx_store_request){.op = LX_STORE_LIST, .owner = o, .id = after, .most = most});
    assert_int_equal(a.status, LX_OK);
    found[0] = '\0';
    for (size_t i = 0; i < a.size / sizeof(lx_store_entry); i++) {
        at += (size_t)snprintf(found + at, sizeof found - at, "%s ", a.entries[i].id);
        assert_int_equal(a.entries[i].bytes, 3);
        assert_true(a.entries[i].ttl_ms > LONG - 100000);
    }
    assert_string_equal(found, ids);
}

static void owners_list_their_own(void **state)
{
    (void)state;
    static const lx_owner alice = {.name = "alice"}, bob = {.name = "bob"};
    lx_state_store *s = open_store(10, 1000);
    assert_listed(s, &alice, "", 10, "");
    assert_int_equal(put_of(s, &alice, "b", "two"), LX_OK);
    assert_int_equal(put_of(s, &alice, "c", "thr"), LX_OK);
    assert_int_equal(put_of(s, &alice, "a", "one"), LX_OK);
    assert_int_equal(put_of(s, &bob, "aa", "his"), LX_OK);
    assert_listed(s, &alice, "", 10, "a b c ");
    assert_listed(s, &alice, "", 2, "a b ");
    assert_listed(s, &alice, "b", 10, "c ");
    assert_listed(s, &alice, "c", 10, "");
    assert_listed(s, &bob, "", 10, "aa ");
    s->ops->close(s);
}

static lx_status put_droppable(lx_state_store *s, const lx_owner *o, const char *id)
{
    return call_of(s, &(lx_store_request){.op = LX_STORE_PUT,
                                          .owner = o,
                                          .id = id,
                                          .blob = "1234",
                                          .size = 4,
                                          .ttl_ms = LONG,
                                          .droppable = true})
        .status;
}

/* At the limit of their owner. */
static void droppable_states_make_room(void **state)
{
    (void)state;
    static const lx_owner alice = {.name = "alice", .max_states = 3}, bob = {.name = "bob"};
    lx_state_store *s = open_store(10, 1000);
    assert_int_equal(put_droppable(s, &bob, "his"), LX_OK);
    assert_int_equal(put_of(s, &alice, "promised", "1234"), LX_OK);
    assert_int_equal(put_droppable(s, &alice, "a"), LX_OK);
    assert_int_equal(put_droppable(s, &alice, "b"), LX_OK);
    assert_int_equal(get_of(s, &alice, "a", LONG).status, LX_OK); /* a use */
    assert_int_equal(put_droppable(s, &alice, "c"), LX_OK);
    assert_int_equal(get_of(s, &alice, "b", 0).status, LX_ERR_NOT_FOUND);
    assert_int_equal(put_of(s, &alice, "d", "1234"), LX_OK); /* a goes */
    assert_int_equal(put_of(s, &alice, "e", "1234"), LX_OK); /* c goes */
    assert_int_equal(put_droppable(s, &alice, "f"), LX_ERR_BUSY);
    assert_int_equal(put_of(s, &alice, "g", "1234"), LX_ERR_BUSY);
    assert_held(s, 4, 16);
    assert_int_equal(get_of(s, &bob, "his", 0).status, LX_OK);
    s->ops->close(s);
}

/* A state in its own place counts once, and an expired one not at all. */
static void owners_have_limits(void **state)
{
    (void)state;
    static const lx_owner alice = {.name = "alice", .max_states = 2, .max_bytes = 8};
    lx_state_store *s = open_store(10, 100);
    assert_int_equal(put_of(s, &alice, "a", "123456789"), LX_ERR_TOO_LARGE);
    assert_int_equal(put_of(s, &alice, "a", "1234"), LX_OK);
    assert_int_equal(put_of(s, &alice, "b", "12345"), LX_ERR_BUSY);
    assert_int_equal(put_of(s, &alice, "b", "1234"), LX_OK);
    assert_int_equal(put_of(s, &alice, "c", ""), LX_ERR_BUSY);
    assert_int_equal(put_of(s, &alice, "a", "12345"), LX_ERR_BUSY);
    assert_int_equal(put_of(s, &alice, "a", "12"), LX_OK);
    assert_held(s, 2, 6);
    assert_int_equal(drop_of(s, &alice, "b"), LX_OK);
    assert_int_equal(put_of(s, &alice, "c", "123456"), LX_OK);
    assert_int_equal(get_of(s, &alice, "c", 1).status, LX_OK); /* it ends now */
    sleep_past_ms(1);
    assert_int_equal(put_of(s, &alice, "d", "123456"), LX_OK);
    s->ops->close(s);
}

static void *hammer(void *context)
{
    lx_state_store *s = context;
    for (int i = 0; i < HAMMERED; i++) {
        char id[2] = {(char)('a' + i % 5), 0};
        answer a = {0};
        if (i % 7 == 0)
            store_remove(s, &owner, id, note, &a);
        else if (i % 3 == 0)
            store_put(s, &owner, id, id, 1, i % 11 == 0 ? 1 : LONG, note, &a);
        else
            store_get(s, &owner, id, 0, note, &a);
        wait_until(atomic_load(&a.calls) > 0);
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

#define STORE_CASES                                                                                \
    cmocka_unit_test(what_is_kept_comes_back), cmocka_unit_test(many_are_not_mixed_up),            \
        cmocka_unit_test(owners_see_their_own_only), cmocka_unit_test(owners_list_their_own),      \
        cmocka_unit_test(droppable_states_make_room), cmocka_unit_test(owners_have_limits),        \
        cmocka_unit_test(threads_do_not_disturb_each_other)

#endif
