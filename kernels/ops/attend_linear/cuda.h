/* What the launches of `attend_linear` are given. */
#ifndef LINNET_KERNELS_OPS_ATTEND_LINEAR_CUDA_H
#define LINNET_KERNELS_OPS_ATTEND_LINEAR_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_attend_linear {
    float *y;       /* NULL: rounded alone */
    uint16_t *twin; /* results rounded to bf16, the next product's inputs; NULL for none */
    const float *qkv;
    float *states; /* at the layer's part of slot 0 */
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, n_heads, d_key, d_value, feature_map;
    float eps;
} lx_cuda_attend_linear;

#endif
