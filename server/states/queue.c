/* Calls that wait for a store (see queue.h). */
#include "server/states/queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/lock.h"

enum { MAX_CALLS = 4096 };

lx_status lx_store_queue_init(lx_store_queue *q, size_t max_bytes, size_t max_blob, lx_error *err)
{
    if (pthread_mutex_init(&q->mutex, NULL) != 0 || !lx_timed_cond_init(&q->more))
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a store of states");
    q->end = &q->first;
    q->max_bytes = max_bytes;
    q->max_blob = max_blob;
    return LX_OK;
}

void lx_store_queue_fini(lx_store_queue *q)
{
    (void)pthread_cond_destroy(&q->more);
    (void)pthread_mutex_destroy(&q->mutex);
}

/* --- adding --- */

/* Under the mutex: whether a call of that size may wait now. */
static lx_status admit(const lx_store_queue *q, size_t size, lx_error *err)
{
    if (q->stopping)
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
    if (q->down)
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "%s", q->why.text);
    bool alone = q->bytes == 0; /* then a blob of any size may go */
    if (q->n >= MAX_CALLS || (!alone && q->bytes + size > q->max_bytes))
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL,
                       "the state store does not keep up: %d calls wait, and %zu bytes are on "
                       "their way",
                       q->n, q->bytes);
    return LX_OK;
}

static lx_status enqueue(lx_store_queue *q, lx_store_item *item, lx_error *err)
{
    LX_HOLD(&q->mutex);
    lx_status st = admit(q, item->size, err);
    if (st != LX_OK)
        return st;
    *q->end = item;
    q->end = &item->next;
    q->n++;
    q->bytes += item->size;
    (void)pthread_cond_signal(&q->more);
    return LX_OK;
}

static void free_item(lx_store_item *item)
{
    free(item->given);
    free(item);
}

/* A blob that is given is freed by the caller after a failure. */
static lx_status add(lx_store_queue *q, const lx_store_request *rq, lx_store_done done,
                     void *context, lx_error *err)
{
    size_t size = rq->op == LX_STORE_PUT ? rq->size : 0, copied = rq->gives_blob ? 0 : size;
    if (size > q->max_blob)
        return lx_fail(err, LX_ERR_TOO_LARGE, "state", "a state of %zu bytes; the limit is %zu",
                       size, q->max_blob);
    lx_store_item *item = calloc(1, sizeof *item + copied);
    if (item == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    *item = (lx_store_item){.op = rq->op,
                            .owner = *rq->owner,
                            .ttl_ms = rq->ttl_ms,
                            .added_ns = lx_now_ns(),
                            .most = rq->most,
                            .droppable = rq->droppable,
                            .only_use = rq->only_use,
                            .done = done,
                            .context = context,
                            .size = size};
    memcpy(item->id, rq->id, strnlen(rq->id, LX_STATE_ID_MAX));
    item->given = rq->gives_blob ? (void *)(uintptr_t)rq->blob : NULL;
    item->blob = item->given != NULL ? item->given : item->bytes;
    if (copied > 0)
        memcpy(item->bytes, rq->blob, copied);
    lx_status st = enqueue(q, item, err);
    if (st != LX_OK)
        free(item);
    return st;
}

void lx_store_queue_add(lx_store_queue *q, const lx_store_request *rq, lx_store_done done,
                        void *context)
{
    lx_error err = {0};
    lx_status st = add(q, rq, done, context, &err);
    if (st != LX_OK && rq->gives_blob)
        free((void *)(uintptr_t)rq->blob);
    if (st != LX_OK)
        done(context, &(lx_store_result){.status = st, .err = &err});
}

/* --- taking and answering --- */

lx_store_item *lx_store_queue_take(lx_store_queue *q)
{
    lx_store_item *item = q->first;
    if (item == NULL)
        return NULL;
    q->first = item->next;
    q->end = q->first == NULL ? &q->first : q->end;
    q->n--;
    return item;
}

/* Frees the call's bytes before its caller knows, because the caller may come again at once. */
void lx_store_queue_finish(lx_store_queue *q, lx_store_item *item, lx_store_result *result,
                           const lx_error *err)
{
    lx_store_item head = *item;
    free_item(item);
    (void)pthread_mutex_lock(&q->mutex);
    q->bytes -= head.size;
    (void)pthread_mutex_unlock(&q->mutex);
    if (result->status != LX_OK)
        result->err = err;
    head.done(head.context, result);
}

static void fail_all(lx_store_queue *q, lx_store_item *item, const lx_error *err)
{
    while (item != NULL) {
        lx_store_item *next = item->next;
        lx_store_queue_finish(q, item, &(lx_store_result){.status = LX_ERR_UNAVAILABLE}, err);
        item = next;
    }
}

/* Under the mutex. */
static lx_store_item *take_all(lx_store_queue *q)
{
    lx_store_item *all = q->first;
    q->first = NULL;
    q->end = &q->first;
    q->n = 0;
    return all;
}

bool lx_store_queue_set_down(lx_store_queue *q, const lx_error *why)
{
    (void)pthread_mutex_lock(&q->mutex);
    bool was_up = !q->down && !q->stopping;
    q->down = true;
    q->why = *why;
    lx_store_item *waiting = take_all(q);
    (void)pthread_mutex_unlock(&q->mutex);
    fail_all(q, waiting, why);
    return was_up;
}

void lx_store_queue_stop(lx_store_queue *q)
{
    lx_error err;
    (void)lx_fail(&err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
    (void)pthread_mutex_lock(&q->mutex);
    q->stopping = true;
    lx_store_item *waiting = take_all(q);
    (void)pthread_cond_broadcast(&q->more);
    (void)pthread_mutex_unlock(&q->mutex);
    fail_all(q, waiting, &err);
}
