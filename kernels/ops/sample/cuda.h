typedef struct lx_cuda_sample {
    const float *logits;
    const lx_cuda_row *rows;
    const int32_t *banned; /* and bits of allowed ids; a row's places count from here */
    const char *biases;    /* lx_bias of all rows; places count bytes from here */
    lx_sample *top;        /* of all rows; places count from here */
    uint32_t *bits;        /* scratch [n_rows, (n_ids + 31) / 32] */
    lx_sample *out;
    int32_t *drawn;
    const int32_t *live;
    int32_t n_rows, n_ids;
} lx_cuda_sample;
