/*
 * `linear` with bf16 weights where an instruction adds two products of bf16 (V16_DOT): inputs are
 * rounded to bf16 when rows are copied (pack_pairs). The order is the same for every shape.
 */

/* Adds a pair of inputs of all rows, x pointing at it in the first, to the sums of panel v. */
V16_FN void add_pair(v16 *sums, const uint32_t *x, v16u weights, const int v, const int rows,
                     const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows)                                                                                  \
        sums[r * panels + v] = v16_dot(sums[r * panels + v], weights, x[r * BODY_PAIR_STRIDE]);
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/* The same for panels v and v + 1, each row's pair being fetched once for both. */
V16_FN void add_pair_2(v16 *sums, const uint32_t *x, v16u w0, v16u w1, const int v, const int rows,
                       const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows) {                                                                                \
        uint32_t pair = x[r * BODY_PAIR_STRIDE];                                                   \
        sums[r * panels + v] = v16_dot(sums[r * panels + v], w0, pair);                            \
        sums[r * panels + v + 1] = v16_dot(sums[r * panels + v + 1], w1, pair);                    \
    }
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/* A pair of inputs of one group; of its two panels when there are two. */
V16_FN void add_pair_group(v16 *sums, const uint32_t *x, const uint32_t *w, const int v,
                           const int rows, const int panels)
{
    if (panels > 1)
        add_pair_2(sums, x, v16_load_pairs(w), v16_load_pairs(w + 16), v, rows, panels);
    else
        add_pair(sums, x, v16_load_pairs(w), v, rows, panels);
}

V16_FN void run_bf16(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    for (int64_t k0 = 0; k0 < w->shape.cols; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_pairs(chunk_inputs(w->shape.cols, k0));
        for (int64_t k = 0; k < n; k++, words += LX_CPU_GROUP) {
            add_pair_group(sums, x + k, words, 0, rows, panels);
            if (panels > 2)
                add_pair_group(sums, x + k, words + w->group_words, 2, rows, panels);
            if (panels > 4)
                add_pair_group(sums, x + k, words + 2 * w->group_words, 4, rows, panels);
            if (panels > 6)
                add_pair_group(sums, x + k, words + 3 * w->group_words, 6, rows, panels);
        }
    }
}
