/* Some columns of one sequence: sixteen at a time, token after token. */

static void token_shift(const lx_cpu_token_shift *a)
{
    v16 zero = v16_set1(0.0f);
    for (int32_t i = 0; i < a->columns; i += 16) {
        int n = a->columns - i < 16 ? a->columns - i : 16;
        v16 last = v16_load_n(a->state + i, n, zero);
        for (int64_t t = 0; t < a->n_tokens; t++) {
            v16 x = v16_load_n(a->x + t * a->d + i, n, zero), change = v16_sub(last, x);
            for (int32_t c = 0; c < a->n_mixes; c++) {
                v16 mix = v16_load_n(a->mixes + (int64_t)c * a->d + i, n, zero);
                v16_store_n(a->y[c] + t * a->d + i, v16_fma(mix, change, x), n);
            }
            last = x;
        }
        v16_store_n(a->state + i, last, n);
    }
}
