/*
 * The steps around a bf16 product: rounding its inputs; bias, activation and residual where the
 * product leaves them. A kernel whose results go into a bf16 product writes them rounded too
 * (`twin`), so that no other kernel reads them again. Elements are independent, so nothing depends
 * on the batch.
 */
#include "kernels/cuda/elements.cuh"

LX_KERNEL(THREADS) round_inputs(const lx_cuda_round a)
{
    lx_let_next_begin();
    lx_wait_for_others();
    int64_t n = (int64_t)*a.live * a.padded;
    for (int64_t i = first_element(); i < n; i += element_stride()) {
        int64_t row = i / a.padded, at = i % a.padded;
        a.y[i] = at < a.cols ? lx_to_bf16(a.x[row * a.cols + at]) : (uint16_t)0;
    }
}

extern "C" cudaError_t lx_cuda_launch_round(const lx_cuda_round *a, cudaStream_t stream)
{
    return LX_LAUNCH_EARLY(round_inputs, blocks_for((int64_t)a->rows * a->padded), THREADS, 0,
                           stream, *a);
}

LX_DEVICE float finished(const lx_cuda_finish &a, float product, int64_t i, uint32_t column)
{
    float y = lx_activate(a.bias != NULL ? product + a.bias[column] : product, a.activation);
    return a.residual != NULL ? y + a.residual[i] : y;
}

LX_KERNEL(THREADS) finish_any(const lx_cuda_finish a)
{
    lx_let_next_begin();
    lx_wait_for_others();
    int64_t n = (int64_t)*a.live * a.outputs;
    for (int64_t i = first_element(); i < n; i += element_stride()) {
        int64_t row = i / a.outputs, at = i % a.outputs;
        a.y[i] = finished(a, a.product[row * a.padded + at], i, (uint32_t)at);
    }
}

/* padded = outputs, a multiple of 8: four outputs a thread, 16 bytes an access. */
LX_KERNEL(THREADS) finish(const lx_cuda_finish a)
{
    lx_let_next_begin();
    lx_wait_for_others();
    uint32_t wide = (uint32_t)a.outputs / 4u;
    int64_t n = (int64_t)*a.live * wide;
    for (int64_t q = first_element(); q < n; q += element_stride()) {
        uint32_t column = 4u * (n <= 0xffffffffll ? (uint32_t)q % wide : (uint32_t)(q % wide));
        float4 y = ((const float4 *)a.product)[q];
        y = make_float4(finished(a, y.x, 4 * q, column), finished(a, y.y, 4 * q + 1, column + 1),
                        finished(a, y.z, 4 * q + 2, column + 2),
                        finished(a, y.w, 4 * q + 3, column + 3));
        if (a.y != NULL)
            ((float4 *)a.y)[q] = y;
        if (a.twin != NULL)
            ((lx_bf16x4 *)a.twin)[q] = lx_to_bf16x4(y);
    }
}

extern "C" cudaError_t lx_cuda_launch_finish(const lx_cuda_finish *a, cudaStream_t stream)
{
    int64_t n = (int64_t)a->rows * a->outputs;
    if (a->padded == a->outputs)
        return LX_LAUNCH_EARLY(finish, blocks_for(n / 4), THREADS, 0, stream, *a);
    return LX_LAUNCH_EARLY(finish_any, blocks_for(n), THREADS, 0, stream, *a);
}
