/* What the launches of `norm` are given. */
#ifndef LINNET_KERNELS_OPS_NORM_CUDA_H
#define LINNET_KERNELS_OPS_NORM_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_norm {
    float *y;       /* NULL: rounded alone */
    uint16_t *twin; /* results rounded to bf16, the next product's inputs; NULL for none; only where
                       d is a multiple of 8 */
    const float *x, *gamma, *beta;
    const int32_t *live;
    int32_t d, rows;
    float eps;
} lx_cuda_norm;

#endif
