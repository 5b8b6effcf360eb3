typedef struct lx_cuda_sample_mixture {
    const float *parameters;
    const lx_cuda_row *rows;
    lx_sample *out;
    int32_t *drawn;
    const int32_t *live;
    int32_t n_rows, n, levels;
} lx_cuda_sample_mixture;
