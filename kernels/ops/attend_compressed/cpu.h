/* One head of one sequence, token by token: its part of the open block, then the rows it sees. */

static float *compressed_page(const lx_cpu_attend_compressed *a, int32_t page)
{
    return a->rows + a->pages[page] * a->page_stride;
}

/* Lanes are outputs, sums go over the inputs in order. to: receives a block that ends here; or
 * NULL. */
V16_FN void compressed_add(const lx_cpu_taps *c, int32_t tap, const float *x, float *to)
{
    const float *w = c->taps + (int64_t)tap * c->d * c->d;
    for (int32_t e = 0; e < c->d; e += 16) {
        int32_t left = c->d - e;
        v16 sum = seen_load(c->open + e, left);
        for (int64_t d = 0; d < c->d; d++)
            sum = v16_fma(v16_set1(x[d]), seen_load(w + d * c->d + e, left), sum);
        if (to != NULL) {
            seen_store(to + e, v16_add(sum, seen_load(c->bias + e, left)), left);
            sum = v16_set1(0.0f);
        }
        seen_store(c->open + e, sum, left);
    }
}

/* key: d_key floats of scratch. */
static void compressed_keep(const lx_cpu_attend_compressed *a, int32_t i, const float *k,
                            const float *v, float *key)
{
    int32_t tap = i % a->factor, n = lx_compressed_rows(a->factor);
    size_t n_key = (size_t)a->d_key, n_value = (size_t)a->d_value;
    float *page = compressed_page(a, i / LX_PAGE_TOKENS);
    if (i % LX_PAGE_TOKENS == 0)
        memset(page, 0, (size_t)n * (n_key + n_value) * sizeof *page);
    if (i == 0 && a->kept_first != NULL) {
        memcpy(a->kept_first, k, n_key * sizeof *k);
        memcpy(a->kept_first + n_key, v, n_value * sizeof *v);
    }
    if (tap + 1 < a->factor) {
        compressed_add(&a->key, tap, k, NULL);
        compressed_add(&a->value, tap, v, NULL);
        return;
    }
    int32_t place = lx_compressed_place(a->factor, i / a->factor); /* of this page */
    compressed_add(&a->key, tap, k, key);
    compressed_add(&a->value, tap, v, page + (size_t)n * n_key + (size_t)place * n_value);
    for (int32_t d = 0; d < a->d_key; d++)
        page[(int64_t)d * n + place] = key[d];
}

/* Logits of the page's first n rows, a vector more may be written. Lanes are rows, sums go over d
   in order. */
V16_FN void compressed_logits(const lx_cpu_attend_compressed *a, const float *page, int32_t n,
                              const float *q, float *x)
{
    int32_t rows = lx_compressed_rows(a->factor);
    for (int32_t l = 0; l < n; l += 16) {
        v16 sum = v16_set1(0.0f);
        for (int64_t d = 0; d < a->d_key; d++)
            sum = v16_fma(v16_set1(q[d]), seen_load(page + d * rows + l, rows - l), sum);
        v16_store(x + l, v16_mul(sum, v16_set1(a->scale)));
    }
}

/* The rows of some of the pages, which have `blocks` rows, and before page 0 the first row. *at is
   the next page, -1 at first. Returns the number of rows, 0 after the last. */
static int32_t compressed_collect(const lx_cpu_attend_compressed *a, int32_t blocks, int32_t *at,
                                  const float *q, const float **rows, float *x)
{
    int32_t places = lx_compressed_rows(a->factor), n = 0;
    if (*at < 0) {
        *at = 0;
        x[n] = seen_dot(q, a->first, a->d_key) * a->scale;
        rows[n++] = a->first + a->d_key;
    }
    for (int32_t end = *at + LX_ROWS_BLOCK / places; *at < end; ++*at) {
        int32_t seen = blocks - lx_compressed_first(a->factor, *at);
        int32_t there =
            lx_compressed_first(a->factor, *at + 1) - lx_compressed_first(a->factor, *at);
        if (seen <= 0)
            break;
        const float *page = compressed_page(a, *at), *v = page + (int64_t)places * a->d_key;
        seen = seen < there ? seen : there;
        compressed_logits(a, page, seen, q, x + n);
        for (int32_t k = 0; k < seen; k++, v += a->d_value)
            rows[n++] = v;
    }
    return n;
}

static void compressed_token(const lx_cpu_attend_compressed *a, int32_t i, const float *q, float *o,
                             float *here, float *y)
{
    const float *rows[LX_CPU_COMPRESSED_ROWS];
    int32_t blocks = (i + a->inclusive) / a->factor, page = -1, n;
    float *x = a->scratch, largest;
    seen_sum all = {.largest = -INFINITY};
    memset(o, 0, (size_t)(a->d_value + 15) / 16 * 16 * sizeof *o);
    while ((n = compressed_collect(a, blocks, &page, q, rows, x)) > 0) {
        float sum = seen_weights(x, n, &largest);
        seen_add(&all, largest, sum);
        seen_values(rows, x, n, a->d_value, here);
        for (int32_t m = 0; m < a->d_value; m += 16)
            v16_store(o + m, seen_add_values(&all, v16_load(o + m), v16_load(here + m)));
    }
    for (int32_t m = 0; m < a->d_value; m += 16)
        seen_store(y + m, v16_div(v16_load(o + m), v16_set1(all.sum)), a->d_value - m);
}

static void attend_compressed(const lx_cpu_attend_compressed *a)
{
    float *o = a->scratch + LX_CPU_COMPRESSED_ROWS, *here = o + (a->d_value + 15) / 16 * 16;
    float *key = here + (a->d_value + 15) / 16 * 16;
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const float *q = a->q + t * a->x_stride;
        int32_t i = a->position + (int32_t)t;
        compressed_keep(a, i, a->k + t * a->x_stride, a->v + t * a->x_stride, key);
        compressed_token(a, i, q, o, here, a->y + t * a->y_stride);
    }
}
