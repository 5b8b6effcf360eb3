typedef struct lx_cuda_gather {
    float *y;
    const float *x;
    const int32_t *row; /* [rows]: the rows of x that are gathered */
    const int32_t *live;
    int32_t d, width, rows;
} lx_cuda_gather;
