/*
 * The workers: threads that carry out requests, so that the library's threads only move bytes and a
 * probe never waits for work (exchange.c).
 *
 * Waiting exchanges stand in lines, one per client key, and the lines take turns. So if one key
 * sends a hundred large bodies, another key's request waits only for the bodies at work. Lines need
 * no memory: their heads are linked with each other, and each exchange with the next one of its
 * line. There are never more lines than connections.
 */
#include <stdlib.h>

#include "common/compute_thread.h"
#include "server/http/internal.h"

/* Under the lock. */
static void append_line(lx_workers *w, lx_exchange *head)
{
    head->next_line = NULL;
    if (w->first == NULL)
        w->first = head;
    else
        w->last->next_line = head;
    w->last = head;
}

/* Under the lock: the next exchange. The rest of its line waits for another turn. */
static lx_exchange *take(lx_workers *w)
{
    lx_exchange *head = w->first, *after = head->after;
    w->first = head->next_line;
    if (after != NULL) {
        after->last = head->last;
        append_line(w, after);
    }
    head->next_line = head->after = head->last = NULL;
    return head;
}

static void *run(void *context)
{
    lx_workers *w = context;
    lx_compute_thread();
    LX_HOLD(&w->lock);
    while (!w->stopping) {
        if (w->first == NULL) {
            (void)pthread_cond_wait(&w->more, &w->lock);
            continue;
        }
        lx_exchange *ex = take(w);
        (void)pthread_mutex_unlock(&w->lock);
        w->work(ex);
        (void)pthread_mutex_lock(&w->lock);
    }
    return NULL;
}

lx_status lx_workers_start(lx_workers *w, int32_t n, void (*work)(lx_exchange *ex),
                           void (*drop)(lx_exchange *ex), lx_error *err)
{
    *w = (lx_workers){.work = work, .drop = drop, .threads = calloc((size_t)n, sizeof *w->threads)};
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->more, NULL);
    while (w->threads != NULL && w->n < n && pthread_create(&w->threads[w->n], NULL, run, w) == 0)
        w->n++;
    if (w->n == n)
        return LX_OK;
    lx_workers_stop(w);
    lx_workers_fini(w);
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "cannot start the threads that answer requests");
}

bool lx_workers_add(lx_workers *w, lx_exchange *ex)
{
    LX_HOLD(&w->lock);
    if (w->stopping)
        return false; /* the lines are taken apart without the lock */
    lx_exchange *head = w->first;
    while (head != NULL && head->pass.client.key != ex->pass.client.key)
        head = head->next_line;
    ex->last = ex;
    if (head == NULL) {
        append_line(w, ex);
    } else {
        head->last->after = ex;
        head->last = ex;
    }
    (void)pthread_cond_signal(&w->more);
    return true;
}

void lx_workers_stop(lx_workers *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->stopping = true;
    (void)pthread_cond_broadcast(&w->more);
    (void)pthread_mutex_unlock(&w->lock);
    for (int32_t i = 0; i < w->n; i++)
        (void)pthread_join(w->threads[i], NULL);
    while (w->first != NULL)
        w->drop(take(w));
}

void lx_workers_fini(lx_workers *w)
{
    free(w->threads);
    (void)pthread_cond_destroy(&w->more);
    (void)pthread_mutex_destroy(&w->lock);
}
