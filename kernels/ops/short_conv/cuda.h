/* What the launches of `short_conv` are given. */
#ifndef LINNET_KERNELS_OPS_SHORT_CONV_CUDA_H
#define LINNET_KERNELS_OPS_SHORT_CONV_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_short_conv {
    float *y;       /* NULL: rounded alone */
    uint16_t *twin; /* results rounded to bf16, the next product's inputs; NULL for none */
    const float *x; /* at the first column */
    int64_t x_width;
    const float *weights, *bias; /* bias NULL for none */
    float *states;               /* at the layer's part of slot 0 */
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, d, taps;
    lx_function f;
} lx_cuda_short_conv;

#endif
