/* What the launches of `gate` are given. */
#ifndef LINNET_KERNELS_OPS_GATE_CUDA_H
#define LINNET_KERNELS_OPS_GATE_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_gate {
    float *y;       /* at the first column, as the inputs; NULL: rounded alone */
    uint16_t *twin; /* [rows, d] rounded to bf16, the next product's inputs; NULL for none */
    const float *x, *z, *other;                     /* at the first column; NULL for none */
    const float *bias, *factor, *offset;            /* NULL for none */
    int64_t y_width, x_width, z_width, other_width; /* of their rows */
    const int32_t *live;
    int32_t d, rows;
    lx_function f;
    bool exponent, towards;
} lx_cuda_gate;

#endif
