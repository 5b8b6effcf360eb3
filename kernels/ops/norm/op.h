/* LayerNorm: y[r] = (x[r] - mean) / sqrt(var + eps) * gamma + beta; y may be x */
typedef struct lx_norm_args {
    lx_array *y;
    const lx_array *x;
    const lx_array *gamma, *beta; /* [d] */
    int32_t d;
    float eps;
    lx_rows rows;
} lx_norm_args;
