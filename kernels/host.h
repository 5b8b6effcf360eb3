/*
 * What back ends whose device memory is the process's own memory share: the plain objects (arrays,
 * embedding tables, masks, slot states), the check of a batch's shape, and the lock that makes
 * steps of several engines follow each other. No arithmetic lives here, so the oracle shares
 * nothing with the back ends tested against it that could make both wrong in the same way.
 *
 * Every object's memory begins on a 64-byte border and is zero at first. Big ones come straight
 * from mmap: a slot that was never used costs no memory, and huge pages spare the address
 * translation.
 */
#ifndef LINNET_KERNELS_HOST_H
#define LINNET_KERNELS_HOST_H

#include <pthread.h>

#include "kernels/kernels.h"

#define LX_HOST_MAX_FLOATS (INT64_C(1) << 40) /* of one object */
#define LX_HOST_MAX_SLOTS (1 << 20)
#define LX_HOST_MAX_PAGES (1 << 20) /* of one slot */
#define LX_HOST_MAX_POSITION (1 << 30)
#define LX_HOST_MAX_TOKENS (1 << 20) /* rows of a batch */

/* How a recording back end saw an array used so far in a step (kernels/cpu/program.c). */
typedef struct lx_array_use {
    uint64_t step;
    int64_t width;
    lx_rows rows;
} lx_array_use;

struct lx_array {
    float *data;
    int64_t n;
    int64_t room;      /* floats that may be written whatever rows there are; 0 but of rows_new */
    lx_array_use *use; /* owned; apart, so that a const array can be marked */
};

/* Every back end's lx_matrix begins with this: of W. */
typedef struct lx_matrix_shape {
    int64_t rows, cols;
} lx_matrix_shape;

static inline const lx_matrix_shape *lx_matrix_shape_of(const lx_matrix *w)
{
    return (const lx_matrix_shape *)(const void *)w;
}

struct lx_table {
    lx_dtype dtype;
    int64_t rows, cols;
    void *data; /* [rows, cols] of dtype */
    size_t n_bytes;
};

struct lx_mask {
    int32_t n_ids;
    float *bias; /* [n_ids] 0 or -infinity */
};

struct lx_states {
    int32_t n_slots;
    int64_t floats; /* of one slot's fixed part */
    int64_t stride; /* between slots: floats, rounded up to a cache line */
    float *data;
    int64_t page_floats, page_stride; /* the same of pages; 0: nothing grows */
    int32_t n_pages, slot_pages;      /* as in lx_state_layout */
    float *pool;                      /* [n_pages, page_stride] */
    int32_t *pages;        /* [n_slots, slot_pages] in the process's memory; -1: not mapped */
    int32_t *mapped;       /* [n_slots] how many from the first on are, likewise */
    int32_t *device_pages; /* a device's copy of it; NULL where there is no device */
    int32_t *drawn;        /* [n_slots, LX_DRAWN] */
    /* A device's, [n_slots] each; NULL where there is none. */
    uint64_t *last_step; /* that had a row of the slot */
    bool *changed;       /* the slot was zeroed, mapped or copied since then */
};

/* Zeroed, 64-byte aligned; NULL without memory. The same size goes to lx_host_release. */
void *lx_host_reserve(size_t n_bytes);
void lx_host_release(void *p, size_t n_bytes); /* NULL is allowed */

/* The object entries of lx_kernels; `be` is not looked at. */
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

/*
 * What a device's states share with them. lx_host_states_init checks the layout and fills a zeroed
 * *s in, but for the memory of data, pool, device_pages and drawn; `pages` and `mapped` it
 * allocates, and the caller frees.
 */
lx_status lx_host_states_init(lx_states *s, const lx_state_layout *layout, int32_t n_slots,
                              lx_error *err);
/* Whether the slot is there and its first n_pages pages are mapped. */
bool lx_host_has_pages(const lx_states *s, int32_t slot, int32_t n_pages);
/* Page i of a slot, which is mapped. */
static inline float *lx_host_page(const lx_states *s, int32_t slot, int32_t i)
{
    return s->pool + s->pages[(int64_t)slot * s->slot_pages + i] * s->page_stride;
}

/* Floats offset .. offset + n - 1 of the state of sequence i, which branches, from its slot to its
   branch: where they are there. */
float *lx_host_branch(const lx_states *s, const lx_batch *b, int32_t i, int64_t offset, int64_t n);

/* Where a slot keeps the token drawn in this step, as a place in `drawn`. */
static inline int64_t lx_drawn_place(int32_t slot, uint32_t step)
{
    return (int64_t)slot * LX_DRAWN + step % LX_DRAWN;
}
/* The same of an id for which lx_is_drawn_id holds. */
static inline int64_t lx_drawn_place_of(int32_t slot, int32_t id)
{
    return lx_drawn_place(slot, (uint32_t)id - (uint32_t)INT32_MIN);
}
/* The slot in which output row i's token is kept, -1: it is not its sequence's last. *seq: where to
   look, 0 for i = 0, then left to this function while i ascends. */
int32_t lx_host_keeper(const lx_batch *b, int32_t i, int32_t *seq);
/* Keeps the tokens that a step has drawn (lx_drawn_id); s may be NULL. */
void lx_host_keep_drawn(const lx_batch *b, lx_states *s, const lx_sampling *rows,
                        const lx_sample *drawn);

/* LX_OK when the tensor has 1 .. 2^40 elements and a known dtype; `what` names it in the error. */
lx_status lx_host_tensor_check(const lx_host_tensor *t, const char *what, lx_error *err);
int lx_dtype_bytes(lx_dtype dtype);

/* Element [row, col] of a table as f32. */
float lx_host_table_at(const lx_table *t, int64_t row, int64_t col);

/*
 * Checks of a step's batch. `seen` remembers which slots a batch named, so that "distinct"
 * costs one look per sequence; it grows to the highest slot ever named.
 */
typedef struct lx_host_seen {
    uint64_t *stamp; /* owned */
    int32_t n;
    uint64_t now;
} lx_host_seen;

lx_status lx_host_batch_check(const lx_batch *batch, lx_host_seen *seen, lx_error *err);

static inline int32_t lx_host_row_count(const lx_batch *batch, lx_rows rows)
{
    return rows == LX_ROWS_TOKENS ? batch->n_tokens : batch->n_outputs;
}

/*
 * A lock that is given in the order of asking. A plain mutex would let an engine that ends a step
 * and begins the next at once shut the other engine out for as long as it has work.
 */
typedef struct lx_turn {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t next, serving;
} lx_turn;

int lx_turn_init(lx_turn *t); /* 0 or an errno value */
void lx_turn_fini(lx_turn *t);
void lx_turn_take(lx_turn *t);
void lx_turn_give(lx_turn *t);

#endif
