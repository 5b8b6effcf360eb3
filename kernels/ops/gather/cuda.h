/* What the launches of `gather` are given. */
#ifndef LINNET_KERNELS_OPS_GATHER_CUDA_H
#define LINNET_KERNELS_OPS_GATHER_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_gather {
    float *y; /* the first column */
    const float *x;
    const int32_t *row; /* [rows] */
    const int32_t *live;
    int32_t d, width, rows;
} lx_cuda_gather;

#endif
