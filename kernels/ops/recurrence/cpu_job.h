/* Columns of one head of one sequence; v, y and s begin at the first one. */
typedef struct lx_cpu_recurrence {
    lx_cpu_inputs q, k, v, w, a, b, beta;
    const float *bonus; /* NULL for none */
    float *y, *s;
    const float *next; /* where this thread's next columns begin, or NULL */
    int64_t n_tokens, y_stride;
    int32_t d_key, d_value, columns;
    lx_decay decay; /* not FIXED: that is HEAD with stride 0 */
    lx_correction correction;
    lx_read read;
    float scale, skip;
    float *scratch; /* lx_cpu_recurrence_products(d_key) floats of this thread */
} lx_cpu_recurrence;

/* In whole lines of the cache. */
static inline int64_t lx_cpu_recurrence_products(int64_t d_key)
{
    return (d_key + 15) / 16 * 16;
}

typedef void lx_cpu_recurrence_loop(const lx_cpu_recurrence *job);
