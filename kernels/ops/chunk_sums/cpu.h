/* Some columns of one sequence, token after token. Lanes are columns of the sums. */

/* Columns m .. of a token: sixteen, or the n that are left; is_first: of its chunk. */
V16_FN void chunk_token(const lx_cpu_chunk_sums *a, int64_t t, int32_t m, int n, bool is_first)
{
    const float *q = a->q.at + t * a->q.stride, *k = a->k.at + t * a->k.stride;
    float *s = a->s + m, *p = s + (int64_t)a->d_key * a->d_value;
    v16 zero = v16_set1(0.0f), sum = zero, v = v16_load_n(a->v.at + t * a->v.stride + m, n, zero);
    for (int32_t d = 0; d < a->d_key; d++, s += a->d_value, p += a->d_value) {
        v16 done = v16_load_n(s, n, zero), open = v16_load_n(p, n, zero);
        if (is_first) {
            done = v16_add(done, open);
            open = zero;
            v16_store_n(s, done, n);
        }
        sum = v16_fma(v16_set1(q[d]), done, sum);
        v16_store_n(p, v16_fma(v16_set1(k[d]), v, open), n);
    }
    float *y = a->y + t * a->d_value + m;
    v16_store_n(y, v16_fma(v16_set1(a->scale), sum, v16_load_n(y, n, zero)), n);
}

static void chunk_sums(const lx_cpu_chunk_sums *a)
{
    for (int32_t m = 0; m < a->columns; m += 16) {
        for (int64_t t = 0; t < a->n_tokens; t++) {
            bool is_first = (a->position + t) % a->chunk == 0;
            if (a->columns - m >= 16)
                chunk_token(a, t, m, 16, is_first);
            else
                chunk_token(a, t, m, a->columns - m, is_first);
        }
    }
}
