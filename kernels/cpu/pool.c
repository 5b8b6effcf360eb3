/*
 * Workers wait for the event count `start`. `door` says whether they may join: a flag that it is
 * open, and the number of workers inside. The caller opens the door, does its part, shuts the door
 * and waits for the workers inside. A worker that comes too late finds the door shut, or open for
 * the next job, which it may join.
 */
#include "kernels/cpu/pool.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/compute_thread.h"
#include "kernels/cpu/event_count.h"

#define OPEN 0x10000u

struct lx_cpu_pool {
    lx_event_count start; /* steps for each job, and to stop */
    lx_event_count empty; /* steps when the last worker leaves and the door is shut */
    _Alignas(64) atomic_uint door;
    atomic_bool stop;
    int n;
    int n_started;                         /* workers to be joined */
    void (*fn)(void *context, int thread); /* written before the door opens, as is context */
    void *context;
    struct worker {
        lx_cpu_pool *pool;
        pthread_t thread;
        int index;
    } workers[256];
};

static bool enter(lx_cpu_pool *pool)
{
    unsigned door = atomic_load(&pool->door);
    while ((door & OPEN) != 0) {
        if (atomic_compare_exchange_weak(&pool->door, &door, door + 1))
            return true;
    }
    return false;
}

static void leave(lx_cpu_pool *pool)
{
    if (atomic_fetch_sub(&pool->door, 1) == 1) /* shut, and this was the last inside */
        lx_event_count_step(&pool->empty);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    lx_cpu_pool *pool = w->pool;
    lx_compute_thread();
    for (unsigned seen = 0;;) {
        lx_event_count_wait(&pool->start, seen);
        seen = lx_event_count_value(&pool->start);
        if (atomic_load(&pool->stop))
            return NULL;
        if (enter(pool)) {
            pool->fn(pool->context, w->index);
            leave(pool);
        }
    }
}

void lx_cpu_pool_run(lx_cpu_pool *pool, void (*fn)(void *context, int thread), void *context)
{
    if (pool->n == 1) {
        fn(context, 0);
        return;
    }
    pool->fn = fn;
    pool->context = context;
    atomic_store(&pool->door, OPEN);
    lx_event_count_step(&pool->start);
    fn(context, 0);
    unsigned seen = lx_event_count_value(&pool->empty);
    if (atomic_fetch_and(&pool->door, ~OPEN) != OPEN)
        lx_event_count_wait(&pool->empty, seen);
}

/* Signals are for the program's own threads: workers take none. */
static lx_status start_workers(lx_cpu_pool *pool, lx_error *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    for (int i = 1; i < pool->n && rc == 0; i++) {
        struct worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        rc = pthread_create(&w->thread, NULL, work, w);
        if (rc == 0)
            pool->n_started = i;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, "threads", "cannot start compute thread %d of %d",
                       pool->n_started + 2, pool->n);
    return LX_OK;
}

lx_status lx_cpu_pool_new(int n_threads, lx_cpu_pool **out, lx_error *err)
{
    lx_cpu_pool *pool = aligned_alloc(64, sizeof *pool);
    if (pool == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the compute threads");
    *pool = (lx_cpu_pool){.n = n_threads};
    atomic_init(&pool->door, 0);
    atomic_init(&pool->stop, false);
    if (lx_event_count_init(&pool->start) != 0)
        goto no_start;
    if (lx_event_count_init(&pool->empty) != 0)
        goto no_empty;
    lx_status st = start_workers(pool, err);
    if (st != LX_OK) {
        lx_cpu_pool_free(pool);
        return st;
    }
    *out = pool;
    return LX_OK;
no_empty:
    lx_event_count_fini(&pool->start);
no_start:
    free(pool);
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a lock");
}

void lx_cpu_pool_free(lx_cpu_pool *pool)
{
    if (pool == NULL)
        return;
    atomic_store(&pool->stop, true);
    lx_event_count_step(&pool->start);
    for (int i = 1; i <= pool->n_started; i++)
        (void)pthread_join(pool->workers[i].thread, NULL);
    lx_event_count_fini(&pool->empty);
    lx_event_count_fini(&pool->start);
    free(pool);
}
