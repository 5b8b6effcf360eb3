/*
 * What the host part of the cuda back end and its kernels say to each other. Pointers are the
 * device's.
 * A launcher queues one kernel on the stream and returns what the launch reported; it allocates
 * nothing and waits for nothing, so a step can be captured into a graph.
 *
 * A graph is replayed for every batch of its bucket. So a launch covers as many rows (or sequences)
 * as the bucket has, and `live` says in the device's memory how many of them there are this time:
 * the kernels read and write no others.
 */
#ifndef LINNET_KERNELS_CUDA_LAUNCH_H
#define LINNET_KERNELS_CUDA_LAUNCH_H

#include <assert.h>
#include <cuda_runtime_api.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a kernel may begin before the one before it has ended (early.cu), and what decides that:
   the device's compute capability, and what this library is compiled for. */
extern bool lx_cuda_launches_early;
void lx_cuda_allow_early(int major, int minor);

/* What of a bucket is there; the first thing in a step's inputs. */
typedef struct lx_cuda_live {
    int32_t tokens, seqs, outputs;
} lx_cuda_live;

/* lx_batch.branch and branch_row; NULL: no sequence branches. */
typedef struct lx_cuda_branches {
    const int32_t *slot, *row;
} lx_cuda_branches;

/* lx_sampling with what it points to on the device. */
typedef struct lx_cuda_row {
    uint64_t seed;
    uint32_t sample, step;
    float temperature, top_p, min_p, typical_p;
    int32_t top_k, forced;
    const float *mask; /* NULL for none */
    int64_t keep_at;   /* where in `drawn` the token goes, -1: nowhere */
    int64_t banned_at, top_at;
    int64_t bias_at; /* in bytes, as their size divides no power of 2 */
    int32_t n_banned, n_biases, n_top;
} lx_cuda_row;

/* Queues the kernels of an operation; its arguments are in kernels/ops/NAME/cuda.h. */
#define LX_OP_HOST(name)
#define LX_OP(name)                                                                                \
    struct lx_cuda_##name;                                                                         \
    cudaError_t lx_cuda_launch_##name(const struct lx_cuda_##name *a, cudaStream_t stream);
#include "kernels/ops.def"

/* What lies in memory for both: the host's compiler and the device's must lay it out alike. */
static_assert(sizeof(lx_cuda_live) == 12, "three numbers");
static_assert(sizeof(lx_cuda_row) == 96, "nothing between, and 4 bytes behind");
static_assert(sizeof(lx_sample) == 8 && sizeof(lx_bias) == 12, "nothing between, nor behind");
static_assert(sizeof(lx_rows_pattern) == 48,
              "after each group of flags the next number is aligned");

#ifdef __cplusplus
}
#endif
#endif
