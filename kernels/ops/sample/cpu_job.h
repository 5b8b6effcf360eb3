#define LX_CPU_BLOCK 256 /* ids summed in f32 before the sum goes on in double */

/* Passes over n values. */
typedef const struct lx_cpu_sample_loops {
    /* false when a value is not finite; *largest receives the greatest. */
    bool (*scan)(const float *x, int32_t n, float *largest);
    /* The least and greatest of the values that are not -infinity; false when there are none. */
    bool (*range)(const float *x, int32_t n, float *least, float *greatest);
    /* y = x + bias (bias may be NULL) */
    void (*add)(float *y, const float *x, const float *bias, int32_t n);
    /* w = exp((x - largest) / temperature), x <= largest; returns the sum of w; w may be x. */
    double (*weights)(float *w, const float *x, int32_t n, float largest, float temperature);
    /* The sum of a block of at most LX_CPU_BLOCK, in the order `weights` uses. */
    double (*sum)(const float *x, int32_t n);
    /* The sum of w[i] over the ids with x[i] >= level, which is above -infinity, and their number.
     */
    double (*above)(const float *x, const float *w, int32_t n, float level, int32_t *count);
} lx_cpu_sample_loop;
