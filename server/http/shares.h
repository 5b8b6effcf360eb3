/*
 * How much of the budget of bodies each client holds, so that no client can hold all of it.
 *
 * A client is its API key, or its address where the request has no key. A client's bodies may hold
 * half of the bytes that the bodies of other clients leave. So a client that sends large bodies
 * slowly leaves room for the small bodies of other clients. Bytes for parsing are not counted,
 * because one handler holds them only for a moment. Thread: any.
 */
#ifndef LINNET_SERVER_HTTP_SHARES_H
#define LINNET_SERVER_HTTP_SHARES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/budget.h"

struct sockaddr;

/* Compared as bytes, so it is made by lx_body_owner only. */
typedef struct lx_body_owner {
    const void *key; /* NULL: the address counts */
    uint8_t address[16];
} lx_body_owner;

typedef struct lx_share {
    struct lx_share *next;
    lx_body_owner owner;
    int64_t bytes;
    int32_t n_bodies;
} lx_share;

typedef struct lx_shares {
    pthread_mutex_t lock;
    lx_budget *budget; /* borrowed */
    lx_share *first;
    int64_t bytes; /* of all clients */
} lx_shares;

/* key NULL: the address, of which an IPv6 network of 64 bits is one client, as a host may take any
   address in it. */
lx_body_owner lx_body_owner_of(const void *key, const struct sockaddr *address);

void lx_shares_init(lx_shares *s, lx_budget *budget);
void lx_shares_fini(lx_shares *s); /* after every body has left */

/* A body of this client begins. NULL without memory. */
lx_share *lx_shares_join(lx_shares *s, const lx_body_owner *owner);
/* Whether the client may hold so many bytes more now; takes none. A refusal is counted. */
bool lx_shares_have(lx_shares *s, const lx_share *share, int64_t bytes);
/* Takes so many bytes more; false when the client may not hold them, or the budget lacks them. */
bool lx_shares_take(lx_shares *s, lx_share *share, int64_t bytes) LX_MUST_USE;
/* The body is over, and the bytes that were taken for it are free. */
void lx_shares_leave(lx_shares *s, lx_share *share, int64_t bytes);

#endif
