/*
 * `linear` on sixteen lanes.
 *
 *                 inputs k ->  chunk 0 (LX_CPU_CHUNK inputs)    chunk 1 ...
 *             +------------+---------------------------------+------------
 *             | panel 0    | a word of 1, 2, 4 or 8 inputs (cpu_job.h)
 *   group 0   |  16 lanes  | of each of its 16 outputs; the words of both
 *   32 outputs+------------+ panels lie side by side, inputs go on in
 *             | panel 1    | memory: [words of inputs][32 outputs]
 *             |  16 lanes  |
 *             +------------+---------------------------------+------------
 *   group 1   | panel 2, 3 | group_words words after group 0
 *
 * A micro-kernel holds rows x panels sums in registers (rows of x; 1, 2, 4 or 8 panels). It walks
 * the inputs in order, and applies bias, activation and residual before it stores. The registers of
 * the instruction set decide which shapes exist (BODY_WIDE and BODY_NARROW). Every shape sums an
 * output in one order: the bias first, then input by input. Rows are copied side by side so that
 * one pointer reaches all of them (cpu_rows.h), and taken in blocks of at most BODY_ROWS. Several
 * blocks pass the same weights one after another: of a group some chunks, which stay in the
 * second-level cache meanwhile. The blocks share out the prefetching of the weights that follow, so
 * that memory delivers them all the time. Sums wait in memory for the next inputs.
 *
 * The files of the sums:
 *   cpu_f32.h                 f32 weights
 *   cpu_bf16.h, cpu_int8.h    rounded weights
 *   cpu_blocks.h              weights in blocks of 32 inputs
 *   cpu_k_blocks.h            weights in blocks of 256 inputs
 *   cpu_pairs.h               bf16 with V16_DOT (isa_avx512bf16.c)
 *   cpu_tiles.h               rounded weights with V16_TILES (isa_amx*.c)
 *   cpu_block_tiles.h         weights in blocks with V16_TILES
 *   cpu_mmla.h                rounded weights with V16_MMLA (isa_neonbf16*.c); there cpu_pairs.h
 * and cpu_int8.h take single rows
 */
#include "kernels/ops/linear/cpu_epilogue.h"
#include "kernels/ops/linear/cpu_rows.h"

/* Chunks of inputs that several blocks of rows meet in turn, at most. */
#define BODY_RUN_CHUNKS 3

/* Weights are prefetched, since few models stay in a core's second-level cache from step to step. A
   processor's own prefetching ends at each page of 4 KiB, and one stream of weights leaves most of
   memory's rate unused. A single block of rows asks for the weights that come so many words later.
 */
#define BODY_FAR_WORDS 1024

/* Prefetches as many weights as one or two panels have of an input, and returns the place of the
   next ones. More panels read several streams, which need no prefetching. */
V16_FN const uint32_t *ask_ahead(const block *b, const uint32_t *ask, const int panels)
{
    if (panels > 2 || ask >= b->asked_end)
        return ask;
    __builtin_prefetch(ask, 0, 2);
    if (panels > 1)
        __builtin_prefetch(ask + 16, 0, 2);
    return ask + (int64_t)panels * 16;
}

/* Formats whose products tiles, or instructions for two rows, compute where a set has them. */
static inline bool is_rounded(const lx_matrix *w)
{
    return w->format == LX_CPU_BF16 || w->format == LX_CPU_INT8;
}

/* The first weights of a panel's group, at the panel's own lanes. */
V16_FN const uint32_t *panel_words(const lx_matrix *w, int64_t panel)
{
    return (const uint32_t *)w->data + panel / 2 * w->group_words + panel % 2 * 16;
}

/*
 * M(0) M(1) .., at least BODY_ROWS of them, and as many as a shape has panels. Each M(i) begins
 * with `if (i < n)`, and n is known at compile time. Not every compiler unrolls a loop early enough
 * to keep the sums in registers. Repetitions beyond n cost a compiler time.
 */
#if BODY_ROWS <= 4
#define BODY_PANELS(M) M(0) M(1)
#define BODY_REPEAT(M) BODY_PANELS(M) M(2) M(3)
#elif BODY_ROWS <= 6
#define BODY_PANELS(M) M(0) M(1) M(2) M(3)
#define BODY_REPEAT(M) BODY_PANELS(M) M(4) M(5)
#else
#define BODY_PANELS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define BODY_REPEAT(M) BODY_PANELS(M) M(8) M(9) M(10) M(11)
#endif

