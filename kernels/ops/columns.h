/* Some columns of the rows of an array, which operations read without a copy. */
#ifndef LINNET_KERNELS_OPS_COLUMNS_H
#define LINNET_KERNELS_OPS_COLUMNS_H

#include "kernels/types.h"

/* Columns first .. of every row; the operation says how many. */
typedef struct lx_columns {
    const lx_array *array; /* [rows, width] */
    int32_t width, first;
} lx_columns;

/* Inputs of a sequence, one row per token, for an inner loop. */
typedef struct lx_cpu_inputs {
    const float *at; /* NULL for none */
    int64_t stride;  /* floats from one token to the next */
} lx_cpu_inputs;

static inline bool lx_columns_inside(const lx_columns *c, int64_t n)
{
    return c->width >= 1 && c->first >= 0 && c->first + n <= c->width;
}

/* Whether y, [rows, n], may be written while these columns are read: y is another array, or has the
   same elements in the same places. */
static inline bool lx_columns_allow(const lx_columns *c, const lx_array *y, int64_t n)
{
    return c->array == NULL || c->array != y || (c->first == 0 && c->width == n);
}

#endif
