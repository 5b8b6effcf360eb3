/* What the launches of `sample_mixture` are given. */
#ifndef LINNET_KERNELS_OPS_SAMPLE_MIXTURE_CUDA_H
#define LINNET_KERNELS_OPS_SAMPLE_MIXTURE_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_sample_mixture {
    const float *parameters;
    const lx_cuda_row *rows;
    lx_sample *out;
    int32_t *drawn;
    const int32_t *live;
    int32_t n_rows, n, levels;
} lx_cuda_sample_mixture;

#endif
