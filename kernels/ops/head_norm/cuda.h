typedef struct lx_cuda_head_norm {
    float *y;
    uint16_t *twin;
    const float *x, *gate;     /* gate NULL for none */
    const float *gamma, *beta; /* NULL for none */
    int64_t y_width, x_width, gate_width;
    const int32_t *live;
    int32_t n_heads, d, rows;
    lx_norm_kind kind;
    lx_function f;
    bool gate_first;
    float eps;
} lx_cuda_head_norm;
