/*
 * `linear` with weights in blocks on tiles (AMX; cpu_tiles.h), for many rows. Tiles want
 * signed bytes, so the codes of a group are unpacked first, once for all rows. A part, the inputs
 * that share a scale, is 32 inputs, of q6_k 16: at most half as wide as a tile of inputs. Its
 * products are added in a tile of sums, stored, and folded into the f32 sums as on lanes, with
 * equal bits. While a part is folded, tiles multiply the next.
 */

/* Fewer rows are faster on lanes: unpacked codes should serve more than one block of rows. */
#define TILE_LEAST_ROWS (BODY_ROWS + 1)

/* Some rows by a panel or both panels of a group. */
typedef struct code_block {
    block rows;
    tile_file *file;
    const uint32_t *codes; /* of the group, as unpack_codes lays them out */
    const uint32_t *next;  /* the next group's weights, to be prefetched; NULL: none */
} code_block;

/* Inputs of a part, and its words in a group: signed bytes, [32] scales and, of q4_k, [32] minima.
 */
V16_FN int64_t part_inputs(const lx_cpu_format format)
{
    return LX_BLOCK / parts_of(format);
}

V16_FN int64_t part_words(const lx_cpu_format format)
{
    return (part_inputs(format) / 4 + (has_minima(format) ? 2 : 1)) * LX_CPU_GROUP;
}

/* Sums are tiles 0 .. 3, inputs 4 and 5, codes 6 and 7. */
static tile_shapes shapes_of_blocks(int rows, int64_t inputs_of_part)
{
    tile_shapes s = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        bool inputs = i == TILE_X || i == TILE_X + 1;
        s.row_bytes[i] = (uint16_t)(inputs ? inputs_of_part : TILE_LANES * 4);
        s.rows[i] = (uint8_t)(i >= TILE_W ? inputs_of_part / 4 : rows);
    }
    return s;
}

V16_FN void put_codes(uint32_t *to, v16u codes, const int zero)
{
    codes = v16_codes_less(codes, zero);
    memcpy(to, &codes, sizeof codes);
}

/* The block of q8 or q4 of a group at w: [8][32] words of signed bytes, then 32 scales as f32. */
V16_FN void unpack_block(uint32_t *to, const uint32_t *w, const lx_cpu_format format)
{
    const int code_words = LX_CPU_CODE_WORDS(format);
    for (int i = 0; i < code_words; i += 16) {
        v16u codes = v16_load_pairs(w + i);
        if (format == LX_CPU_Q4) {
            uint32_t *both = to + i / LX_CPU_GROUP * 2 * LX_CPU_GROUP + i % LX_CPU_GROUP;
            put_codes(both, v16_low_nibbles(codes), 8);
            put_codes(both + LX_CPU_GROUP, v16_high_nibbles(codes), 8);
        } else {
            put_codes(to + i, codes, 128);
        }
    }
    const void *scales = w + code_words;
    float *to_scales = (float *)(void *)(to + LX_CPU_CODE_WORDS(LX_CPU_Q8));
    v16_store(to_scales, v16_load_f16(scales));
    v16_store(to_scales + 16, v16_load_f16((const uint16_t *)scales + 16));
}

/* Word i of sixteen lanes of a block of 256 inputs' block of 32 at w. */
V16_FN void unpack_k_word(uint32_t *to, const uint32_t *w, const int i, const lx_cpu_format format)
{
    const int words = LX_BLOCK / 8 / parts_of(format); /* of a part */
    uint32_t *both = to + i / words * part_words(format) + i % words * 2 * LX_CPU_GROUP;
    v16u first, second;
    k_codes(&first, &second, w, i, format);
    put_codes(both, first, has_minima(format) ? 0 : BODY_START_HALVES);
    put_codes(both + LX_CPU_GROUP, second, has_minima(format) ? 0 : BODY_START_HALVES);
}

