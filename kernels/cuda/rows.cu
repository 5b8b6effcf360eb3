/*
 * Kernels on single rows: embed, norm, gather, and what surrounds a bf16 product (rounding its
 * inputs; bias, activation and residual). Every element or half warp is by itself, so nothing
 * depends on the batch.
 */
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

/* --- embed ------------------------------------------------------------------------------------ */

LX_DEVICE float f16_to_f32(uint32_t h)
{
    uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
    if (exponent == 31u)
        return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0u)
        return __uint_as_float(sign | (exponent + 112u) << 23 | mantissa << 13);
    float magnitude = (float)mantissa * 0x1p-24f;
    return sign != 0u ? -magnitude : magnitude;
}

LX_DEVICE float table_at(const lx_cuda_table &t, int64_t i)
{
    if (t.dtype == LX_F32)
        return ((const float *)t.data)[i];
    uint32_t h = ((const uint16_t *)t.data)[i];
    return t.dtype == LX_BF16 ? __uint_as_float(h << 16) : f16_to_f32(h);
}

LX_KERNEL(THREADS) embed(const lx_cuda_embed a)
{
    int64_t n = (int64_t)*a.live * a.d;
    for (int64_t i = first_element(); i < n; i += element_stride()) {
        int64_t row = i / a.d, at = i % a.d;
        const int32_t *ids = a.ids + row * a.n_tables;
        float sum = table_at(a.tables[0], ids[0] * (int64_t)a.d + at);
        for (int32_t j = 1; j < a.n_tables; j++)
            sum += table_at(a.tables[j], ids[j] * (int64_t)a.d + at);
        a.y[i] = sum;
    }
}

extern "C" cudaError_t lx_cuda_launch_embed(const lx_cuda_embed *a, cudaStream_t stream)
{
    return LX_LAUNCH(embed, blocks_for((int64_t)a->rows * a->d), THREADS, 0, stream, *a);
}

/* --- gather ----------------------------------------------------------------------------------- */

LX_KERNEL(THREADS) gather(const lx_cuda_gather a)
{
    int64_t n = (int64_t)*a.live * a.d;
    for (int64_t i = first_element(); i < n; i += element_stride())
        a.y[i] = a.x[a.row[i / a.d] * (int64_t)a.d + i % a.d];
}

extern "C" cudaError_t lx_cuda_launch_gather(const lx_cuda_gather *a, cudaStream_t stream)
{
    return LX_LAUNCH(gather, blocks_for((int64_t)a->rows * a->d), THREADS, 0, stream, *a);
}

/* --- norm: a half warp a row ------------------------------------------------------------------ */

LX_KERNEL(THREADS) norm(const lx_cuda_norm a)
{
    int64_t row = (int64_t)blockIdx.x * (THREADS / 16) + threadIdx.x / 16;
    int32_t lane = (int32_t)(threadIdx.x % 16u);
    if (row >= *a.live)
        return; /* a whole half warp */
    const float *x = a.x + row * a.d;
    float *y = a.y + row * a.d;
    float sum = 0.0f, squares = 0.0f;
    for (int32_t i = lane; i < a.d; i += 16)
        sum += x[i];
    float mean = lx_sum16(sum) / (float)a.d;
    for (int32_t i = lane; i < a.d; i += 16) {
        float v = x[i] - mean;
        squares = fmaf(v, v, squares);
    }
    float scale = 1.0f / sqrtf(lx_sum16(squares) / (float)a.d + a.eps);
    for (int32_t i = lane; i < a.d; i += 16)
        y[i] = fmaf((x[i] - mean) * scale, a.gamma[i], a.beta[i]);
}

extern "C" cudaError_t lx_cuda_launch_norm(const lx_cuda_norm *a, cudaStream_t stream)
{
    int per_block = THREADS / 16;
    return LX_LAUNCH(norm, (a->rows + per_block - 1) / per_block, THREADS, 0, stream, *a);
}

/* --- around a bf16 product -------------------------------------------------------------------- */

/* To the nearest, ties to even; a NaN stays one. */
LX_DEVICE uint16_t to_bf16(float f)
{
    uint32_t bits = __float_as_uint(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 64u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

LX_KERNEL(THREADS) round_inputs(const lx_cuda_round a)
{
    int64_t n = (int64_t)*a.live * a.padded;
    for (int64_t i = first_element(); i < n; i += element_stride()) {
        int64_t row = i / a.padded, at = i % a.padded;
        a.y[i] = at < a.cols ? to_bf16(a.x[row * a.cols + at]) : (uint16_t)0;
    }
}

extern "C" cudaError_t lx_cuda_launch_round(const lx_cuda_round *a, cudaStream_t stream)
{
    return LX_LAUNCH(round_inputs, blocks_for((int64_t)a->rows * a->padded), THREADS, 0, stream,
                     *a);
}

LX_KERNEL(THREADS) finish(const lx_cuda_finish a)
{
    int64_t n = (int64_t)*a.live * a.outputs;
    for (int64_t i = first_element(); i < n; i += element_stride()) {
        int64_t row = i / a.outputs, at = i % a.outputs;
        float y = lx_activate(a.product[row * a.padded + at] + a.bias[at], a.activation);
        if (a.residual != NULL)
            y += a.residual[i];
        a.y[i] = y;
    }
}

extern "C" cudaError_t lx_cuda_launch_finish(const lx_cuda_finish *a, cudaStream_t stream)
{
    return LX_LAUNCH(finish, blocks_for((int64_t)a->rows * a->outputs), THREADS, 0, stream, *a);
}
