/* A half warp a head. */
#include "kernels/cuda/device.cuh"
#include "kernels/ops/bonus/cuda.h"

#define THREADS 256

LX_KERNEL(THREADS) bonus(const lx_cuda_bonus a)
{
    int64_t which = (int64_t)blockIdx.x * (THREADS / 16) + threadIdx.x / 16;
    int32_t lane = (int32_t)(threadIdx.x % 16u);
    if (which >= (int64_t)*a.live * a.n_heads)
        return; /* a whole half warp */
    int64_t row = which / a.n_heads, head = which % a.n_heads;
    int64_t key = head * a.d_key, value = head * a.d_value;
    float sum = 0.0f;
    for (int32_t d = lane; d < a.d_key; d += 16)
        sum = fmaf(a.u[key + d] * a.q[row * a.q_width + key + d], a.k[row * a.k_width + key + d],
                   sum);
    sum = lx_sum16(sum);
    for (int32_t m = lane; m < a.d_value; m += 16) {
        int64_t to = which * a.d_value + m;
        float y = fmaf(sum, a.v[row * a.v_width + value + m], a.x[row * a.x_width + value + m]);
        if (a.z != NULL)
            y = y * a.z[row * a.z_width + value + m];
        if (a.y != NULL)
            a.y[to] = y;
        if (a.twin != NULL)
            a.twin[to] = lx_to_bf16(y);
    }
}

extern "C" cudaError_t lx_cuda_launch_bonus(const lx_cuda_bonus *a, cudaStream_t stream)
{
    int64_t per_block = THREADS / 16;
    int64_t blocks = ((int64_t)a->rows * a->n_heads + per_block - 1) / per_block;
    if (blocks > 0x7fffffff)
        return cudaErrorInvalidValue;
    return LX_LAUNCH(bonus, blocks, THREADS, 0, stream, *a);
}
