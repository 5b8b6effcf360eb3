/*
 * The interface between the host part of the cuda back end and its kernels. Pointers are the
 * device's. A launcher queues one kernel on the stream and returns the error of the launch. It
 * allocates nothing and does not wait, so that a step can be captured into a graph.
 *
 * A graph is replayed for every batch of its bucket. So a launch covers all rows (or sequences) of
 * the bucket. `live`, in the device's memory, has the number of them that exist this time; kernels
 * read and write only these.
 */
#ifndef LINNET_KERNELS_CUDA_LAUNCH_H
#define LINNET_KERNELS_CUDA_LAUNCH_H

#include <assert.h>
#include <cuda_runtime_api.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a kernel may begin before the previous one has ended (early.cu). The device's compute
   capability and the architectures of this library decide. */
extern bool lx_cuda_launches_early;
void lx_cuda_allow_early(int major, int minor);

/* The part of a bucket that exists; it begins a step's inputs. */
typedef struct lx_cuda_live {
    int32_t tokens, seqs, outputs;
} lx_cuda_live;

/* lx_batch.branch and branch_row; NULL: no sequence branches. */
typedef struct lx_cuda_branches {
    const int32_t *slot, *row;
} lx_cuda_branches;

/* lx_sampling with its lists on the device. */
typedef struct lx_cuda_row {
    uint64_t seed;
    uint32_t sample, step;
    float temperature, top_p, min_p, typical_p;
    int32_t top_k, forced;
    const float *mask; /* NULL for none */
    int64_t keep_at;   /* the token's place in `drawn`, -1: none */
    int64_t banned_at, top_at;
    int64_t allowed_at; /* -1: all ids are allowed */
    int64_t bias_at;    /* in bytes, as their size divides no power of 2 */
    int32_t n_banned, n_biases, n_top;
} lx_cuda_row;

/*
 * lx_cuda_NAME, the arguments of an operation's launches, is in kernels/ops/NAME/cuda.h. Names
 * of fields have one meaning in all of these structures:
 *
 *   y, twin         the results in f32 (NULL: none), and rounded to bf16 as the next product reads
 *                   them (NULL: none)
 *   live            how many rows, or sequences, exist
 *   rows, n_seqs    how many the launch covers; of sampled rows n_rows
 *   X, X_width      the first column of array X that is read or written, and its floats per row
 *   states, stride  the layer's part of slot 0, and floats from one slot to the next
 *   drawn           the slots' deferred tokens (lx_drawn_id)
 */
#define LX_OP_DEVICE
#define LX_OP_FILE cuda.h
#include "kernels/ops.def"

/* Queues the kernels of an operation. */
#define LX_OP_HOST(name)
#define LX_OP(name) cudaError_t lx_cuda_launch_##name(const lx_cuda_##name *a, cudaStream_t stream);
#include "kernels/ops.def"

/* The host's compiler and the device's must lay these out alike. */
static_assert(sizeof(lx_cuda_live) == 12, "three numbers");
static_assert(sizeof(lx_cuda_row) == 104, "nothing between, and 4 bytes at the end");
static_assert(sizeof(lx_sample) == 8 && sizeof(lx_bias) == 12, "nothing between, nor at the end");
static_assert(sizeof(lx_rows_pattern) == 48,
              "after each group of flags the next number is aligned");

#ifdef __cplusplus
}
#endif
#endif
