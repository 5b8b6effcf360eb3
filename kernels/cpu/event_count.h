/*
 * An event count: a counter whose change threads wait for. They poll it for some microseconds and
 * then sleep, as the machine may have other work. Thread: any.
 */
#ifndef LINNET_KERNELS_CPU_EVENT_COUNT_H
#define LINNET_KERNELS_CPU_EVENT_COUNT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct lx_event_count {
    _Alignas(64) atomic_uint value;
    atomic_int sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} lx_event_count;

int lx_event_count_init(lx_event_count *g); /* 0 or an errno value */
void lx_event_count_fini(lx_event_count *g);

/* A thread that sees a change of the value also sees all writes before that change. */
unsigned lx_event_count_value(lx_event_count *g);
/* Polls for a microsecond or two: whether the value changes from `old`. */
bool lx_event_count_soon(lx_event_count *g, unsigned old);
void lx_event_count_wait(lx_event_count *g, unsigned old); /* until the value is not `old` */
void lx_event_count_step(lx_event_count *g); /* adds 1 to the value and wakes the sleepers */

#endif