/*
 * add(sums, x, w, v, ..) for each group of a block. Its panels are v and v + 1, its words of these
 * inputs begin at w; groups are `apart` words apart. Without a loop for the reason above.
 */
#define BODY_GROUPS(add, sums, x, w, apart, ...)                                                   \
    do {                                                                                           \
        add(sums, x, w, 0, __VA_ARGS__);                                                           \
        if (panels > 2)                                                                            \
            add(sums, x, (w) + (apart), 2, __VA_ARGS__);                                           \
        if (panels > 4)                                                                            \
            add(sums, x, (w) + 2 * (apart), 4, __VA_ARGS__);                                       \
        if (panels > 6)                                                                            \
            add(sums, x, (w) + 3 * (apart), 6, __VA_ARGS__);                                       \
    } while (0)

/* Copies one sum of every panel. */
V16_FN void copy_sums(v16 *to, const v16 *from, const int panels)
{
#define BODY_COPY(v)                                                                               \
    if (v < panels)                                                                                \
        to[v] = from[v];
    BODY_PANELS(BODY_COPY)
#undef BODY_COPY
}

#include "kernels/ops/linear/cpu_blocks.h"
#include "kernels/ops/linear/cpu_f32.h"
#include "kernels/ops/linear/cpu_k_blocks.h"

#if defined(V16_DOT)
#include "kernels/ops/linear/cpu_pairs.h"
#elif !defined(V16_PAIRS)
#include "kernels/ops/linear/cpu_bf16.h"
#endif
#if !BODY_FLOATS_ONLY && (!defined(V16_PAIRS) || defined(V16_MMLA))
#define BODY_INT8 1
#include "kernels/ops/linear/cpu_int8.h"
#endif
#ifdef V16_MMLA
#include "kernels/ops/linear/cpu_mmla.h"
#endif

/* Formats whose sums are not those of f32 and bf16. False: another format. */
V16_FN bool run_rounded(const block *b, const v16 *bias, const int rows, const int panels)
{
#ifdef V16_MMLA
    if (rows > 1 && is_rounded(b->job->w)) {
        run_block_mmla(b, bias, rows, panels);
        return true;
    }
#endif
#ifdef BODY_INT8
    if (b->job->w->format == LX_CPU_INT8) {
        run_block_int8(b, bias, rows, panels);
        return true;
    }
#endif
    (void)b, (void)bias, (void)rows, (void)panels;
    return false;
}

V16_FN void load_bias(v16 *bias, const block *b, const int panels)
{
    const float *from = b->job->w->bias + b->panel * 16;
#define BODY_BIAS(v)                                                                               \
    if (v < panels)                                                                                \
        bias[v] = v16_load(from + v * 16);
    BODY_PANELS(BODY_BIAS)
#undef BODY_BIAS
}

/* The place of a row's kept sums of a block's first panel. */
V16_FN float *kept_sums(const block *b, const int row)
{
    return b->kept + row * LX_CPU_GROUP + b->panel % 2 * 16;
}

/* Copies the kept sums of a row. */
V16_FN void load_sums(v16 *to, const float *from, const int panels)
{
#define BODY_LOAD(v)                                                                               \
    if (v < panels)                                                                                \
        to[v] = v16_load(from + v * 16);
    BODY_PANELS(BODY_LOAD)
#undef BODY_LOAD
}

/* The sums of all rows before the block's inputs. */
V16_FN void start_block(const block *b, v16 *sums, const v16 *bias, const int rows,
                        const int panels)
{
#define BODY_START(r)                                                                              \
    if (r < rows) {                                                                                \
        if (b->from == 0)                                                                          \
            copy_sums(sums + r * panels, bias, panels);                                            \
        else                                                                                       \
            load_sums(sums + r * panels, kept_sums(b, r), panels);                                 \
    }
    BODY_REPEAT(BODY_START)
#undef BODY_START
}

/* Keeps sums [rows][panels] in memory for the next inputs. */
static void keep_sums(const block *b, const v16 *sums, int rows, int panels)
{
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < panels; v++)
            v16_store(kept_sums(b, r) + v * 16, sums[r * panels + v]);
    }
}

