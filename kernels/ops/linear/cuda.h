/* What the launches of `linear` are given. */
#ifndef LINNET_KERNELS_OPS_LINEAR_CUDA_H
#define LINNET_KERNELS_OPS_LINEAR_CUDA_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y = act(W x + b) + residual with f32 weights, summed in the order of the inputs. */
typedef struct lx_cuda_linear {
    float *y;
    const float *x, *w, *bias, *residual; /* residual: NULL for none */
    int32_t rows, outputs, cols;
    const int32_t *live;
    int32_t activation;
} lx_cuda_linear;

/* x [rows, cols] rounded to bf16 [rows, padded], zeros behind each row. */
typedef struct lx_cuda_round {
    uint16_t *y;
    const float *x;
    const int32_t *live;
    int32_t rows, cols, padded;
} lx_cuda_round;

/* y = act(product + b) + residual; product [rows, padded], may be y where padded = outputs */
typedef struct lx_cuda_finish {
    float *y;       /* NULL: rounded alone */
    uint16_t *twin; /* y rounded to bf16, the next product's inputs; NULL for none, and only where
                       padded = outputs */
    const float *product, *bias, *residual; /* the last two: NULL for none */
    int32_t rows, outputs, padded;
    const int32_t *live;
    int32_t activation;
} lx_cuda_finish;

/* y = act(W x + b) + residual, W in bf16 [padded_outputs, padded], x rounded to bf16; padded is a
   multiple of 8, weights outside are zeros. */
typedef struct lx_cuda_mma {
    float *y;                         /* may be residual; NULL: rounded alone */
    uint16_t *twin;                   /* y rounded to bf16; NULL for none */
    const float *x, *bias, *residual; /* x: NULL: rounded is there; residual: NULL for none */
    const uint16_t *w, *rounded;      /* rounded: x as it enters the product, where cols = padded */
    const int32_t *live;
    int32_t rows, outputs, padded_outputs, cols, padded;
    int32_t activation;
} lx_cuda_mma;

cudaError_t lx_cuda_launch_mma(const lx_cuda_mma *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_round(const lx_cuda_round *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_finish(const lx_cuda_finish *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
