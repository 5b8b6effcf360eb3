#include "kernels/cuda/elements.cuh"

LX_KERNEL(THREADS) gate(const lx_cuda_gate a)
{
    int64_t end = (int64_t)*a.live * a.d;
    for (int64_t i = first_element(); i < end; i += element_stride()) {
        int64_t row = i / a.d;
        int32_t at = (int32_t)(i % a.d);
        float g = a.x[row * a.x_width + at];
        if (a.bias != NULL)
            g += a.bias[at];
        g = lx_apply(g, a.f);
        if (a.factor != NULL || a.offset != NULL)
            g = fmaf(a.factor != NULL ? a.factor[at] : 1.0f, g,
                     a.offset != NULL ? a.offset[at] : 0.0f);
        if (a.exponent)
            g = lx_apply(g, LX_FN_EXP);
        if (a.z != NULL) {
            float z = a.z[row * a.z_width + at];
            float other = a.other != NULL ? a.other[row * a.other_width + at] : 0.0f;
            g = a.other == NULL ? g * z : fmaf(g, a.towards ? other - z : other, z);
        }
        if (a.y != NULL)
            a.y[row * a.y_width + at] = g;
        if (a.twin != NULL)
            a.twin[i] = lx_to_bf16(g);
    }
}

extern "C" cudaError_t lx_cuda_launch_gate(const lx_cuda_gate *a, cudaStream_t stream)
{
    return LX_LAUNCH(gate, blocks_for((int64_t)a->rows * a->d), THREADS, 0, stream, *a);
}
