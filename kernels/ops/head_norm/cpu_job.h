/* A head of a row, see lx_norm_kind; NULL for a missing array. */
typedef struct lx_cpu_head_norm {
    float *y;
    const float *x, *gate, *gamma, *beta;
    int32_t d;
    lx_norm_kind kind;
    lx_function f;
    bool gate_first;
    float eps;
} lx_cpu_head_norm;

typedef void lx_cpu_head_norm_loop(const lx_cpu_head_norm *job);