V16_FN void run_block(const block *b, const int rows, const int panels)
{
    v16 bias[12], sums[96],
        done[BODY_MAX_SUMS]; /* `done` is in memory, where `sums` should not be */
    load_bias(bias, b, panels);
    if (run_rounded(b, bias, rows, panels))
        return;
    start_block(b, sums, bias, rows, panels);
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
    if (b->to < b->job->w->shape.cols)
        keep_sums(b, done, rows, panels);
    else
        finish_block(b, done, rows, panels);
}

V16_FN void run_in_blocks(const block *b, const int rows, const int panels)
{
    v16 bias[12];
    load_bias(bias, b, panels);
    if (b->job->w->format == LX_CPU_Q4)
        run_block_q(b, bias, rows, panels, true);
    else
        run_block_q(b, bias, rows, panels, false);
}

V16_FN void run_in_k_blocks(const block *b, const int rows, const int panels)
{
    v16 bias[12];
    load_bias(bias, b, panels);
    if (b->job->w->format == LX_CPU_Q6_K)
        run_block_k(b, bias, rows, panels, LX_CPU_Q6_K);
    else if (b->job->w->format == LX_CPU_Q5_K)
        run_block_k(b, bias, rows, panels, LX_CPU_Q5_K);
    else
        run_block_k(b, bias, rows, panels, LX_CPU_Q4_K);
}

/* The micro-kernels. The wide ones are for few rows, where only many panels keep the units busy.
   Weights in blocks have functions of their own: in one function a compiler would give the other
   formats fewer registers. These take a compiler most of its time for a set. A set whose lanes
   and products of codes are another's borrows them (BODY_LENDS, BODY_BORROWS: their name). A set
   for precision f32 alone has none (BODY_FLOATS_ONLY). */
#define BODY_ONE(i) +1
#define BODY_DEFINE_OWN(width, rows, panels)                                                       \
    _Static_assert((rows) <= BODY_REPEAT(BODY_ONE) && (panels) <= BODY_PANELS(BODY_ONE),           \
                   "every row and panel is repeated");                                             \
    static void run_##width##_##rows(const block *b)                                               \
    {                                                                                              \
        run_block(b, rows, panels);                                                                \
    }
#if defined(BODY_BORROWS) || BODY_FLOATS_ONLY
#define BODY_DEFINE(width, rows, panels) BODY_DEFINE_OWN(width, rows, panels)
#define BODY_RUN(width, rows)                                                                      \
    {                                                                                              \
        run_##width##_##rows, NULL, NULL                                                           \
    }
#else
#define BODY_DEFINE(width, rows, panels)                                                           \
    BODY_DEFINE_OWN(width, rows, panels)                                                           \
    static void run_blocks_##width##_##rows(const block *b)                                        \
    {                                                                                              \
        run_in_blocks(b, rows, panels);                                                            \
    }                                                                                              \
    static void run_k_blocks_##width##_##rows(const block *b)                                      \
    {                                                                                              \
        run_in_k_blocks(b, rows, panels);                                                          \
    }
#define BODY_RUN(width, rows)                                                                      \
    {                                                                                              \
        run_##width##_##rows, run_blocks_##width##_##rows, run_k_blocks_##width##_##rows           \
    }
#endif
#define BODY_DEFINE_WIDE(rows, panels) BODY_DEFINE(wide, rows, panels)
#define BODY_DEFINE_NARROW(rows, panels) BODY_DEFINE(narrow, rows, panels)
BODY_WIDE(BODY_DEFINE_WIDE)
BODY_NARROW(BODY_DEFINE_NARROW)

typedef struct shape {
    void (*run[3])(
        const block *b); /* with weights in blocks of 32: the second, of 256: the third */
    int panels;
} shape;

typedef struct kernel_shapes {
    shape wide[BODY_ROWS + 1], narrow[BODY_ROWS + 1];
} kernel_shapes;

#define BODY_ENTRY(width, rows, panels) [rows] = {BODY_RUN(width, rows), panels},
#define BODY_ENTRY_WIDE(rows, panels) BODY_ENTRY(wide, rows, panels)
#define BODY_ENTRY_NARROW(rows, panels) BODY_ENTRY(narrow, rows, panels)
#ifdef BODY_LENDS
#if BODY_FLOATS_ONLY
#error "a set that lends its shapes has all of them"
#endif
#define own_shapes BODY_LENDS
extern const kernel_shapes own_shapes;
#else
static
#endif
const kernel_shapes own_shapes = {.wide = {[0] = {{NULL}, 0}, BODY_WIDE(BODY_ENTRY_WIDE)},
                                  .narrow = {[0] = {{NULL}, 0}, BODY_NARROW(BODY_ENTRY_NARROW)}};
