/*
 * `linear` with weights in blocks of 256 inputs on sixteen lanes (formats q4_k and q6_k of
 * cpu_job.h). A block has parts of 32 or 16 inputs with scales of their own. A part is summed as a
 * block of cpu_blocks.h is: whole numbers, then one fma. The product of a part's two scales is
 * exact in f32. A part of q4_k has a minimum, which is multiplied by the sum of the inputs.
 */

_Static_assert(LX_CPU_CHUNK == LX_K_BLOCK, "a block of weights meets a chunk of inputs");

/* The parts of a block of 32 inputs in a group: its words and the f16 scales of its block of 256,
   at the first panel's lanes. */
typedef struct k_block {
    const uint32_t *words;
    const uint16_t *head;
    const int8_t *scales;
    int64_t group; /* words from a group to the next */
} k_block;

/* The scale of panel v's lanes, `row` rows of bytes and of f16 after the first. */
V16_FN v16 k_scale(const k_block *k, const int row, const int head, const int v)
{
    const int64_t group = v / 2 * k->group, lanes = v % 2 * 16;
    return v16_mul(v16_load_f16(k->head + 2 * group + head * LX_CPU_GROUP + lanes),
                   v16_load_s8(k->scales + 4 * group + row * LX_CPU_GROUP + lanes));
}

/* The sums of panel v begin with 0, or with -32 times the sum of the inputs of a half block. */
V16_FN void start_k(v16u *sums, const uint32_t *from, const int v, const int rows, const int panels,
                    const bool six, const int half)
{
#define BODY_START(r)                                                                              \
    if (r < rows) {                                                                                \
        int32_t sum = six ? (int16_t)(from[r * BODY_BYTES_STRIDE] >> (16 * half)) : 0;             \
        sums[r * panels + v] = v16_words((uint32_t)(-32 * sum));                                   \
    }
    BODY_REPEAT(BODY_START)
#undef BODY_START
}

/* Adds minima times -(scale) (sum of inputs), which pack_chunk has computed, to panel v. */
V16_FN void fold_mins(v16 *done, const uint32_t *x_start, v16 min, const int v, const int rows,
                      const int panels)
{
    float s;
#define BODY_FOLD(r)                                                                               \
    if (r < rows) {                                                                                \
        memcpy(&s, x_start + r * BODY_BYTES_STRIDE, sizeof s);                                     \
        done[r * panels + v] = v16_fma(min, v16_set1(s), done[r * panels + v]);                    \
    }
    BODY_REPEAT(BODY_FOLD)
#undef BODY_FOLD
}

/* As add_nibbles, with the high bits from 4 i on of the words `high` after w. */
V16_FN void add_sixes(v16u *sums, const uint32_t *x, const uint32_t *w, const int v, const int rows,
                      const int panels, const int64_t high, const int i)
{
    v16u w0 = v16_load_pairs(w), h0 = v16_load_pairs(w + high);
    v16u first = v16_join_bits(v16_low_nibbles(w0), h0, 2 * i);
    v16u second = v16_join_bits(v16_high_nibbles(w0), h0, 2 * i + 1);
    if (panels > 1) {
        v16u w1 = v16_load_pairs(w + 16), h1 = v16_load_pairs(w + 16 + high);
        add_half_2(sums, x, first, v16_join_bits(v16_low_nibbles(w1), h1, 2 * i), v, rows, panels);
        add_half_2(sums, x + 1, second, v16_join_bits(v16_high_nibbles(w1), h1, 2 * i + 1), v, rows,
                   panels);
    } else {
        add_half_1(sums, x, first, v, rows, panels);
        add_half_1(sums, x + 1, second, v, rows, panels);
    }
}

#define BODY_START_PANEL(v)                                                                        \
    if (v < panels)                                                                                \
        start_k(sums, x + BODY_STARTS_AT + j, v, rows, panels, six, half);
#define BODY_FOLD_PANEL(v)                                                                         \
    if (v < panels)                                                                                \
        fold_whole(done, NULL, sums, x + BODY_SCALES_AT + j, k_scale(k, half, 0, v), v, rows,      \
                   panels);
