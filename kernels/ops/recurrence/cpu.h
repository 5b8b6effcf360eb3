/* Some columns of one head of one sequence, token by token. Lanes are columns of the state. */

/*
 * Products of a token that all its columns share, [d_key]: w k for the delta rule with one decay
 * per channel, bonus k for a read before the update.
 */
V16_FN const float *recur_products(const lx_cpu_recurrence *r, const float *x, const float *k)
{
    v16 zero = v16_set1(0.0f);
    for (int32_t d = 0; d < r->d_key; d += 16) {
        int n = r->d_key - d < 16 ? r->d_key - d : 16;
        v16 product = v16_mul(v16_load_n(x + d, n, zero), v16_load_n(k + d, n, zero));
        v16_store(r->scratch + d, product);
    }
    return r->scratch;
}

/*
 * Prefetches vectors first, first + every .. of row d of the next state: states of many streams are
 * in memory, not in caches. Of two passes over a state each prefetches half, so that the first does
 * not wait. The first-level cache has no room for a second state.
 */
V16_FN void recur_ask(const lx_cpu_recurrence *r, int32_t d, int32_t m, int first, int every,
                      int vectors)
{
    if (r->next == NULL)
        return;
    V16_UNROLL
    for (int i = first; i < vectors; i += every)
        __builtin_prefetch(r->next + (int64_t)d * r->d_value + m + 16 * i, 0, 2);
}

/* p = S^T x for these columns, d in order. */
V16_FN void recur_dot(const lx_cpu_recurrence *r, const float *x, int32_t m, int vectors, int n,
                      v16 *p)
{
    const float *s = r->s + m;
    for (int i = 0; i < vectors; i++)
        p[i] = v16_set1(0.0f);
    for (int32_t d = 0; d < r->d_key; d++, s += r->d_value) {
        v16 left = v16_set1(x[d]);
        recur_ask(r, d, m, 0, 2, vectors);
        V16_UNROLL
        for (int i = 0; i < vectors; i++)
            p[i] = v16_fma(left, body_load(s + 16 * i, n), p[i]);
    }
}

/* What the state is multiplied by before token t corrects it, [d_key]. */
V16_FN const float *recur_left(const lx_cpu_recurrence *r, int64_t t, lx_decay decay,
                               lx_correction correction)
{
    const float *k = r->k.at + t * r->k.stride;
    if (correction == LX_CORRECT_PAIR)
        return r->a.at + t * r->a.stride;
    return decay == LX_DECAY_CHANNEL ? recur_products(r, r->w.at + t * r->w.stride, k) : k;
}

/*
 * One token of columns m .. of the head: `vectors` times sixteen, or with n < 16 the last n. The
 * equation is in op.h. With one decay per head, R^T k is w (S^T k). With a correction p has the
 * products of recur_left. If tokens follow, the next one's are made of the rows that are written,
 * in the same order, so that a state is passed once per token.
 */
V16_FN void recur_token(const lx_cpu_recurrence *r, int64_t t, int32_t m, int vectors, int n,
                        lx_decay decay, lx_correction correction, lx_read read, v16 *p,
                        const bool follow)
{
    const float *q = r->q.at + t * r->q.stride, *k = r->k.at + t * r->k.stride;
    const float *w = decay != LX_DECAY_NONE ? r->w.at + t * r->w.stride : NULL;
    const float *b = correction == LX_CORRECT_PAIR ? r->b.at + t * r->b.stride : NULL;
    const float *mixed = NULL, *left = follow ? recur_left(r, t + 1, decay, correction) : NULL;
    v16 zero = v16_set1(0.0f), w_head = v16_set1(decay == LX_DECAY_HEAD ? w[0] : 1.0f);
    v16 beta = v16_set1(r->beta.at != NULL ? r->beta.at[t * r->beta.stride] : 1.0f);
    v16 v[4], u[4], y[4], then[4];
    if (read == LX_READ_BEFORE && r->bonus != NULL)
        mixed = recur_products(r, r->bonus, k);
    V16_UNROLL
    for (int i = 0; i < vectors; i++) {
        v[i] = body_load(r->v.at + t * r->v.stride + m + 16 * i, n);
        u[i] = v[i];
        if (correction == LX_CORRECT_DELTA)
            u[i] = v16_fma(v16_sub(zero, w_head), p[i], v[i]);
        u[i] = v16_mul(beta, u[i]);
        y[i] = zero;
        then[i] = zero;
    }
    float *s = r->s + m;
    for (int32_t d = 0; d < r->d_key; d++, s += r->d_value) {
        v16 key = v16_set1(k[d]), query = v16_set1(q[d]);
        v16 factor = decay == LX_DECAY_CHANNEL ? v16_set1(w[d]) : w_head;
        if (correction == LX_CORRECT_NONE)
            recur_ask(r, d, m, 0, 1, vectors);
        else if (!follow)
            recur_ask(r, d, m, 1, 2, vectors);
        V16_UNROLL
        for (int i = 0; i < vectors; i++) {
            v16 x = body_load(s + 16 * i, n);
            if (read == LX_READ_BEFORE)
                y[i] =
                    v16_fma(query, mixed != NULL ? v16_fma(v16_set1(mixed[d]), v[i], x) : x, y[i]);
            x = decay != LX_DECAY_NONE ? v16_mul(factor, x) : x;
            if (correction == LX_CORRECT_PAIR)
                x = v16_fma(v16_set1(b[d]), p[i], x);
            x = v16_fma(key, u[i], x);
            if (read == LX_READ_AFTER)
                y[i] = v16_fma(query, x, y[i]);
            if (follow)
                then[i] = v16_fma(v16_set1(left[d]), x, then[i]);
            body_store(s + 16 * i, x, n);
        }
    }
    V16_UNROLL
    for (int i = 0; i < vectors; i++) {
        y[i] = v16_fma(v16_set1(r->skip), v[i], v16_mul(v16_set1(r->scale), y[i]));
        body_store(r->y + t * r->y_stride + m + 16 * i, y[i], n);
        if (follow)
            p[i] = then[i];
    }
}

