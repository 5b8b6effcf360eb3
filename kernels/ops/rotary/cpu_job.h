/* The heads of a row, [apart] each, of which d columns turn; scratch [d]. */
typedef struct lx_cpu_rotary {
    float *x, *scratch;
    const float *turns[LX_ROTARY_LEVELS]; /* [d] each: this position's */
    int32_t d, apart, n_heads;
} lx_cpu_rotary;

typedef void lx_cpu_rotary_loop(const lx_cpu_rotary *job);
