/*
 * The compute threads of the cpu back end. The caller runs a job, a function, and workers join it
 * if they come in time. Each call finds its own work, so no thread waits for a worker that the
 * system does not run. Between jobs workers poll for some microseconds, then sleep.
 */
#ifndef LINNET_KERNELS_CPU_POOL_H
#define LINNET_KERNELS_CPU_POOL_H

#include "common/status.h"

typedef struct lx_cpu_pool lx_cpu_pool;

/* n_threads - 1 workers are started: the caller of lx_cpu_pool_run is the other thread. */
lx_status lx_cpu_pool_new(int n_threads, lx_cpu_pool **out, lx_error *err) LX_MUST_USE;
void lx_cpu_pool_free(lx_cpu_pool *pool); /* NULL is allowed; no job may run */

/*
 * Runs fn(context, 0) here and fn(context, 1 .. n - 1) on the workers that join; returns when all
 * who joined are done. One job at a time.
 */
void lx_cpu_pool_run(lx_cpu_pool *pool, void (*fn)(void *context, int thread), void *context);

#endif
