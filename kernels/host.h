/*
 * Arrays, embedding tables, masks and states of the back ends whose memory is the process's own
 * (reference, cpu). There is no arithmetic here, so no error here can hide between the oracle and
 * the back end that is tested against it.
 *
 * Every object's memory begins on a 64-byte border and is zero at first. Large blocks come from
 * mmap: an unused slot costs no memory, and huge pages save address translation.
 */
#ifndef LINNET_KERNELS_HOST_H
#define LINNET_KERNELS_HOST_H

#include <stdatomic.h>

#include "kernels/step.h"

/* A back end of this kind begins with this. */
typedef struct lx_host_backend {
    lx_backend base;
    atomic_uint n_freed; /* objects: their addresses may come again */
} lx_host_backend;

/* How a recording back end saw an array used so far in a step (kernels/cpu/program.c). */
typedef struct lx_array_use {
    uint64_t step;
    int64_t width;
    lx_rows rows;
} lx_array_use;

/* All arrays of these back ends. */
typedef struct lx_host_array {
    lx_array base;
    lx_array_use *use; /* owned; apart, so that a const array can be marked */
} lx_host_array;

/* Zeroed, 64-byte aligned; NULL without memory. The same size goes to lx_host_release. */
void *lx_host_reserve(size_t n_bytes);
void lx_host_release(void *p, size_t n_bytes); /* NULL is allowed */

/* `be` is an lx_host_backend. Nothing is left to wait for after end(). */
LX_OBJECTS(LX_DECLARE, lx_host)
LX_DECLARE(lx_host, sync)

/* The back ends of this kind; see lx_backend_open. */
lx_status lx_reference_open(const lx_backend_options *options, lx_backend **out, lx_error *err);
lx_status lx_cpu_open(const lx_backend_options *options, lx_backend **out, lx_error *err);

/* Floats offset .. offset + n - 1 of the state of sequence i, which branches, from its slot to its
   branch: where they are there. */
float *lx_host_branch(const lx_states *s, const lx_batch *b, int32_t i, int64_t offset, int64_t n);

/* Keeps the tokens that a step has drawn (lx_drawn_id); s may be NULL. */
void lx_host_keep_drawn(const lx_batch *b, lx_states *s, const lx_sampling *rows,
                        const lx_sample *drawn);

/* The row of a table for an id in a slot: the id, or the deferred token that it stands for. */
int64_t lx_host_id(const lx_states *s, const lx_table *t, int32_t slot, int32_t id);
/* Element [row, col] of a table as f32. */
float lx_host_table_at(const lx_table *t, int64_t row, int64_t col);

#endif
