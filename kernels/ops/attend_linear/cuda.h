typedef struct lx_cuda_attend_linear {
    float *y;
    uint16_t *twin;
    const float *qkv;
    float *states;
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, n_heads, d_key, d_value, feature_map;
    float eps;
} lx_cuda_attend_linear;
