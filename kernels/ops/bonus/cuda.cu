/* A half warp per head. */
#include "kernels/cuda/device.cuh"

#define THREADS 256
#define TOGETHER 4 /* values of a lane, fetched before one of them is stored */

/* Values first + 16 k of a head. All loads come first: y may be x, so a load after a store waits.
 */
LX_DEVICE void bonus_values(const lx_cuda_bonus &a, int64_t row, int64_t value, int64_t to,
                            int32_t first, float sum)
{
    float v[TOGETHER], x[TOGETHER], z[TOGETHER];
    LX_UNROLL
    for (int32_t k = 0; k < TOGETHER; k++) {
        bool there = first + 16 * k < a.d_value;
        int64_t m = value + first + 16 * k;
        v[k] = there ? a.v[row * a.v_width + m] : 0.0f;
        x[k] = there ? a.x[row * a.x_width + m] : 0.0f;
        z[k] = there && a.z != NULL ? a.z[row * a.z_width + m] : 1.0f;
    }
    LX_UNROLL
    for (int32_t k = 0; k < TOGETHER; k++) {
        int32_t m = first + 16 * k;
        if (m >= a.d_value)
            return;
        float y = fmaf(sum, v[k], x[k]) * z[k];
        if (a.y != NULL)
            a.y[to + m] = y;
        if (a.twin != NULL)
            a.twin[to + m] = lx_to_bf16(y);
    }
}

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
    for (int32_t first = lane; first < a.d_value; first += 16 * TOGETHER)
        bonus_values(a, row, value, which * a.d_value, first, sum);
}

extern "C" cudaError_t lx_cuda_launch_bonus(const lx_cuda_bonus *a, cudaStream_t stream)
{
    int64_t per_block = THREADS / 16;
    int64_t blocks = ((int64_t)a->rows * a->n_heads + per_block - 1) / per_block;
    if (blocks > 0x7fffffff)
        return cudaErrorInvalidValue;
    return LX_LAUNCH(bonus, blocks, THREADS, 0, stream, *a);
}
