/* The operations of a state store as functions. */
#ifndef LINNET_TESTS_SUPPORT_STORE_H
#define LINNET_TESTS_SUPPORT_STORE_H

#include "server/states/store.h"

static inline void store_put(lx_state_store *s, const lx_owner *owner, const char *id,
                             const void *blob, size_t size, int64_t ttl_ms, lx_store_done done,
                             void *context)
{
    lx_store_request rq = {LX_STORE_PUT, owner, id, blob, size, ttl_ms, 0, false};
    s->ops->call(s, &rq, done, context);
}

static inline void store_get(lx_state_store *s, const lx_owner *owner, const char *id,
                             int64_t ttl_ms, lx_store_done done, void *context)
{
    lx_store_request rq = {LX_STORE_GET, owner, id, NULL, 0, ttl_ms, 0, false};
    s->ops->call(s, &rq, done, context);
}

static inline void store_remove(lx_state_store *s, const lx_owner *owner, const char *id,
                                lx_store_done done, void *context)
{
    lx_store_request rq = {LX_STORE_REMOVE, owner, id, NULL, 0, 0, 0, false};
    s->ops->call(s, &rq, done, context);
}

#endif
