/* A linear layer with an optional activation and residual:
   y[r] = act(W x[r] + b) + residual[r]               x [rows, cols of W], y [rows, rows of W] */
typedef enum lx_activation { LX_ACT_NONE, LX_ACT_RELU, LX_ACT_GELU /* erf form */ } lx_activation;

typedef struct lx_linear_args {
    lx_array *y;
    const lx_array *x; /* not y */
    const lx_matrix *w;
    lx_activation activation;
    const lx_array *residual; /* NULL for none; may be y */
    lx_rows rows;
} lx_linear_args;
