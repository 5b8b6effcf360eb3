/* One thread per element. */
#include "kernels/cuda/elements.cuh"

LX_KERNEL(THREADS) gather(const lx_cuda_gather a)
{
    lx_let_next_begin();
    lx_wait_for_others();
    int64_t n = (int64_t)*a.live * a.d;
    for (int64_t i = first_element(); i < n; i += element_stride())
        a.y[i / a.d * a.width + i % a.d] = a.x[a.row[i / a.d] * (int64_t)a.d + i % a.d];
}

extern "C" cudaError_t lx_cuda_launch_gather(const lx_cuda_gather *a, cudaStream_t stream)
{
    return LX_LAUNCH_EARLY(gather, blocks_for((int64_t)a->rows * a->d), THREADS, 0, stream, *a);
}
