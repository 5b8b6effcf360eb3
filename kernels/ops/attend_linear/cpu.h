/* One head of one sequence, BODY_TOKENS tokens in a pass over its state. */

#define TOKENS_AHEAD 4 /* measured with four tokens per pass: 2 to 8 are alike */

/* The tokens of a pass: phi of their rows in scratch, `stride` floats apart, with zeros after
   d_key; their factors w, where the state fades; and their normalisers. */
typedef struct mapped {
    float *q, *k;
    int64_t stride;
    v16 w[BODY_TOKENS], norm[BODY_TOKENS];
} mapped;

/* phi of token t's rows of q and k. */
V16_FN void map_row(const lx_cpu_attend_linear *a, int64_t t, float *q, float *k,
                    lx_feature_map map)
{
    const float *from_q = a->q + t * a->x_stride, *from_k = a->k + t * a->x_stride;
    int32_t d = 0, rest = a->d_key % 16;
    for (; d + 16 <= a->d_key; d += 16) {
        v16_store(q + d, v16_phi(v16_load(from_q + d), map));
        v16_store(k + d, v16_phi(v16_load(from_k + d), map));
    }
    if (rest > 0) {
        v16_store(q + d, v16_keep_n(v16_phi(body_load(from_q + d, rest), map), rest));
        v16_store(k + d, v16_keep_n(v16_phi(body_load(from_k + d, rest), map), rest));
    }
}

/* map_row(.., map) with the job's map as a constant, so that no loop tests the map. */
#define BODY_FEATURE_MAP(map_row, a, ...)                                                          \
    switch ((a)->feature_map) {                                                                    \
    case LX_PHI_RELU:                                                                              \
        map_row(a, __VA_ARGS__, LX_PHI_RELU);                                                      \
        break;                                                                                     \
    case LX_PHI_RELU2:                                                                             \
        map_row(a, __VA_ARGS__, LX_PHI_RELU2);                                                     \
        break;                                                                                     \
    case LX_PHI_EXP:                                                                               \
        map_row(a, __VA_ARGS__, LX_PHI_EXP);                                                       \
        break;                                                                                     \
    default:                                                                                       \
        map_row(a, __VA_ARGS__, LX_PHI_ELU1);                                                      \
    }

static void feature_maps(const lx_cpu_attend_linear *a, int64_t t, float *q,
                         float *k){BODY_FEATURE_MAP(map_row, a, t, q, k)}

/* Elements d .. of z, sixteen or the n that are left: z = w z + phi(k), and their part of
   phi(q) . z, token after token. */
V16_FN void normalise(const lx_cpu_attend_linear *a, const mapped *x, const int tokens,
                      const bool fades, int32_t d, const int n, v16 *dot)
{
    v16 z = body_load(a->z + d, n);
    V16_UNROLL
    for (int i = 0; i < tokens; i++) {
        if (fades)
            z = v16_mul(z, x->w[i]);
        z = v16_add(z, v16_load(x->k + i * x->stride + d));
        dot[i] = v16_fma(v16_load(x->q + i * x->stride + d), z, dot[i]);
    }
    body_store(a->z + d, z, n);
}

/* phi(q) . z + eps of every token, with z after the token's own phi(k). */
V16_FN void normalisers(const lx_cpu_attend_linear *a, mapped *x, const int tokens,
                        const bool fades)
{
    v16 dot[BODY_TOKENS];
    int32_t d = 0;
    V16_UNROLL
    for (int i = 0; i < tokens; i++)
        dot[i] = v16_set1(0.0f);
    for (; d + 16 <= a->d_key; d += 16)
        normalise(a, x, tokens, fades, d, 16, dot);
    if (d < a->d_key)
        normalise(a, x, tokens, fades, d, a->d_key - d, dot);
    V16_UNROLL
    for (int i = 0; i < tokens; i++)
        x->norm[i] = v16_set1(v16_sum(dot[i]) + a->eps);
}

/*
 * Prefetches row d of the next state, and with d = d_key its z, which follows s. States of many
 * streams are in memory, not in caches, and a head's 4 KiB end before the processor has recognised
 * the access pattern. The first cache can await the data of one head only, so a later head goes to
 * the second cache.
 */
