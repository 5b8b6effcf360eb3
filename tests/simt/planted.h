/* The kernels of planted.cu. */
#ifndef LINNET_TESTS_SIMT_PLANTED_H
#define LINNET_TESTS_SIMT_PLANTED_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

enum planted_kind {
    PLANTED_BLOCK,       /* no barrier between a write and a read */
    PLANTED_BLOCK_AGAIN, /* none between a read and a write */
    PLANTED_WARP,        /* no __syncwarp */
    PLANTED_HALF_WARPS,  /* one that names too few lanes */
    PLANTED_BLOCKS,      /* two blocks of a launch share memory */
    PLANTED_COUNT,       /* a plain read next to an atomic sum */
    PLANTED_UNWRITTEN,   /* shared memory without a value is read */
    PLANTED_HOST,        /* a pointer is the host's */
    PLANTED_KINDS
};

typedef struct planted {
    int32_t *out;      /* [128] */
    bool sound;        /* without the planted fault */
    const int32_t *in; /* [1] after the memory of out; the host's for PLANTED_HOST */
} planted;

#ifdef __cplusplus
extern "C"
#endif
    /* A cudaError_t. */
    int
    planted_run(enum planted_kind kind, const planted *a, cudaStream_t stream);

#endif
