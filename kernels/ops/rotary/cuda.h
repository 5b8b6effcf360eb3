typedef struct lx_cuda_rotary {
    float *x;
    const float *turns;
    const int32_t *seq_start, *position;
    const lx_cuda_live *live;
    int64_t width;
    int32_t rows, n_heads, apart, d;
} lx_cuda_rotary;
