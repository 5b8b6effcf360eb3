/*
 * An event count (see event_count.h): a handshake as in Dekker's algorithm. A thread changes the
 * value and then looks for sleepers; another announces its sleep and then reads the value again.
 * Both sides are sequentially consistent, so either the sleeper sees the change or the changer sees
 * the sleeper. A change without sleepers costs no system call.
 */
#include "kernels/cpu/event_count.h"

#define LOOKS 1000 /* before sleeping; some 10 to 50 microseconds */
#define SOON 100   /* looks; some 2 microseconds */

static void breathe(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int lx_event_count_init(lx_event_count *g)
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

void lx_event_count_fini(lx_event_count *g)
{
    (void)pthread_cond_destroy(&g->changed);
    (void)pthread_mutex_destroy(&g->mutex);
}

unsigned lx_event_count_value(lx_event_count *g)
{
    return atomic_load_explicit(&g->value, memory_order_acquire);
}

static bool changes_within(lx_event_count *g, unsigned old, int looks)
{
    for (int i = 0; i < looks; i++) {
        if (lx_event_count_value(g) != old)
            return true;
        breathe();
    }
    return false;
}

bool lx_event_count_soon(lx_event_count *g, unsigned old)
{
    return changes_within(g, old, SOON);
}

void lx_event_count_wait(lx_event_count *g, unsigned old)
{
    if (changes_within(g, old, LOOKS))
        return;
    (void)pthread_mutex_lock(&g->mutex);
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->value) == old)
        (void)pthread_cond_wait(&g->changed, &g->mutex);
    atomic_fetch_sub(&g->sleepers, 1);
    (void)pthread_mutex_unlock(&g->mutex);
}

void lx_event_count_step(lx_event_count *g)
{
    atomic_fetch_add(&g->value, 1);
    if (atomic_load(&g->sleepers) == 0)
        return;
    (void)pthread_mutex_lock(&g->mutex);
    (void)pthread_cond_broadcast(&g->changed);
    (void)pthread_mutex_unlock(&g->mutex);
}
