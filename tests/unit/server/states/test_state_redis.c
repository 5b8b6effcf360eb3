/*
 * The state store in Redis with a real redis-server. One store gets the states that another store
 * put, and states expire. An outage fails every call at once and ends by itself. No call is lost or
 * answered twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/clock.h"
#include "server/states/store.h"
#include "tests/support/patience.h"
#include "tests/support/redis_process.h"
#include "tests/support/store.h"

enum { TIMEOUT_MS = 10000, LONG_MS = 1000000, PATIENCE_S = 60, MAX_BYTES = 4 << 20 };

static redis_process redis;

static int set_up(void **state)
{
    (void)state;
    if (!redis_start(&redis))
        print_message("skipped: there is no redis-server (Debian: redis-tools)\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_kill(&redis);
    return 0;
}

/* --- a name server --- */

#define NAMED "store.test"

static atomic_int lookups;
static atomic_bool no_lookups; /* the name server is away */

/* In place of the C library's: it knows one name, and numeric addresses as ever. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    if (node == NULL || strcmp(node, NAMED) != 0)
        return next(node, service, hints, out);
    atomic_fetch_add(&lookups, 1);
    return atomic_load(&no_lookups) ? EAI_AGAIN : next("127.0.0.1", service, hints, out);
}

/* --- one call --- */

typedef struct answer {
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    int calls;
    lx_status status;
    lx_error err;
    unsigned char *bytes;
    size_t size;
    int64_t ttl_ms;
} answer;

/* Of most tests: no limits of its own. */
static const lx_owner owner = {.name = ""};

static void note(void *context, const lx_store_result *r)
{
    answer *a = context;
    (void)pthread_mutex_lock(&a->mutex);
    a->calls++;
    a->status = r->status;
    a->size = r->size;
    a->ttl_ms = r->ttl_ms;
    if (r->err != NULL)
        a->err = *r->err;
    if (r->blob != NULL) {
        a->bytes = malloc(r->size + 1);
        memcpy(a->bytes, r->blob, r->size);
    }
    (void)pthread_cond_signal(&a->answered);
    (void)pthread_mutex_unlock(&a->mutex);
}

static void wait_answered(answer *a)
{
    (void)pthread_mutex_lock(&a->mutex);
    while (a->calls == 0)
        (void)pthread_cond_wait(&a->answered, &a->mutex);
    (void)pthread_mutex_unlock(&a->mutex);
    assert_int_equal(a->calls, 1);
}

#define ANSWER                                                                                     \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER                   \
    }

static lx_status put(lx_state_store *s, const char *id, const void *bytes, size_t n, int64_t ttl_ms)
{
    answer a = ANSWER;
    store_put(s, &owner, id, bytes, n, ttl_ms, note, &a);
    wait_answered(&a);
    return a.status;
}

/* The status of the call; the blob must be `expected` then. */
static lx_status get(lx_state_store *s, const char *id, int64_t ttl_ms, const void *expected,
                     size_t n, int64_t *left_ms)
{
    answer a = ANSWER;
    store_get(s, &owner, id, ttl_ms, note, &a);
    wait_answered(&a);
    if (a.status == LX_OK) {
        assert_int_equal(a.size, n);
        assert_memory_equal(a.bytes, expected, n);
        if (left_ms != NULL)
            *left_ms = a.ttl_ms;
    } else {
        assert_true(a.err.text[0] != '\0');
    }
    free(a.bytes);
    return a.status;
}

static lx_status drop(lx_state_store *s, const char *id)
{
    answer a = ANSWER;
    store_remove(s, &owner, id, note, &a);
    wait_answered(&a);
    return a.status;
}

static lx_state_store *open_at(const char *url, int64_t timeout_ms)
{
    lx_state_store *s = NULL;
    lx_error err = {0};
    assert_int_equal(lx_state_redis_open(url, NULL, timeout_ms, MAX_BYTES, &s, &err), LX_OK);
    return s;
}

static bool reachable(lx_state_store *s)
{
    lx_store_stats stats;
    s->ops->stats(s, &stats);
    return stats.reachable;
}

static void wait_reachable(lx_state_store *s, bool wanted)
{
    wait_until(reachable(s) == wanted);
}

/* --- tests --- */

