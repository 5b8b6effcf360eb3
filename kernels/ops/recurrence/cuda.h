/* What the launches of `recurrence` are given. */
#ifndef LINNET_KERNELS_OPS_RECURRENCE_CUDA_H
#define LINNET_KERNELS_OPS_RECURRENCE_CUDA_H

#include "kernels/cuda/launch.h"

/* lx_head_columns: what the first head reads of row 0, NULL for none. */
typedef struct lx_cuda_columns {
    const float *at;
    int32_t width; /* 0 where all rows read the same */
    int32_t apart, shared;
} lx_cuda_columns;

typedef struct lx_cuda_recurrence {
    float *y;       /* NULL: rounded alone */
    uint16_t *twin; /* results rounded to bf16, the next product's inputs; NULL for none */
    lx_cuda_columns q, k, v, w, a, b, beta;
    const float *bonus, *skip; /* NULL for none */
    float *states;             /* at the layer's part of slot 0 */
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, n_heads, d_key, d_value;
    lx_decay decay;
    lx_correction correction;
    lx_read read;
    float scale;
} lx_cuda_recurrence;

#endif
