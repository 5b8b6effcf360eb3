/*
 * `linear` with weights in blocks of 32 inputs on sixteen lanes (formats q8 and q4 of cpu_job.h).
 * The formats of 256 inputs are in cpu_k_blocks.h.
 * The function pack_blocks copies rows as whole numbers, a scale for each block. A block's products
 * are added exactly in 32 bits, and their sum to the f32 sum by one fma. Every instruction set
 * computes the same whole numbers, so the bits of all sets are equal.
 */

/* A code is its number plus this; instructions for signed bytes turn q8 into signed bytes. */
#define BODY_Q4_ZERO 8
#ifdef V16_SIGNED_BYTES
#define BODY_Q8_ZERO 0
#else
#define BODY_Q8_ZERO 128
#endif

#define WORD_ADD add_codes
#define WORD_SUM v16u
#define WORD_DOT v16_dot_codes
#define WORD_STRIDE BODY_BYTES_STRIDE
#include "kernels/ops/linear/cpu_words.h"

#define WORD_ADD add_half
#define WORD_SUM v16u
#define WORD_DOT v16_dot_nibbles
#define WORD_STRIDE BODY_BYTES_STRIDE
#include "kernels/ops/linear/cpu_words.h"

/* Products with codes of four bits. Where a set has V16_SHORTS, the sums of a block are 16-bit
   numbers in pairs: at most 8 words times 2 products of 15 and 128. The start is added after them.
 */
#ifdef V16_SHORTS
#define BODY_SHORTS true
#define WORD_DOT v16_dot_shorts
#else
#define BODY_SHORTS false
#define WORD_DOT v16_dot_nibbles
#endif
#define WORD_ADD add_four
#define WORD_SUM v16u
#define WORD_STRIDE BODY_BYTES_STRIDE
#include "kernels/ops/linear/cpu_words.h"

/* Two words of inputs, from x on, by a word of nibbles of panels v and v + 1, or of panel v. */
V16_FN void add_nibbles(v16u *sums, const uint32_t *x, const uint32_t *w, const int v,
                        const int rows, const int panels)
{
    v16u w0 = v16_load_pairs(w);
    if (panels > 1) {
        v16u w1 = v16_load_pairs(w + 16);
        add_four_2(sums, x, v16_low_nibbles(w0), v16_low_nibbles(w1), v, rows, panels);
        add_four_2(sums, x + 1, v16_high_nibbles(w0), v16_high_nibbles(w1), v, rows, panels);
    } else {
        add_four_1(sums, x, v16_low_nibbles(w0), v, rows, panels);
        add_four_1(sums, x + 1, v16_high_nibbles(w0), v, rows, panels);
    }
}

/* Adds whole sums, times the scales of weights and of rows, to the f32 sums of panel v over the
   inputs before, or, where there is a bias, to the bias. x_scale: of the first row. */
V16_FN void fold_whole(v16 *done, const v16 *bias, const v16u *sums, const uint32_t *x_scale,
                       v16 scale, const int v, const int rows, const int panels)
{
    float s;
#define BODY_FOLD(r)                                                                               \
    if (r < rows) {                                                                                \
        memcpy(&s, x_scale + r * BODY_BYTES_STRIDE, sizeof s);                                     \
        done[r * panels + v] =                                                                     \
            v16_fma(v16_of_words(sums[r * panels + v]), v16_mul(scale, v16_set1(s)),               \
                    bias != NULL ? bias[v] : done[r * panels + v]);                                \
    }
    BODY_REPEAT(BODY_FOLD)
#undef BODY_FOLD
}

/* Between chunks or blocks the registers belong to the whole numbers. Without this barrier a
   compiler copies all sums to places of its own and back. */
V16_FN void keep_in_memory(v16 *done)
{
    __asm__ volatile("" : : "r"(done) : "memory");
}

/* Where the registers hold few of these sums: after a block's products, since a compiler may load
   all sums before the products, and after the sums have changed. */
V16_FN void keep_if_many(v16 *done, const int rows, const int panels)
{
    if (3 * rows * panels > BODY_MAX_SUMS)
        keep_in_memory(done);
}

/* The sums of panel v over a block begin with its start, which is `from` in the first row. */
V16_FN void start_codes(v16u *sums, const uint32_t *from, const int v, const int rows,
                        const int panels)
{
#define BODY_START(r)                                                                              \
    if (r < rows)                                                                                  \
        sums[r * panels + v] = v16_words(from[r * BODY_BYTES_STRIDE]);
    BODY_REPEAT(BODY_START)
#undef BODY_START
}

V16_FN void start_at_zero(v16u *sums, const int v, const int rows, const int panels)
{
#define BODY_START(r)                                                                              \
    if (r < rows)                                                                                  \
        sums[r * panels + v] = v16_words(0);
    BODY_REPEAT(BODY_START)
#undef BODY_START
}