/* Sixteen lanes of such a block of 32: its parts, with their scales and minima. */
V16_FN void unpack_k(uint32_t *to, const k_block *k, const lx_cpu_format format)
{
    float *floats = (float *)(void *)(to + part_inputs(format) / 4 * LX_CPU_GROUP);
    unpack_k_word(to, k->words, 0, format);
    unpack_k_word(to, k->words, 1, format);
    unpack_k_word(to, k->words, 2, format);
    unpack_k_word(to, k->words, 3, format);
    v16_store(floats, k_scale(k, 0, k->head[0], 0));
    if (has_minima(format))
        v16_store(floats + LX_CPU_GROUP, k_scale(k, 1, k->head[1], 0));
    if (parts_of(format) > 1)
        v16_store(floats + part_words(format), k_scale(k, 1, k->head[0], 0));
}

V16_FN void unpack_k_codes(const lx_matrix *m, int64_t group, uint32_t *to,
                           const lx_cpu_format format)
{
    const uint32_t *w = (const uint32_t *)m->data + group * m->group_words;
    const int64_t words = LX_BLOCK / part_inputs(format) * part_words(format);
    for (int64_t k0 = 0; k0 < m->shape.cols; k0 += LX_K_BLOCK) {
        v16 heads[2][2]; /* of the group's first and second panel */
        const uint16_t *head = (const uint16_t *)(const void *)w;
        load_heads(heads[0], head, 0, 1, has_minima(format));
        load_heads(heads[1], head + TILE_LANES, 0, 1, has_minima(format));
        w += LX_CPU_K_HEAD_WORDS(format);
        for (int j = 0; j < LX_K_BLOCK / LX_BLOCK; j++, to += words) {
            const int8_t *scales = (const int8_t *)(w + lx_cpu_k_scales(format));
            for (int v = 0; v < 2; v++) {
                const uint32_t *codes = w + lx_cpu_k_codes(format) + v * lx_cpu_k_panel(format);
                const k_block k = {codes, heads[v], scales + v * TILE_LANES, 0};
                unpack_k(to + v * TILE_LANES, &k, format);
            }
            w += LX_CPU_BLOCK_WORDS(format);
        }
    }
}

static void unpack_codes(const lx_matrix *m, int64_t group, uint32_t *to)
{
    const uint32_t *w = (const uint32_t *)m->data + group * m->group_words;
    if (m->format == LX_CPU_Q4_K) {
        unpack_k_codes(m, group, to, LX_CPU_Q4_K);
        return;
    }
    if (m->format == LX_CPU_Q5_K) {
        unpack_k_codes(m, group, to, LX_CPU_Q5_K);
        return;
    }
    if (m->format == LX_CPU_Q6_K) {
        unpack_k_codes(m, group, to, LX_CPU_Q6_K);
        return;
    }
    for (int64_t k = 0; k < m->shape.cols; k += LX_BLOCK, to += part_words(LX_CPU_Q8)) {
        if (m->format == LX_CPU_Q4)
            unpack_block(to, w, LX_CPU_Q4);
        else
            unpack_block(to, w, LX_CPU_Q8);
        w += LX_CPU_BLOCK_WORDS(m->format);
    }
}

#define TILE_BLOCK(sums0, sums1, inputs)                                                           \
    do {                                                                                           \
        TILE_LOAD(b->file, inputs, x, x_bytes);                                                    \
        TILE_LOAD(b->file, 6, w, w_bytes);                                                         \
        TILE_CLEAR(b->file, sums0);                                                                \
        TILE_ADD_CODES(b->file, sums0, inputs, 6);                                                 \
        if (panels > 1) {                                                                          \
            TILE_LOAD(b->file, 7, w + TILE_LANES, w_bytes);                                        \
            TILE_CLEAR(b->file, sums1);                                                            \
            TILE_ADD_CODES(b->file, sums1, inputs, 7);                                             \
            TILE_STORE(b->file, sums1, to + 1, sums_bytes);                                        \
        }                                                                                          \
        TILE_STORE(b->file, sums0, to, sums_bytes);                                                \
    } while (0)

