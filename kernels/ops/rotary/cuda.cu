/* One thread per pair of columns of a row, for all heads. */
#include "kernels/cuda/elements.cuh"

/* The sequence that a row belongs to. */
LX_DEVICE int32_t sequence_of(const lx_cuda_rotary &a, int32_t row)
{
    int32_t from = 0, to = a.live->seqs;
    while (to - from > 1) {
        int32_t middle = (from + to) / 2;
        if (a.seq_start[middle] <= row)
            from = middle;
        else
            to = middle;
    }
    return from;
}

LX_KERNEL(THREADS) rotary(const lx_cuda_rotary a)
{
    int32_t pairs = a.d / 2;
    int64_t end = (int64_t)a.live->tokens * pairs;
    for (int64_t which = first_element(); which < end; which += element_stride()) {
        int32_t row = (int32_t)(which / pairs), i = (int32_t)(which % pairs);
        int32_t seq = sequence_of(a, row), position = a.position[seq] + row - a.seq_start[seq];
        float c = 1.0f, s = 0.0f;
        for (int32_t level = 0; level < LX_ROTARY_LEVELS; level++, position /= LX_ROTARY_STEPS) {
            int64_t at = (int64_t)(level * LX_ROTARY_STEPS + position % LX_ROTARY_STEPS) * a.d + i;
            float more = a.turns[at], aside = a.turns[at + pairs], old = c;
            c = fmaf(c, more, -(s * aside));
            s = fmaf(s, more, old * aside);
        }
        float *x = a.x + row * a.width + i;
        for (int32_t h = 0; h < a.n_heads; h++, x += a.apart) {
            float left = x[0], right = x[pairs];
            x[0] = fmaf(left, c, -(right * s));
            x[pairs] = fmaf(right, c, left * s);
        }
    }
}

extern "C" cudaError_t lx_cuda_launch_rotary(const lx_cuda_rotary *a, cudaStream_t stream)
{
    return LX_LAUNCH(rotary, blocks_for((int64_t)a->rows * (a->d / 2)), THREADS, 0, stream, *a);
}