/* The sums of panel v over a block begin with `from` in the first row, or with 0 where `from` is
   NULL. four: its codes have four bits. */
V16_FN void start_sums(v16u *sums, const uint32_t *from, const int v, const int rows,
                       const int panels, const bool four)
{
    if ((BODY_SHORTS && four) || from == NULL)
        start_at_zero(sums, v, rows, panels);
    else
        start_codes(sums, from, v, rows, panels);
}

/* After the products of the block: the whole sums. */
V16_FN void end_sums(v16u *sums, const uint32_t *from, const int v, const int rows,
                     const int panels, const bool four)
{
#ifdef V16_SHORTS
#define BODY_END(r)                                                                                \
    if (four && r < rows)                                                                          \
        sums[r * panels + v] = v16_add_shorts(                                                     \
            v16_words(from != NULL ? from[r * BODY_BYTES_STRIDE] : 0), sums[r * panels + v]);
    BODY_REPEAT(BODY_END)
#undef BODY_END
#else
    (void)sums, (void)from, (void)v, (void)rows, (void)panels, (void)four;
#endif
}

/* Block j of the chunk of inputs at x, with codes at w and scales at `scales` in the first group.
 */
V16_FN void run_one_block(const block *b, v16 *done, const uint32_t *x, int64_t j,
                          const uint32_t *w, const uint16_t *scales, const int rows,
                          const int panels, const bool four)
{
    const int64_t group = b->job->w->group_words;
    const uint32_t *inputs = x + j * (LX_BLOCK / 4), *start = x + BODY_STARTS_AT + j;
    v16u sums[96];
#define BODY_START_PANEL(v)                                                                        \
    if (v < panels)                                                                                \
        start_sums(sums, start, v, rows, panels, four);
    BODY_PANELS(BODY_START_PANEL)
#undef BODY_START_PANEL
    if (four) {
        for (int64_t k = 0; k < LX_BLOCK / 8; k++)
            BODY_GROUPS(add_nibbles, sums, inputs + 2 * k, w + k * LX_CPU_GROUP, group, rows,
                        panels);
    } else {
        for (int64_t k = 0; k < LX_BLOCK / 4; k++)
            BODY_GROUPS(add_codes, sums, inputs + k, w + k * LX_CPU_GROUP, group, rows, panels);
    }
    keep_if_many(done, rows, panels);
#define BODY_FOLD_PANEL(v)                                                                         \
    if (v < panels) {                                                                              \
        end_sums(sums, start, v, rows, panels, four);                                              \
        fold_whole(done, NULL, sums, x + BODY_SCALES_AT + j,                                       \
                   v16_load_f16(scales + v / 2 * 2 * group + v % 2 * 16), v, rows, panels);        \
    }
    BODY_PANELS(BODY_FOLD_PANEL)
#undef BODY_FOLD_PANEL
}

/* ask_ahead for n words. */
V16_FN const uint32_t *ask_words(const block *b, const uint32_t *ask, int64_t n, const int panels)
{
    for (int64_t i = 0; i < n; i += LX_CPU_GROUP)
        ask = ask_ahead(b, ask, panels);
    return ask;
}

/* The sums of every row begin with the bias. */
V16_FN void begin_sums(v16 *done, const v16 *bias, const int rows, const int panels)
{
#define BODY_BEGIN(r)                                                                              \
    if (r < rows)                                                                                  \
        copy_sums(done + r * panels, bias, panels);
    BODY_REPEAT(BODY_BEGIN)
#undef BODY_BEGIN
}

V16_FN void run_block_q(const block *b, const v16 *bias, const int rows, const int panels,
                        const bool four)
{
    const lx_matrix *m = b->job->w;
    const lx_cpu_format format = four ? LX_CPU_Q4 : LX_CPU_Q8;
    const uint32_t *x = (const uint32_t *)b->x, *w = panel_words(m, b->panel);
    const uint32_t *group = w - b->panel % 2 * 16, *ask = b->ask;
    v16 done[BODY_MAX_SUMS];
    begin_sums(done, bias, rows, panels);
    for (int64_t k = 0; k < m->shape.cols; k += LX_BLOCK) {
        int64_t j = k % LX_CPU_CHUNK / LX_BLOCK;
        const void *scales = group + LX_CPU_CODE_WORDS(format);
        run_one_block(b, done, x, j, w, (const uint16_t *)scales + b->panel % 2 * 16, rows, panels,
                      four);
        ask = ask_words(b, ask, LX_CPU_BLOCK_WORDS(format), panels);
        keep_if_many(done, rows, panels);
        w += LX_CPU_BLOCK_WORDS(format);
        group += LX_CPU_BLOCK_WORDS(format);
        x += j == LX_CPU_CHUNK / LX_BLOCK - 1 ? b->chunk_stride : 0;
    }
    keep_in_memory(done);
    finish_block(b, done, rows, panels);
}
