typedef struct lx_cuda_bonus {
    float *y;
    uint16_t *twin;
    const float *x, *q, *k, *v, *z, *u; /* z NULL for none */
    int64_t x_width, q_width, k_width, v_width, z_width;
    const int32_t *live;
    int32_t rows, n_heads, d_key, d_value;
} lx_cuda_bonus;