V16_FN void recur_tokens(const lx_cpu_recurrence *r, int32_t m, int vectors, int n, lx_decay decay,
                         lx_correction correction, lx_read read)
{
    const bool corrects = correction != LX_CORRECT_NONE;
    v16 p[4];
    if (corrects)
        recur_dot(r, recur_left(r, 0, decay, correction), m, vectors, n, p);
    for (int64_t t = 0; t < r->n_tokens - corrects; t++)
        recur_token(r, t, m, vectors, n, decay, correction, read, p, corrects);
    if (corrects)
        recur_token(r, r->n_tokens - 1, m, vectors, n, decay, correction, read, p, false);
}

/* All tokens over some columns before the next columns, so that these stay in the cache. */
V16_FN void recur_columns(const lx_cpu_recurrence *r, lx_decay decay, lx_correction correction,
                          lx_read read)
{
    int32_t m = 0;
#define RECUR_TOKENS(VECTORS, N) recur_tokens(r, m, VECTORS, N, decay, correction, read);
#if BODY_MAX_SUMS >= 8 /* enough registers; more columns per row are faster */
    for (; m + 64 <= r->columns; m += 64)
        RECUR_TOKENS(4, 16)
#endif
    for (; m + 32 <= r->columns; m += 32)
        RECUR_TOKENS(2, 16)
    for (; m < r->columns; m += 16)
        RECUR_TOKENS(1, r->columns - m < 16 ? r->columns - m : 16)
#undef RECUR_TOKENS
}

#define RECUR_DECAYS(X, CORRECTION, READ)                                                          \
    X(NONE, CORRECTION, READ) X(HEAD, CORRECTION, READ) X(CHANNEL, CORRECTION, READ)
#define RECUR_ALL(X)                                                                               \
    RECUR_DECAYS(X, NONE, AFTER)                                                                   \
    RECUR_DECAYS(X, NONE, BEFORE) RECUR_DECAYS(X, DELTA, AFTER) RECUR_DECAYS(X, PAIR, AFTER)

#define RECUR_FUNCTION(DECAY, CORRECTION, READ)                                                    \
    static void recur_##DECAY##_##CORRECTION##_##READ(const lx_cpu_recurrence *r)                  \
    {                                                                                              \
        recur_columns(r, LX_DECAY_##DECAY, LX_CORRECT_##CORRECTION, LX_READ_##READ);               \
    }
RECUR_ALL(RECUR_FUNCTION)
#undef RECUR_FUNCTION

static void recurrence(const lx_cpu_recurrence *r)
{
#define RECUR_ENTRY(DECAY, CORRECTION, READ)                                                       \
    [LX_DECAY_##DECAY][LX_CORRECT_##CORRECTION][LX_READ_##READ] =                                  \
        recur_##DECAY##_##CORRECTION##_##READ,
    static void (*const all[LX_DECAY_CHANNEL + 1][LX_CORRECT_PAIR + 1][LX_READ_BEFORE + 1])(
        const lx_cpu_recurrence *) = {RECUR_ALL(RECUR_ENTRY)};
#undef RECUR_ENTRY
    if (r->n_tokens > 0)
        all[r->decay][r->correction][r->read](r);
}