static void test_another_store_finds_it(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    lx_state_store *a = open_at(redis.url, TIMEOUT_MS), *b = open_at(redis.url, TIMEOUT_MS);
    int64_t left = 0;
    assert_int_equal(put(a, "one", "x\0y\r\n", 5, LONG_MS), LX_OK);
    assert_int_equal(get(b, "one", 0, "x\0y\r\n", 5, &left), LX_OK);
    assert_true(left > 0 && left <= LONG_MS);
    assert_int_equal(put(b, "one", "new", 3, LONG_MS), LX_OK);
    assert_int_equal(get(a, "one", 2 * LONG_MS, "new", 3, &left), LX_OK);
    assert_int_equal(left, 2 * LONG_MS);
    assert_int_equal(get(b, "one", 0, "new", 3, &left), LX_OK);
    assert_true(left > LONG_MS);
    assert_int_equal(get(a, "two", 0, NULL, 0, NULL), LX_ERR_NOT_FOUND);
    assert_int_equal(drop(b, "one"), LX_OK);
    assert_int_equal(drop(a, "one"), LX_ERR_NOT_FOUND);
    assert_int_equal(get(a, "one", 0, NULL, 0, NULL), LX_ERR_NOT_FOUND);
    a->ops->close(a);
    b->ops->close(b);
}

static void test_time_ends(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    lx_state_store *s = open_at(redis.url, TIMEOUT_MS);
    assert_int_equal(put(s, "short", "x", 1, 1), LX_OK);
    int64_t end = lx_now_ns() + PATIENCE_S * LX_NS_PER_S;
    while (get(s, "short", 0, "x", 1, NULL) == LX_OK)
        assert_true(lx_now_ns() < end);
    s->ops->close(s);
}

static void test_sizes(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    lx_state_store *s = open_at(redis.url, TIMEOUT_MS);
    static const size_t sizes[] = {0, 1, 16383, 16384, 270336, 3000000};
    unsigned char *bytes = calloc(1, (size_t)LX_REDIS_MAX_BLOB + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < 3000000; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(put(s, "size", bytes, sizes[i], LONG_MS), LX_OK);
        assert_int_equal(get(s, "size", 0, bytes, sizes[i], NULL), LX_OK);
    }
    assert_int_equal(put(s, "size", bytes, (size_t)LX_REDIS_MAX_BLOB + 1, LONG_MS),
                     LX_ERR_TOO_LARGE);
    free(bytes);
    s->ops->close(s);
}

static lx_status put_of(lx_state_store *s, const lx_owner *o, const char *id, const char *text,
                        int64_t ttl_ms)
{
    answer a = ANSWER;
    store_put(s, o, id, text, strlen(text), ttl_ms, note, &a);
    wait_answered(&a);
    assert_true((a.status == LX_ERR_BUSY) == (strcmp(a.err.param, "state") == 0));
    return a.status;
}

static lx_status get_of(lx_state_store *s, const lx_owner *o, const char *id, int64_t ttl_ms,
                        const char *text)
{
    answer a = ANSWER;
    store_get(s, o, id, ttl_ms, note, &a);
    wait_answered(&a);
    if (a.status == LX_OK)
        assert_memory_equal(a.bytes, text, strlen(text));
    free(a.bytes);
    return a.status;
}

static lx_status drop_of(lx_state_store *s, const lx_owner *o, const char *id)
{
    answer a = ANSWER;
    store_remove(s, o, id, note, &a);
    wait_answered(&a);
    return a.status;
}