/* Part k of the inputs. */
V16_FN const uint32_t *inputs_at(const code_block *b, int64_t k, const lx_cpu_format format)
{
    const int64_t parts = LX_CPU_CHUNK / part_inputs(format);
    return (const uint32_t *)b->rows.x + k / parts * b->rows.chunk_stride +
           k % parts * (part_inputs(format) / 4);
}

/* Its block's scale, or with BODY_STARTS_AT its start. */
V16_FN const uint32_t *scales_at(const code_block *b, int64_t k, const lx_cpu_format format,
                                 const int at)
{
    const int64_t parts = LX_CPU_CHUNK / part_inputs(format);
    return (const uint32_t *)b->rows.x + k / parts * b->rows.chunk_stride + at +
           k % parts * part_inputs(format) / LX_BLOCK;
}

/* The sums of products over part k: to [rows][panels]. Parts of odd and of even numbers have tiles
   of their own, so that they do not wait for one another. */
V16_FN void multiply_block(const code_block *b, int64_t k, v16u *to, const int panels,
                           const lx_cpu_format format, const bool odd)
{
    const int64_t x_bytes = BODY_BYTES_STRIDE * 4, w_bytes = (int64_t)LX_CPU_GROUP * 4;
    const int64_t sums_bytes = (int64_t)panels * TILE_LANES * 4;
    const uint32_t *x = inputs_at(b, k, format);
    const uint32_t *w = b->codes + k * part_words(format) + b->rows.panel % 2 * TILE_LANES;
    if (odd)
        TILE_BLOCK(2, 3, 5);
    else
        TILE_BLOCK(0, 1, 4);
}

/* Adds the sums over part k, times both scales, to the f32 sums, and its minima. */
V16_FN void fold_block(const code_block *b, int64_t k, v16 *sums, const v16u *whole, const int rows,
                       const int panels, const lx_cpu_format format)
{
    const uint32_t *x_scale = scales_at(b, k, format, BODY_SCALES_AT);
    const uint32_t *starts = scales_at(b, k, format, BODY_STARTS_AT);
    const void *words = b->codes + k * part_words(format) + part_inputs(format) / 4 * LX_CPU_GROUP +
                        b->rows.panel % 2 * TILE_LANES;
    const float *scales = words, *mins = has_minima(format) ? scales + LX_CPU_GROUP : scales;
    fold_k(sums, whole, x_scale, starts, v16_load(scales), v16_load(mins), 0, rows, panels, format);
    if (panels > 1)
        fold_k(sums, whole, x_scale, starts, v16_load(scales + TILE_LANES),
               v16_load(mins + TILE_LANES), 1, rows, panels, format);
}

/* The words of the next group that are as many as those of part k. */
V16_FN void prefetch_block(const code_block *b, int64_t k, int64_t words)
{
    for (int64_t i = 0; i < words && b->next != NULL; i += 16)
        __builtin_prefetch(b->next + k * words + i, 0, 2);
}

V16_FN void run_codes(const code_block *b, const int rows, const int panels,
                      const lx_cpu_format format)
{
    const lx_matrix *w = b->rows.job->w;
    const int64_t n = (w->shape.cols + part_inputs(format) - 1) / part_inputs(format);
    const int64_t words = w->group_words / n;
    v16 bias[2], sums[BODY_MAX_SUMS], done[BODY_MAX_SUMS];
    v16u even[BODY_MAX_SUMS], odd[BODY_MAX_SUMS];
    bias[0] = v16_load(w->bias + b->rows.panel * TILE_LANES);
    bias[1] = v16_load(w->bias + (b->rows.panel + panels - 1) * TILE_LANES);
#define BODY_START(r)                                                                              \
    if (r < rows)                                                                                  \
        copy_sums(sums + r * panels, bias, panels);
    BODY_REPEAT(BODY_START)
#undef BODY_START
    multiply_block(b, 0, even, panels, format, false);
    for (int64_t k = 0; k < n; k += 2) {
        if (k + 1 < n)
            multiply_block(b, k + 1, odd, panels, format, true);
        prefetch_block(b, k, words);
        fold_block(b, k, sums, even, rows, panels, format);
        if (k + 1 == n)
            break;
        if (k + 2 < n)
            multiply_block(b, k + 2, even, panels, format, false);
        prefetch_block(b, k + 1, words);
        fold_block(b, k + 1, sums, odd, rows, panels, format);
    }
#define BODY_END(r)                                                                                \
    if (r < rows)                                                                                  \
        copy_sums(done + r * panels, sums + r * panels, panels);
    BODY_REPEAT(BODY_END)
#undef BODY_END
    finish_block(&b->rows, done, rows, panels);
}

