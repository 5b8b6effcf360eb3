/*
 * The calls that wait for a store which answers later: a list with limits, of calls and of bytes.
 *
 * The store's threads take calls in their order. A store that is down takes no further calls, so
 * that no request waits for it. Thread: any.
 */
#ifndef LINNET_SERVER_STATES_QUEUE_H
#define LINNET_SERVER_STATES_QUEUE_H

#include <pthread.h>

#include "server/states/store.h"

/* A call, with a copy of its request, but for a blob that was given. */
typedef struct lx_store_item {
    struct lx_store_item *next;
    lx_store_op op;
    lx_owner owner;
    char id[LX_STATE_ID_MAX + 1];
    int64_t ttl_ms, added_ns; /* lx_now_ns() */
    size_t most;
    bool droppable, only_use;
    lx_store_done done;
    void *context;
    size_t size;
    void *blob;            /* [size] of a put */
    void *given;           /* the blob's memory, NULL: the next line */
    unsigned char bytes[]; /* a copy of the blob */
} lx_store_item;

typedef struct lx_store_queue {
    pthread_mutex_t mutex; /* the store may guard fields of its own with it */
    pthread_cond_t more;   /* a call has come, or the end; CLOCK_MONOTONIC */
    lx_store_item *first, **end;
    int32_t n;        /* calls that wait */
    size_t bytes;     /* of blobs of calls that are not over */
    size_t max_bytes; /* a blob may be larger if it is alone */
    size_t max_blob;
    bool stopping, down;
    lx_error why; /* while down: the answer of new calls */
} lx_store_queue;

lx_status lx_store_queue_init(lx_store_queue *q, size_t max_bytes, size_t max_blob,
                              lx_error *err) LX_MUST_USE;
void lx_store_queue_fini(lx_store_queue *q);

/* Adds the call, or answers it at once with the reason why not. */
void lx_store_queue_add(lx_store_queue *q, const lx_store_request *rq, lx_store_done done,
                        void *context);
/* Under the mutex: takes the first call; NULL when none waits. */
lx_store_item *lx_store_queue_take(lx_store_queue *q);
/* Answers the call and frees it; err is the reason of a failure. */
void lx_store_queue_finish(lx_store_queue *q, lx_store_item *item, lx_store_result *result,
                           const lx_error *err);
/* Fails waiting and later calls with LX_ERR_UNAVAILABLE and this text. Returns whether the store
   was up until now. */
bool lx_store_queue_set_down(lx_store_queue *q, const lx_error *why);
/* Fails waiting and later calls, and wakes all threads. */
void lx_store_queue_stop(lx_store_queue *q);

#endif
