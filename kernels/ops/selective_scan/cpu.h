/* Some channels of one sequence, token by token. Lanes are channels. */

/*
 * One token of channels m ..: `vectors` times sixteen, or with n < 16 the last n. The equation is
 * in op.h.
 */
V16_FN void scan_token(const lx_cpu_selective_scan *a, int64_t row, int32_t m, int vectors, int n)
{
    const float *x_row = a->x.at + row * a->x.stride + m, *t_row = a->t.at + row * a->t.stride + m;
    const float *b = a->b.at + row * a->b.stride, *c = a->c.at + row * a->c.stride;
    const float *rates = a->a + m;
    float *s = a->state + m;
    v16 x[4], t[4], u[4], y[4];
    V16_UNROLL
    for (int i = 0; i < vectors; i++) {
        x[i] = body_load(x_row + 16 * i, n);
        t[i] = body_load(t_row + 16 * i, n);
        u[i] = v16_mul(t[i], x[i]);
        y[i] = v16_set1(0.0f);
    }
    for (int32_t k = 0; k < a->d_key; k++, rates += a->d, s += a->d) {
        v16 key = v16_set1(b[k]), query = v16_set1(c[k]);
        V16_UNROLL
        for (int i = 0; i < vectors; i++) {
            v16 w = v16_exp(v16_mul(t[i], body_load(rates + 16 * i, n)));
            v16 next = v16_fma(w, body_load(s + 16 * i, n), v16_mul(key, u[i]));
            y[i] = v16_fma(query, next, y[i]);
            body_store(s + 16 * i, next, n);
        }
    }
    V16_UNROLL
    for (int i = 0; i < vectors; i++) {
        y[i] = v16_fma(body_load(a->skip + m + 16 * i, n), x[i], y[i]);
        body_store(a->y + row * a->d + m + 16 * i, y[i], n);
    }
}

/* All tokens over some channels before the next channels, so that these stay in the cache. */
static void selective_scan(const lx_cpu_selective_scan *a)
{
    int32_t m = 0;
#define SCAN_TOKENS(VECTORS, N)                                                                    \
    for (int64_t row = 0; row < a->n_tokens; row++)                                                \
        scan_token(a, row, m, VECTORS, N);
#if BODY_MAX_SUMS >= 8 /* enough registers: exponentials of more channels overlap */
    for (; m + 64 <= a->columns; m += 64)
        SCAN_TOKENS(4, 16)
#endif
    for (; m + 32 <= a->columns; m += 32)
        SCAN_TOKENS(2, 16)
    for (; m < a->columns; m += 16)
        SCAN_TOKENS(1, a->columns - m < 16 ? a->columns - m : 16)
#undef SCAN_TOKENS
}
