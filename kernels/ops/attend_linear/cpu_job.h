/* One head of one sequence: n_tokens rows, x_stride or y_stride floats apart. */
typedef struct lx_cpu_attend_linear {
    const float *q, *k, *v;
    const float *decay; /* a factor of the state for each token, decay_stride apart; or NULL */
    float *y;
    float *s, *z; /* the state: [d_key, d_value], [d_key] */
    /* the states, s and then z, that this thread takes next, and some heads later; or NULL */
    const float *next, *later;
    int64_t n_tokens, x_stride, y_stride, decay_stride;
    int32_t d_key, d_value;
    lx_feature_map feature_map;
    float eps;
    float *scratch; /* lx_cpu_attend_linear_scratch(d_key) floats of this thread */
} lx_cpu_attend_linear;

#define LX_CPU_MAX_TOKENS 4 /* of a sequence that go through its state together, at most */

static inline int64_t lx_cpu_attend_linear_scratch(int64_t d_key)
{
    return 2 * LX_CPU_MAX_TOKENS * ((d_key + 15) / 16 * 16);
}

typedef void lx_cpu_attend_linear_loop(const lx_cpu_attend_linear *job);

/* Rows row .. row + n_tokens - 1 of a head, whose state is s. */
static inline lx_cpu_attend_linear lx_cpu_attend_linear_of(const lx_attend_linear_args *a,
                                                           int64_t row, int64_t n_tokens,
                                                           int64_t head, float *s, float *scratch)
{
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value;
    int64_t x_stride = n * (2 * dk + dv), y_stride = n * dv;
    const float *x = a->qkv->data + row * x_stride;
    return (lx_cpu_attend_linear){
        .q = x + head * dk,
        .k = x + n * dk + head * dk,
        .v = x + 2 * n * dk + head * dv,
        .decay = a->decay != NULL ? a->decay->data + row * n + head : NULL,
        .decay_stride = n,
        .y = a->y->data + row * y_stride + head * dv,
        .s = s,
        .z = s + dk * dv,
        .n_tokens = n_tokens,
        .x_stride = x_stride,
        .y_stride = y_stride,
        .d_key = a->d_key,
        .d_value = a->d_value,
        .feature_map = a->feature_map,
        .eps = a->eps,
        .scratch = scratch,
    };
}
