/*
 * Kernels on single rows: embed, norm, gather, and what surrounds a bf16 product (rounding its
 * inputs; bias, activation and residual where the product leaves them). A kernel whose results go
 * into a bf16 product writes them rounded too (`twin`), so that no other has to read them again.
 * Every element or half warp is by itself, so nothing depends on the batch.
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

/* Element `at` of the row that an id names, or a drawn token; see lx_drawn_id. */
LX_DEVICE float embedded(const lx_cuda_embed &a, const lx_cuda_table &t, int32_t id, int64_t at)
{
    if (id < 0) {
        id = a.drawn[-1 - id];
        id = id >= 0 && id < t.rows ? id : 0;
    }
    return table_at(t, id * (int64_t)a.d + at);
}

LX_KERNEL(THREADS) embed(const lx_cuda_embed a)
{
    int64_t n = (int64_t)*a.live * a.d;
    for (int64_t i = first_element(); i < n; i += element_stride()) {
        int64_t row = i / a.d, at = i % a.d;
        const int32_t *ids = a.ids + row * a.n_tables;
        float sum = embedded(a, a.tables[0], ids[0], at);
        for (int32_t j = 1; j < a.n_tables; j++)
            sum += embedded(a, a.tables[j], ids[j], at);
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

/* A row's elements of this lane: kept in registers, so that they are fetched at once ... */
template <int KEEP> struct norm_row {
    float kept[KEEP];
    int32_t lane, d;

    LX_METHOD norm_row(const float *x, int32_t first, int32_t n) : lane(first), d(n)
    {
        LX_UNROLL
        for (int32_t k = 0; k < KEEP; k++)
            kept[k] = lane + 16 * k < d ? x[lane + 16 * k] : 0.0f;
    }

    template <class F> LX_METHOD void each(F f) const
    {
        LX_UNROLL
        for (int32_t k = 0; k < KEEP; k++) {
            if (lane + 16 * k < d)
                f(lane + 16 * k, kept[k]);
        }
    }
};

/* ... or, of long rows, read again from where they lie. */
template <> struct norm_row<0> {
    const float *x;
    int32_t lane, d;

    LX_METHOD norm_row(const float *from, int32_t first, int32_t n) : x(from), lane(first), d(n) {}

    template <class F> LX_METHOD void each(F f) const
    {
        for (int32_t i = lane; i < d; i += 16)
            f(i, x[i]);
    }
};

template <int KEEP> LX_KERNEL(THREADS) norm(const lx_cuda_norm a)
{
    int64_t row = (int64_t)blockIdx.x * (THREADS / 16) + threadIdx.x / 16;
    if (row >= *a.live)
        return; /* a whole half warp */
    const norm_row<KEEP> r(a.x + row * a.d, (int32_t)(threadIdx.x % 16u), a.d);
    float sum = 0.0f, squares = 0.0f;
    r.each([&](int32_t, float x) { sum += x; });
    float mean = lx_sum16(sum) / (float)a.d;
    r.each([&](int32_t, float x) { squares = fmaf(x - mean, x - mean, squares); });
    float scale = 1.0f / sqrtf(lx_sum16(squares) / (float)a.d + a.eps);
    r.each([&](int32_t i, float x) {
        float y = fmaf((x - mean) * scale, a.gamma[i], a.beta[i]);
        a.y[row * a.d + i] = y;
        if (a.twin != NULL)
            a.twin[row * a.d + i] = lx_to_bf16(y);
    });
}

extern "C" cudaError_t lx_cuda_launch_norm(const lx_cuda_norm *a, cudaStream_t stream)
{
    int per_block = THREADS / 16, blocks = (a->rows + per_block - 1) / per_block;
    if (a->d <= 256)
        return LX_LAUNCH(norm<16>, blocks, THREADS, 0, stream, *a);
    if (a->d <= 512)
        return LX_LAUNCH(norm<32>, blocks, THREADS, 0, stream, *a);
    return LX_LAUNCH(norm<0>, blocks, THREADS, 0, stream, *a);
}

/* --- around a bf16 product -------------------------------------------------------------------- */

LX_KERNEL(THREADS) round_inputs(const lx_cuda_round a)
{
    int64_t n = (int64_t)*a.live * a.padded;
    for (int64_t i = first_element(); i < n; i += element_stride()) {
        int64_t row = i / a.padded, at = i % a.padded;
        a.y[i] = at < a.cols ? lx_to_bf16(a.x[row * a.cols + at]) : (uint16_t)0;
    }
}

extern "C" cudaError_t lx_cuda_launch_round(const lx_cuda_round *a, cudaStream_t stream)
{
    return LX_LAUNCH(round_inputs, blocks_for((int64_t)a->rows * a->padded), THREADS, 0, stream,
                     *a);
}

LX_DEVICE float finished(const lx_cuda_finish &a, float product, int64_t i, uint32_t column)
{
    float y = lx_activate(a.bias != NULL ? product + a.bias[column] : product, a.activation);
    return a.residual != NULL ? y + a.residual[i] : y;
}

LX_KERNEL(THREADS) finish_any(const lx_cuda_finish a)
{
    int64_t n = (int64_t)*a.live * a.outputs;
    for (int64_t i = first_element(); i < n; i += element_stride()) {
        int64_t row = i / a.outputs, at = i % a.outputs;
        a.y[i] = finished(a, a.product[row * a.padded + at], i, (uint32_t)at);
    }
}

/* padded = outputs, a multiple of 8: four outputs a thread, 16 bytes an access. */
LX_KERNEL(THREADS) finish(const lx_cuda_finish a)
{
    uint32_t wide = (uint32_t)a.outputs / 4u;
    int64_t n = (int64_t)*a.live * wide;
    for (int64_t q = first_element(); q < n; q += element_stride()) {
        uint32_t column = 4u * (n <= 0xffffffffll ? (uint32_t)q % wide : (uint32_t)(q % wide));
        float4 y = ((const float4 *)a.product)[q];
        y = make_float4(finished(a, y.x, 4 * q, column), finished(a, y.y, 4 * q + 1, column + 1),
                        finished(a, y.z, 4 * q + 2, column + 2),
                        finished(a, y.w, 4 * q + 3, column + 3));
        ((float4 *)a.y)[q] = y;
        if (a.twin != NULL)
            ((lx_bf16x4 *)a.twin)[q] = lx_to_bf16x4(y);
    }
}

extern "C" cudaError_t lx_cuda_launch_finish(const lx_cuda_finish *a, cudaStream_t stream)
{
    int64_t n = (int64_t)a->rows * a->outputs;
    if (a->padded == a->outputs)
        return LX_LAUNCH(finish, blocks_for(n / 4), THREADS, 0, stream, *a);
    return LX_LAUNCH(finish_any, blocks_for(n), THREADS, 0, stream, *a);
}
