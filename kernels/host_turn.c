/* A fair lock: tickets under a mutex. Steps take a millisecond, so waking all waiters is cheap. */
#include "kernels/host.h"

int lx_turn_init(lx_turn *t)
{
    t->next = t->serving = 0;
    int rc = pthread_mutex_init(&t->mutex, NULL);
    if (rc != 0)
        return rc;
    rc = pthread_cond_init(&t->changed, NULL);
    if (rc != 0)
        (void)pthread_mutex_destroy(&t->mutex);
    return rc;
}

void lx_turn_fini(lx_turn *t)
{
    (void)pthread_cond_destroy(&t->changed);
    (void)pthread_mutex_destroy(&t->mutex);
}

void lx_turn_take(lx_turn *t)
{
    (void)pthread_mutex_lock(&t->mutex);
    uint64_t ticket = t->next++;
    while (t->serving != ticket)
        (void)pthread_cond_wait(&t->changed, &t->mutex);
    (void)pthread_mutex_unlock(&t->mutex);
}

void lx_turn_give(lx_turn *t)
{
    (void)pthread_mutex_lock(&t->mutex);
    t->serving++;
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->mutex);
}
