/*
 * The compute threads of the cpu back end: n threads (the caller is one) run one function together
 * and may meet at barriers inside it. Between jobs, and at a barrier whose others are late, a
 * thread looks for a few microseconds and then sleeps: the machine may have other work.
 */
#ifndef LINNET_KERNELS_CPU_POOL_H
#define LINNET_KERNELS_CPU_POOL_H

#include "common/status.h"

typedef struct lx_cpu_pool lx_cpu_pool;

lx_status lx_cpu_pool_new(int n_threads, lx_cpu_pool **out, lx_error *err) LX_MUST_USE;
void lx_cpu_pool_free(lx_cpu_pool *pool); /* NULL is allowed; no job may run */

/* Runs fn(context, 0 .. n - 1), 0 on the calling thread; returns when all have. One job at a time.
 */
void lx_cpu_pool_run(lx_cpu_pool *pool, void (*fn)(void *context, int thread), void *context);

/* Inside a job: waits until all threads of the pool are here. What they wrote before is visible. */
void lx_cpu_pool_barrier(lx_cpu_pool *pool);

#endif
