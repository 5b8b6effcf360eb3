/*
 * Stores of states that outlive a request: blobs of bytes by owner and id, with a time to live.
 *
 * A store is in the process's memory (memory.c), in a file (state_sqlite.c) or in Redis
 * (state_redis.c). A store may be far away and slow, so every call answers through a callback and
 * never holds the caller's thread.
 *
 * The caller has checked that an id has 1 .. LX_STATE_ID_MAX characters of A-Z a-z 0-9 - _. A store
 * does not look into blobs (blob.h).
 */
#ifndef LINNET_SERVER_STATES_STORE_H
#define LINNET_SERVER_STATES_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/budget.h"
#include "common/client.h"
#include "common/status.h"

enum { LX_STATE_ID_MAX = 64 };

typedef struct lx_state_store lx_state_store;

/*
 * How a call ended.
 *   LX_ERR_NOT_FOUND    no such id, or it has expired
 *   LX_ERR_BUSY         the store or the owner's part of it is full (param "state"), and holds
 *                       nothing that may be dropped: try again when something has expired
 *   LX_ERR_TOO_LARGE    the blob alone is over the store's limit
 *   LX_ERR_UNAVAILABLE  the store does not answer in time. Its disk is full, or its file is damaged
 *   LX_ERR_UNSUPPORTED  the store cannot list states
 *   LX_ERR_NO_MEMORY
 */
typedef struct lx_store_result {
    lx_status status;
    const lx_error *err; /* NULL with LX_OK */
    const void *blob;    /* [size] of a get or a list, borrowed during the callback */
    size_t size;
    int64_t ttl_ms; /* of a get: the rest of the blob's time */
} lx_store_result;

/* Called exactly once, by any thread, perhaps before the call returns, without a store's lock. */
typedef void (*lx_store_done)(void *context, const lx_store_result *result);

typedef struct lx_store_stats {
    int64_t states, bytes;         /* held now; -1: the store does not know */
    int64_t max_states, max_bytes; /* its limits; -1: set elsewhere */
    bool reachable;
} lx_store_stats;

typedef enum lx_store_op {
    LX_STORE_PUT, /* keeps a copy of the blob for ttl_ms > 0, in place of an earlier one */
    LX_STORE_GET, /* with ttl_ms > 0 the id's time starts again */
    LX_STORE_REMOVE,
    LX_STORE_LIST /* the blob is an array of lx_store_entry: the owner's states after the id, "" for
                     the first, at most `most` of them, by their ids */
} lx_store_op;

typedef struct lx_store_entry {
    char id[LX_STATE_ID_MAX + 1];
    int64_t bytes, ttl_ms;
} lx_store_entry;

typedef struct lx_store_request {
    lx_store_op op;
    const lx_owner *owner; /* copied before the call returns, as the next two */
    const char *id;
    const void *blob; /* [size], of a put */
    size_t size;
    bool gives_blob; /* of a put: the store keeps the blob's memory, of malloc, and frees it. It
                        needs no copy */
    int64_t ttl_ms;
    size_t most;    /* of a list, at least 1 */
    bool only_use;  /* of a get: its time starts again. The result may lack the blob, and may be
                       LX_OK where there is none */
    bool droppable; /* of a put: dropped for newer ones rather than refusing them, the least
                       recently used first */
} lx_store_request;

/* All functions: any thread. */
typedef struct lx_store_ops {
    const char *name; /* "memory", "sqlite", "redis" */
    bool outlives;    /* its blobs outlive this process */
    void (*call)(lx_state_store *s, const lx_store_request *rq, lx_store_done done, void *context);
    void (*stats)(lx_state_store *s, lx_store_stats *out);
    /* Frees the store. Calls still under way end with LX_ERR_UNAVAILABLE before it returns. */
    void (*close)(lx_state_store *s);
} lx_store_ops;

/* Every store's own structure begins with this. */
struct lx_state_store {
    const lx_store_ops *ops;
};

/* States in this process's memory, gone with it. Limits: max_states >= 1 and max_bytes >= 1, ids
   and bookkeeping not counted. */
