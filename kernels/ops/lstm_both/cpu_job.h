/* One way of one sequence, from the first token that it comes to; strides are below 0 on the way
   back. */
typedef struct lx_cpu_lstm_both {
    const float *x, *u;
    float *y;
    int64_t n_tokens, x_stride, y_stride;
    int32_t n;
    float *scratch; /* lx_cpu_lstm_both_scratch(n) floats of this thread */
} lx_cpu_lstm_both;

static inline int64_t lx_cpu_lstm_both_gates(int64_t n)
{
    return (4 * n + 15) / 16 * 16;
}

/* Gates and cells. */
static inline int64_t lx_cpu_lstm_both_scratch(int64_t n)
{
    return lx_cpu_lstm_both_gates(n) + (n + 15) / 16 * 16;
}

typedef void lx_cpu_lstm_both_loop(const lx_cpu_lstm_both *job);
