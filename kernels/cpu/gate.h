/*
 * An event count: a counter whose change threads wait for. They look at it for some microseconds
 * and then sleep: the machine may have other work. Thread: any.
 */
#ifndef LINNET_KERNELS_CPU_GATE_H
#define LINNET_KERNELS_CPU_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct lx_cpu_gate {
    _Alignas(64) atomic_uint value;
    atomic_int sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} lx_cpu_gate;

int lx_cpu_gate_init(lx_cpu_gate *g); /* 0 or an errno value */
void lx_cpu_gate_fini(lx_cpu_gate *g);

/* What was written before the value was changed is visible to a thread that sees the change. */
unsigned lx_cpu_gate_value(lx_cpu_gate *g);
/* Whether the value is not `old` within a microsecond or two, without sleeping. */
bool lx_cpu_gate_soon(lx_cpu_gate *g, unsigned old);
void lx_cpu_gate_wait(lx_cpu_gate *g, unsigned old); /* until the value is not `old` */
void lx_cpu_gate_step(lx_cpu_gate *g); /* adds 1 to the value and wakes the sleepers */

#endif
