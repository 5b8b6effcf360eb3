/* One head of one sequence, token after token: its buckets, the rows they list, their average. */

static float *lsh_row(const lx_cpu_lsh *a, int32_t j)
{
    return a->rows + a->pages[j / LX_PAGE_TOKENS] * a->page_stride + j % LX_PAGE_TOKENS * a->row;
}

/* The first of the largest: lanes are buckets, sums go over d in order. h: n_buckets / 2 + 15. */
static int32_t lsh_bucket(const lx_cpu_lsh *a, int32_t r, const float *x, float *h)
{
    int32_t half = a->n_buckets / 2, best = 0;
    const float *hash = a->hashes + (int64_t)r * a->d_key * half;
    for (int32_t b = 0; b < half; b += 16) {
        v16 sum = v16_set1(0.0f);
        for (int32_t d = 0; d < a->d_key; d++)
            sum = v16_fma(v16_set1(x[d]), seen_load(hash + (int64_t)d * half + b, half - b), sum);
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
    row[a->d_key] = 1.0f / sqrtf(seen_dot(qk, qk, a->d_key) + 1e-12f);
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
            x[n] = seen_dot(qk, seen, a->d_key) * seen[a->d_key] * a->scale;
            rows[n] = seen + a->d_key + 1;
        }
    }
    return n;
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
        float largest;
        v16 sum = v16_set1(seen_weights(x, n, &largest));
        for (int32_t m = 0; m < a->d_value; m += 16) {
            int32_t left = a->d_value - m;
            seen_store(y + m, v16_div(seen_values(rows, x, n, m, left), sum), left);
        }
    }
}
