/* Channels of one sequence; everything is at the first of them, rows but those of x d floats apart.
   bias NULL for none. */
typedef struct lx_cpu_short_conv {
    float *y, *state;
    lx_cpu_inputs x;
    const float *weights, *bias;
    int64_t n_tokens;
    int32_t d, columns, taps;
    lx_function f;
} lx_cpu_short_conv;

typedef void lx_cpu_short_conv_loop(const lx_cpu_short_conv *job);
