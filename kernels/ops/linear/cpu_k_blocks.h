/*
 * `linear` with weights in blocks of 256 inputs on sixteen lanes (formats q4_k, q5_k and q6_k of
 * cpu_job.h). A block has parts of 32 or 16 inputs with scales of their own. A part is summed as a
 * block of cpu_blocks.h is: whole numbers, then one fma. The product of a part's two scales is
 * exact in f32. A part of q4_k or q5_k has a minimum, which is multiplied by the sum of the inputs.
 */

_Static_assert(LX_CPU_CHUNK == LX_K_BLOCK, "a block of weights meets a chunk of inputs");

/* The parts of a block of 32 inputs in a group, at the first panel's lanes. */
typedef struct k_block {
    const uint32_t *words;
    const v16 *head; /* [2][panels]: the scales d of the block of 256 inputs, then e */
    const int8_t *scales;
    int64_t group; /* words from a group to the next */
} k_block;

/* Reads the f16 scales of a block of 256 inputs, of which `head` is the first. */
V16_FN void load_heads(v16 *to, const uint16_t *head, int64_t group, const int panels,
                       const bool minima)
{
#define BODY_HEAD(v)                                                                               \
    if (v < panels) {                                                                              \
        const uint16_t *own = head + v / 2 * 2 * group + v % 2 * 16;                               \
        to[v] = v16_load_f16(own);                                                                 \
        if (minima)                                                                                \
            to[panels + v] = v16_load_f16(own + LX_CPU_GROUP);                                     \
    }
    BODY_PANELS(BODY_HEAD)
#undef BODY_HEAD
}

/* The scale of panel v's lanes, `row` rows of bytes after the first, times its `head`. */
V16_FN v16 k_scale(const k_block *k, const int row, v16 head, const int v)
{
    return v16_mul(head,
                   v16_load_s8(k->scales + v / 2 * 4 * k->group + row * LX_CPU_GROUP + v % 2 * 16));
}

V16_FN bool has_minima(const lx_cpu_format format)
{
    return format == LX_CPU_Q4_K || format == LX_CPU_Q5_K;
}

/* Parts of a block of 32 inputs. */
V16_FN int parts_of(const lx_cpu_format format)
{
    return format == LX_CPU_Q6_K ? 2 : 1;
}

/* The codes of word i of a panel, whose codes begin at w: of four inputs and of the next four. */
V16_FN void k_codes(v16u *first, v16u *second, const uint32_t *w, const int i,
                    const lx_cpu_format format)
{
    v16u nibbles = v16_load_pairs(w + lx_cpu_k_halves(format, i));
    *first = v16_low_nibbles(nibbles);
    *second = v16_high_nibbles(nibbles);
    if (format == LX_CPU_Q5_K) {
        v16u high = v16_load_pairs(w + lx_cpu_k_high(0));
        *first = v16_join_bits(*first, high, 4 - 2 * i, 0x10);
        *second = v16_join_bits(*second, high, 3 - 2 * i, 0x10);
    } else if (format == LX_CPU_Q6_K) {
        v16u high = v16_load_pairs(w + lx_cpu_k_high(i / 2));
        *first = v16_join_bits(*first, high, 4 - i % 2 * 4, 0x30);
        *second = v16_join_bits(*second, high, 2 - i % 2 * 4, 0x30);
    }
}

/* Eight inputs, from x on, by word i of the block at w, of panels v and v + 1, or of panel v. */
V16_FN void add_k(v16u *sums, const uint32_t *x, const uint32_t *w, const int v, const int rows,
                  const int panels, const lx_cpu_format format, const int i)
{
    v16u first, second, first_1, second_1;
    if (format == LX_CPU_Q4_K) {
        add_nibbles(sums, x, w + lx_cpu_k_halves(format, i), v, rows, panels);
        return;
    }
    k_codes(&first, &second, w, i, format);
    if (panels > 1) {
        k_codes(&first_1, &second_1, w + lx_cpu_k_panel(format), i, format);
        add_half_2(sums, x, first, first_1, v, rows, panels);
        add_half_2(sums, x + 1, second, second_1, v, rows, panels);
    } else {
        add_half_1(sums, x, first, v, rows, panels);
        add_half_1(sums, x + 1, second, v, rows, panels);
    }
}

