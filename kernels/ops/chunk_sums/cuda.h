typedef struct lx_cuda_chunk_sums {
    float *y;
    const float *q, *k, *v;
    int64_t q_width, k_width, v_width;
    float *states;
    int64_t stride;
    const int32_t *seq_start, *slot, *position;
    const int32_t *live;
    int32_t n_seqs, d_key, d_value, chunk;
    float scale;
} lx_cuda_chunk_sums;