static void test_owners_see_their_own_only(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    static const lx_owner owners[] = {{.name = ""},
                                      {.name = "alice"},
                                      {.name = "bob", .max_states = 5},
                                      {.name = "alice:bob", .max_bytes = 50},
                                      {.name = "#0123456789abcdef"}};
    enum { N = sizeof owners / sizeof *owners };
    lx_state_store *a = open_at(redis.url, TIMEOUT_MS), *b = open_at(redis.url, TIMEOUT_MS);
    for (int i = 0; i < N; i++) {
        for (int k = i; k < N; k++) {
            assert_int_equal(get_of(a, &owners[k], "same", 0, ""), LX_ERR_NOT_FOUND);
            assert_int_equal(drop_of(a, &owners[k], "same"), LX_ERR_NOT_FOUND);
        }
        assert_int_equal(put_of(a, &owners[i], "same", owners[i].name, LONG_MS), LX_OK);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(get_of(b, &owners[i], "same", LONG_MS, owners[i].name), LX_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(drop_of(b, &owners[i], "same"), LX_OK);
        assert_int_equal(get_of(a, &owners[i], "same", 0, ""), LX_ERR_NOT_FOUND);
    }
    a->ops->close(a);
    b->ops->close(b);
}

/* Two stores count together, whichever of them a state came through. */
static void test_limits_of_an_owner(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    static const lx_owner few = {.name = "few", .max_states = 2}, free_few = {.name = "few"},
                          small = {.name = "small", .max_bytes = 10};
    lx_state_store *a = open_at(redis.url, TIMEOUT_MS), *b = open_at(redis.url, TIMEOUT_MS);
    assert_int_equal(put_of(a, &few, "1", "x", LONG_MS), LX_OK);
    assert_int_equal(put_of(b, &few, "2", "x", LONG_MS), LX_OK);
    assert_int_equal(put_of(a, &few, "3", "x", LONG_MS), LX_ERR_BUSY);
    assert_int_equal(get_of(b, &few, "3", 0, ""), LX_ERR_NOT_FOUND);
    assert_int_equal(put_of(a, &few, "2", "another", LONG_MS), LX_OK);
    assert_int_equal(drop_of(b, &few, "1"), LX_OK);
    assert_int_equal(put_of(a, &few, "3", "x", LONG_MS), LX_OK);
    assert_int_equal(put_of(b, &small, "1", "12345", LONG_MS), LX_OK);
    assert_int_equal(put_of(a, &small, "2", "123456", LONG_MS), LX_ERR_BUSY);
    assert_int_equal(put_of(a, &small, "2", "12345", LONG_MS), LX_OK);
    assert_int_equal(put_of(a, &small, "1", "123456", LONG_MS), LX_ERR_BUSY);
    assert_int_equal(put_of(a, &small, "1", "1", LONG_MS), LX_OK);
    assert_int_equal(put_of(a, &small, "3", "1234", LONG_MS), LX_OK);
    /* a state kept before there was a limit counts from its next use on */
    assert_int_equal(drop_of(a, &few, "3"), LX_OK);
    assert_int_equal(put_of(a, &free_few, "old", "x", LONG_MS), LX_OK);
    assert_int_equal(get_of(a, &few, "old", LONG_MS, "x"), LX_OK);
    assert_int_equal(put_of(a, &few, "3", "x", LONG_MS), LX_ERR_BUSY);
    a->ops->close(a);
    b->ops->close(b);
}

static void test_what_has_ended_is_not_counted(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    static const lx_owner one = {.name = "one", .max_states = 1, .max_bytes = 5};
    lx_state_store *s = open_at(redis.url, TIMEOUT_MS);
    assert_int_equal(put_of(s, &one, "short", "12345", 1), LX_OK);
    int64_t end = lx_now_ns() + PATIENCE_S * LX_NS_PER_S;
    while (put_of(s, &one, "next", "12345", LONG_MS) != LX_OK)
        assert_true(lx_now_ns() < end);
    s->ops->close(s);
}

enum { THREADS = 6, ROUNDS = 150 };

static void *many_calls(void *context)
{
    lx_state_store *s = context;
    static _Atomic int threads;
    int thread = atomic_fetch_add(&threads, 1), bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        char id[32], text[32];
        (void)snprintf(id, sizeof id, "t%d-%d", thread, i % 7);
        int n = snprintf(text, sizeof text, "%d of %d", i, thread);
        bad += put(s, id, text, (size_t)n, LONG_MS) != LX_OK;
        bad += get(s, id, LONG_MS, text, (size_t)n, NULL) != LX_OK;
        if (i % 5 == 0)
            bad += drop(s, id) != LX_OK;
    }
    return bad == 0 ? NULL : s;
}

static void test_many_threads(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    lx_state_store *s = open_at(redis.url, TIMEOUT_MS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_calls, s), 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad = NULL;
        (void)pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    s->ops->close(s);
}

/* A Redis that hangs: the first call ends with its timeout, the next at once, and the mode ends
   when Redis continues. */
