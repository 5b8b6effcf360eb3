/*
 * Values in Redis of which an owner may have only so many: a sorted set of its ids by the time they
 * end, and a hash of their bytes with the sum under the empty id. Each command is one script, so
 * that any number of servers with the same Redis agree on the counts; what has ended is taken out
 * of them by the next set. What Redis evicts, or others delete, counts until its time is over.
 *
 * Thread: as in redis.h.
 */
#ifndef LINNET_SERVER_STATES_REDIS_COUNT_H
#define LINNET_SERVER_STATES_REDIS_COUNT_H

#include "server/states/redis.h"

/* Keys of Redis, and the id by which the value is counted. */
typedef struct lx_redis_counted {
    const char *key, *ends, *sizes, *id;
    int64_t max_n, max_bytes; /* 0: no limit */
} lx_redis_counted;

/* As lx_redis_set; LX_ERR_BUSY (param "state") when the owner may have no more. */
lx_status lx_redis_set_counted(lx_redis *r, const lx_redis_counted *c, const void *bytes, size_t n,
                               int64_t ttl_ms, int64_t deadline_ns, lx_error *err) LX_MUST_USE;
/* As lx_redis_get; with ttl_ms > 0 it counts a value that was not counted yet. */
lx_status lx_redis_get_counted(lx_redis *r, const lx_redis_counted *c, int64_t ttl_ms, size_t max,
                               int64_t deadline_ns, void **bytes, size_t *n, int64_t *left_ms,
                               lx_error *err) LX_MUST_USE;
/* As lx_redis_remove. */
lx_status lx_redis_remove_counted(lx_redis *r, const lx_redis_counted *c, int64_t deadline_ns,
                                  lx_error *err) LX_MUST_USE;

#endif
