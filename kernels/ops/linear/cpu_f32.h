/* `linear` with f32 weights on sixteen lanes: one fma per input. See cpu.h. */

/* Adds one input of all rows, x pointing at it in the first, to the sums of panel v. */
V16_FN void add_input(v16 *sums, const float *x, v16 weight, const int v, const int rows,
                      const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows)                                                                                  \
        sums[r * panels + v] =                                                                     \
            v16_fma(v16_set1(x[r * BODY_ROW_STRIDE]), weight, sums[r * panels + v]);
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/* Adds it for panels v and v + 1, with one fetch of each row's input. */
V16_FN void add_input_2(v16 *sums, const float *x, v16 weight0, v16 weight1, const int v,
                        const int rows, const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows) {                                                                                \
        v16 input = v16_set1(x[r * BODY_ROW_STRIDE]);                                              \
        sums[r * panels + v] = v16_fma(input, weight0, sums[r * panels + v]);                      \
        sums[r * panels + v + 1] = v16_fma(input, weight1, sums[r * panels + v + 1]);              \
    }
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/*
 * One f32 input of a group, or of the only panel. With few rows the inputs stay in registers, with
 * many rows the weights.
 */
V16_FN void add_f32(v16 *sums, const float *x, const float *w, const int v, const int rows,
                    const int panels)
{
    if (panels > 1 && rows > 3) {
        add_input_2(sums, x, v16_load(w), v16_load(w + 16), v, rows, panels);
        return;
    }
    add_input(sums, x, v16_load(w), v, rows, panels);
    if (panels > 1)
        add_input(sums, x, v16_load(w + 16), v + 1, rows, panels);
}

V16_FN void run_f32(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const float *x = b->x, *words = (const float *)panel_words(w, b->panel);
    const uint32_t *ask = b->ask;
    int64_t group = w->group_words;
    words += b->from * LX_CPU_GROUP;
    for (int64_t k0 = b->from; k0 < b->to; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_inputs(b->to, k0);
        for (int64_t k = 0; k < n; k++, words += LX_CPU_GROUP) {
            ask = ask_ahead(b, ask, panels);
            BODY_GROUPS(add_f32, sums, x + k, words, group, rows, panels);
        }
    }
}
