/*
 * The objects of every back end, as checks, oracle and launches of operations use them: arrays,
 * tables, masks and states. Their data lie in the back end's own memory. A back end with more
 * fields has a structure of its own that begins with this one (host.h, cuda/cuda.h).
 */
#ifndef LINNET_KERNELS_OBJECTS_H
#define LINNET_KERNELS_OBJECTS_H

#include "kernels/kernels.h"

#define LX_MAX_FLOATS (INT64_C(1) << 40) /* of one object */
#define LX_MAX_SLOTS (1 << 20)
#define LX_MAX_SLOT_PAGES (1 << 20)

struct lx_array {
    float *data;
    int64_t n;
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
    const lx_matrix *of; /* not NULL: its rows are the values, and data is NULL */
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
    int64_t page_floats, page_stride; /* of a page, and between pages; 0: the state does not grow */
    int32_t n_pages, slot_pages;      /* as in lx_state_layout */
    float *pool;                      /* [n_pages, page_stride] */
    int32_t *pages;                   /* [n_slots, slot_pages], on the host; -1: not mapped */
    int32_t *mapped; /* [n_slots], on the host: how many pages from the first on are mapped */
    int32_t *drawn;  /* [n_slots, LX_DRAWN] */
};

/*
 * Functions PREFIX_NAME of a back end for entries NAME of lx_kernels: LX_DECLARE has the type that
 * the table says, LX_ENTRY puts the function there. LX_OBJECTS lists the entries about objects.
 * Matrices are not among them: their functions differ even between back ends on the host.
 */
#define LX_DECLARE(prefix, name) __typeof__(*((const lx_kernels *)0)->name) prefix##_##name;
#define LX_ENTRY(prefix, name) .name = prefix##_##name,
/* clang-format off */
#define LX_OBJECTS(X, prefix)                                                                      \
    X(prefix, array_new) X(prefix, rows_new) X(prefix, array_free) X(prefix, array_upload)         \
    X(prefix, array_download) X(prefix, table_new) X(prefix, table_free) X(prefix, mask_new)       \
    X(prefix, mask_free) X(prefix, states_new) X(prefix, states_free) X(prefix, state_map)         \
    X(prefix, state_zero) X(prefix, state_copy) X(prefix, state_export) X(prefix, state_import)
/* clang-format on */

/* LX_OK when an object may have so many floats, or rows of floats; `what` names it in the error. */
lx_status lx_floats_check(int64_t n, const char *what, lx_error *err);
lx_status lx_rows_check(int64_t rows, int64_t width, lx_error *err);
/* Whether elements offset .. offset + n - 1 are in the array. */
bool lx_array_has(const lx_array *a, int64_t offset, int64_t n);

/* LX_OK when the tensor has 1 .. 2^40 elements, a known dtype, rows of whole blocks, and data or
   else a reader; `what` names it in the error (formats.c). */
lx_status lx_host_tensor_check(const lx_host_tensor *t, const lx_row_reader *rows, const char *what,
                               lx_error *err);
/* A checked tensor with its data: t, or one whose rows are read. The caller frees *memory. */
lx_status lx_host_tensor_read(const lx_host_tensor *t, const lx_row_reader *rows,
                              lx_host_tensor *out, void **memory, lx_error *err);

/* Checks the layout and fills a zeroed *s in, but for the memory of data, pool and drawn; `pages`
   and `mapped` it allocates, and the caller frees. */
lx_status lx_states_init(lx_states *s, const lx_state_layout *layout, int32_t n_slots,
                         lx_error *err);
/* As state_map of lx_kernels, for the map on the host. */
lx_status lx_states_map(lx_states *s, int32_t slot, int32_t first, int32_t n, const int32_t *pages);
/* Whether the slot is there and its first n_pages pages are mapped. */
bool lx_states_have(const lx_states *s, int32_t slot, int32_t n_pages);
/* Page i of a slot, which is mapped. */
static inline float *lx_states_page(const lx_states *s, int32_t slot, int32_t i)
{
    return s->pool + s->pages[(int64_t)slot * s->slot_pages + i] * s->page_stride;
}

/* The place in `drawn` of a slot's token of this step. */
static inline int64_t lx_drawn_place(int32_t slot, uint32_t step)
{
    return (int64_t)slot * LX_DRAWN + step % LX_DRAWN;
}
/* The place in `drawn` of an id of lx_drawn_id. */
static inline int64_t lx_drawn_place_of(int32_t slot, int32_t id)
{
    return lx_drawn_place(slot, (uint32_t)id - (uint32_t)INT32_MIN);
}

/* Element `column` of the columns of a row; NULL where there is no array. */
static inline const float *lx_columns_at(const lx_columns *c, int64_t row, int64_t column)
{
    return c->array != NULL ? c->array->data + row * c->width + c->first + column : NULL;
}

/* Element `at` of an array; NULL where there is no array. */
static inline const float *lx_array_at(const lx_array *a, int64_t at)
{
    return a != NULL ? a->data + at : NULL;
}

#endif
