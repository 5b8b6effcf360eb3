/* What the launches of `token_shift` are given. */
#ifndef LINNET_KERNELS_OPS_TOKEN_SHIFT_CUDA_H
#define LINNET_KERNELS_OPS_TOKEN_SHIFT_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_token_shift {
    float *y[LX_SHIFT_MOST_MIXES];
    const float *x, *mixes;
    float *states; /* at the layer's part of slot 0 */
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, d, n_mixes;
} lx_cuda_token_shift;

#endif
