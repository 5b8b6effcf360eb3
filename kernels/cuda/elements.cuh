/* Kernels with one thread per element: the number of blocks, and a thread's elements. */
#ifndef LINNET_KERNELS_CUDA_ELEMENTS_CUH
#define LINNET_KERNELS_CUDA_ELEMENTS_CUH

#include "kernels/cuda/device.cuh"

#define THREADS 256

static int blocks_for(int64_t n)
{
    int64_t blocks = (n + THREADS - 1) / THREADS;
    return (int)(blocks < 65536 ? blocks : 65536);
}

LX_DEVICE int64_t first_element(void)
{
    return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

LX_DEVICE int64_t element_stride(void)
{
    return (int64_t)gridDim.x * THREADS;
}

#endif