#define BODY_DEFINE_CODES(rows, panels)                                                            \
    static void run_codes_##rows(const code_block *b)                                              \
    {                                                                                              \
        run_codes(b, rows, panels, LX_CPU_Q8);                                                     \
    }                                                                                              \
    static void run_q4_k_codes_##rows(const code_block *b)                                         \
    {                                                                                              \
        run_codes(b, rows, panels, LX_CPU_Q4_K);                                                   \
    }                                                                                              \
    static void run_q5_k_codes_##rows(const code_block *b)                                         \
    {                                                                                              \
        run_codes(b, rows, panels, LX_CPU_Q5_K);                                                   \
    }                                                                                              \
    static void run_q6_k_codes_##rows(const code_block *b)                                         \
    {                                                                                              \
        run_codes(b, rows, panels, LX_CPU_Q6_K);                                                   \
    }
BODY_NARROW(BODY_DEFINE_CODES)

#define BODY_ENTRY_CODES(rows, panels)                                                             \
    [rows] = {{[LX_CPU_Q8] = run_codes_##rows,                                                     \
               [LX_CPU_Q4] = run_codes_##rows,                                                     \
               [LX_CPU_Q4_K] = run_q4_k_codes_##rows,                                              \
               [LX_CPU_Q5_K] = run_q5_k_codes_##rows,                                              \
               [LX_CPU_Q6_K] = run_q6_k_codes_##rows},                                             \
              panels},
static const struct {
    void (*run[LX_CPU_FORMATS])(const code_block *b);
    int panels;
} code_shapes[BODY_ROWS + 1] = {[0] = {{NULL}, 0}, BODY_NARROW(BODY_ENTRY_CODES)};

/* Rows of a block, of which all have about as many. The last has the most: where another has fewer,
   its tiles take a row of the block after it too. */
static void run_blocks_on_tiles(const lx_cpu_linear *job, int64_t row, int rows)
{
    const lx_matrix *w = job->w;
    const int64_t real = (w->shape.rows + TILE_LANES - 1) / TILE_LANES;
    const int blocks = (rows + BODY_ROWS - 1) / BODY_ROWS;
    const int64_t stride = (int64_t)rows * BODY_BYTES_STRIDE;
    uint32_t *codes = (uint32_t *)(void *)job->scratch + lx_cpu_chunks(w->shape.cols) * stride;
    tile_file file;
    tile_shapes shapes =
        shapes_of_blocks(rows - rows * (blocks - 1) / blocks, part_inputs(w->format));
    pack_blocks(job, row, rows, has_minima(w->format) ? BODY_START_MIN : 0);
    TILE_CONFIGURE(&file, &shapes);
    for (int64_t g = job->group0; g < job->group1; g++) {
        const uint32_t *next = (const uint32_t *)w->data + (g + 1) * w->group_words;
        unpack_codes(w, g, codes);
        for (int i = 0; i < blocks; i++) {
            const int from = rows * i / blocks, n = rows * (i + 1) / blocks - from;
            const float *x = job->scratch + from * BODY_BYTES_STRIDE;
            code_block b = {
                {.job = job, .x = x, .chunk_stride = stride, .row = row + from, .panel = 2 * g},
                &file,
                codes,
                i == 0 && g + 1 < job->group1 ? next : NULL};
            for (; b.rows.panel < 2 * g + 2 && b.rows.panel < real;
                 b.rows.panel += code_shapes[n].panels)
                code_shapes[n].run[w->format](&b);
        }
    }
    TILE_RELEASE(&file);
}
