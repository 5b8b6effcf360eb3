typedef struct lx_cuda_token_shift {
    float *y[LX_SHIFT_MOST_MIXES];
    const float *x, *mixes;
    float *states;
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, d, n_mixes;
} lx_cuda_token_shift;
