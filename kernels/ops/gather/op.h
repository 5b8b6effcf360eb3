/* The rows that go through the head. */
#ifndef LINNET_KERNELS_OPS_GATHER_OP_H
#define LINNET_KERNELS_OPS_GATHER_OP_H

#include "kernels/types.h"

/* y[i][column .. column + d - 1] = x[output_row[i]]      x [T, d], y [n_outputs, width]; the other
   columns of y stay as they are */
typedef struct lx_gather_args {
    lx_array *y;
    const lx_array *x;
    int32_t d, width, column;
} lx_gather_args;

#endif
