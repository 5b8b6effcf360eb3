/* Mutexes that a block holds, and waits that end at a time of lx_now_ns(). */
#ifndef LINNET_COMMON_LOCK_H
#define LINNET_COMMON_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "common/clock.h"

static inline pthread_mutex_t *lx_lock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
    return mutex;
}

static inline void lx_unlock(pthread_mutex_t *const *mutex)
{
    (void)pthread_mutex_unlock(*mutex);
}

/* Locks the mutex until the block ends, on every way out of it; a returned expression is evaluated
   before. Once per block. */
#define LX_HOLD(mutex)                                                                             \
    __attribute__((cleanup(lx_unlock), unused)) pthread_mutex_t *const lx_held = lx_lock(mutex)

/* A condition for pthread_cond_timedwait with a time of lx_now_ns(). False without memory. */
static inline bool lx_timed_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    bool ok = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(cond, &monotonic) == 0;
    (void)pthread_condattr_destroy(&monotonic);
    return ok;
}

#endif
