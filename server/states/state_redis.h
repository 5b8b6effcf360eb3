/* The state store in Redis (or anything that speaks its protocol): see state_redis.c. */
#ifndef LINNET_SERVER_STATES_STATE_REDIS_H
#define LINNET_SERVER_STATES_STATE_REDIS_H

#include "server/states/store.h"

/* A blob above this is refused with LX_ERR_TOO_LARGE. */
enum { LX_REDIS_MAX_BLOB = 256 << 20 }; /* Redis takes 512 MiB */

/*
 * url, password: see redis.h; a fault in it is LX_ERR_INVALID. timeout_ms >= 1: every
 * call ends within about that time. Tries to connect, but opens also when there is no answer:
 * the calls then end with LX_ERR_UNAVAILABLE until a server is there. max_bytes: of
 * blobs that are on their way; a call that would pass it ends with LX_ERR_UNAVAILABLE, unless no
 * other is on its way.
 */
lx_status lx_state_redis_open(const char *url, const char *password, int64_t timeout_ms,
                              int64_t max_bytes, lx_state_store **out, lx_error *err) LX_MUST_USE;

#endif
