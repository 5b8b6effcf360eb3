/* One head of one sequence, token after token. */

#define TOKENS_AHEAD 2

/* phi of one row of q and k, into scratch; lanes behind d_key are 0. */
V16_FN void map_row(const lx_cpu_attend *a, const float *q, const float *k, lx_feature_map map)
{
    float *phi_q = a->scratch, *phi_k = a->scratch + lx_cpu_attend_scratch(a->d_key) / 2;
    for (int32_t d = 0; d < a->d_key; d += 16) {
        int n = a->d_key - d < 16 ? a->d_key - d : 16;
        v16 zero = v16_set1(0.0f);
        v16_store(phi_q + d, v16_keep_n(v16_phi(v16_load_n(q + d, n, zero), map), n));
        v16_store(phi_k + d, v16_keep_n(v16_phi(v16_load_n(k + d, n, zero), map), n));
    }
}

/* A loop for each map, so that none asks within it which one it is. */
static void feature_maps(const lx_cpu_attend *a, const float *q, const float *k)
{
    switch (a->feature_map) {
    case LX_PHI_RELU:
        map_row(a, q, k, LX_PHI_RELU);
        break;
    case LX_PHI_RELU2:
        map_row(a, q, k, LX_PHI_RELU2);
        break;
    case LX_PHI_EXP:
        map_row(a, q, k, LX_PHI_EXP);
        break;
    default:
        map_row(a, q, k, LX_PHI_ELU1);
    }
}

/* z += phi(k); returns phi(q) . z + eps */
static float normaliser(const lx_cpu_attend *a)
{
    const float *phi_q = a->scratch, *phi_k = a->scratch + lx_cpu_attend_scratch(a->d_key) / 2;
    v16 zero = v16_set1(0.0f), dot = zero;
    for (int32_t d = 0; d < a->d_key; d += 16) {
        int n = a->d_key - d < 16 ? a->d_key - d : 16;
        v16 z = v16_add(v16_load_n(a->z + d, n, zero), v16_load(phi_k + d));
        v16_store_n(a->z + d, z, n);
        dot = v16_fma(v16_load(phi_q + d), z, dot);
    }
    return v16_sum(dot) + a->eps;
}

/*
 * Asks for row d of the state that comes next, and with d = d_key for its z, which lies behind s.
 * States of many streams lie in memory, not in caches, and a head's 4 KiB are over before the
 * processor has seen in which direction they lie. The first cache has room for what is on its way
 * for one head only; so the second is asked for one that comes later.
 */
V16_FN void ask_for_row(const lx_cpu_attend *a, int32_t d)
{
    if (a->next != NULL) {
        const float *row = a->next + (int64_t)d * a->d_value;
        __builtin_prefetch(row, 1, 3);
        __builtin_prefetch(row + 16, 1, 3);
    }
    if (a->later != NULL) {
        const float *row = a->later + (int64_t)d * a->d_value;
        __builtin_prefetch(row, 0, 2);
        __builtin_prefetch(row + 16, 0, 2);
    }
}

/*
 * Values m .. of one token: s += phi(k) v^T and y = phi(q)^T s / normaliser in one pass over their
 * columns of s. 32 columns, or the n <= 16 that are left.
 */
V16_FN void attend_32_values(const lx_cpu_attend *a, const float *v, float *y, int32_t m, v16 norm)
{
    const float *phi_q = a->scratch, *phi_k = a->scratch + lx_cpu_attend_scratch(a->d_key) / 2;
    v16 v0 = v16_load(v + m), v1 = v16_load(v + m + 16), y0 = v16_set1(0.0f), y1 = y0;
    float *s = a->s + m;
    for (int32_t d = 0; d < a->d_key; d++, s += a->d_value) {
        if (m == 0)
            ask_for_row(a, d);
        v16 k = v16_set1(phi_k[d]), q = v16_set1(phi_q[d]);
        v16 s0 = v16_fma(k, v0, v16_load(s)), s1 = v16_fma(k, v1, v16_load(s + 16));
        v16_store(s, s0);
        v16_store(s + 16, s1);
        y0 = v16_fma(q, s0, y0);
        y1 = v16_fma(q, s1, y1);
    }
    v16_store(y + m, v16_div(y0, norm));
    v16_store(y + m + 16, v16_div(y1, norm));
}

V16_FN void attend_n_values(const lx_cpu_attend *a, const float *v, float *y, int32_t m, int n,
                            v16 norm)
{
    const float *phi_q = a->scratch, *phi_k = a->scratch + lx_cpu_attend_scratch(a->d_key) / 2;
    v16 zero = v16_set1(0.0f), v0 = v16_load_n(v + m, n, zero), y0 = zero;
    float *s = a->s + m;
    for (int32_t d = 0; d < a->d_key; d++, s += a->d_value) {
        v16 s0 = v16_fma(v16_set1(phi_k[d]), v0, v16_load_n(s, n, zero));
        v16_store_n(s, s0, n);
        y0 = v16_fma(v16_set1(phi_q[d]), s0, y0);
    }
    v16_store_n(y + m, v16_div(y0, norm), n);
}

/* Asks for what token t reads and writes. A head's share of a row is a few lines, far from those
   of the next row, and its output's may be in the cache of the core that read the one before. */
V16_FN void ask_for_token(const lx_cpu_attend *a, int64_t t)
{
    for (int32_t d = 0; d < a->d_key; d += 16) {
        __builtin_prefetch(a->q + t * a->x_stride + d, 0, 3);
        __builtin_prefetch(a->k + t * a->x_stride + d, 0, 3);
    }
    for (int32_t m = 0; m < a->d_value; m += 16) {
        __builtin_prefetch(a->v + t * a->x_stride + m, 0, 3);
        __builtin_prefetch(a->y + t * a->y_stride + m, 1, 3);
    }
}

static void attend(const lx_cpu_attend *a)
{
    for (int64_t t = 0; t < a->n_tokens; t++) {
        if (t + TOKENS_AHEAD < a->n_tokens)
            ask_for_token(a, t + TOKENS_AHEAD);
        const float *v = a->v + t * a->x_stride;
        float *y = a->y + t * a->y_stride;
        int32_t m = 0;
        feature_maps(a, a->q + t * a->x_stride, a->k + t * a->x_stride);
        v16 norm = v16_set1(normaliser(a));
        ask_for_row(a, a->d_key); /* before the others: z is needed first */
        for (; m + 32 <= a->d_value; m += 32)
            attend_32_values(a, v, y, m, norm);
        for (; m < a->d_value; m += 16)
            attend_n_values(a, v, y, m, a->d_value - m < 16 ? a->d_value - m : 16, norm);
    }
}
