typedef struct lx_cuda_gate {
    float *y;
    uint16_t *twin;                      /* [rows, d] */
    const float *x, *z, *other;          /* z and other NULL for none */
    const float *bias, *factor, *offset; /* NULL for none */
    int64_t y_width, x_width, z_width, other_width;
    const int32_t *live;
    int32_t d, rows;
    lx_function f;
    bool exponent, towards;
} lx_cuda_gate;