V16_FN void ask_for_row(const lx_cpu_attend_linear *a, int32_t d)
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
 * Values m .. of the tokens from t on: `vectors` times sixteen, or with n < 16 the last n. Makes
 * s = w s + phi(k) v^T and y = phi(q)^T s / normaliser in one pass over their columns of s.
 */
V16_FN void attend_values(const lx_cpu_attend_linear *a, const mapped *x, int64_t t,
                          const int tokens, const bool fades, int32_t m, const int vectors,
                          const int n)
{
    v16 v[BODY_TOKENS * 2], y[BODY_TOKENS * 2];
    V16_UNROLL
    for (int i = 0; i < tokens; i++) {
        V16_UNROLL
        for (int j = 0; j < vectors; j++) {
            v[i * 2 + j] = body_load(a->v + (t + i) * a->x_stride + m + 16 * j, n);
            y[i * 2 + j] = v16_set1(0.0f);
        }
    }
    float *s = a->s + m;
    for (int32_t d = 0; d < a->d_key; d++, s += a->d_value) {
        v16 sum[2];
        if (m == 0 && t + tokens == a->n_tokens)
            ask_for_row(a, d);
        V16_UNROLL
        for (int j = 0; j < vectors; j++)
            sum[j] = body_load(s + 16 * j, n);
        V16_UNROLL
        for (int i = 0; i < tokens; i++) {
            v16 k = v16_set1(x->k[i * x->stride + d]), q = v16_set1(x->q[i * x->stride + d]);
            V16_UNROLL
            for (int j = 0; j < vectors; j++) {
                if (fades)
                    sum[j] = v16_mul(sum[j], x->w[i]);
                sum[j] = v16_fma(k, v[i * 2 + j], sum[j]);
                y[i * 2 + j] = v16_fma(q, sum[j], y[i * 2 + j]);
            }
        }
        V16_UNROLL
        for (int j = 0; j < vectors; j++)
            body_store(s + 16 * j, sum[j], n);
    }
    V16_UNROLL
    for (int i = 0; i < tokens; i++) {
        V16_UNROLL
        for (int j = 0; j < vectors; j++)
            body_store(a->y + (t + i) * a->y_stride + m + 16 * j, v16_div(y[i * 2 + j], x->norm[i]),
                       n);
    }
}

/* Prefetches the rows of token t. A head's share of a row is a few cache lines, far from those of
   the next row. The output's lines may be in the cache of another core, which read the last output.
 */
V16_FN void ask_for_token(const lx_cpu_attend_linear *a, int64_t t)
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

/* Tokens t .. t + tokens - 1. */
V16_FN void attend_pass(const lx_cpu_attend_linear *a, mapped *x, int64_t t, const int tokens,
                        const bool fades)
{
    int32_t m = 0;
    for (int i = 0; i < tokens; i++) {
        if (t + i + TOKENS_AHEAD < a->n_tokens)
            ask_for_token(a, t + i + TOKENS_AHEAD);
        feature_maps(a, t + i, x->q + i * x->stride, x->k + i * x->stride);
        /* Without decays the factor 1 is never read, but gcc 13 does not see that. */
        x->w[i] = v16_set1(fades ? a->decay[(t + i) * a->decay_stride] : 1.0f);
    }
    normalisers(a, x, tokens, fades);
    if (t + tokens == a->n_tokens)
        ask_for_row(a, a->d_key); /* first, since z is needed first */
    for (; m + 32 <= a->d_value; m += 32)
        attend_values(a, x, t, tokens, fades, m, 2, 16);
    for (; m < a->d_value; m += 16)
        attend_values(a, x, t, tokens, fades, m, 1, a->d_value - m < 16 ? a->d_value - m : 16);
}

V16_FN void attend_run(const lx_cpu_attend_linear *a, const bool fades)
{
    mapped x; /* its factors and normalisers are written before they are read */
    int64_t t = 0;
    x.stride = (a->d_key + 15) / 16 * 16;
    x.q = a->scratch;
    x.k = a->scratch + BODY_TOKENS * x.stride;
    for (; t + BODY_TOKENS <= a->n_tokens; t += BODY_TOKENS)
        attend_pass(a, &x, t, BODY_TOKENS, fades);
    for (; t < a->n_tokens; t++)
        attend_pass(a, &x, t, 1, fades);
}

static void attend_linear(const lx_cpu_attend_linear *a)
{
    if (a->decay != NULL)
        attend_run(a, true);
    else
        attend_run(a, false);
}
