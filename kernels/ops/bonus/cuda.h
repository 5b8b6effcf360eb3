/* What the launches of `bonus` are given. */
#ifndef LINNET_KERNELS_OPS_BONUS_CUDA_H
#define LINNET_KERNELS_OPS_BONUS_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_bonus {
    float *y;       /* NULL: rounded alone */
    uint16_t *twin; /* results rounded to bf16, the next product's inputs; NULL for none */
    const float *x, *q, *k, *v, *z, *u;                  /* at the first column; z NULL for none */
    int64_t x_width, q_width, k_width, v_width, z_width; /* of their rows */
    const int32_t *live;
    int32_t rows, n_heads, d_key, d_value;
} lx_cuda_bonus;

#endif