/* Adds the whole sums of panel v over a part, times the scales of weights and of rows, to the f32
   sums. Minima are added times -(scale) (sum of inputs), which pack_chunk has computed. The
   pointers x_scale and x_start are the first row's. */
V16_FN void fold_k(v16 *done, const v16u *sums, const uint32_t *x_scale, const uint32_t *x_start,
                   v16 scale, v16 min, const int v, const int rows, const int panels,
                   const lx_cpu_format format)
{
    float s, start;
#define BODY_FOLD(r)                                                                               \
    if (r < rows) {                                                                                \
        memcpy(&s, x_scale + r * BODY_BYTES_STRIDE, sizeof s);                                     \
        v16 sum = v16_fma(v16_of_words(sums[r * panels + v]), v16_mul(scale, v16_set1(s)),         \
                          done[r * panels + v]);                                                   \
        if (has_minima(format)) {                                                                  \
            memcpy(&start, x_start + r * BODY_BYTES_STRIDE, sizeof start);                         \
            sum = v16_fma(min, v16_set1(start), sum);                                              \
        }                                                                                          \
        done[r * panels + v] = sum;                                                                \
    }
    BODY_REPEAT(BODY_FOLD)
#undef BODY_FOLD
}

/* The sums of all panels before a part: the starts, where codes have an offset. */
V16_FN void start_k(v16u *sums, const uint32_t *start, const int rows, const int panels,
                    const lx_cpu_format format)
{
#define BODY_START_PANEL(v)                                                                        \
    if (v < panels)                                                                                \
        start_sums(sums, has_minima(format) ? NULL : start, v, rows, panels, format == LX_CPU_Q4_K);
    BODY_PANELS(BODY_START_PANEL)
#undef BODY_START_PANEL
}

/* A part of block j of the chunk of inputs at x. */
V16_FN void run_k_part(const k_block *k, v16 *done, const uint32_t *x, int64_t j, const int part,
                       const int rows, const int panels, const lx_cpu_format format)
{
    const uint32_t *inputs = x + j * (LX_BLOCK / 4);
    const uint32_t *start = x + BODY_STARTS_AT + part * BODY_CHUNK_BLOCKS + j;
    v16u sums[96];
    v16 min = v16_set1(0.0f);
    start_k(sums, start, rows, panels, format);
#define BODY_ADD_WORD(i)                                                                           \
    if (i * parts_of(format) / (LX_BLOCK / 8) == part)                                             \
        BODY_GROUPS(add_k, sums, inputs + 2 * i, k->words, k->group, rows, panels, format, i);
    BODY_ADD_WORD(0)
    BODY_ADD_WORD(1)
    BODY_ADD_WORD(2)
    BODY_ADD_WORD(3)
#undef BODY_ADD_WORD
    keep_if_many(done, rows, panels);
#define BODY_FOLD_PANEL(v)                                                                         \
    if (v < panels) {                                                                              \
        end_sums(sums, NULL, v, rows, panels, format == LX_CPU_Q4_K);                              \
        if (has_minima(format))                                                                    \
            min = k_scale(k, 1, k->head[panels + v], v);                                           \
        fold_k(done, sums, x + BODY_SCALES_AT + j, start, k_scale(k, part, k->head[v], v), min, v, \
               rows, panels, format);                                                              \
    }
    BODY_PANELS(BODY_FOLD_PANEL)
#undef BODY_FOLD_PANEL
}

