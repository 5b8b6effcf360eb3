/* Channels of one sequence. x, t, y, a, skip and state are at the first of them; rows of y, a and
   state are d floats apart. */
typedef struct lx_cpu_selective_scan {
    lx_cpu_inputs x, t, b, c;
    const float *a, *skip;
    float *y, *state;
    int64_t n_tokens;
    int32_t d, d_key, columns;
} lx_cpu_selective_scan;

typedef void lx_cpu_selective_scan_loop(const lx_cpu_selective_scan *job);
