/* One head of one sequence, token after token: its part of the open block, then the rows it sees.
 */

static float *compressed_row(const lx_cpu_compressed *a, int32_t c)
{
    int32_t page = lx_compressed_page(a->factor, c), place = lx_compressed_place(a->factor, c);
    return a->rows + a->pages[page] * a->page_stride + place * ((int64_t)a->d_key + a->d_value);
}

/* Lanes are outputs, sums go over the inputs in order. to: the row of the block that ends here, or
   NULL. */
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

static void compressed_keep(const lx_cpu_compressed *a, int32_t i, const float *k, const float *v)
{
    int32_t tap = i % a->factor;
    size_t n_key = (size_t)a->d_key, n_value = (size_t)a->d_value;
    if (i % LX_PAGE_TOKENS == 0)
        memset(a->rows + a->pages[i / LX_PAGE_TOKENS] * a->page_stride, 0,
               (size_t)lx_compressed_rows(a->factor) * (n_key + n_value) * sizeof(float));
    if (i == 0 && a->kept_first != NULL) {
        memcpy(a->kept_first, k, n_key * sizeof *k);
        memcpy(a->kept_first + n_key, v, n_value * sizeof *v);
    }
    float *to = tap + 1 == a->factor ? compressed_row(a, i / a->factor) : NULL;
    compressed_add(&a->key, tap, k, to);
    compressed_add(&a->value, tap, v, to != NULL ? to + n_key : NULL);
}

/* Rows `from` to `from + n - 1`, of which the first one is row 0, added to o and *all. */
static void compressed_block(const lx_cpu_compressed *a, const float *q, int32_t from, int32_t n,
                             seen_sum *all, float *o)
{
    const float *rows[LX_ROWS_BLOCK];
    float *x = a->scratch, largest;
    for (int32_t k = 0; k < n; k++) {
        const float *row = from + k == 0 ? a->first : compressed_row(a, from + k - 1);
        rows[k] = row + a->d_key;
        x[k] = seen_dot(q, row, a->d_key) * a->scale;
    }
    float sum = seen_weights(x, n, &largest);
    seen_add(all, largest, sum);
    for (int32_t m = 0; m < a->d_value; m += 16) {
        v16 here = seen_values(rows, x, n, m, a->d_value - m);
        v16_store(o + m, seen_add_values(all, v16_load(o + m), here));
    }
}

static void compressed(const lx_cpu_compressed *a)
{
    float *o = a->scratch + LX_ROWS_BLOCK;
    for (int64_t t = 0; t < a->n_tokens; t++) {
        int32_t i = a->position + (int32_t)t, n = 1 + (i + a->inclusive) / a->factor;
        seen_sum all = {.largest = -INFINITY};
        compressed_keep(a, i, a->k + t * a->x_stride, a->v + t * a->x_stride);
        memset(o, 0, (size_t)(a->d_value + 15) / 16 * 16 * sizeof *o);
        for (int32_t from = 0; from < n; from += LX_ROWS_BLOCK) {
            int32_t left = n - from;
            compressed_block(a, a->q + t * a->x_stride, from,
                             left < LX_ROWS_BLOCK ? left : LX_ROWS_BLOCK, &all, o);
        }
        for (int32_t m = 0; m < a->d_value; m += 16)
            seen_store(a->y + t * a->y_stride + m, v16_div(v16_load(o + m), v16_set1(all.sum)),
                       a->d_value - m);
    }
}
