/* A half warp per head, so nothing depends on the batch. y may be x, as a lane has its own
 * elements. */
#include "kernels/cuda/device.cuh"

#define THREADS 256
#define TOGETHER 4 /* elements of a lane, fetched before one of them is stored */

/* Where a head of a row begins. */
struct head {
    const float *x, *gate, *gamma, *beta;
    float *y;
    uint16_t *twin;
};

LX_DEVICE head head_of(const lx_cuda_head_norm &a, int64_t row, int64_t at)
{
    head h;
    h.x = a.x + row * a.x_width + at;
    h.y = a.y != NULL ? a.y + row * a.y_width + at : NULL;
    h.gate = a.gate != NULL ? a.gate + row * a.gate_width + at : NULL;
    h.gamma = a.gamma != NULL ? a.gamma + at : NULL;
    h.beta = a.beta != NULL ? a.beta + at : NULL;
    h.twin = a.twin != NULL ? a.twin + row * a.y_width + at : NULL;
    return h;
}

/* An element of the input of the norm. */
LX_DEVICE float head_load(const lx_cuda_head_norm &a, const head &h, int32_t i)
{
    return h.gate != NULL && a.gate_first ? h.x[i] * lx_apply(h.gate[i], a.f) : h.x[i];
}

/* Elements first + 16 k of a head, with their factors and summands. All loads come first: a load
   after a store would wait. */
struct head_part {
    float x[TOGETHER], gate[TOGETHER], gamma[TOGETHER], beta[TOGETHER];
};

LX_DEVICE head_part head_fetch(const lx_cuda_head_norm &a, const head &h, int32_t first)
{
    head_part p;
    LX_UNROLL
    for (int32_t k = 0; k < TOGETHER; k++) {
        int32_t i = first + 16 * k;
        p.x[k] = i < a.d ? h.x[i] : 0.0f;
        p.gate[k] = h.gate != NULL && i < a.d ? h.gate[i] : 0.0f;
        p.gamma[k] = h.gamma != NULL && i < a.d ? h.gamma[i] : 1.0f;
        p.beta[k] = h.beta != NULL && i < a.d ? h.beta[i] : 0.0f;
    }
    return p;
}

LX_DEVICE void head_store(const lx_cuda_head_norm &a, const head &h, const head_part &p,
                          int32_t first, float mean, float scale)
{
    LX_UNROLL
    for (int32_t k = 0; k < TOGETHER; k++) {
        int32_t i = first + 16 * k;
        if (i >= a.d)
            return;
        float by = h.gate != NULL ? lx_apply(p.gate[k], a.f) : 1.0f;
        float x = a.gate_first ? p.x[k] * by : p.x[k];
        float y = fmaf((x - mean) * scale, p.gamma[k], p.beta[k]);
        y = a.gate_first ? y : y * by;
        if (h.y != NULL)
            h.y[i] = y;
        if (h.twin != NULL)
            h.twin[i] = lx_to_bf16(y);
    }
}

LX_DEVICE float head_scale(const lx_cuda_head_norm &a, float squares)
{
    if (a.kind == LX_NORM_LENGTH) {
        float size = sqrtf(squares);
        return 1.0f / (a.eps > size ? a.eps : size);
    }
    if (a.kind != LX_NORM_L2)
        squares = squares / (float)a.d;
    return 1.0f / sqrtf(squares + a.eps);
}

LX_KERNEL(THREADS) head_norm(const lx_cuda_head_norm a)
{
    int64_t which = (int64_t)blockIdx.x * (THREADS / 16) + threadIdx.x / 16;
    int32_t lane = (int32_t)(threadIdx.x % 16u);
    if (which >= (int64_t)*a.live * a.n_heads)
        return; /* a whole half warp */
    const head h = head_of(a, which / a.n_heads, which % a.n_heads * a.d);
    float sum = 0.0f, squares = 0.0f, mean = 0.0f;
    if (a.kind == LX_NORM_GROUP) {
        for (int32_t i = lane; i < a.d; i += 16)
            sum += head_load(a, h, i);
        mean = lx_sum16(sum) / (float)a.d;
    }
    for (int32_t i = lane; i < a.d; i += 16) {
        float x = head_load(a, h, i) - mean;
        squares = fmaf(x, x, squares);
    }
    float scale = head_scale(a, lx_sum16(squares));
    for (int32_t first = lane; first < a.d; first += 16 * TOGETHER) {
        const head_part p = head_fetch(a, h, first);
        head_store(a, h, p, first, mean, scale);
    }
}

extern "C" cudaError_t lx_cuda_launch_head_norm(const lx_cuda_head_norm *a, cudaStream_t stream)
{
    int64_t per_block = THREADS / 16;
    int64_t blocks = ((int64_t)a->rows * a->n_heads + per_block - 1) / per_block;
    if (blocks > 0x7fffffff)
        return cudaErrorInvalidValue;
    return LX_LAUNCH(head_norm, blocks, THREADS, 0, stream, *a);
}
