/*
 * `linear` with bf16 weights on sixteen lanes. A word has the weights of two inputs, which become
 * f32 by a shift and a mask. Inputs stay f32, so f32 weights of equal values give equal bits.
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

/* Prefetches weights for 32 inputs together. A prefetch per word made gcc keep sums of six rows in
   memory (AVX2), and the products took half as long again. */
V16_FN void run_bf16(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const float *x = b->x;
    const uint32_t *words = panel_words(w, b->panel), *ask = b->ask;
    words += b->from / 2 * LX_CPU_GROUP;
    for (int64_t k0 = b->from; k0 < b->to; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_inputs(b->to, k0);
        for (int64_t k = 0; k + 1 < n;) {
            const int64_t end = n - k < LX_BLOCK ? n : k + LX_BLOCK;
            ask = ask_words(b, ask, (end - k) / 2 * LX_CPU_GROUP, panels);
            for (; k + 1 < end; k += 2, words += LX_CPU_GROUP)
                BODY_GROUPS(add_bf16, sums, x + k, words, w->group_words, true, rows, panels);
        }
        if (n % 2 != 0) /* in the last chunk only: LX_CPU_CHUNK is even */
            BODY_GROUPS(add_bf16, sums, x + n - 1, words, w->group_words, false, rows, panels);
    }
}