#ifdef BODY_BORROWS
extern const kernel_shapes BODY_BORROWS;
#endif

/* All panels of groups group0 .. group1 - 1 for one block of rows. */
static void run_groups(block *b, int rows, int64_t group0, int64_t group1)
{
    const int in_blocks = lx_cpu_in_blocks(b->job->w) + lx_cpu_in_k_blocks(b->job->w);
    const kernel_shapes *all = &own_shapes;
#ifdef BODY_BORROWS
    all = in_blocks > 0 ? &BODY_BORROWS : all;
#endif
    const shape *wide = &all->wide[rows], *narrow = &all->narrow[rows];
    int64_t end = group1 * 2, real = (b->job->w->shape.rows + 15) / 16;
    end = end < real ? end : real;
    b->panel = group0 * 2;
    for (; wide->panels > 0 && b->panel + wide->panels <= group1 * 2; b->panel += wide->panels)
        wide->run[in_blocks](b);
    for (; b->panel < end; b->panel += narrow->panels) {
        narrow->run[in_blocks](b);
        b->ask = b->asked_end;
        b->asked_end += b->asked_words;
    }
}

#ifdef V16_TILES
#include "kernels/ops/linear/cpu_tiles.h"

#include "kernels/ops/linear/cpu_block_tiles.h"
#endif

/* The starts of blocks of rows for lanes (pack_chunk). */
static int32_t starts_of(lx_cpu_format format)
{
    return format == LX_CPU_Q8     ? BODY_Q8_ZERO
           : format == LX_CPU_Q4   ? BODY_Q4_ZERO
           : format == LX_CPU_Q6_K ? BODY_START_HALVES
                                   : BODY_START_MIN;
}

/* Copies rows into the scratch, as the format wants them. Returns the words from a row to the next.
 */
static int64_t pack(const lx_cpu_linear *job, int64_t row, int rows)
{
    if (lx_cpu_in_blocks(job->w)) {
        pack_blocks(job, row, rows, starts_of(job->w->format));
        return BODY_BYTES_STRIDE;
    }
#ifdef BODY_INT8
    if (job->w->format == LX_CPU_INT8) {
        pack_bytes(job, row, rows);
        return BODY_BYTES_STRIDE;
    }
#endif
#ifdef V16_PAIRS
    if (job->w->format == LX_CPU_BF16) {
        pack_pairs(job, row, rows);
        return BODY_PAIR_STRIDE;
    }
#endif
    pack_rows(job, row, rows);
    return BODY_ROW_STRIDE;
}

/* A row of floats alone needs no copy. */
static bool is_as_it_lies(const lx_cpu_linear *job, int rows)
{
#ifdef V16_PAIRS
    return rows == 1 && job->w->format == LX_CPU_F32;
#else
    return rows == 1 && (job->w->format == LX_CPU_F32 || job->w->format == LX_CPU_BF16);
#endif
}

/* How many runs of inputs there are. Sums of whole numbers cannot wait in memory. */
static int64_t runs_of(const lx_matrix *w)
{
#ifdef V16_MMLA
    bool can_wait = w->format == LX_CPU_F32;
#else
    bool can_wait = w->format == LX_CPU_F32 || w->format == LX_CPU_BF16;
#endif
    return can_wait ? (lx_cpu_chunks(w->shape.cols) + BODY_RUN_CHUNKS - 1) / BODY_RUN_CHUNKS : 1;
}

/* The panels of every narrow shape: one or two. */
static int narrow_panels(void)
{
    return own_shapes.narrow[1].panels;
}

/* At most BODY_ROWS rows. */
static void run_alone(block *b, int rows)
{
    const lx_cpu_linear *job = b->job;
    const lx_matrix *w = job->w;
    b->to = w->shape.cols;
    if (own_shapes.wide[rows].panels > 2) {
        run_groups(b, rows, job->group0, job->group1);
        return;
    }
    b->asked_end = (const uint32_t *)w->data + w->n_bytes / sizeof *b->asked_end;
    for (int64_t g = job->group0; g < job->group1; g++) {
        b->ask = (const uint32_t *)w->data + g * w->group_words + BODY_FAR_WORDS;
        run_groups(b, rows, g, g + 1);
    }
}

