/*
 * `linear` with rounded weights by instructions that multiply two words of inputs of two rows by
 * two words of two outputs (V16_MMLA: NEON's BFMMLA and SMMLA). For blocks of two rows and more; a
 * single row takes cpu_pairs.h and cpu_int8.h.
 *
 * Sums are squares of two rows by two outputs; a v16u holds four of them, a panel has eight.
 * Weights keep the packed order of lanes: v16_zip of two words of a panel gives the instruction's
 * operand. A sum takes its words in their order, as in a single row, so the bits are equal. The
 * last of an odd number of rows is both rows of its squares.
 */

/* Where the squares of rows 2 p and 2 p + 1 by panel v lie. */
#define BODY_SQUARES(p, v, panels) (2 * ((p) * (panels) + (v)))

/* Adds two words of inputs of all rows, from x on in the first row, to the squares of panel v. */
V16_FN void add_squares(v16u *sums, const uint32_t *x, const uint32_t *w, const int v,
                        const int rows, const int panels, const bool bytes)
{
    const int64_t stride = bytes ? BODY_BYTES_STRIDE : BODY_PAIR_STRIDE;
    v16u w0 = v16_load_pairs(w + v * 16), w1 = v16_load_pairs(w + LX_CPU_GROUP + v * 16);
    v16u low = v16_zip(w0, w1, 0), high = v16_zip(w0, w1, 1);
#define BODY_ADD(p)                                                                                \
    if (2 * p < rows) {                                                                            \
        v16_rows two =                                                                             \
            v16_two_rows(x + 2 * p * stride, x + (2 * p + (2 * p + 1 < rows)) * stride);           \
        v16u *to = sums + BODY_SQUARES(p, v, panels);                                              \
        to[0] = bytes ? v16_mmla_bytes(to[0], two, low) : v16_mmla_pairs(to[0], two, low);         \
        to[1] = bytes ? v16_mmla_bytes(to[1], two, high) : v16_mmla_pairs(to[1], two, high);       \
    }
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/* Adds a chunk of n words, an even number. */
V16_FN void add_chunk(v16u *sums, const uint32_t *x, const uint32_t *w, int64_t n, const int rows,
                      const int panels, const bool bytes)
{
    for (int64_t k = 0; k < n; k += 2, w += 2 * LX_CPU_GROUP) {
        add_squares(sums, x + k, w, 0, rows, panels, bytes);
        if (panels > 1)
            add_squares(sums, x + k, w, 1, rows, panels, bytes);
    }
}

/* All squares of panel v from the sums of two rows. */
V16_FN void start_squares(v16u *sums, v16u first, v16u second, const int v, const int rows,
                          const int panels)
{
#define BODY_START(p)                                                                              \
    if (2 * p < rows && v < panels) {                                                              \
        sums[BODY_SQUARES(p, v, panels)] = v16_squares(first, second, 0);                          \
        sums[BODY_SQUARES(p, v, panels) + 1] = v16_squares(first, second, 1);                      \
    }
    BODY_REPEAT(BODY_START)
#undef BODY_START
}

/* The squares as rows [rows][panels] of lanes. */
V16_FN void rows_of_squares(v16u *to, const v16u *sums, const int rows, const int panels)
{
#define BODY_ROW(r)                                                                                \
    if (r < rows) {                                                                                \
        const v16u *from = sums + BODY_SQUARES(r / 2, 0, panels);                                  \
        to[r * panels] = v16_row(from[0], from[1], r % 2);                                         \
        if (panels > 1)                                                                            \
            to[r * panels + 1] = v16_row(from[2], from[3], r % 2);                                 \
    }
    BODY_REPEAT(BODY_ROW)
#undef BODY_ROW
}

V16_FN void run_mmla_bf16(const block *b, v16 *done, const v16 *bias, const int rows,
                          const int panels)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    v16u sums[96], first[2], all[BODY_MAX_SUMS];
    memcpy(first, bias, (size_t)panels * sizeof *first);
    start_squares(sums, first[0], first[0], 0, rows, panels);
    if (panels > 1)
        start_squares(sums, first[1], first[1], 1, rows, panels);
    for (int64_t k = 0; k < w->shape.cols; k += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_pairs(chunk_inputs(w->shape.cols, k));
        add_chunk(sums, x, words, n, rows, panels, false);
        words += n * LX_CPU_GROUP;
    }
    rows_of_squares(all, sums, rows, panels);
    memcpy(done, all, (size_t)(rows * panels) * sizeof *all);
}

V16_FN void run_mmla_int8(const block *b, v16 *done, const v16 *bias, const int rows,
                          const int panels)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    const float *scales = w->scales + b->panel * 16;
    for (int i = 0; i < rows * panels; i++)
        done[i] = bias[i % panels];
    for (int64_t k = 0; k < w->shape.cols; k += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = (chunk_inputs(w->shape.cols, k) + 7) / 8 * 2;
        v16u sums[96], whole[BODY_MAX_SUMS], zero = {0};
        start_squares(sums, zero, zero, 0, rows, panels);
        start_squares(sums, zero, zero, 1, rows, panels);
        add_chunk(sums, x, words, n, rows, panels, true);
        rows_of_squares(whole, sums, rows, panels);
        fold_whole(done, NULL, whole, x + BODY_SCALES_AT, v16_load(scales), 0, rows, panels);
        if (panels > 1)
            fold_whole(done, NULL, whole, x + BODY_SCALES_AT, v16_load(scales + 16), 1, rows,
                       panels);
        words += n * LX_CPU_GROUP;
    }
}

/* Two rows or more. */
V16_FN void run_block_mmla(const block *b, const v16 *bias, const int rows, const int panels)
{
    v16 done[BODY_MAX_SUMS]; /* in memory */
    if (b->job->w->format == LX_CPU_INT8)
        run_mmla_int8(b, done, bias, rows, panels);
    else
        run_mmla_bf16(b, done, bias, rows, panels);
    finish_block(b, done, rows, panels);
}
