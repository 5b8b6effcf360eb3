/*
 * `linear` with int8 weights on sixteen lanes. pack_bytes copies rows as whole numbers, chunk by
 * chunk. A chunk's products are added exactly in 32 bits, and their sum to the f32 sum by one fma.
 */

#define WORD_ADD add_bytes
#define WORD_SUM v16u
#define WORD_DOT v16_dot_bytes
#define WORD_STRIDE BODY_BYTES_STRIDE
#include "kernels/ops/linear/cpu_words.h"

/* The start of the sums of panel v over a chunk: 0 where the inputs are signed. */
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

/* The chunk of n inputs from x on; bias is NULL but in the first one. Returns the weights to be
   prefetched next. */
V16_FN const uint32_t *run_chunk_int8(const block *b, const uint32_t *ask, v16 *done,
                                      const v16 *bias, const uint32_t *x, const uint32_t *words,
                                      const uint32_t *starts, int64_t n, const int rows,
                                      const int panels)
{
    const lx_matrix *w = b->job->w;
    const float *scales = w->scales + b->panel * 16;
    int64_t starts_group = lx_cpu_chunks(w->shape.cols) * LX_CPU_GROUP;
    v16u sums[96];
#define BODY_START_PANEL(v)                                                                        \
    start_bytes(sums, starts + v / 2 * starts_group + v % 2 * 16, v, rows, panels);
    BODY_PANELS(BODY_START_PANEL)
#undef BODY_START_PANEL
    for (int64_t k = 0; k < (n + 3) / 4; k++, words += LX_CPU_GROUP) {
        ask = ask_ahead(b, ask, panels);
        BODY_GROUPS(add_bytes, sums, x + k, words, w->group_words, rows, panels);
    }
#define BODY_FOLD_PANEL(v)                                                                         \
    if (v < panels)                                                                                \
        fold_whole(done, bias, sums, x + BODY_SCALES_AT, v16_load(scales + v * 16), v, rows,       \
                   panels);
    BODY_PANELS(BODY_FOLD_PANEL)
#undef BODY_FOLD_PANEL
    return ask;
}

V16_FN void run_block_int8(const block *b, const v16 *bias, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    int64_t starts_group = lx_cpu_chunks(w->shape.cols) * LX_CPU_GROUP;
    const uint32_t *starts =
        (const uint32_t *)w->starts + b->panel / 2 * starts_group + b->panel % 2 * 16;
    v16 done[BODY_MAX_SUMS];
    const uint32_t *ask = run_chunk_int8(b, b->ask, done, bias, x, words, starts,
                                         chunk_inputs(w->shape.cols, 0), rows, panels);
    for (int64_t k0 = LX_CPU_CHUNK; k0 < w->shape.cols; k0 += LX_CPU_CHUNK) {
        keep_in_memory(done);
        x += b->chunk_stride;
        words += LX_CPU_CHUNK / 4 * LX_CPU_GROUP;
        starts += LX_CPU_GROUP;
        ask = run_chunk_int8(b, ask, done, NULL, x, words, starts, chunk_inputs(w->shape.cols, k0),
                             rows, panels);
    }
    keep_in_memory(done);
    finish_block(b, done, rows, panels);
}