static void test_hanging_server(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    enum { SHORT_MS = 1000, N = 50 };
    lx_state_store *s = open_at(redis.url, SHORT_MS);
    assert_int_equal(put(s, "kept", "x", 1, LONG_MS), LX_OK);
    (void)kill(redis.pid, SIGSTOP);
    answer answers[N];
    for (int i = 0; i < N; i++) {
        answers[i] = (answer)ANSWER;
        store_get(s, &owner, "kept", 0, note, &answers[i]);
    }
    for (int i = 0; i < N; i++) {
        wait_answered(&answers[i]);
        assert_int_equal(answers[i].status, LX_ERR_UNAVAILABLE);
        assert_non_null(strstr(answers[i].err.text, "state store"));
    }
    assert_false(reachable(s));
    answer refused = ANSWER;
    store_put(s, &owner, "other", "x", 1, LONG_MS, note, &refused);
    assert_int_equal(refused.calls, 1); /* answered before the call returned */
    assert_int_equal(refused.status, LX_ERR_UNAVAILABLE);
    (void)kill(redis.pid, SIGCONT);
    wait_reachable(s, true);
    s->ops->close(s);
    s = open_at(redis.url, TIMEOUT_MS);
    assert_int_equal(get(s, "kept", 0, "x", 1, NULL), LX_OK);
    s->ops->close(s);
}

static void test_killed_and_started_again(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    lx_state_store *s = open_at(redis.url, TIMEOUT_MS);
    redis_kill(&redis);
    wait_reachable(s, false); /* the watcher's work: there is no call */
    assert_int_equal(put(s, "a", "x", 1, LONG_MS), LX_ERR_UNAVAILABLE);
    assert_true(redis_start(&redis));
    wait_reachable(s, true);
    for (int i = 0; i < 20; i++) /* every thread's connection is a dead one */
        assert_int_equal(put(s, "a", "x", 1, LONG_MS), LX_OK);
    s->ops->close(s);
}

/* Opened while no server is there; calls that are under way when it is closed end with that error.
 */
static void test_open_without_a_server(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    redis_kill(&redis);
    lx_state_store *s = open_at(redis.url, TIMEOUT_MS);
    assert_false(reachable(s));
    assert_int_equal(drop(s, "a"), LX_ERR_UNAVAILABLE);
    assert_true(redis_start(&redis));
    wait_reachable(s, true);
    enum { N = 300 };
    answer *answers = calloc(N, sizeof *answers);
    assert_non_null(answers);
    for (int i = 0; i < N; i++) {
        answers[i] = (answer)ANSWER;
        store_put(s, &owner, "a", "some bytes", 10, LONG_MS, note, &answers[i]);
    }
    s->ops->close(s);
    for (int i = 0; i < N; i++) {
        assert_int_equal(answers[i].calls, 1);
        assert_true(answers[i].status == LX_OK || answers[i].status == LX_ERR_UNAVAILABLE);
    }
    free(answers);
}

/* A name server that is away while the store is up costs no call anything; a Redis that comes back
   is looked up anew. */
static void test_name_server_is_away(void **state)
{
    (void)state;
    if (redis.pid == 0)
        skip();
    char url[64];
    (void)snprintf(url, sizeof url, "redis://" NAMED ":%d/1", redis.port);
    lx_state_store *s = open_at(url, TIMEOUT_MS);
    assert_true(reachable(s));
    int known = atomic_load(&lookups);
    atomic_store(&no_lookups, true);
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(s, "a", "x", 1, LONG_MS), LX_OK);
    assert_int_equal(atomic_load(&lookups), known);
    redis_kill(&redis);
    wait_reachable(s,
                   false); /* else it could miss that Redis was gone, and calls meet dead links */
    assert_true(redis_start(&redis));
    wait_until(atomic_load(&lookups) > known); /* the watcher looks it up, unanswered */
    atomic_store(&no_lookups, false);
    wait_reachable(s, true);
    assert_int_equal(put(s, "a", "x", 1, LONG_MS), LX_OK);
    s->ops->close(s);
}

static void test_malformed_url(void **state)
{
    (void)state;
    lx_state_store *s = NULL;
    lx_error err = {0};
    assert_int_equal(lx_state_redis_open("redis://:x@", NULL, 1, MAX_BYTES, &s, &err),
                     LX_ERR_INVALID);
    assert_string_equal(err.param, "state-store");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_store_finds_it),
        cmocka_unit_test(test_time_ends),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_owners_see_their_own_only),
        cmocka_unit_test(test_limits_of_an_owner),
        cmocka_unit_test(test_what_has_ended_is_not_counted),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_hanging_server),
        cmocka_unit_test(test_killed_and_started_again),
        cmocka_unit_test(test_open_without_a_server),
        cmocka_unit_test(test_name_server_is_away),
        cmocka_unit_test(test_malformed_url),
    };
    (void)signal(SIGPIPE, SIG_IGN); /* as the server does */
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
