/*
 * A gate is a counter that threads wait for to change: they look at it for a while, then sleep on a
 * condition variable. Who changes it looks whether anybody sleeps; both sides are sequentially
 * consistent, so either the sleeper sees the change or the changer sees the sleeper. The start of a
 * job is one gate, the barrier (whose last comer opens it) another, and a job ends with a barrier.
 */
#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define LOOKS 1000 /* before sleeping; some 10 to 50 microseconds */

typedef struct gate {
    _Alignas(64) atomic_uint value;
    atomic_int sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} gate;

struct lx_cpu_pool {
    gate start, barrier;
    _Alignas(64) atomic_int missing; /* threads not yet at the barrier */
    int n;
    int n_started; /* workers to be joined */
    bool stop;     /* written before `start` opens, as are fn and context */
    void (*fn)(void *context, int thread);
    void *context;
    struct worker {
        lx_cpu_pool *pool;
        pthread_t thread;
        int index;
    } workers[256];
};

static void breathe(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int gate_init(gate *g)
{
    atomic_init(&g->value, 0);
    atomic_init(&g->sleepers, 0);
    int rc = pthread_mutex_init(&g->mutex, NULL);
    if (rc != 0)
        return rc;
    rc = pthread_cond_init(&g->changed, NULL);
    if (rc != 0)
        (void)pthread_mutex_destroy(&g->mutex);
    return rc;
}

static void gate_fini(gate *g)
{
    (void)pthread_cond_destroy(&g->changed);
    (void)pthread_mutex_destroy(&g->mutex);
}

static void gate_wait(gate *g, unsigned old)
{
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&g->value, memory_order_acquire) != old)
            return;
        breathe();
    }
    (void)pthread_mutex_lock(&g->mutex);
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->value) == old)
        (void)pthread_cond_wait(&g->changed, &g->mutex);
    atomic_fetch_sub(&g->sleepers, 1);
    (void)pthread_mutex_unlock(&g->mutex);
}

static void gate_open(gate *g)
{
    atomic_fetch_add(&g->value, 1);
    if (atomic_load(&g->sleepers) == 0)
        return;
    (void)pthread_mutex_lock(&g->mutex);
    (void)pthread_cond_broadcast(&g->changed);
    (void)pthread_mutex_unlock(&g->mutex);
}

void lx_cpu_pool_barrier(lx_cpu_pool *pool)
{
    unsigned now = atomic_load_explicit(&pool->barrier.value, memory_order_relaxed);
    if (atomic_fetch_sub(&pool->missing, 1) != 1) {
        gate_wait(&pool->barrier, now);
        return;
    }
    atomic_store_explicit(&pool->missing, pool->n, memory_order_relaxed);
    gate_open(&pool->barrier);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    lx_cpu_pool *pool = w->pool;
    for (unsigned seen = 0;; seen++) {
        gate_wait(&pool->start, seen);
        if (pool->stop)
            return NULL;
        pool->fn(pool->context, w->index);
        lx_cpu_pool_barrier(pool);
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
    gate_open(&pool->start);
    fn(context, 0);
    lx_cpu_pool_barrier(pool);
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
                       pool->n_started + 1, pool->n);
    return LX_OK;
}

lx_status lx_cpu_pool_new(int n_threads, lx_cpu_pool **out, lx_error *err)
{
    lx_cpu_pool *pool = aligned_alloc(64, sizeof *pool);
    if (pool == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the compute threads");
    *pool = (lx_cpu_pool){.n = n_threads};
    atomic_init(&pool->missing, n_threads);
    if (gate_init(&pool->start) != 0)
        goto no_start;
    if (gate_init(&pool->barrier) != 0)
        goto no_barrier;
    lx_status st = start_workers(pool, err);
    if (st != LX_OK) {
        lx_cpu_pool_free(pool);
        return st;
    }
    *out = pool;
    return LX_OK;
no_barrier:
    gate_fini(&pool->start);
no_start:
    free(pool);
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a lock");
}

void lx_cpu_pool_free(lx_cpu_pool *pool)
{
    if (pool == NULL)
        return;
    pool->stop = true;
    gate_open(&pool->start);
    for (int i = 1; i <= pool->n_started; i++)
        (void)pthread_join(pool->workers[i].thread, NULL);
    gate_fini(&pool->barrier);
    gate_fini(&pool->start);
    free(pool);
}
