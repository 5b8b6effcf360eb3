/*
 * `linear` on sixteen lanes. A micro-kernel holds rows x panels sums in registers (a panel is
 * sixteen outputs, half a group), walks the inputs in order and applies bias, activation and
 * residual before it stores. Which shapes exist depends on the registers the instruction set has
 * (BODY_SHAPES in isa_*.c); every shape gives an output the same sum: the bias first, then input
 * after input by fma.
 *
 * Rows are taken in blocks of at most BODY_ROWS, copied side by side so that one pointer reaches
 * all of them; groups of weights in blocks that stay in the second-level cache while all rows pass.
 */
#define BODY_CACHE_BYTES ((int64_t)256 * 1024)
#define BODY_ROW_STRIDE (LX_CPU_CHUNK + LX_CPU_CHUNK_PAD)

/* One micro-kernel call: n rows from `row`, outputs from panel `panel` on. */
typedef struct block {
    const lx_cpu_linear *job;
    const float *x;       /* chunks of rows, BODY_ROW_STRIDE apart within a chunk */
    int64_t chunk_stride; /* between chunks, in floats */
    int64_t row, panel;
} block;

V16_FN v16 activate(v16 x, lx_activation activation)
{
    if (activation == LX_ACT_RELU)
        return v16_max(v16_set1(0.0f), x); /* NaN stays */
    return activation == LX_ACT_GELU ? v16_gelu(x) : x;
}

/* The epilogue of sixteen outputs of one row. */
V16_FN void finish(const lx_cpu_linear *job, int64_t row, int64_t panel, v16 sum)
{
    int64_t outputs = job->w->rows, at = row * outputs + panel * 16;
    int64_t left = outputs - panel * 16;
    int n = left < 16 ? (int)left : 16;
    v16 y = activate(sum, job->activation);
    if (job->residual != NULL)
        y = v16_add(y, v16_load_n(job->residual + at, n, y));
    v16_store_n(job->y + at, y, n);
}

/* Apart from the micro-kernels, so that they stay small; panels that are only padding are left out.
 */
static void finish_block(const block *b, const v16 *sums, int rows, int panels)
{
    for (int v = 0; v < panels && (b->panel + v) * 16 < b->job->w->rows; v++) {
        for (int r = 0; r < rows; r++)
            finish(b->job, b->row + r, b->panel + v, sums[r * panels + v]);
    }
}

/* Where the group of panel 2 i and 2 i + 1 (counted from `panel`) begins; panels = 1 may be odd. */
V16_FN const uint32_t *panel_words(const lx_matrix *w, int64_t panel, int i)
{
    return (const uint32_t *)w->data + (panel / 2 + i) * w->group_words + (panel % 2) * 16;
}

/*
 * Adds one input of all rows: x points at it in the first row. The inner loop runs over what is
 * greater in number, so that few weights or few inputs wait in registers.
 */
V16_FN void add_input(v16 *sums, const float *x, const v16 *weight, const int rows,
                      const int panels)
{
    BODY_UNROLL
    for (int r = 0; r < rows; r++) {
        v16 input = v16_set1(x[r * BODY_ROW_STRIDE]);
        BODY_UNROLL
        for (int v = 0; v < panels; v++)
            sums[r * panels + v] = v16_fma(input, weight[v], sums[r * panels + v]);
    }
}

V16_FN void run_f32(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const float *x = b->x;
    for (int64_t k0 = 0; k0 < w->cols; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = w->cols - k0 < LX_CPU_CHUNK ? w->cols - k0 : LX_CPU_CHUNK;
        const float *words[(BODY_MAX_PANELS + 1) / 2];
        BODY_UNROLL
        for (int i = 0; i < (panels + 1) / 2; i++)
            words[i] = (const float *)panel_words(w, b->panel, i) + k0 * LX_CPU_GROUP;
        for (int64_t k = 0; k < n; k++) {
            v16 weight[BODY_MAX_PANELS];
            BODY_UNROLL
            for (int v = 0; v < panels; v++)
                weight[v] = v16_load(words[v / 2] + k * LX_CPU_GROUP + (v % 2) * 16);
            add_input(sums, x + k, weight, rows, panels);
        }
    }
}

