/*
 * `linear` with int8 weights on sixteen lanes: rows become whole numbers when they are copied
 * (pack_bytes), chunk by chunk; a chunk's products are added exactly in 32 bits, then to the f32
 * sum by one fma.
 */

/* Adds four inputs of all rows, x pointing at them in the first, to the sums of panel v. */
V16_FN void add_bytes(v16u *sums, const uint32_t *x, v16u weights, const int v, const int rows,
                      const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows)                                                                                  \
        sums[r * panels + v] =                                                                     \
            v16_dot_bytes(sums[r * panels + v], weights, x[r * BODY_BYTES_STRIDE]);
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/*
 * The same for panels v and v + 1. Each row's inputs are fetched once, used for both and forgotten:
 * a compiler that sees a second fetch keeps them all in registers that the sums need.
 */
V16_FN void add_bytes_2(v16u *sums, const uint32_t *x, v16u w0, v16u w1, const int v,
                        const int rows, const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows) {                                                                                \
        uint32_t bytes = x[r * BODY_BYTES_STRIDE];                                                 \
        sums[r * panels + v] = v16_dot_bytes(sums[r * panels + v], w0, bytes);                     \
        sums[r * panels + v + 1] = v16_dot_bytes(sums[r * panels + v + 1], w1, bytes);             \
    }
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/* Four inputs of one group; of its two panels when there are two. */
V16_FN void add_bytes_group(v16u *sums, const uint32_t *x, const uint32_t *w, const int v,
                            const int rows, const int panels)
{
    if (panels > 1)
        add_bytes_2(sums, x, v16_load_pairs(w), v16_load_pairs(w + 16), v, rows, panels);
    else
        add_bytes(sums, x, v16_load_pairs(w), v, rows, panels);
}

/* Where the sums of panel v over a chunk start: at 0 where the inputs are signed. */
V16_FN void start_bytes(v16u *sums, const uint32_t *from, const int v, const int rows,
                        const int panels)
{
    if (v < panels) {
#ifdef V16_SIGNED_BYTES
        v16u start = {0};
        (void)from;
#else
        v16u start = v16_load_pairs(from);
#endif
#define BODY_START(r)                                                                              \
    if (r < rows)                                                                                  \
        sums[r * panels + v] = start;
        BODY_REPEAT(BODY_START)
#undef BODY_START
    }
}

/* Adds the sums over a chunk, times both scales, to those of panel v over the chunks before, or in
   the first chunk to the bias. */
V16_FN void fold_bytes(v16 *done, const v16 *bias, const v16u *sums, const uint32_t *x,
                       const float *scales, const int v, const int rows, const int panels)
{
    if (v < panels) {
        v16 scale = v16_load(scales + v * 16);
        float s;
#define BODY_FOLD(r)                                                                               \
    if (r < rows) {                                                                                \
        memcpy(&s, x + r * BODY_BYTES_STRIDE + LX_CPU_CHUNK / 4, sizeof s);                        \
        done[r * panels + v] =                                                                     \
            v16_fma(v16_of_words(sums[r * panels + v]), v16_mul(scale, v16_set1(s)),               \
                    bias != NULL ? bias[v] : done[r * panels + v]);                                \
    }
        BODY_REPEAT(BODY_FOLD)
#undef BODY_FOLD
    }
}

/* The chunk of n inputs from x on; bias is NULL but in the first one. */
V16_FN void run_chunk_int8(const block *b, v16 *done, const v16 *bias, const uint32_t *x,
                           const uint32_t *words, const uint32_t *starts, int64_t n, const int rows,
                           const int panels)
{
    const lx_matrix *w = b->job->w;
    const float *scales = w->scales + b->panel * 16;
    int64_t starts_group = lx_cpu_chunks(w->shape.cols) * LX_CPU_GROUP;
    v16u sums[96];
#define BODY_START_PANEL(v)                                                                        \
    start_bytes(sums, starts + v / 2 * starts_group + v % 2 * 16, v, rows, panels);
    BODY_REPEAT(BODY_START_PANEL)
#undef BODY_START_PANEL
    for (int64_t k = 0; k < (n + 3) / 4; k++, words += LX_CPU_GROUP) {
        add_bytes_group(sums, x + k, words, 0, rows, panels);
        if (panels > 2)
            add_bytes_group(sums, x + k, words + w->group_words, 2, rows, panels);
        if (panels > 4)
            add_bytes_group(sums, x + k, words + 2 * w->group_words, 4, rows, panels);
        if (panels > 6)
            add_bytes_group(sums, x + k, words + 3 * w->group_words, 6, rows, panels);
    }
#define BODY_FOLD_PANEL(v) fold_bytes(done, bias, sums, x, scales, v, rows, panels);
    BODY_REPEAT(BODY_FOLD_PANEL)
#undef BODY_FOLD_PANEL
}

/* Between chunks the registers belong to the whole numbers. A compiler that is not told so copies
   all sums to places of its own and back. */
V16_FN void keep_in_memory(v16 *done)
{
    __asm__ volatile("" : : "r"(done) : "memory");
}

V16_FN void run_block_int8(const block *b, const v16 *bias, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    int64_t starts_group = lx_cpu_chunks(w->shape.cols) * LX_CPU_GROUP;
    const uint32_t *starts =
        (const uint32_t *)w->starts + b->panel / 2 * starts_group + b->panel % 2 * 16;
    v16 done[BODY_MAX_SUMS];
    run_chunk_int8(b, done, bias, x, words, starts, chunk_inputs(w->shape.cols, 0), rows, panels);
    for (int64_t k0 = LX_CPU_CHUNK; k0 < w->shape.cols; k0 += LX_CPU_CHUNK) {
        keep_in_memory(done);
        x += b->chunk_stride;
        words += LX_CPU_CHUNK / 4 * LX_CPU_GROUP;
        starts += LX_CPU_GROUP;
        run_chunk_int8(b, done, NULL, x, words, starts, chunk_inputs(w->shape.cols, k0), rows,
                       panels);
    }
    keep_in_memory(done);
    finish_block(b, done, rows, panels);
}
