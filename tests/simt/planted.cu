/*
 * Small kernels, each in two versions: with a race or fault that the race checker must report
 * (test_races.c), and without it, where the checker must be silent.
 */
#include "kernels/cuda/device.cuh"
#include "tests/simt/planted.h"

#define THREADS 64

/* Each thread hands its number to one of the other warp. */
LX_KERNEL(THREADS) over_block(const planted a)
{
    LX_SHARED(int32_t, box, [THREADS]);
    box[threadIdx.x] = 0;
    __syncthreads();
    box[threadIdx.x] = (int32_t)threadIdx.x;
    if (a.sound)
        __syncthreads();
    a.out[threadIdx.x] = box[threadIdx.x ^ 32u];
}

/* ... and writes again before all have read. */
LX_KERNEL(THREADS) over_block_again(const planted a)
{
    LX_SHARED(int32_t, box, [THREADS]);
    for (int32_t i = 0; i < 2; i++) {
        box[threadIdx.x] = (int32_t)threadIdx.x + i;
        __syncthreads();
        a.out[threadIdx.x] = box[threadIdx.x ^ 32u];
        if (a.sound)
            __syncthreads();
    }
}

/* ... to one of its warp; a shuffle orders no memory. */
LX_KERNEL(THREADS) over_warp(const planted a)
{
    LX_SHARED(float, box, [THREADS]);
    box[threadIdx.x] = (float)threadIdx.x;
    float sum = lx_sum16(1.0f);
    if (a.sound)
        __syncwarp(lx_half_warp());
    a.out[threadIdx.x] = (int32_t)(box[threadIdx.x ^ 1u] + sum);
}

/* ... to one whose lanes are not named. */
LX_KERNEL(THREADS) over_half_warps(const planted a)
{
    LX_SHARED(float, box, [THREADS]);
    box[threadIdx.x] = (float)threadIdx.x;
    __syncwarp(a.sound ? LX_ALL_LANES : lx_half_warp());
    a.out[threadIdx.x] = (int32_t)box[threadIdx.x ^ 16u];
}

/* A block reads a value that the block before it has written. */
LX_KERNEL(THREADS) between_blocks(const planted a)
{
    int32_t at = (int32_t)blockIdx.x * THREADS + (int32_t)threadIdx.x;
    a.out[at] = at;
    __syncthreads();
    if (!a.sound && blockIdx.x > 0u)
        a.out[at] += a.out[at - THREADS];
}

/* A sum of all blocks: atomics may meet, but a read may not meet them. */
LX_KERNEL(THREADS) counting(const planted a)
{
    (void)atomicAdd(a.out, 1);
    if (!a.sound && threadIdx.x == 1u)
        a.out[1 + blockIdx.x] = a.out[0];
}

/* Half of the shared memory that is read has been written. */
LX_KERNEL(THREADS) unwritten(const planted a)
{
    LX_SHARED(int32_t, box, [THREADS]);
    if (a.sound || threadIdx.x < 32u)
        box[threadIdx.x] = 1;
    __syncthreads();
    a.out[threadIdx.x] = box[threadIdx.x];
}

/* The argument of a launch lies on the host. */
LX_KERNEL(THREADS) of_host(const planted a)
{
    a.out[threadIdx.x] = *a.in;
}

extern "C" int planted_run(enum planted_kind kind, const planted *a, cudaStream_t stream)
{
    switch (kind) {
    case PLANTED_BLOCK:
        return LX_LAUNCH(over_block, 1, THREADS, 0, stream, *a);
    case PLANTED_BLOCK_AGAIN:
        return LX_LAUNCH(over_block_again, 1, THREADS, 0, stream, *a);
    case PLANTED_WARP:
        return LX_LAUNCH(over_warp, 1, THREADS, 0, stream, *a);
    case PLANTED_HALF_WARPS:
        return LX_LAUNCH(over_half_warps, 1, THREADS, 0, stream, *a);
    case PLANTED_BLOCKS:
        return LX_LAUNCH(between_blocks, 2, THREADS, 0, stream, *a);
    case PLANTED_COUNT:
        return LX_LAUNCH(counting, 2, THREADS, 0, stream, *a);
    case PLANTED_UNWRITTEN:
        return LX_LAUNCH(unwritten, 1, THREADS, 0, stream, *a);
    case PLANTED_HOST:
        return LX_LAUNCH(of_host, 1, THREADS, 0, stream, *a);
    default:
        return cudaErrorInvalidValue;
    }
}