V16_FN void load_pairs(v16 *low, v16 *high, const uint32_t *const *words, int64_t at,
                       const int panels)
{
    BODY_UNROLL
    for (int v = 0; v < panels; v++) {
        v16u pair = v16_load_pairs(words[v / 2] + at + (v % 2) * 16);
        low[v] = v16_pair_low(pair);
        high[v] = v16_pair_high(pair);
    }
}

V16_FN void run_bf16(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const float *x = b->x;
    for (int64_t k0 = 0; k0 < w->cols; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = w->cols - k0 < LX_CPU_CHUNK ? w->cols - k0 : LX_CPU_CHUNK;
        const uint32_t *words[(BODY_MAX_PANELS + 1) / 2];
        v16 low[BODY_MAX_PANELS], high[BODY_MAX_PANELS];
        BODY_UNROLL
        for (int i = 0; i < (panels + 1) / 2; i++)
            words[i] = panel_words(w, b->panel, i) + k0 / 2 * LX_CPU_GROUP;
        for (int64_t k = 0; k + 1 < n; k += 2) {
            load_pairs(low, high, words, k / 2 * LX_CPU_GROUP, panels);
            add_input(sums, x + k, low, rows, panels);
            add_input(sums, x + k + 1, high, rows, panels);
        }
        if (n % 2 != 0) {
            load_pairs(low, high, words, n / 2 * LX_CPU_GROUP, panels);
            add_input(sums, x + n - 1, low, rows, panels);
        }
    }
}

V16_FN void run_block(const block *b, const int rows, const int panels)
{
    v16 sums[BODY_MAX_SUMS];
    BODY_UNROLL
    for (int v = 0; v < panels; v++) {
        v16 bias = v16_load(b->job->w->bias + (b->panel + v) * 16);
        BODY_UNROLL
        for (int r = 0; r < rows; r++)
            sums[r * panels + v] = bias;
    }
    if (b->job->w->bf16)
        run_bf16(b, sums, rows, panels);
    else
        run_f32(b, sums, rows, panels);
    v16 done[BODY_MAX_SUMS]; /* in memory, where `sums` should not be */
    BODY_UNROLL
    for (int i = 0; i < rows * panels; i++)
        done[i] = sums[i];
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
    int64_t end = group1 * 2, real = (b->job->w->rows + 15) / 16;
    end = end < real ? end : real;
    b->panel = group0 * 2;
    for (; wide->run != NULL && b->panel + wide->panels <= group1 * 2; b->panel += wide->panels)
        wide->run(b);
    for (; b->panel < end; b->panel += narrow->panels)
        narrow->run(b);
}

/* Copies rows side by side: chunk after chunk, each [rows][BODY_ROW_STRIDE]. */
static void pack_rows(const lx_cpu_linear *job, int64_t row, int rows)
{
    float *to = job->scratch;
    int64_t cols = job->w->cols;
    for (int64_t k = 0; k < cols; k += LX_CPU_CHUNK) {
        int64_t n = cols - k < LX_CPU_CHUNK ? cols - k : LX_CPU_CHUNK;
        for (int r = 0; r < rows; r++, to += BODY_ROW_STRIDE)
            memcpy(to, job->x + (row + r) * cols + k, (size_t)n * sizeof *to);
    }
}

static void run_rows(const lx_cpu_linear *job, int64_t row, int rows, int64_t group0,
                     int64_t group1)
{
    block b = {job, job->x + row * job->w->cols, LX_CPU_CHUNK, row, 0}; /* one row: as it lies */
    if (rows > 1) {
        pack_rows(job, row, rows);
        b.x = job->scratch;
        b.chunk_stride = rows * BODY_ROW_STRIDE;
    }
    run_groups(&b, rows, group0, group1);
}

static void linear(const lx_cpu_linear *job)
{
    int64_t rows = job->row1 - job->row0, blocks = (rows + BODY_ROWS - 1) / BODY_ROWS;
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
