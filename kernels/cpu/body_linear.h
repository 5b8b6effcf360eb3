/*
 * `linear` on sixteen lanes. A micro-kernel holds rows x panels sums in registers (a panel is
 * sixteen outputs, half a group), walks the inputs in order and applies bias, activation and
 * residual before it stores. Which shapes exist depends on the registers the instruction set has
 * (BODY_WIDE and BODY_NARROW in isa_*.c); every shape gives an output the same sum: the bias first,
 * then input after input by fma.
 *
 * Rows are taken in blocks of at most BODY_ROWS, copied side by side so that one pointer reaches
 * all of them; groups of weights in blocks that stay in the second-level cache while all rows pass.
 *
 * With precision int8 rows become whole numbers when they are copied (pack_bytes), chunk by chunk;
 * a chunk's products are added exactly in 32 bits, then to the f32 sum by one fma.
 *
 * With V16_DOT (isa_avx512bf16.c) rows that meet bf16 weights are rounded to bf16 when they are
 * copied, and one instruction adds two inputs at a time; still the same order for every shape.
 * With V16_TILES (isa_amx*.c) what follows is for f32 weights only, body_tiles.h has the others.
 */
#include "kernels/cpu/body_epilogue.h"
#include "kernels/cpu/body_rows.h"

#define BODY_CACHE_BYTES ((int64_t)256 * 1024)

/* The first weights of a panel's group, at the panel's own lanes. */
V16_FN const uint32_t *panel_words(const lx_matrix *w, int64_t panel)
{
    return (const uint32_t *)w->data + panel / 2 * w->group_words + panel % 2 * 16;
}

/*
 * M(0) M(1) .. M(11), where each M(i) begins with `if (i < n)`, n being known at compile time. A
 * loop that is unrolled by the optimiser would come to the same, but not every compiler does it
 * early enough to keep the sums in registers.
 */
#define BODY_REPEAT(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)

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

/* The same for panels v and v + 1, each row's input being fetched once for both. */
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
 * One f32 input of a group, or of the one panel there is. With few rows the inputs wait in
 * registers while the weights pass by, with many the weights.
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

#ifndef V16_PAIRS

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

#endif

V16_FN void run_f32(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const float *x = b->x, *words = (const float *)panel_words(w, b->panel);
    int64_t group = w->group_words;
    for (int64_t k0 = 0; k0 < w->shape.cols; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_inputs(w->shape.cols, k0);
        for (int64_t k = 0; k < n; k++, words += LX_CPU_GROUP) {
            add_f32(sums, x + k, words, 0, rows, panels);
            if (panels > 2)
                add_f32(sums, x + k, words + group, 2, rows, panels);
            if (panels > 4)
                add_f32(sums, x + k, words + 2 * group, 4, rows, panels);
            if (panels > 6)
                add_f32(sums, x + k, words + 3 * group, 6, rows, panels);
        }
    }
}

#ifdef V16_DOT

/* Adds a pair of inputs of all rows, x pointing at it in the first, to the sums of panel v. */
V16_FN void add_pair(v16 *sums, const uint32_t *x, v16u weights, const int v, const int rows,
                     const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows)                                                                                  \
        sums[r * panels + v] = v16_dot(sums[r * panels + v], weights, x[r * BODY_PAIR_STRIDE]);
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/* The same for panels v and v + 1, each row's pair being fetched once for both. */
V16_FN void add_pair_2(v16 *sums, const uint32_t *x, v16u w0, v16u w1, const int v, const int rows,
                       const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows) {                                                                                \
        uint32_t pair = x[r * BODY_PAIR_STRIDE];                                                   \
        sums[r * panels + v] = v16_dot(sums[r * panels + v], w0, pair);                            \
        sums[r * panels + v + 1] = v16_dot(sums[r * panels + v + 1], w1, pair);                    \
    }
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/* A pair of inputs of one group; of its two panels when there are two. */
V16_FN void add_pair_group(v16 *sums, const uint32_t *x, const uint32_t *w, const int v,
                           const int rows, const int panels)
{
    if (panels > 1)
        add_pair_2(sums, x, v16_load_pairs(w), v16_load_pairs(w + 16), v, rows, panels);
    else
        add_pair(sums, x, v16_load_pairs(w), v, rows, panels);
}

