/* A head of a row; z NULL for none. */
typedef struct lx_cpu_bonus {
    float *y;
    const float *x, *q, *k, *v, *z, *u;
    int32_t d_key, d_value;
} lx_cpu_bonus;

typedef void lx_cpu_bonus_loop(const lx_cpu_bonus *job);
