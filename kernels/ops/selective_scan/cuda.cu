/* A thread carries a channel of a sequence through its tokens. Its arithmetic per token is that of
   a lane of the cpu back end, in equal order, so the bits are equal. */
#include "kernels/cuda/elements.cuh"

/* s is the channel's first number of state, d floats before the next. */
LX_DEVICE float scan_token(const lx_cuda_selective_scan &a, int64_t row, int64_t m, float *s)
{
    float x = a.x[row * a.x_width + m], t = a.t[row * a.t_width + m], u = t * x, y = 0.0f;
    const float *b = a.b + row * a.b_width, *c = a.c + row * a.c_width;
    for (int64_t k = 0; k < a.d_key; k++) {
        float w = lx_exp(t * a.a[k * a.d + m]);
        float next = fmaf(w, s[k * a.d], b[k] * u);
        y = fmaf(c[k], next, y);
        s[k * a.d] = next;
    }
    return fmaf(a.skip[m], x, y);
}

LX_DEVICE void scan_channel(const lx_cuda_selective_scan &a, int64_t seq, int64_t m)
{
    float *state = a.states + a.slot[seq] * a.stride + m;
    int64_t begin = a.seq_start[seq], end = a.seq_start[seq + 1];
    int64_t branch = lx_branch_begin(a.branches, seq, begin, end);
    for (int64_t row = begin; row < end; row++) {
        if (row == branch) {
            float *other = a.states + a.branches.slot[seq] * a.stride + m;
            for (int64_t k = 0; k < a.d_key; k++)
                other[k * a.d] = state[k * a.d];
            state = other;
        }
        float y = scan_token(a, row, m, state);
        if (a.y != NULL)
            a.y[row * a.d + m] = y;
        if (a.twin != NULL)
            a.twin[row * a.d + m] = lx_to_bf16(y);
    }
}

LX_KERNEL(THREADS, 4) selective_scan(const lx_cuda_selective_scan a)
{
    int64_t end = (int64_t)*a.live * a.d;
    for (int64_t i = first_element(); i < end; i += element_stride())
        scan_channel(a, i / a.d, i % a.d);
}

extern "C" cudaError_t lx_cuda_launch_selective_scan(const lx_cuda_selective_scan *a,
                                                     cudaStream_t stream)
{
    int blocks = blocks_for((int64_t)a->n_seqs * a->d);
    return LX_LAUNCH(selective_scan, blocks, THREADS, 0, stream, *a);
}