V16_FN void run_bf16(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    for (int64_t k0 = 0; k0 < w->shape.cols; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_inputs(w->shape.cols, k0);
        for (int64_t k = 0; k < (n + 1) / 2; k++, words += LX_CPU_GROUP) {
            add_pair_group(sums, x + k, words, 0, rows, panels);
            if (panels > 2)
                add_pair_group(sums, x + k, words + w->group_words, 2, rows, panels);
            if (panels > 4)
                add_pair_group(sums, x + k, words + 2 * w->group_words, 4, rows, panels);
            if (panels > 6)
                add_pair_group(sums, x + k, words + 3 * w->group_words, 6, rows, panels);
        }
    }
}

#elif !defined(V16_TILES)

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

#endif

#ifndef V16_PAIRS

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

/* Where the sums of panel v over a chunk start. */
V16_FN void start_bytes(v16u *sums, const uint32_t *from, const int v, const int rows,
                        const int panels)
{
    if (v < panels) {
        v16u start = v16_load_pairs(from);
#define BODY_START(r)                                                                              \
    if (r < rows)                                                                                  \
        sums[r * panels + v] = start;
        BODY_REPEAT(BODY_START)
#undef BODY_START
    }
}

/* Adds the sums over a chunk, times both scales, to those of panel v over the chunks before. */
V16_FN void fold_bytes(v16 *done, const v16u *sums, const uint32_t *x, const float *scales,
                       const int v, const int rows, const int panels)
{
    if (v < panels) {
        v16 scale = v16_load(scales + v * 16);
        float s;
#define BODY_FOLD(r)                                                                               \
    if (r < rows) {                                                                                \
        memcpy(&s, x + r * BODY_BYTES_STRIDE + LX_CPU_CHUNK / 4, sizeof s);                        \
        done[r * panels + v] = v16_fma(v16_of_words(sums[r * panels + v]),                         \
                                       v16_mul(scale, v16_set1(s)), done[r * panels + v]);         \
    }
        BODY_REPEAT(BODY_FOLD)
#undef BODY_FOLD
    }
}

/* `done` holds the sums in memory: between chunks the registers belong to the whole numbers. */
V16_FN void run_int8(const block *b, v16 *done, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    const float *scales = w->scales + b->panel * 16;
    int64_t starts_group = lx_cpu_chunks(w->shape.cols) * LX_CPU_GROUP;
    const uint32_t *starts =
        (const uint32_t *)w->starts + b->panel / 2 * starts_group + b->panel % 2 * 16;
    for (int64_t k0 = 0; k0 < w->shape.cols; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_inputs(w->shape.cols, k0);
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
#define BODY_FOLD_PANEL(v) fold_bytes(done, sums, x, scales, v, rows, panels);
        BODY_REPEAT(BODY_FOLD_PANEL)
#undef BODY_FOLD_PANEL
        starts += LX_CPU_GROUP;
    }
}

#endif

/* Copies one sum of every panel. */
V16_FN void copy_sums(v16 *to, const v16 *from, const int panels)
{
#define BODY_COPY(v)                                                                               \
    if (v < panels)                                                                                \
        to[v] = from[v];
    BODY_REPEAT(BODY_COPY)
#undef BODY_COPY
}

#ifndef V16_PAIRS

V16_FN void run_block_int8(const block *b, const v16 *bias, const int rows, const int panels)
{
    v16 done[BODY_MAX_SUMS];
#define BODY_START(r)                                                                              \
    if (r < rows)                                                                                  \
        copy_sums(done + r * panels, bias, panels);
    BODY_REPEAT(BODY_START)
#undef BODY_START
    run_int8(b, done, rows, panels);
    finish_block(b, done, rows, panels);
}

#endif

V16_FN void run_block(const block *b, const int rows, const int panels)
{
    v16 bias[12], sums[96],
        done[BODY_MAX_SUMS]; /* `done` is in memory, where `sums` should not be */
    const float *from = b->job->w->bias + b->panel * 16;
#define BODY_BIAS(v)                                                                               \
    if (v < panels)                                                                                \
        bias[v] = v16_load(from + v * 16);
    BODY_REPEAT(BODY_BIAS)
#undef BODY_BIAS
#define BODY_START(r)                                                                              \
    if (r < rows)                                                                                  \
        copy_sums(sums + r * panels, bias, panels);
    BODY_REPEAT(BODY_START)
#undef BODY_START
#ifndef V16_PAIRS
    if (b->job->w->format == LX_CPU_INT8) {
        run_block_int8(b, bias, rows, panels);
        return;
    }
#endif
#ifdef V16_TILES
    run_f32(b, sums, rows, panels);
#else
    if (b->job->w->format == LX_CPU_BF16)
        run_bf16(b, sums, rows, panels);
    else
        run_f32(b, sums, rows, panels);
#endif
#define BODY_END(r)                                                                                \
    if (r < rows)                                                                                  \
        copy_sums(done + r * panels, sums + r * panels, panels);
    BODY_REPEAT(BODY_END)
#undef BODY_END
    finish_block(b, done, rows, panels);
}

