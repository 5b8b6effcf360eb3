/* Columns of one sequence; everything is at the first of them, rows d floats apart. */
typedef struct lx_cpu_token_shift {
    float *y[LX_SHIFT_MOST_MIXES];
    float *state;
    const float *x, *mixes;
    int64_t n_tokens;
    int32_t d, columns, n_mixes;
} lx_cpu_token_shift;

typedef void lx_cpu_token_shift_loop(const lx_cpu_token_shift *job);