lx_status lx_state_memory_open(int64_t max_states, int64_t max_bytes, lx_state_store **out,
                               lx_error *err) LX_MUST_USE;

/* Redis accepts 512 MiB; a larger blob than this is LX_ERR_TOO_LARGE. */
enum { LX_REDIS_MAX_BLOB = 256 << 20 };
/*
 * States in Redis, or in a server with its protocol. LX_ERR_INVALID: a fault in the URL or password
 * (redis.h). Opens also when no server answers; calls then end with LX_ERR_UNAVAILABLE until one
 * does. Every call ends within about timeout_ms >= 1. At most max_bytes of blobs may be on their
 * way, or one blob of any size alone; a further call ends with LX_ERR_UNAVAILABLE.
 */
lx_status lx_state_redis_open(const char *url, const char *password, int64_t timeout_ms,
                              int64_t max_bytes, lx_state_store **out, lx_error *err) LX_MUST_USE;

typedef struct lx_state_store_options {
    const char *where;    /* "memory", a file's name (lx_store_is_file), or a URL (redis.h) */
    const char *password; /* for a URL without a password, or NULL */
    int64_t max_states, max_bytes; /* kept in memory or in the file */
    int64_t max_on_their_way;      /* bytes of blobs on their way to the file or to Redis */
    int64_t timeout_ms;            /* of Redis */
} lx_state_store_options;

/* Whether the name is that of a file: it ends in ".db". */
bool lx_store_is_file(const char *where);

/*
 * States in a file, an SQLite database, which belongs to this process until it ends. An
 * acknowledged put survives the end of the process and a loss of power. Above max_states and
 * max_bytes the store drops the least recently used states. LX_ERR_IO: the file cannot be used
 * (sqlite.h).
 */
lx_status lx_state_sqlite_open(const lx_state_store_options *o, lx_state_store **out,
                               lx_error *err) LX_MUST_USE;

/* Whether a URL or a file can name a store of this build, without opening it. */
lx_status lx_state_redis_check(const char *url, const char *password, lx_error *err) LX_MUST_USE;
lx_status lx_state_sqlite_check(lx_error *err) LX_MUST_USE;

/* The store that the options name (store.c). LX_ERR_INVALID with the option's name. */
lx_status lx_state_store_open(const lx_state_store_options *o, lx_state_store **out,
                              lx_error *err) LX_MUST_USE;

/* The faults that follow from `where` and `password` alone: nothing is opened. */
lx_status lx_state_store_check(const char *where, const char *password, lx_error *err) LX_MUST_USE;

/* One operation on the store as a request sees it (store.c). The request may free it at any time,
   also while the store still works on it. */
typedef struct lx_store_call lx_store_call;

/* The request that waits for a call. */
typedef struct lx_store_waiter {
    const lx_owner *owner;       /* of the states; lives as long as the server */
    void (*wake)(void *context); /* any thread; or NULL */
    void *wake_context;
    /* Memory of the request and of blobs on their way to the store, or NULL. Held until the call is
       over, which may be after the request. */
    lx_reserve *reserve;
    bool droppable; /* see lx_store_request */
} lx_store_waiter;

/* Begins the operation with bytes[n] of a put and its ttl_ms (lx_store_op); a list has at most n
   entries. The waiter's wake is called once when the call is done, perhaps before this returns. */
lx_status lx_store_call_start(lx_state_store *s, lx_store_op op, const char *id, const void *bytes,
                              size_t n, int64_t ttl_ms, const lx_store_waiter *waiter,
                              lx_store_call **out, lx_error *err) LX_MUST_USE;
bool lx_store_call_done(const lx_store_call *c);

/* After it is done. */
lx_status lx_store_call_status(const lx_store_call *c, lx_error *err);
/* After it is done: the blob of a get, owned by the call. ttl_ms may be NULL. */
const void *lx_store_call_blob(const lx_store_call *c, size_t *size, int64_t *ttl_ms);

/* No wake comes after it. NULL is allowed. */
void lx_store_call_free(lx_store_call *c);

#endif
