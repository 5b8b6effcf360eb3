/* What the launches of `gather` are given. */
#ifndef LINNET_KERNELS_OPS_GATHER_CUDA_H
#define LINNET_KERNELS_OPS_GATHER_CUDA_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lx_cuda_gather {
    float *y; /* the first column */
    const float *x;
    const int32_t *row; /* [rows] */
    const int32_t *live;
    int32_t d, width, rows;
} lx_cuda_gather;

cudaError_t lx_cuda_launch_gather(const lx_cuda_gather *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
