/*
 * `linear` with bf16 weights on sixteen lanes: two inputs a word of weights, which become f32 by a
 * shift and a mask; inputs stay f32, so the bits are those of f32 weights of the same values.
 */

/* Two bf16 inputs of a group, or with `both` false the first of them. */
V16_FN void add_bf16(v16 *sums, const float *x, const uint32_t *w, const int v, const bool both,
                     const int rows, const int panels)
{
    v16u w0 = v16_load_pairs(w);
    if (panels > 1 && rows > 3) {
        v16u w1 = v16_load_pairs(w + 16);
        add_input_2(sums, x, v16_pair_low(w0), v16_pair_low(w1), v, rows, panels);
        if (both)
            add_input_2(sums, x + 1, v16_pair_high(w0), v16_pair_high(w1), v, rows, panels);
        return;
    }
    add_input(sums, x, v16_pair_low(w0), v, rows, panels);
    if (both)
        add_input(sums, x + 1, v16_pair_high(w0), v, rows, panels);
    if (panels > 1) {
        v16u w1 = v16_load_pairs(w + 16);
        add_input(sums, x, v16_pair_low(w1), v + 1, rows, panels);
        if (both)
            add_input(sums, x + 1, v16_pair_high(w1), v + 1, rows, panels);
    }
}

V16_FN void add_bf16_groups(v16 *sums, const float *x, const uint32_t *words, int64_t group,
                            const bool both, const int rows, const int panels)
{
    add_bf16(sums, x, words, 0, both, rows, panels);
    if (panels > 2)
        add_bf16(sums, x, words + group, 2, both, rows, panels);
    if (panels > 4)
        add_bf16(sums, x, words + 2 * group, 4, both, rows, panels);
    if (panels > 6)
        add_bf16(sums, x, words + 3 * group, 6, both, rows, panels);
}

V16_FN void run_bf16(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const float *x = b->x;
    const uint32_t *words = panel_words(w, b->panel);
    for (int64_t k0 = 0; k0 < w->shape.cols; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_inputs(w->shape.cols, k0);
        for (int64_t k = 0; k + 1 < n; k += 2, words += LX_CPU_GROUP)
            add_bf16_groups(sums, x + k, words, w->group_words, true, rows, panels);
        if (n % 2 != 0) /* in the last chunk only: LX_CPU_CHUNK is even */
            add_bf16_groups(sums, x + n - 1, words, w->group_words, false, rows, panels);
    }
}
