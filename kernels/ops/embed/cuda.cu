/* One thread per element, so nothing depends on the batch. */
#include "kernels/cuda/elements.cuh"

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
    lx_let_next_begin();
    lx_wait_for_others();
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
    return LX_LAUNCH_EARLY(embed, blocks_for((int64_t)a->rows * a->d), THREADS, 0, stream, *a);
}
