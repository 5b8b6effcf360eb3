/* A thread carries a column of a sequence through its tokens. */
#include "kernels/cuda/elements.cuh"

LX_KERNEL(THREADS) token_shift(const lx_cuda_token_shift a)
{
    int64_t end = (int64_t)*a.live * a.d;
    for (int64_t i = first_element(); i < end; i += element_stride()) {
        int64_t seq = i / a.d, column = i % a.d;
        float *state = a.states + a.slot[seq] * a.stride + column, last = *state;
        int64_t begin = a.seq_start[seq], behind = a.seq_start[seq + 1];
        int64_t branch = lx_branch_begin(a.branches, seq, begin, behind);
        for (int64_t t = begin; t < behind; t++) {
            if (t == branch) {
                *state = last;
                state = a.states + a.branches.slot[seq] * a.stride + column;
            }
            float x = a.x[t * a.d + column];
            for (int32_t c = 0; c < a.n_mixes; c++)
                a.y[c][t * a.d + column] = fmaf(a.mixes[(int64_t)c * a.d + column], last - x, x);
            last = x;
        }
        *state = last;
    }
}

extern "C" cudaError_t lx_cuda_launch_token_shift(const lx_cuda_token_shift *a, cudaStream_t stream)
{
    return LX_LAUNCH(token_shift, blocks_for((int64_t)a->n_seqs * a->d), THREADS, 0, stream, *a);
}
