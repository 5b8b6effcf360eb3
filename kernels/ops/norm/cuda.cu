/* A half warp a row, so nothing depends on the batch. */
#include "kernels/cuda/device.cuh"
#include "kernels/ops/norm/cuda.h"

#define THREADS 256
#define TOGETHER 8

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

    /* With what gamma and beta have there, fetched TOGETHER at a time: f writes, and a load behind
       a store waits for its own turn. */
    template <class F> LX_METHOD void each_scaled(const float *gamma, const float *beta, F f) const
    {
        LX_UNROLL
        for (int32_t from = 0; from < KEEP; from += TOGETHER) {
            float g[TOGETHER], b[TOGETHER];
            LX_UNROLL
            for (int32_t k = 0; k < TOGETHER; k++) {
                int32_t i = lane + 16 * (from + k);
                g[k] = i < d ? gamma[i] : 0.0f;
                b[k] = i < d ? beta[i] : 0.0f;
            }
            LX_UNROLL
            for (int32_t k = 0; k < TOGETHER; k++) {
                int32_t i = lane + 16 * (from + k);
                if (i < d)
                    f(i, kept[from + k], g[k], b[k]);
            }
        }
    }
};

/* ... or, of long rows, read again from where they lie, TOGETHER at a time before f writes: y may
   be x. */
template <> struct norm_row<0> {
    const float *x;
    int32_t lane, d;

    LX_METHOD norm_row(const float *from, int32_t first, int32_t n) : x(from), lane(first), d(n)
    {
    }

    template <class F> LX_METHOD void each(F f) const
    {
        for (int32_t i = lane; i < d; i += 16)
            f(i, x[i]);
    }

    template <class F> LX_METHOD void each_scaled(const float *gamma, const float *beta, F f) const
    {
        for (int32_t from = lane; from < d; from += 16 * TOGETHER) {
            float v[TOGETHER], g[TOGETHER], b[TOGETHER];
            LX_UNROLL
            for (int32_t k = 0; k < TOGETHER; k++) {
                int32_t i = from + 16 * k;
                v[k] = i < d ? x[i] : 0.0f;
                g[k] = i < d ? gamma[i] : 0.0f;
                b[k] = i < d ? beta[i] : 0.0f;
            }
            LX_UNROLL
            for (int32_t k = 0; k < TOGETHER; k++) {
                int32_t i = from + 16 * k;
                if (i < d)
                    f(i, v[k], g[k], b[k]);
            }
        }
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
    r.each_scaled(a.gamma, a.beta, [&](int32_t i, float x, float gamma, float beta) {
        float y = fmaf((x - mean) * scale, gamma, beta);
        if (a.y != NULL)
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
