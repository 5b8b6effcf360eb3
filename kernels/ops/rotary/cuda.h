/* What the launches of `rotary` are given. */
#ifndef LINNET_KERNELS_OPS_ROTARY_CUDA_H
#define LINNET_KERNELS_OPS_ROTARY_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_rotary {
    float *x; /* at the first column */
    const float *turns;
    const int32_t *seq_start, *position;
    const lx_cuda_live *live;
    int64_t width;
    int32_t rows, n_heads, apart, d;
} lx_cuda_rotary;

#endif
