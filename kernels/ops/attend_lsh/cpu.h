/* One head of one sequence, token after token: its buckets, the rows they list, their average. */

static float *lsh_row(const lx_cpu_lsh *a, int32_t j)
{
    return a->rows + a->pages[j / LX_PAGE_TOKENS] * a->page_stride + j % LX_PAGE_TOKENS * a->row;
}

V16_FN v16 lsh_load(const float *p, int32_t left)
{
    return left >= 16 ? v16_load(p) : v16_load_n(p, left, v16_set1(0.0f));
}

V16_FN void lsh_store(float *p, v16 x, int32_t left)
{
    if (left >= 16)
        v16_store(p, x);
    else
        v16_store_n(p, x, left);
}

/* The first of the largest: lanes are buckets, sums go over d in order. h: n_buckets / 2 + 15. */
static int32_t lsh_bucket(const lx_cpu_lsh *a, int32_t r, const float *x, float *h)
{
    int32_t half = a->n_buckets / 2, best = 0;
    const float *hash = a->hashes + (int64_t)r * a->d_key * half;
    for (int32_t b = 0; b < half; b += 16) {
        v16 sum = v16_set1(0.0f);
        for (int32_t d = 0; d < a->d_key; d++)
            sum = v16_fma(v16_set1(x[d]), lsh_load(hash + (int64_t)d * half + b, half - b), sum);
        v16_store(h + b, sum);
    }
    float most = -INFINITY;
    for (int32_t b = 0; b < a->n_buckets; b++) {
        float value = b < half ? h[b] : -h[b - half];
        if (value > most) {
            most = value;
            best = b;
        }
    }
    return best;
}

V16_FN float lsh_dot(const float *a, const float *b, int32_t n)
{
    v16 sum = v16_set1(0.0f);
    for (int32_t d = 0; d < n; d += 16)
        sum = v16_fma(lsh_load(a + d, n - d), lsh_load(b + d, n - d), sum);
    return v16_sum(sum);
}

/* Keeps token i and enters it into its buckets; rows: those that it sees, x: their logits. */
static int32_t lsh_keep(const lx_cpu_lsh *a, int32_t i, const float *qk, const float *v,
                        const float **rows, float *x, float *h)
{
    float *row = lsh_row(a, i);
    const int64_t prev = (int64_t)a->d_key + 1 + a->d_value;
    int32_t n = 0;
    if (i % LX_PAGE_TOKENS == 0)
        memset(row, 0, (size_t)(LX_PAGE_TOKENS * a->row) * sizeof *row);
    memcpy(row, qk, (size_t)a->d_key * sizeof *row);
    memcpy(row + a->d_key + 1, v, (size_t)a->d_value * sizeof *row);
    row[a->d_key] = 1.0f / sqrtf(lsh_dot(qk, qk, a->d_key) + 1e-12f);
    for (int32_t r = 0; r < a->rounds; r++) {
        float *last = a->last + (int64_t)r * a->n_buckets + lsh_bucket(a, r, qk, h);
        int32_t j = (int32_t)*last;
        row[prev + r] = *last;
        *last = (float)(i + 1);
        for (int32_t k = 0; k < a->cap && j > 0; k++, n++) {
            const float *seen = lsh_row(a, j - 1);
            j = (int32_t)seen[prev + r];
            if (j > 0)
                __builtin_prefetch(lsh_row(a, j - 1), 0, 3);
            x[n] = lsh_dot(qk, seen, a->d_key) * seen[a->d_key] * a->scale;
            rows[n] = seen + a->d_key + 1;
        }
    }
    return n;
}

/* Logits to weights, with zeros up to a whole vector; returns their sum. */
static float lsh_weights(float *x, int32_t n)
{
    v16 most = v16_set1(-INFINITY), sum = v16_set1(0.0f);
    for (int32_t k = n; k % 16 != 0; k++)
        x[k] = -INFINITY;
    for (int32_t k = 0; k < n; k += 16)
        most = v16_max(most, v16_load(x + k));
    v16 largest = v16_set1(v16_greatest(most));
    for (int32_t k = 0; k < n; k += 16)
        v16_store(x + k, v16_exp(v16_sub(v16_load(x + k), largest)));
    for (int32_t k = n; k % 16 != 0; k++)
        x[k] = 0.0f;
    for (int32_t k = 0; k < n; k += 16)
        sum = v16_add(sum, v16_load(x + k));
    return v16_sum(sum);
}

static void lsh_values(const lx_cpu_lsh *a, const float *const *rows, const float *x, int32_t n,
                       float sum, float *y)
{
    for (int32_t m = 0; m < a->d_value; m += 16) {
        v16 o = v16_set1(0.0f);
        for (int32_t k = 0; k < n; k++)
            o = v16_fma(v16_set1(x[k]), lsh_load(rows[k] + m, a->d_value - m), o);
        lsh_store(y + m, v16_div(o, v16_set1(sum)), a->d_value - m);
    }
}

static void lsh(const lx_cpu_lsh *a)
{
    const float *rows[LX_LSH_MOST_SEEN];
    float *x = a->scratch, *h = x + ((int64_t)a->rounds * a->cap + 15) / 16 * 16;
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const float *qk = a->qk + t * a->x_stride, *v = a->v + t * a->x_stride;
        float *y = a->y + t * a->y_stride;
        int32_t n = lsh_keep(a, a->position + (int32_t)t, qk, v, rows, x, h);
        if (n == 0) {
            memcpy(y, v, (size_t)a->d_value * sizeof *y);
            continue;
        }
        lsh_values(a, rows, x, n, lsh_weights(x, n), y);
    }
}
