/* What the launches of `chunk_sums` are given. */
#ifndef LINNET_KERNELS_OPS_CHUNK_SUMS_CUDA_H
#define LINNET_KERNELS_OPS_CHUNK_SUMS_CUDA_H

#include "kernels/cuda/launch.h"

typedef struct lx_cuda_chunk_sums {
    float *y;
    const float *q, *k, *v; /* at their first columns */
    int64_t q_width, k_width, v_width;
    float *states; /* at the layer's part of slot 0 */
    int64_t stride;
    const int32_t *seq_start, *slot, *position;
    const int32_t *live;
    int32_t n_seqs, d_key, d_value, chunk;
    float scale;
} lx_cuda_chunk_sums;

#endif
