/* One head of one sequence, token after token: its buckets, the rows they list, their average. */

static float *lsh_row(const lx_cpu_attend_lsh *a, int32_t j)
{
    return a->rows + a->pages[j / LX_PAGE_TOKENS] * a->page_stride + j % LX_PAGE_TOKENS * a->row;
}

/* The first of the largest by a round's hashes: lanes are buckets, sums go over d in order. h:
   n_buckets / 2 + 15. */
static int32_t lsh_bucket(const float *hash, int32_t d_key, int32_t n_buckets, const float *x,
                          float *h)
{
    int32_t half = n_buckets / 2, best = 0;
    for (int32_t b = 0; b < half; b += 16) {
        v16 sum = v16_set1(0.0f);
        for (int32_t d = 0; d < d_key; d++)
            sum = v16_fma(v16_set1(x[d]), seen_load(hash + (int64_t)d * half + b, half - b), sum);
        v16_store(h + b, sum);
    }
    float most = -INFINITY;
    for (int32_t b = 0; b < n_buckets; b++) {
        float value = b < half ? h[b] : -h[b - half];
        if (value > most) {
            most = value;
            best = b;
        }
    }
    return best;
}

/* Prefetches a row of the pages, which may lie anywhere. */
static void lsh_ask(const lx_cpu_attend_lsh *a, int32_t j)
{
    const float *row = lsh_row(a, j);
    for (int64_t at = 0; at < a->row; at += 16)
        __builtin_prefetch(row + at, 0, 3);
}

/* Keeps token i and enters it into its buckets; next: per round the token before it, from 1. */
static void lsh_keep(const lx_cpu_attend_lsh *a, int32_t i, const float *qk, const float *v,
                     int32_t *next)
{
    float *row = lsh_row(a, i), *h = a->scratch;
    const int64_t prev = (int64_t)a->d_key + 1 + a->d_value;
    if (i % LX_PAGE_TOKENS == 0)
        memset(row, 0, (size_t)(LX_PAGE_TOKENS * a->row) * sizeof *row);
    memcpy(row, qk, (size_t)a->d_key * sizeof *row);
    memcpy(row + a->d_key + 1, v, (size_t)a->d_value * sizeof *row);
    row[a->d_key] = 1.0f / sqrtf(seen_dot(qk, qk, a->d_key) + 1e-12f);
    for (int32_t r = 0; r < a->rounds; r++) {
        const float *hash = a->hashes + (int64_t)r * a->d_key * (a->n_buckets / 2);
        float *last = a->last + (int64_t)r * a->n_buckets;
        last += lsh_bucket(hash, a->d_key, a->n_buckets, qk, h);
        row[prev + r] = *last;
        next[r] = (int32_t)*last;
        *last = (float)(i + 1);
        if (next[r] > 0)
            lsh_ask(a, next[r] - 1);
    }
}

/*
 * The rows that the token sees, round by round; returns their number. Each row links to the next,
 * so all rounds advance together: their rows come from memory at the same time.
 */
static int32_t lsh_collect(const lx_cpu_attend_lsh *a, int32_t *next, const float **rows)
{
    const int64_t prev = (int64_t)a->d_key + 1 + a->d_value;
    int32_t count[LX_LSH_MOST_ROUNDS] = {0}, n = 0;
    bool more = true;
    for (int32_t k = 0; k < a->cap && more; k++) {
        more = false;
        for (int32_t r = 0; r < a->rounds; r++) {
            if (next[r] == 0)
                continue;
            const float *row = lsh_row(a, next[r] - 1);
            rows[r * a->cap + count[r]++] = row;
            next[r] = (int32_t)row[prev + r];
            more = more || next[r] > 0;
            if (next[r] > 0)
                lsh_ask(a, next[r] - 1);
        }
    }
    for (int32_t r = 0; r < a->rounds; r++) {
        memmove(rows + n, rows + r * a->cap, (size_t)count[r] * sizeof *rows);
        n += count[r];
    }
    return n;
}

static void attend_lsh(const lx_cpu_attend_lsh *a)
{
    const float *rows[LX_LSH_MOST_SEEN];
    int32_t next[LX_LSH_MOST_ROUNDS];
    float *x = a->scratch, *o = x + lx_cpu_attend_lsh_logits(a->rounds, a->n_buckets, a->cap),
          largest;
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const float *qk = a->qk + t * a->x_stride, *v = a->v + t * a->x_stride;
        float *y = a->y + t * a->y_stride;
        lsh_keep(a, a->position + (int32_t)t, qk, v, next);
        int32_t n = lsh_collect(a, next, rows);
        if (n == 0) {
            memcpy(y, v, (size_t)a->d_value * sizeof *y);
            continue;
        }
        for (int32_t k = 0; k < n; k++) {
            x[k] = seen_dot(qk, rows[k], a->d_key) * rows[k][a->d_key] * a->scale;
            rows[k] += a->d_key + 1;
        }
        float sum = seen_weights(x, n, &largest);
        seen_values(rows, x, n, a->d_value, o);
        for (int32_t m = 0; m < a->d_value; m += 16)
            seen_store(y + m, v16_div(v16_load(o + m), v16_set1(sum)), a->d_value - m);
    }
}