#define BODY_FOLD_MIN(v)                                                                           \
    if (v < panels)                                                                                \
        fold_mins(done, x + BODY_STARTS_AT + j, k_scale(k, 1, 1, v), v, rows, panels);

V16_FN void fold_all_mins(const k_block *k, v16 *done, const uint32_t *x, int64_t j, const int rows,
                          const int panels){BODY_PANELS(BODY_FOLD_MIN)}

/* Block j of the chunk of inputs at x. */
V16_FN void run_q4_k(const k_block *k, v16 *done, const uint32_t *x, int64_t j, const int rows,
                     const int panels)
{
    const bool six = false;
    const int half = 0;
    const uint32_t *inputs = x + j * (LX_BLOCK / 4);
    v16u sums[96];
    BODY_PANELS(BODY_START_PANEL)
    for (int64_t i = 0; i < LX_BLOCK / 8; i++)
        BODY_GROUPS(add_nibbles, sums, inputs + 2 * i, k->words + i * LX_CPU_GROUP, k->group, rows,
                    panels);
    BODY_PANELS(BODY_FOLD_PANEL)
    fold_all_mins(k, done, x, j, rows, panels);
}

/* A half of block j. */
V16_FN void run_q6_k(const k_block *k, v16 *done, const uint32_t *x, int64_t j, const int rows,
                     const int panels, const int half)
{
    const bool six = true;
    const uint32_t *inputs = x + j * (LX_BLOCK / 4) + half * 4;
    const uint32_t *words = k->words + half * 2 * LX_CPU_GROUP;
    const int64_t high = (4 - half) * LX_CPU_GROUP; /* words [4 + half] */
    v16u sums[96];
    BODY_PANELS(BODY_START_PANEL)
    BODY_GROUPS(add_sixes, sums, inputs, words, k->group, rows, panels, high, 0);
    BODY_GROUPS(add_sixes, sums, inputs + 2, words + LX_CPU_GROUP, k->group, rows, panels,
                high - LX_CPU_GROUP, 1);
    BODY_PANELS(BODY_FOLD_PANEL)
}

#undef BODY_START_PANEL
#undef BODY_FOLD_PANEL
#undef BODY_FOLD_MIN

V16_FN void run_block_k(const block *b, const v16 *bias, const int rows, const int panels,
                        const bool six)
{
    const lx_matrix *m = b->job->w;
    const lx_cpu_format format = six ? LX_CPU_Q6_K : LX_CPU_Q4_K;
    const uint32_t *x = (const uint32_t *)b->x;
    const uint32_t *group = (const uint32_t *)m->data + b->panel / 2 * m->group_words;
    const int64_t lanes = b->panel % 2 * 16;
    v16 done[BODY_MAX_SUMS];
    begin_sums(done, bias, rows, panels);
    for (int64_t k0 = 0; k0 < m->shape.cols; k0 += LX_K_BLOCK, x += b->chunk_stride) {
        const uint16_t *head = (const uint16_t *)(const void *)group + lanes;
        prefetch_ahead(b, group, LX_CPU_K_HEAD_WORDS(format), panels);
        group += LX_CPU_K_HEAD_WORDS(format);
        for (int64_t j = 0; j < LX_K_BLOCK / LX_BLOCK; j++) {
            const int8_t *scales = (const int8_t *)(group + LX_CPU_CODE_WORDS(format)) + lanes;
            const k_block k = {group + lanes, head, scales, m->group_words};
            if (six) {
                run_q6_k(&k, done, x, j, rows, panels, 0);
                run_q6_k(&k, done, x, j, rows, panels, 1);
            } else {
                run_q4_k(&k, done, x, j, rows, panels);
            }
            prefetch_ahead(b, group, LX_CPU_BLOCK_WORDS(format), panels);
            if (3 * rows * panels > BODY_MAX_SUMS)
                keep_in_memory(done);
            group += LX_CPU_BLOCK_WORDS(format);
        }
    }
    keep_in_memory(done);
    finish_block(b, done, rows, panels);
}
