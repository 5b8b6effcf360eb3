/*
 * What the host part of the cuda back end and its kernels say to each other: the kernels' arguments
 * and one launcher for each. Pointers are the device's. A launcher queues one kernel on the stream
 * and returns what the launch reported; it allocates nothing and waits for nothing, so a step can
 * be captured into a graph.
 *
 * A graph is replayed for every batch of its bucket. So a launch covers as many rows (or sequences)
 * as the bucket has, and `live` says in the device's memory how many of them there are this time:
 * the kernels read and write no others.
 */
#ifndef LINNET_KERNELS_CUDA_LAUNCH_H
#define LINNET_KERNELS_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What of a bucket is there; the first thing in a step's inputs. */
typedef struct lx_cuda_live {
    int32_t tokens, seqs, outputs;
} lx_cuda_live;

typedef struct lx_cuda_table {
    const void *data; /* [rows, d] */
    int32_t dtype, rows;
} lx_cuda_table;

typedef struct lx_cuda_embed {
    float *y;
    const lx_cuda_table *tables; /* [n_tables] */
    const int32_t *ids;          /* [rows, n_tables], below 0: -1 - a place in drawn */
    const int32_t *drawn;        /* tokens that slots have drawn, see lx_drawn_id */
    const int32_t *live;
    int32_t n_tables, d, rows;
} lx_cuda_embed;

typedef struct lx_cuda_norm {
    float *y;
    uint16_t *twin; /* as in lx_cuda_finish; only where d is a multiple of 8 */
    const float *x, *gamma, *beta;
    const int32_t *live;
    int32_t d, rows;
    float eps;
} lx_cuda_norm;

typedef struct lx_cuda_gather {
    float *y;
    const float *x;
    const int32_t *row; /* [rows] */
    const int32_t *live;
    int32_t d, rows;
} lx_cuda_gather;

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
    float *y;
    uint16_t *twin; /* y rounded to bf16, the next product's inputs; NULL for none, and only where
                       padded = outputs */
    const float *product, *bias, *residual; /* the last two: NULL for none */
    int32_t rows, outputs, padded;
    const int32_t *live;
    int32_t activation;
} lx_cuda_finish;

typedef struct lx_cuda_attend {
    float *y;
    uint16_t *twin; /* as in lx_cuda_finish */
    const float *qkv;
    float *states; /* at the layer's part of slot 0 */
    int64_t stride;
    const int32_t *seq_start, *slot;
    const int32_t *live;
    int32_t n_seqs, n_heads, d_key, d_value;
    float eps;
} lx_cuda_attend;

/* lx_sampling with what it points to on the device. */
typedef struct lx_cuda_row {
    uint64_t seed;
    uint32_t sample, step;
    float temperature, top_p;
    int32_t top_k, forced;
    const float *mask; /* NULL for none */
    int64_t keep_at;   /* where in `drawn` the token goes, -1: nowhere */
    int64_t banned_at, bias_at, top_at;
    int32_t n_banned, n_biases, n_top;
} lx_cuda_row;

typedef struct lx_cuda_sample {
    const float *logits;
    const lx_cuda_row *rows;
    const int32_t *banned; /* of all rows: a row's places count from here, like those below */
    const lx_bias *biases;
    lx_sample *top;
    uint32_t *bits; /* scratch [n_rows, (n_ids + 31) / 32] */
    lx_sample *out;
    int32_t *drawn;
    const int32_t *live;
    int32_t n_rows, n_ids;
} lx_cuda_sample;

typedef struct lx_cuda_mixture {
    const float *parameters;
    const lx_cuda_row *rows;
    lx_sample *out;
    int32_t *drawn;
    const int32_t *live;
    int32_t n_rows, n, levels;
} lx_cuda_mixture;

cudaError_t lx_cuda_launch_embed(const lx_cuda_embed *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_norm(const lx_cuda_norm *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_gather(const lx_cuda_gather *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_linear(const lx_cuda_linear *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_round(const lx_cuda_round *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_finish(const lx_cuda_finish *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_attend(const lx_cuda_attend *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_sample(const lx_cuda_sample *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_mixture(const lx_cuda_mixture *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
