/* Blobs on their way to Redis have a limit in bytes; one blob that is larger may go alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>

#include "server/states/store.h"
#include "tests/support/patience.h"
#include "tests/support/redis_process.h"
#include "tests/support/store.h"

enum { TIMEOUT_MS = 60000, LONG_MS = 1000000, MAX_BYTES = 4 << 20 };

typedef struct answer {
    atomic_int calls;
    lx_status status;
    char text[sizeof((lx_error *)0)->text];
} answer;

static void note(void *context, const lx_store_result *r)
{
    answer *a = context;
    a->status = r->status;
    if (r->err != NULL)
        memcpy(a->text, r->err->text, sizeof a->text);
    atomic_fetch_add(&a->calls, 1);
}

static void put(lx_state_store *s, const char *id, const char *bytes, size_t n, answer *a)
{
    static const lx_owner owner = {.name = ""};
    store_put(s, &owner, id, bytes, n, LONG_MS, note, a);
}

static void bytes_on_their_way_have_a_limit(void **state)
{
    (void)state;
    redis_process redis = {.pid = 0};
    lx_state_store *s = NULL;
    lx_error err = {0};
    if (!redis_start(&redis)) {
        print_message("skipped: there is no redis-server (Debian: redis-tools)\n");
        skip();
    }
    assert_int_equal(lx_state_redis_open(redis.url, NULL, TIMEOUT_MS, MAX_BYTES, &s, &err), LX_OK);
    char *large = calloc(1, MAX_BYTES + 1);
    assert_non_null(large);
    answer first = {0}, refused = {0}, last = {0};
    (void)kill(redis.pid, SIGSTOP);
    put(s, "large", large, MAX_BYTES + 1, &first);
    put(s, "small", "x", 1, &refused);
    int calls = atomic_load(&refused.calls); /* answered before the call returned */
    (void)kill(redis.pid, SIGCONT);
    wait_until(atomic_load(&refused.calls) == 1 && atomic_load(&first.calls) == 1);
    assert_int_equal(calls, 1);
    assert_int_equal(refused.status, LX_ERR_UNAVAILABLE);
    assert_non_null(strstr(refused.text, "keep up"));
    assert_int_equal(first.status, LX_OK);
    put(s, "small", "x", 1, &last); /* the bytes were free before the caller knew */
    wait_until(atomic_load(&last.calls) == 1);
    assert_int_equal(last.status, LX_OK);
    free(large);
    s->ops->close(s);
    redis_kill(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_on_their_way_have_a_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
