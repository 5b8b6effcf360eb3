/* The operations of a state store as functions. */
#ifndef LINNET_TESTS_SUPPORT_STORE_H
#define LINNET_TESTS_SUPPORT_STORE_H

#include "server/states/store.h"

static inline void store_put(lx_state_store *s, const lx_owner *owner, const char *id,
                             const void *blob, size_t size, int64_t ttl_ms, lx_store_done done,
                             void *context)
{
    lx_store_request rq = {
        .op = LX_STORE_PUT, .owner = owner, .id = id, .blob = blob, .size = size, .ttl_ms = ttl_ms};
    s->ops->call(s, &rq, done, context);
}

static inline void store_get(lx_state_store *s, const lx_owner *owner, const char *id,
                             int64_t ttl_ms, lx_store_done done, void *context)
{
    lx_store_request rq = {.op = LX_STORE_GET, .owner = owner, .id = id, .ttl_ms = ttl_ms};
    s->ops->call(s, &rq, done, context);
}

static inline void store_remove(lx_state_store *s, const lx_owner *owner, const char *id,
                                lx_store_done done, void *context)
{
    lx_store_request rq = {.op = LX_STORE_REMOVE, .owner = owner, .id = id};
    s->ops->call(s, &rq, done, context);
}

#endif
