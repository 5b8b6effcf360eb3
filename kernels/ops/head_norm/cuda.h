/* What the launches of `head_norm` are given. */
#ifndef LINNET_KERNELS_OPS_HEAD_NORM_CUDA_H
#define LINNET_KERNELS_OPS_HEAD_NORM_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_head_norm {
    float *y;              /* NULL: rounded alone */
    uint16_t *twin;        /* results rounded to bf16, the next product's inputs; NULL for none */
    const float *x, *gate; /* at the first column; gate NULL for none */
    const float *gamma, *beta;            /* NULL for none */
    int64_t y_width, x_width, gate_width; /* of their rows */
    const int32_t *live;
    int32_t n_heads, d, rows;
    lx_norm_kind kind;
    lx_function f;
    bool gate_first;
    float eps;
} lx_cuda_head_norm;

#endif
