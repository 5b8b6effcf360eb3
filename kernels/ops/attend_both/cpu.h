/* One head of one sequence: the sums over all tokens, in their order, then each token's output. */

/* phi of a row of q or k, into scratch, with zeros after d_key. */
V16_FN void both_map_row(const lx_cpu_attend_linear *a, const float *x, lx_feature_map map)
{
    for (int32_t d = 0; d < a->d_key; d += 16) {
        int n = a->d_key - d < 16 ? a->d_key - d : 16;
        v16 row = v16_load_n(x + d, n, v16_set1(0.0f));
        v16_store(a->scratch + d, v16_keep_n(v16_phi(row, map), n));
    }
}

static void both_map(const lx_cpu_attend_linear *a, const float *x)
{
    BODY_FEATURE_MAP(both_map_row, a, x)
}

/* s += phi(k) v^T, z += phi(k), phi(k) being in scratch. */
static void both_add(const lx_cpu_attend_linear *a, const float *v)
{
    v16 zero = v16_set1(0.0f);
    for (int32_t d = 0; d < a->d_key; d += 16) {
        int n = a->d_key - d < 16 ? a->d_key - d : 16;
        v16_store_n(a->z + d, v16_add(v16_load_n(a->z + d, n, zero), v16_load(a->scratch + d)), n);
    }
    for (int32_t m = 0; m < a->d_value; m += 16) {
        int n = a->d_value - m < 16 ? a->d_value - m : 16;
        v16 value = v16_load_n(v + m, n, zero);
        float *s = a->s + m;
        for (int32_t d = 0; d < a->d_key; d++, s += a->d_value)
            v16_store_n(s, v16_fma(v16_set1(a->scratch[d]), value, v16_load_n(s, n, zero)), n);
    }
}

/* y, phi(q) being in scratch. */
static void both_read(const lx_cpu_attend_linear *a, float *y)
{
    v16 zero = v16_set1(0.0f), dot = zero;
    for (int32_t d = 0; d < a->d_key; d += 16) {
        int n = a->d_key - d < 16 ? a->d_key - d : 16;
        dot = v16_fma(v16_load(a->scratch + d), v16_load_n(a->z + d, n, zero), dot);
    }
    v16 norm = v16_set1(v16_sum(dot) + a->eps);
    for (int32_t m = 0; m < a->d_value; m += 16) {
        int n = a->d_value - m < 16 ? a->d_value - m : 16;
        v16 sum = zero;
        const float *s = a->s + m;
        for (int32_t d = 0; d < a->d_key; d++, s += a->d_value)
            sum = v16_fma(v16_set1(a->scratch[d]), v16_load_n(s, n, zero), sum);
        v16_store_n(y + m, v16_div(sum, norm), n);
    }
}

static void attend_both(const lx_cpu_attend_linear *a)
{
    for (int64_t i = 0; i < (int64_t)a->d_key * a->d_value; i++)
        a->s[i] = 0;
    for (int32_t d = 0; d < a->d_key; d++)
        a->z[d] = 0;
    for (int64_t t = 0; t < a->n_tokens; t++) {
        both_map(a, a->k + t * a->x_stride);
        both_add(a, a->v + t * a->x_stride);
    }
    for (int64_t t = 0; t < a->n_tokens; t++) {
        both_map(a, a->q + t * a->x_stride);
        both_read(a, a->y + t * a->y_stride);
    }
}
