/* What the inner loop of `attend_linear` is given (cpu.h); included by cpu/isa.h. */

/* One head of one sequence: n_tokens rows, x_stride or y_stride floats apart. */
typedef struct lx_cpu_attend_linear {
    const float *q, *k, *v;
    float *y;
    float *s, *z; /* the state: [d_key, d_value], [d_key] */
    /* the states this thread takes next, s and behind it z, and some heads later; or NULL */
    const float *next, *later;
    int64_t n_tokens, x_stride, y_stride;
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
