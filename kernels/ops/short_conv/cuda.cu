/* A thread carries a channel of a sequence through its tokens; the inputs kept are in registers. */
#include "kernels/cuda/elements.cuh"

template <int TAPS> LX_DEVICE void store_kept(const float *kept, float *state, int64_t d)
{
    LX_UNROLL
    for (int j = 0; j + 1 < TAPS; j++)
        state[j * d] = kept[j];
}

template <int TAPS> LX_DEVICE void conv_channel(const lx_cuda_short_conv &a, int64_t seq, int64_t i)
{
    float *state = a.states + a.slot[seq] * a.stride + i;
    float kept[TAPS], weights[TAPS];
    LX_UNROLL
    for (int j = 0; j < TAPS; j++) {
        weights[j] = a.weights[(int64_t)j * a.d + i];
        kept[j] = j + 1 < TAPS ? state[(int64_t)j * a.d] : 0.0f;
    }
    int64_t begin = a.seq_start[seq], end = a.seq_start[seq + 1];
    int64_t branch = lx_branch_begin(a.branches, seq, begin, end);
    for (int64_t t = begin; t < end; t++) {
        if (t == branch) {
            store_kept<TAPS>(kept, state, a.d);
            state = a.states + a.branches.slot[seq] * a.stride + i;
        }
        float sum = a.bias != NULL ? a.bias[i] : 0.0f;
        kept[TAPS - 1] = a.x[t * a.x_width + i];
        LX_UNROLL
        for (int j = 0; j < TAPS; j++)
            sum = fmaf(weights[j], kept[j], sum);
        float y = lx_apply(sum, a.f);
        if (a.y != NULL)
            a.y[t * a.d + i] = y;
        if (a.twin != NULL)
            a.twin[t * a.d + i] = lx_to_bf16(y);
        LX_UNROLL
        for (int j = 0; j + 1 < TAPS; j++)
            kept[j] = kept[j + 1];
    }
    store_kept<TAPS>(kept, state, a.d);
}

template <int TAPS> LX_KERNEL(THREADS) short_conv(const lx_cuda_short_conv a)
{
    int64_t end = (int64_t)*a.live * a.d;
    for (int64_t i = first_element(); i < end; i += element_stride())
        conv_channel<TAPS>(a, i / a.d, i % a.d);
}

extern "C" cudaError_t lx_cuda_launch_short_conv(const lx_cuda_short_conv *a, cudaStream_t stream)
{
    int blocks = blocks_for((int64_t)a->n_seqs * a->d);
    if (a->taps == 8)
        return LX_LAUNCH(short_conv<8>, blocks, THREADS, 0, stream, *a);
    if (a->taps == 7)
        return LX_LAUNCH(short_conv<7>, blocks, THREADS, 0, stream, *a);
    if (a->taps == 6)
        return LX_LAUNCH(short_conv<6>, blocks, THREADS, 0, stream, *a);
    if (a->taps == 5)
        return LX_LAUNCH(short_conv<5>, blocks, THREADS, 0, stream, *a);
    if (a->taps == 4)
        return LX_LAUNCH(short_conv<4>, blocks, THREADS, 0, stream, *a);
    if (a->taps == 3)
        return LX_LAUNCH(short_conv<3>, blocks, THREADS, 0, stream, *a);
    return LX_LAUNCH(short_conv<2>, blocks, THREADS, 0, stream, *a);
}
