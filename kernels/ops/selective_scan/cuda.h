typedef struct lx_cuda_selective_scan {
    float *y;
    uint16_t *twin;
    const float *x, *t, *b, *c;
    int64_t x_width, t_width, b_width, c_width;
    const float *a, *skip;
    float *states;
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, d, d_key;
} lx_cuda_selective_scan;
