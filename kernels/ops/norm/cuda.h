typedef struct lx_cuda_norm {
    float *y;
    uint16_t *twin; /* only where d is a multiple of 8 */
    const float *x, *gamma, *beta;
    const int32_t *live;
    int32_t d, rows;
    float eps;
} lx_cuda_norm;
