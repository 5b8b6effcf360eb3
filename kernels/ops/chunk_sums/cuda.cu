/* A thread carries a column of a sequence's sums through its tokens. */
#include "kernels/cuda/elements.cuh"

LX_KERNEL(THREADS) chunk_sums(const lx_cuda_chunk_sums a)
{
    int64_t end = (int64_t)*a.live * a.d_value, below = (int64_t)a.d_key * a.d_value;
    for (int64_t i = first_element(); i < end; i += element_stride()) {
        int64_t seq = i / a.d_value, column = i % a.d_value;
        float *s = a.states + a.slot[seq] * a.stride + column, *p = s + below;
        for (int64_t t = a.seq_start[seq]; t < a.seq_start[seq + 1]; t++) {
            bool is_first = (a.position[seq] + t - a.seq_start[seq]) % a.chunk == 0;
            const float *q = a.q + t * a.q_width, *k = a.k + t * a.k_width;
            float v = a.v[t * a.v_width + column], sum = 0.0f;
            for (int64_t d = 0; d < below; d += a.d_value) {
                float done = s[d], open = p[d];
                if (is_first) {
                    done += open;
                    open = 0.0f;
                    s[d] = done;
                }
                sum = fmaf(*q++, done, sum);
                p[d] = fmaf(*k++, v, open);
            }
            float *y = a.y + t * a.d_value + column;
            *y = fmaf(a.scale, sum, *y);
        }
    }
}

extern "C" cudaError_t lx_cuda_launch_chunk_sums(const lx_cuda_chunk_sums *a, cudaStream_t stream)
{
    return LX_LAUNCH(chunk_sums, blocks_for((int64_t)a->n_seqs * a->d_value), THREADS, 0, stream,
                     *a);
}
