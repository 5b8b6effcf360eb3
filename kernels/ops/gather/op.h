/* The rows that go through the head. */
#ifndef LINNET_KERNELS_OPS_GATHER_OP_H
#define LINNET_KERNELS_OPS_GATHER_OP_H

#include "kernels/types.h"

/* y[i] = x[output_row[i]]                                y [n_outputs, d] */
typedef struct lx_gather_args {
    lx_array *y;
    const lx_array *x;
    int32_t d;
} lx_gather_args;

#endif
