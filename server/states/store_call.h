/*
 * One operation on the state store, seen from a request: started, waited for through the request's
 * wake, and freed at any time, also while the store still works on it.
 */
#ifndef LINNET_SERVER_STATES_STORE_CALL_H
#define LINNET_SERVER_STATES_STORE_CALL_H

#include "common/budget.h"
#include "server/states/store.h"

typedef struct lx_store_call lx_store_call;

typedef enum lx_store_op { LX_STORE_PUT, LX_STORE_GET, LX_STORE_REMOVE } lx_store_op;

/* The request that waits for a call. */
typedef struct lx_store_waiter {
    const lx_owner *owner;       /* among whose states; lives as long as the server */
    void (*wake)(void *context); /* any thread; NULL: none */
    void *wake_context;
    /* Memory of the request, blobs on their way to the store included; held until the call is over,
       which may be after the request. NULL: none. */
    lx_reserve *reserve;
} lx_store_waiter;

/* Begins; the waiter's wake is called once when it is done, perhaps before this returns. bytes[n]:
   of a put. ttl_ms: as the store's functions have it. */
lx_status lx_store_call_start(lx_state_store *s, lx_store_op op, const char *id, const void *bytes,
                              size_t n, int64_t ttl_ms, const lx_store_waiter *waiter,
                              lx_store_call **out, lx_error *err) LX_MUST_USE;
bool lx_store_call_done(const lx_store_call *c);

/* The rest after it is done. */
lx_status lx_store_call_status(const lx_store_call *c, lx_error *err);
/* What a get has found; the call's own. ttl_ms may be NULL. */
const void *lx_store_call_blob(const lx_store_call *c, size_t *size, int64_t *ttl_ms);

/* No wake comes after it. NULL is allowed. */
void lx_store_call_free(lx_store_call *c);

#endif
