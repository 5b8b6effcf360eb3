/*
 * What the back ends whose device memory is the process's own memory share (reference, cpu):
 * arrays, embedding tables, masks and states. No arithmetic lives here, so the oracle shares
 * nothing with the back end tested against it that could make both wrong in the same way.
 *
 * Every object's memory begins on a 64-byte border and is zero at first. Big ones come straight
 * from mmap: a slot that was never used costs no memory, and huge pages spare the address
 * translation.
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

/* Entries of lx_kernels; `be` is an lx_host_backend. */
lx_status lx_host_array_new(lx_backend *be, int64_t n_floats, lx_array **out, lx_error *err);
lx_status lx_host_rows_new(lx_backend *be, int64_t rows, int64_t width, lx_array **out,
                           lx_error *err);
void lx_host_array_free(lx_backend *be, lx_array *a);
lx_status lx_host_array_upload(lx_backend *be, lx_array *a, int64_t offset, const float *src,
                               int64_t n);
lx_status lx_host_array_download(lx_backend *be, const lx_array *a, int64_t offset, float *dst,
                                 int64_t n);
lx_status lx_host_table_new(lx_backend *be, const lx_host_tensor *t, lx_table **out, lx_error *err);
void lx_host_table_free(lx_backend *be, lx_table *t);
lx_status lx_host_mask_new(lx_backend *be, const uint8_t *banned, int32_t n_ids, lx_mask **out,
                           lx_error *err);
void lx_host_mask_free(lx_backend *be, lx_mask *m);
lx_status lx_host_states_new(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                             lx_states **out, lx_error *err);
void lx_host_states_free(lx_backend *be, lx_states *s);
lx_status lx_host_state_zero(lx_backend *be, lx_states *s, int32_t slot);
lx_status lx_host_state_map(lx_backend *be, lx_states *s, int32_t slot, int32_t first, int32_t n,
                            const int32_t *pages);
lx_status lx_host_state_copy(lx_backend *be, lx_states *s, int32_t to, int32_t from,
                             int32_t n_pages);
lx_status lx_host_state_export(lx_backend *be, const lx_states *s, int32_t slot, float *dst,
                               int32_t n_pages);
lx_status lx_host_state_import(lx_backend *be, lx_states *s, int32_t slot, const float *src,
                               int32_t n_pages);
/* Nothing is left to wait for after end(). */
lx_status lx_host_sync(lx_backend *be, uint64_t step, lx_error *err);

/* Those of them that a back end has as they are. */
#define LX_HOST_ENTRIES                                                                            \
    .array_new = lx_host_array_new, .rows_new = lx_host_rows_new,                                  \
    .array_free = lx_host_array_free, .array_upload = lx_host_array_upload,                        \
    .array_download = lx_host_array_download, .table_new = lx_host_table_new,                      \
    .table_free = lx_host_table_free, .mask_new = lx_host_mask_new,                                \
    .mask_free = lx_host_mask_free, .states_new = lx_host_states_new,                              \
    .states_free = lx_host_states_free, .state_map = lx_host_state_map,                            \
    .state_zero = lx_host_state_zero, .state_copy = lx_host_state_copy,                            \
    .state_export = lx_host_state_export, .state_import = lx_host_state_import,                    \
    .sync = lx_host_sync

/* Floats offset .. offset + n - 1 of the state of sequence i, which branches, from its slot to its
   branch: where they are there. */
float *lx_host_branch(const lx_states *s, const lx_batch *b, int32_t i, int64_t offset, int64_t n);

/* Keeps the tokens that a step has drawn (lx_drawn_id); s may be NULL. */
void lx_host_keep_drawn(const lx_batch *b, lx_states *s, const lx_sampling *rows,
                        const lx_sample *drawn);

/* Element [row, col] of a table as f32. */
float lx_host_table_at(const lx_table *t, int64_t row, int64_t col);

#endif
