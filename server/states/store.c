/*
 * The choice of a store, and calls of stores as requests see them. A call has two references: of
 * the request, and of the store until it has answered. The wake runs under the mutex, so
 * lx_store_call_free waits for a running one.
 */
#include "server/states/store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"

struct lx_store_call {
    _Atomic int32_t refs;
    atomic_bool done;
    pthread_mutex_t mutex;
    void (*wake)(void *context); /* under the mutex; NULL: none is wanted */
    void *wake_context;
    lx_reserve *reserve;
    lx_status status; /* these: final once done */
    lx_error err;
    void *blob;
    size_t size;
    int64_t ttl_ms;
};

static void unref(lx_store_call *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    (void)pthread_mutex_destroy(&c->mutex);
    free(c->blob);
    lx_reserve_unref(c->reserve);
    free(c);
}

static void announce(lx_store_call *c)
{
    LX_HOLD(&c->mutex);
    atomic_store(&c->done, true);
    if (c->wake != NULL)
        c->wake(c->wake_context);
}

static void done(void *context, const lx_store_result *r)
{
    lx_store_call *c = context;
    c->status = r->status;
    c->ttl_ms = r->ttl_ms;
    if (r->err != NULL)
        c->err = *r->err;
    c->blob = r->blob != NULL ? malloc(r->size) : NULL;
    c->size = r->size;
    if (c->blob != NULL)
        memcpy(c->blob, r->blob, r->size);
    else if (r->blob != NULL)
        c->status = lx_fail(&c->err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    announce(c);
    unref(c);
}

lx_status lx_store_call_start(lx_state_store *s, lx_store_op op, const char *id, const void *bytes,
                              size_t n, int64_t ttl_ms, const lx_store_waiter *waiter,
                              lx_store_call **out, lx_error *err)
{
    if (waiter->owner == NULL) /* a forgotten owner must not open another owner's states */
        return lx_fail(err, LX_ERR_INTERNAL, NULL, "a request to the state store without an owner");
    lx_store_call *c = calloc(1, sizeof *c);
    if (c == NULL || pthread_mutex_init(&c->mutex, NULL) != 0) {
        free(c);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a request to the state store");
    }
    atomic_init(&c->refs, 2);
    c->wake = waiter->wake;
    c->wake_context = waiter->wake_context;
    c->reserve = lx_reserve_ref(waiter->reserve);
    lx_store_request rq = {.op = op,
                           .owner = waiter->owner,
                           .id = id,
                           .blob = bytes,
                           .size = n,
                           .ttl_ms = ttl_ms,
                           .most = n,
                           .droppable = waiter->droppable};
    s->ops->call(s, &rq, done, c);
    *out = c;
    return LX_OK;
}

bool lx_store_call_done(const lx_store_call *c)
{
    return atomic_load(&c->done);
}

lx_status lx_store_call_status(const lx_store_call *c, lx_error *err)
{
    if (c->status != LX_OK && err != NULL)
        *err = c->err;
    return c->status;
}

const void *lx_store_call_blob(const lx_store_call *c, size_t *size, int64_t *ttl_ms)
{
    *size = c->size;
    if (ttl_ms != NULL)
        *ttl_ms = c->ttl_ms;
    return c->blob;
}

void lx_store_call_free(lx_store_call *c)
{
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&c->mutex);
    c->wake = NULL;
    (void)pthread_mutex_unlock(&c->mutex);
    unref(c);
}

bool lx_store_is_file(const char *where)
{
    size_t n = strlen(where);
    return n > 3 && strcmp(where + n - 3, ".db") == 0 && strstr(where, "://") == NULL;
}

lx_status lx_state_store_check(const char *where, const char *password, lx_error *err)
{
    bool memory = strcmp(where, "memory") == 0;
    if (!memory && !lx_store_is_file(where))
        return lx_state_redis_check(where, password, err);
    if (password != NULL)
        return lx_fail(err, LX_ERR_INVALID, "state-store-password-file",
                       "--state-store-password-file: states in %s have no password",
                       memory ? "memory" : "a file");
    return memory ? LX_OK : lx_state_sqlite_check(err);
}

lx_status lx_state_store_open(const lx_state_store_options *o, lx_state_store **out, lx_error *err)
{
    lx_status st = lx_state_store_check(o->where, o->password, err);
    if (st != LX_OK)
        return st;
    if (strcmp(o->where, "memory") == 0)
        return lx_state_memory_open(o->max_states, o->max_bytes, out, err);
    if (lx_store_is_file(o->where))
        return lx_state_sqlite_open(o, out, err);
    return lx_state_redis_open(o->where, o->password, o->timeout_ms, o->max_on_their_way, out, err);
}