/* The micro-kernels: a wide one for few rows, where many panels are needed to keep the units busy.
 */
#define BODY_DEFINE_WIDE(rows, panels)                                                             \
    static void run_wide_##rows(const block *b)                                                    \
    {                                                                                              \
        run_block(b, rows, panels);                                                                \
    }
#define BODY_DEFINE_NARROW(rows, panels)                                                           \
    static void run_narrow_##rows(const block *b)                                                  \
    {                                                                                              \
        run_block(b, rows, panels);                                                                \
    }
BODY_WIDE(BODY_DEFINE_WIDE)
BODY_NARROW(BODY_DEFINE_NARROW)

typedef struct shape {
    void (*run)(const block *b);
    int panels;
} shape;

#define BODY_ENTRY_WIDE(rows, panels) [rows] = {run_wide_##rows, panels},
#define BODY_ENTRY_NARROW(rows, panels) [rows] = {run_narrow_##rows, panels},
static const shape wide_shapes[BODY_ROWS + 1] = {[0] = {NULL, 0}, BODY_WIDE(BODY_ENTRY_WIDE)};
static const shape narrow_shapes[BODY_ROWS + 1] = {[0] = {NULL, 0}, BODY_NARROW(BODY_ENTRY_NARROW)};

/* All panels of groups group0 .. group1 - 1 for one block of rows. */
static void run_groups(block *b, int rows, int64_t group0, int64_t group1)
{
    const shape *wide = &wide_shapes[rows], *narrow = &narrow_shapes[rows];
    int64_t end = group1 * 2, real = (b->job->w->shape.rows + 15) / 16;
    end = end < real ? end : real;
    b->panel = group0 * 2;
    for (; wide->run != NULL && b->panel + wide->panels <= group1 * 2; b->panel += wide->panels)
        wide->run(b);
    for (; b->panel < end; b->panel += narrow->panels)
        narrow->run(b);
}

#ifdef V16_TILES
#include "kernels/cpu/body_tiles.h"
#endif

/* Rows that run_rows takes at once, at most. */
static int64_t block_rows(const lx_cpu_linear *job)
{
#ifdef V16_TILES
    if (job->w->format != LX_CPU_F32)
        return TILE_BLOCK_ROWS;
#endif
    (void)job;
    return BODY_ROWS;
}

static void run_rows(const lx_cpu_linear *job, int64_t row, int rows, int64_t group0,
                     int64_t group1)
{
    block b = {job, job->x + row * job->w->shape.cols, LX_CPU_CHUNK, row,
               0}; /* one row: as it lies */
#if defined(V16_TILES)
    if (job->w->format != LX_CPU_F32) {
        run_rows_on_tiles(job, row, rows, group0, group1);
        return;
    }
#elif defined(V16_PAIRS)
    if (job->w->format == LX_CPU_BF16) {
        pack_pairs(job, row, rows);
        b.x = job->scratch;
        b.chunk_stride = rows * BODY_PAIR_STRIDE;
        run_groups(&b, rows, group0, group1);
        return;
    }
#else
    if (job->w->format == LX_CPU_INT8) {
        pack_bytes(job, row, rows);
        b.x = job->scratch;
        b.chunk_stride = rows * BODY_BYTES_STRIDE;
        run_groups(&b, rows, group0, group1);
        return;
    }
#endif
    if (rows > 1) {
        pack_rows(job, row, rows);
        b.x = job->scratch;
        b.chunk_stride = rows * BODY_ROW_STRIDE;
    }
    run_groups(&b, rows, group0, group1);
}

static void linear(const lx_cpu_linear *job)
{
    int64_t rows = job->row1 - job->row0, most = block_rows(job);
    int64_t blocks = (rows + most - 1) / most;
    int64_t step = BODY_CACHE_BYTES / (job->w->group_words * 4);
    step = step < 4 ? 4 : step / 4 * 4; /* whole wide shapes */
    for (int64_t g = job->group0; g < job->group1; g += step) {
        int64_t end = job->group1 - g < step ? job->group1 : g + step;
        for (int64_t i = 0; i < blocks; i++) {
            int64_t from = rows * i / blocks, to = rows * (i + 1) / blocks;
            run_rows(job, job->row0 + from, (int)(to - from), g, end);
        }
    }
}