/* Both parts of block j for panel v, so that a sum in memory is changed once for both. */
V16_FN void run_k_halves(const k_block *k, v16 *done, const uint32_t *x, int64_t j, const int v,
                         const int rows, const int panels, const lx_cpu_format format)
{
    const uint32_t *inputs = x + j * (LX_BLOCK / 4), *start = x + BODY_STARTS_AT + j;
    const uint32_t *x_scale = x + BODY_SCALES_AT + j;
    const uint32_t *w = k->words + v / 2 * k->group + v % 2 * lx_cpu_k_panel(format);
    const v16 scale = k_scale(k, 0, k->head[v], v), scale_1 = k_scale(k, 1, k->head[v], v);
    v16u sums[12], sums_1[12];
    float s;
    start_codes(sums, start, 0, rows, 1);
    add_k(sums, inputs, w, 0, rows, 1, format, 0);
    add_k(sums, inputs + 2, w, 0, rows, 1, format, 1);
    start_codes(sums_1, start + BODY_CHUNK_BLOCKS, 0, rows, 1);
    add_k(sums_1, inputs + 4, w, 0, rows, 1, format, 2);
    add_k(sums_1, inputs + 6, w, 0, rows, 1, format, 3);
    keep_if_many(done, rows, panels);
#define BODY_FOLD(r)                                                                               \
    if (r < rows) {                                                                                \
        memcpy(&s, x_scale + r * BODY_BYTES_STRIDE, sizeof s);                                     \
        v16 sum =                                                                                  \
            v16_fma(v16_of_words(sums[r]), v16_mul(scale, v16_set1(s)), done[r * panels + v]);     \
        done[r * panels + v] =                                                                     \
            v16_fma(v16_of_words(sums_1[r]), v16_mul(scale_1, v16_set1(s)), sum);                  \
    }
    BODY_REPEAT(BODY_FOLD)
#undef BODY_FOLD
}

/* Block j of the chunk of inputs at x. */
V16_FN void run_k(const k_block *k, v16 *done, const uint32_t *x, int64_t j, const int rows,
                  const int panels, const lx_cpu_format format)
{
    if (parts_of(format) == 1) {
        run_k_part(k, done, x, j, 0, rows, panels, format);
    } else if (2 * rows > BODY_MAX_SUMS) { /* registers hold one part's sums */
        run_k_part(k, done, x, j, 0, rows, panels, format);
        run_k_part(k, done, x, j, 1, rows, panels, format);
    } else {
        /* Without the barrier a compiler keeps all words of inputs for the next panel. */
#define BODY_PANEL(v)                                                                              \
    if (v < panels) {                                                                              \
        run_k_halves(k, done, x, j, v, rows, panels, format);                                      \
        keep_if_many(done, rows, panels);                                                          \
    }
        BODY_PANELS(BODY_PANEL)
#undef BODY_PANEL
    }
}

V16_FN void run_block_k(const block *b, const v16 *bias, const int rows, const int panels,
                        const lx_cpu_format format)
{
    const lx_matrix *m = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *ask = b->ask;
    const uint32_t *group = (const uint32_t *)m->data + b->panel / 2 * m->group_words;
    const int64_t panel = b->panel % 2, lanes = panel * 16;
    v16 done[BODY_MAX_SUMS];
    begin_sums(done, bias, rows, panels);
    for (int64_t k0 = 0; k0 < m->shape.cols; k0 += LX_K_BLOCK, x += b->chunk_stride) {
        v16 head[2 * BODY_MAX_SUMS];
        load_heads(head, (const uint16_t *)(const void *)group + lanes, m->group_words, panels,
                   has_minima(format));
        group += LX_CPU_K_HEAD_WORDS(format);
        for (int64_t j = 0; j < LX_K_BLOCK / LX_BLOCK; j++) {
            const int8_t *scales = (const int8_t *)(group + lx_cpu_k_scales(format)) + lanes;
            const uint32_t *codes = group + lx_cpu_k_codes(format) + panel * lx_cpu_k_panel(format);
            const k_block k = {codes, head, scales, m->group_words};
            run_k(&k, done, x, j, rows, panels, format);
            ask = ask_words(b, ask, LX_CPU_K_WORDS(format) / 8, panels);
            keep_if_many(done, rows, panels);
            group += LX_CPU_BLOCK_WORDS(format);
        }
    }
    keep_in_memory(done);
    finish_block(b, done, rows, panels);
}
