/*
 * The bf16 product of our own: weights in bf16, inputs rounded to bf16 as they are read unless they
 * are there so, f32 sums; bias, activation and residual are added where the sum is, so that nothing
 * has to be read again, and what the next product reads is stored rounded.
 *
 * A warp computes 16 outputs of 8 rows, or of 64 where there are more, by the tensor cores' product
 * of 16 by 16 weights with 16 by 8 inputs (lx_mma). Lane q of four has inputs 8 q .. 8 q + 7 of
 * each 32, since that is one access: the first product adds the first four of each eight, the
 * second the others. This order over the inputs is the same for every number of rows, and a row's
 * sums take nothing from the rows beside, so its bits depend on neither.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/ops/linear/cuda.h"

#define WARPS 4
#define OUTPUTS 16 /* of a warp */
#define ROWS 8     /* of a tile */
#define MOST_TILES 8
#define STEP 32 /* inputs */

/* Eight values in bf16, the first in the lower half of v[0]. */
struct alignas(16) eight {
    uint32_t v[4];
};

LX_DEVICE uint32_t pair_of(float low, float high)
{
    return (uint32_t)lx_to_bf16(low) | (uint32_t)lx_to_bf16(high) << 16;
}

LX_DEVICE eight load_weights(const lx_cuda_mma &a, int64_t output, int32_t k)
{
    eight w = {{0u, 0u, 0u, 0u}};
    if (output < a.padded_outputs && k < a.padded)
        w = *(const eight *)(a.w + output * a.padded + k);
    return w;
}

/* ROUNDED: the inputs are there so. */
template <int ROUNDED>
LX_DEVICE eight load_inputs(const lx_cuda_mma &a, int64_t row, int32_t live, int32_t k)
{
    eight x = {{0u, 0u, 0u, 0u}};
    if (row >= live || k >= a.cols)
        return x;
    if (ROUNDED)
        return *(const eight *)(a.rounded + row * a.cols + k);
    const float *from = a.x + row * a.cols + k;
    if (a.cols == a.padded) {
        float4 low = ((const float4 *)from)[0], high = ((const float4 *)from)[1];
        x = {{pair_of(low.x, low.y), pair_of(low.z, low.w), pair_of(high.x, high.y),
              pair_of(high.z, high.w)}};
        return x;
    }
    float one[8];
    LX_UNROLL
    for (int32_t i = 0; i < 8; i++)
        one[i] = k + i < a.cols ? from[i] : 0.0f;
    LX_UNROLL
    for (int32_t i = 0; i < 4; i++)
        x.v[i] = pair_of(one[2 * i], one[2 * i + 1]);
    return x;
}

LX_DEVICE void store(const lx_cuda_mma &a, int64_t row, int32_t live, int64_t output, float sum)
{
    if (row >= live || output >= a.outputs)
        return;
    int64_t at = row * a.outputs + output;
    float y = lx_activate(sum + a.bias[output], a.activation);
    y = a.residual != NULL ? y + a.residual[at] : y;
    if (a.twin == NULL)
        a.y[at] = y;
    else
        a.twin[at] = lx_to_bf16(y);
}

template <int TILES, int ROUNDED> LX_KERNEL(32 * WARPS) mma(const lx_cuda_mma a)
{
    int32_t across = (a.outputs + OUTPUTS * WARPS - 1) / (OUTPUTS * WARPS), live = *a.live;
    int64_t row0 = (int64_t)(blockIdx.x / (unsigned)across) * (ROWS * TILES);
    int64_t out0 = ((int64_t)(blockIdx.x % (unsigned)across) * WARPS + threadIdx.x / 32u) * OUTPUTS;
    if (row0 >= live || out0 >= a.outputs)
        return; /* a whole warp */
    int32_t group = (int32_t)(threadIdx.x % 32u) / 4, quarter = (int32_t)(threadIdx.x % 4u);
    float sum[TILES][4];
    LX_UNROLL
    for (int t = 0; t < TILES; t++)
        sum[t][0] = sum[t][1] = sum[t][2] = sum[t][3] = 0.0f;
    for (int32_t k0 = 0; k0 < a.padded; k0 += STEP) {
        int32_t k = k0 + 8 * quarter;
        eight low = load_weights(a, out0 + group, k), high = load_weights(a, out0 + group + 8, k);
        LX_UNROLL
        for (int t = 0; t < TILES; t++) {
            eight x = load_inputs<ROUNDED>(a, row0 + ROWS * t + group, live, k);
            lx_mma(sum[t], low.v[0], high.v[0], low.v[1], high.v[1], x.v[0], x.v[1]);
            lx_mma(sum[t], low.v[2], high.v[2], low.v[3], high.v[3], x.v[2], x.v[3]);
        }
    }
    LX_UNROLL
    for (int t = 0; t < TILES; t++) {
        int64_t row = row0 + ROWS * t + 2 * quarter;
        LX_UNROLL
        for (int i = 0; i < 4; i++)
            store(a, row + i % 2, live, out0 + group + 8 * (i / 2), sum[t][i]);
    }
}

template <int TILES> static cudaError_t launch(const lx_cuda_mma *a, cudaStream_t stream)
{
    int64_t across = (a->outputs + OUTPUTS * WARPS - 1) / (OUTPUTS * WARPS);
    int64_t blocks = across * ((a->rows + ROWS * TILES - 1) / (ROWS * TILES));
    if (blocks > 0x7fffffff)
        return cudaErrorInvalidValue;
    if (a->rounded != NULL)
        return LX_LAUNCH((mma<TILES, 1>), blocks, 32 * WARPS, 0, stream, *a);
    return LX_LAUNCH((mma<TILES, 0>), blocks, 32 * WARPS, 0, stream, *a);
}

extern "C" cudaError_t lx_cuda_launch_mma(const lx_cuda_mma *a, cudaStream_t stream)
{
    return a->rows <= ROWS ? launch<1>(a, stream) : launch<MOST_TILES>(a, stream);
}