/* The words of a group's first inputs. */
static int64_t words_before(const lx_matrix *w, int64_t inputs)
{
    if (inputs == w->shape.cols)
        return w->group_words;
    return inputs * LX_CPU_GROUP / (w->format == LX_CPU_BF16 ? 2 : 1);
}

/*
 * Some inputs of groups group0 .. group1 - 1 for all blocks of rows. x: their first chunk. The next
 * call computes as many words that come after these, and the passes of all blocks share out their
 * prefetching. A block passes a group once, or once for each of its panels. When the job `begins`,
 * the first pass asks for its own words.
 */
static void run_inputs(const block *all, int rows, int64_t group0, int64_t group1, bool begins,
                       const float *x, int64_t stride)
{
    const lx_matrix *w = all->job->w;
    const int64_t before = words_before(w, all->from);
    const int64_t size = words_before(w, all->to) - before; /* of a group */
    const int64_t next = (group1 - group0 - 1) * w->group_words + size;
    const int blocks = (rows + BODY_ROWS - 1) / BODY_ROWS;
    const int passes = 2 / narrow_panels();
    const int64_t shares = blocks * passes - begins;
    for (int i = 0; i < blocks; i++) {
        const int from = rows * i / blocks, to = rows * (i + 1) / blocks;
        const int64_t share = i * passes - begins;
        block b = *all;
        b.x = x + from * stride;
        b.row += from;
        b.kept += from * LX_CPU_GROUP;
        b.asked_words = size / shares;
        for (int64_t g = group0; g < group1; g++) {
            const uint32_t *here = (const uint32_t *)w->data + g * w->group_words + before;
            b.ask = here + (share < 0 ? BODY_FAR_WORDS : next + size * share / shares);
            b.asked_end = here + next + size * (share + 1) / shares;
            run_groups(&b, to - from, g, g + 1);
        }
    }
}

/* More rows, at most LX_CPU_BLOCK_ROWS. Of short rows several groups go together. */
static void run_together(const block *all, int rows, int64_t stride)
{
    const lx_cpu_linear *job = all->job;
    const int64_t runs = runs_of(job->w), chunks = lx_cpu_chunks(job->w->shape.cols);
    const int64_t step = chunks < BODY_RUN_CHUNKS ? BODY_RUN_CHUNKS / chunks : 1;
    float kept[LX_CPU_BLOCK_ROWS * LX_CPU_GROUP];
    for (int64_t g = job->group0; g < job->group1; g += step) {
        const int64_t end = job->group1 - g < step ? job->group1 : g + step;
        for (int64_t i = 0; i < runs; i++) {
            const int64_t chunk = chunks * i / runs, next = chunks * (i + 1) / runs;
            block b = *all;
            b.kept = kept;
            b.from = chunk * LX_CPU_CHUNK;
            b.to = i + 1 < runs ? next * LX_CPU_CHUNK : job->w->shape.cols;
            run_inputs(&b, rows, g, end, g == job->group0 && i == 0,
                       all->x + chunk * all->chunk_stride, stride);
        }
    }
}

/* Rows row .. row + rows - 1, at most LX_CPU_BLOCK_ROWS. They are packed once for all groups. */
static void run_rows(const lx_cpu_linear *job, int64_t row, int rows)
{
    block b = {.job = job,
               .x = lx_cpu_linear_row(job, row),
               .row = row,
               .ask = job->w->data,
               .asked_end = job->w->data};
    int64_t stride = LX_CPU_CHUNK;
#ifdef V16_TILES
    if (lx_cpu_in_blocks(job->w) && rows >= TILE_LEAST_ROWS) {
        run_blocks_on_tiles(job, row, rows);
        return;
    }
#endif
    if (!is_as_it_lies(job, rows)) {
        stride = pack(job, row, rows);
        b.x = job->scratch;
    }
    b.chunk_stride = rows * stride;
    if (rows <= BODY_ROWS && (narrow_panels() > 1 || own_shapes.wide[rows].panels > 0))
        run_alone(&b, rows);
    else
        run_together(&b, rows, stride);
}

static void linear(const lx_cpu_linear *job)
{
    int64_t rows = job->row1 - job->row0, n = (rows + LX_CPU_BLOCK_ROWS - 1) / LX_CPU_BLOCK_ROWS;
#ifdef V16_TILES
    if (is_rounded(job->w)) {
        linear_on_tiles(job);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++) {
        int64_t from = rows * i / n, to = rows * (i + 1) / n;
        run_rows(job, job->row0 + from, (int)(to - from));
    }
}
