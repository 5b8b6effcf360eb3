typedef struct lx_cuda_short_conv {
    float *y;
    uint16_t *twin;
    const float *x;
    int64_t x_width;
    const float *weights, *bias; /* bias NULL for none */
    float *states;
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, d, taps;
    lx_function f;
} lx_cuda_short_conv;
