/* A half warp per row, so nothing depends on the batch. */
#include "kernels/cuda/device.cuh"

#define THREADS 64 /* so few that some hundred rows reach half of the multiprocessors */
#define TOGETHER 8

/* Tests y and twin once, not for each element. */
template <int N>
LX_DEVICE void put_each(const float (&v)[N], int32_t from, int32_t d, float *y, uint16_t *twin)
{
    if (y != NULL) {
        LX_UNROLL
        for (int32_t k = 0; k < N; k++) {
            if (from + 16 * k < d)
                y[from + 16 * k] = v[k];
        }
    }
    if (twin != NULL) {
        LX_UNROLL
        for (int32_t k = 0; k < N; k++) {
            if (from + 16 * k < d)
                twin[from + 16 * k] = lx_to_bf16(v[k]);
        }
    }
}

/* A row's elements of this lane, with gamma and beta, in registers, so that all are fetched at
   once. gamma and beta are fetched before it is known whether the row exists. */
template <int KEEP> struct norm_row {
    float kept[KEEP], gamma[KEEP], beta[KEEP];
    int32_t lane, d;

    LX_METHOD norm_row(const float *by, const float *and_add, int32_t first, int32_t n)
        : lane(first), d(n)
    {
        LX_UNROLL
        for (int32_t k = 0; k < KEEP; k++) {
            gamma[k] = lane + 16 * k < d ? by[lane + 16 * k] : 0.0f;
            beta[k] = lane + 16 * k < d ? and_add[lane + 16 * k] : 0.0f;
        }
    }

    LX_METHOD void fetch(const float *x)
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
                f(kept[k]);
        }
    }

    template <class F> LX_METHOD void put(F f, float *y, uint16_t *twin) const
    {
        float v[KEEP];
        LX_UNROLL
        for (int32_t k = 0; k < KEEP; k++)
            v[k] = f(kept[k], gamma[k], beta[k]);
        put_each(v, lane, d, y, twin);
    }
};

/* Long rows stay in memory and are read again, TOGETHER elements at a time before f writes: y may
   be x. */
template <> struct norm_row<0> {
    const float *x, *gamma, *beta;
    int32_t lane, d;

    LX_METHOD norm_row(const float *by, const float *and_add, int32_t first, int32_t n)
        : x(NULL), gamma(by), beta(and_add), lane(first), d(n)
    {
    }

    LX_METHOD void fetch(const float *from)
    {
        x = from;
    }

    template <class F> LX_METHOD void each(F f) const
    {
        for (int32_t i = lane; i < d; i += 16)
            f(x[i]);
    }

    template <class F> LX_METHOD void put(F f, float *y, uint16_t *twin) const
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
            for (int32_t k = 0; k < TOGETHER; k++)
                v[k] = f(v[k], g[k], b[k]);
            put_each(v, from, d, y, twin);
        }
    }
};

template <int KEEP> LX_KERNEL(THREADS) norm(const lx_cuda_norm a)
{
    int64_t row = (int64_t)blockIdx.x * (THREADS / 16) + threadIdx.x / 16;
    norm_row<KEEP> r(a.gamma, a.beta, (int32_t)(threadIdx.x % 16u), a.d);
    lx_let_next_begin();
    lx_wait_for_others(); /* no kernel writes gamma and beta */
    if (row >= *a.live)
        return; /* a whole half warp */
    r.fetch(a.x + row * a.d);
    float sum = 0.0f, squares = 0.0f;
    r.each([&](float x) { sum += x; });
    float mean = lx_sum16(sum) / (float)a.d;
    r.each([&](float x) { squares = fmaf(x - mean, x - mean, squares); });
    float scale = 1.0f / sqrtf(lx_sum16(squares) / (float)a.d + a.eps);
    r.put([&](float x, float gamma, float beta) { return fmaf((x - mean) * scale, gamma, beta); },
          a.y != NULL ? a.y + row * a.d : NULL, a.twin != NULL ? a.twin + row * a.d : NULL);
}

extern "C" cudaError_t lx_cuda_launch_norm(const lx_cuda_norm *a, cudaStream_t stream)
{
    int per_block = THREADS / 16, blocks = (a->rows + per_block - 1) / per_block;
    if (a->d <= 256)
        return LX_LAUNCH_EARLY(norm<16>, blocks, THREADS, 0, stream, *a);
    if (a->d <= 512)
        return LX_LAUNCH_EARLY(norm<32>, blocks, THREADS, 0, stream, *a);
    return LX_LAUNCH_EARLY(norm<0>, blocks, THREADS, 0, stream, *a);
}
