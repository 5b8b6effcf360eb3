/*
 * The workers: threads that do what requests ask for, so that the library's threads only move bytes
 * and a probe never waits behind work (exchange.c).
 *
 * What waits stands in lines, one for each client key, and the lines take turns: a key with a
 * hundred large bodies makes another key's request wait for those that are under way, not for all.
 * No memory is needed for that: the exchanges at the heads of the lines are linked with each other,
 * and each head with those behind it. There are never more of them than connections.
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

/* Under the lock. The next exchange; those behind it wait for another turn. */
static lx_exchange *take(lx_workers *w)
{
    lx_exchange *head = w->first, *behind = head->behind;
    w->first = head->next_line;
    if (behind != NULL) {
        behind->last_behind = head->last_behind;
        append_line(w, behind);
    }
    head->next_line = head->behind = head->last_behind = NULL;
    return head;
}

static void *run(void *context)
{
    lx_workers *w = context;
    lx_compute_thread();
    (void)pthread_mutex_lock(&w->lock);
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
    (void)pthread_mutex_unlock(&w->lock);
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
    (void)pthread_mutex_lock(&w->lock);
    if (w->stopping) { /* the lines are taken apart without the lock */
        (void)pthread_mutex_unlock(&w->lock);
        return false;
    }
    lx_exchange *head = w->first;
    while (head != NULL && head->pass.client.key != ex->pass.client.key)
        head = head->next_line;
    if (head == NULL) {
        append_line(w, ex);
    } else {
        if (head->behind == NULL)
            head->behind = ex;
        else
            head->last_behind->behind = ex;
        head->last_behind = ex;
    }
    (void)pthread_cond_signal(&w->more);
    (void)pthread_mutex_unlock(&w->lock);
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
