/*
 * `linear` on tiles: registers of up to sixteen rows of 64 bytes (AMX; tiles_amx.h and
 * tiles_plain.h have the operations). A tile of activations has rows of 32 bf16 or 64 bytes, a tile
 * of weights as many inputs of sixteen outputs. Their product is added to a tile of sums. Weights
 * keep the packed order of lanes: sixteen words of inputs of a panel are a tile.
 *
 * Four tiles of sums are computed at a time: two tiles of rows by the two panels of a group. With
 * at most sixteen rows it is one tile of rows by the panels of two groups. A row's sums do not
 * depend on other rows:
 *
 *   bf16  an output starts with its bias and takes 32 inputs at a time: the sum of their even
 *         products and that of their odd products, each by fma from 0, are added to one another,
 *         then to the output. Denormal inputs and results become 0.
 *   int8  exactly as on lanes: whole numbers over a chunk of inputs, then one fma.
 */
#define TILE_ROWS 16
#define TILE_LANES LX_CPU_TILE /* words of a row */
#define TILE_BLOCK_ROWS (2 * TILE_ROWS)
#define TILE_CACHE_BYTES ((int64_t)256 * 1024)
#define TILE_MAX_SUMS (4 * TILE_ROWS)
_Static_assert(TILE_BLOCK_ROWS <= LX_CPU_BLOCK_ROWS && BODY_PAIR_STRIDE <= BODY_ROW_STRIDE,
               "the scratch of lx_cpu_linear_scratch holds a block of rows");

/* Sums are tiles 0 .. 3, activations 4 and 5, weights 6 and 7. */
enum { TILES = 8, TILE_X = 4, TILE_W = 6 };

/* The configuration of the processor's tiles: 64 bytes in its own form. */
typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

/* A block of rows: `first` rows in one tile, the rest in a second. */
typedef struct tile_rows {
    tile_file *file;
    int first, second;
} tile_rows;

static tile_shapes shapes_of(const tile_rows *r)
{
    tile_shapes s = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        bool second = r->second > 0 && (i == 2 || i == 3 || i == TILE_X + 1);
        s.row_bytes[i] = TILE_LANES * 4;
        s.rows[i] = (uint8_t)(i >= TILE_W ? TILE_ROWS : second ? r->second : r->first);
    }
    return s;
}

/* Sums of all rows start from the words at `from`, and of the next group at `from + group`. */
V16_FN void tiles_start(const tile_rows *r, const void *from, int64_t group, const int groups)
{
    const uint32_t *words = from;
    TILE_LOAD(r->file, 0, words, 0);
    TILE_LOAD(r->file, 1, words + TILE_LANES, 0);
    if (groups > 1)
        words += group;
    if (groups > 1 || r->second > 0) {
        TILE_LOAD(r->file, 2, words, 0);
        TILE_LOAD(r->file, 3, words + TILE_LANES, 0);
    }
}

/* Adds a chunk: `words` of every row from x, x_stride words apart, by the weights at w. */
V16_FN void tiles_add(const tile_rows *r, const uint32_t *x, int64_t x_stride, const uint32_t *w,
                      int64_t group, int64_t words, const int groups, const bool bytes)
{
    const int64_t x_bytes = x_stride * 4, w_bytes = (int64_t)LX_CPU_GROUP * 4;
    for (int64_t i = 0; i < words; i += TILE_LANES, w += TILE_LANES * LX_CPU_GROUP) {
        TILE_LOAD(r->file, 4, x + i, x_bytes);
        TILE_LOAD(r->file, 6, w, w_bytes);
        TILE_LOAD(r->file, 7, w + TILE_LANES, w_bytes);
        TILE_ADD(r->file, bytes, 0, 4, 6);
        TILE_ADD(r->file, bytes, 1, 4, 7);
        if (groups > 1) {
            TILE_LOAD(r->file, 6, w + group, w_bytes);
            TILE_LOAD(r->file, 7, w + group + TILE_LANES, w_bytes);
            TILE_ADD(r->file, bytes, 2, 4, 6);
            TILE_ADD(r->file, bytes, 3, 4, 7);
        } else if (r->second > 0) {
            TILE_LOAD(r->file, 5, x + r->first * x_stride + i, x_bytes);
            TILE_ADD(r->file, bytes, 2, 5, 6);
            TILE_ADD(r->file, bytes, 3, 5, 7);
        }
    }
}

/* The sums, in memory as [rows][panels]. */
V16_FN void tiles_store(const tile_rows *r, void *sums, const int groups)
{
    const int64_t row_bytes = (int64_t)groups * 2 * TILE_LANES * 4;
    char *to = sums;
    TILE_STORE(r->file, 0, to, row_bytes);
    TILE_STORE(r->file, 1, to + TILE_LANES * 4, row_bytes);
    to += groups > 1 ? row_bytes / 2 : r->first * row_bytes;
    if (groups > 1 || r->second > 0) {
        TILE_STORE(r->file, 2, to, row_bytes);
        TILE_STORE(r->file, 3, to + TILE_LANES * 4, row_bytes);
    }
}

V16_FN void run_tiles_bf16(const block *b, const tile_rows *r, const int groups)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    v16 sums[TILE_MAX_SUMS];
    tiles_start(r, w->bias + b->panel * TILE_LANES, LX_CPU_GROUP, groups);
    for (int64_t k = 0; k < w->shape.cols; k += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = (chunk_inputs(w->shape.cols, k) + 1) / 2;
        tiles_add(r, x, BODY_PAIR_STRIDE, words, w->group_words, n, groups, false);
        words += LX_CPU_CHUNK / 2 * LX_CPU_GROUP;
    }
    tiles_store(r, sums, groups);
    finish_block(b, sums, r->first + r->second, groups * 2);
}

/* Adds the sums over a chunk, times both scales, to those over the chunks before. */
static void fold_tiles(v16 *done, const v16u *whole, const uint32_t *x, const float *scales,
                       int rows, int panels)
{
    for (int r = 0; r < rows; r++, x += BODY_BYTES_STRIDE) {
        float s;
        memcpy(&s, x + LX_CPU_CHUNK / 4, sizeof s);
        for (int v = 0; v < panels; v++, done++, whole++) {
            v16 scale = v16_mul(v16_load(scales + v * TILE_LANES), v16_set1(s));
            *done = v16_fma(v16_of_words(*whole), scale, *done);
        }
    }
}

V16_FN void run_tiles_int8(const block *b, const tile_rows *r, const int groups)
{
    const lx_matrix *w = b->job->w;
    const int rows = r->first + r->second, panels = groups * 2;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel);
    const int64_t starts_group = lx_cpu_chunks(w->shape.cols) * LX_CPU_GROUP;
    const int32_t *starts = w->starts + b->panel / 2 * starts_group;
    v16 done[TILE_MAX_SUMS];
    v16u whole[TILE_MAX_SUMS];
    for (int i = 0; i < rows * panels; i++)
        done[i] = v16_load(w->bias + (b->panel + i % panels) * TILE_LANES);
    for (int64_t k = 0; k < w->shape.cols; k += LX_CPU_CHUNK, x += b->chunk_stride) {
        tiles_start(r, starts, starts_group, groups);
        int64_t n = (chunk_inputs(w->shape.cols, k) + 3) / 4;
        tiles_add(r, x, BODY_BYTES_STRIDE, words, w->group_words, n, groups, true);
        tiles_store(r, whole, groups);
        fold_tiles(done, whole, x, w->scales + b->panel * TILE_LANES, rows, panels);
        words += LX_CPU_CHUNK / 4 * LX_CPU_GROUP;
        starts += LX_CPU_GROUP;
    }
    finish_block(b, done, rows, panels);
}

V16_FN void run_tiles(const block *b, const tile_rows *r, const int groups)
{
    if (b->job->w->format == LX_CPU_INT8)
        run_tiles_int8(b, r, groups);
    else
        run_tiles_bf16(b, r, groups);
}

/* Rows row .. row + rows - 1, at most TILE_BLOCK_ROWS, for some groups. */
static void run_rows_on_tiles(const lx_cpu_linear *job, int64_t row, int rows, int64_t group0,
                              int64_t group1)
{
    bool bytes = job->w->format == LX_CPU_INT8;
    block b = {.job = job,
               .x = job->scratch,
               .chunk_stride = rows * (bytes ? BODY_BYTES_STRIDE : BODY_PAIR_STRIDE),
               .row = row};
    tile_file file;
    tile_rows r = {&file, rows, 0};
    if (rows > TILE_ROWS)
        r = (tile_rows){&file, (rows + 1) / 2, rows / 2};
    if (bytes)
        pack_bytes(job, row, rows);
    else
        pack_pairs(job, row, rows);
    tile_shapes shapes = shapes_of(&r);
    TILE_CONFIGURE(&file, &shapes);
    for (int64_t g = group0; g < group1;) {
        const bool two = r.second == 0 && g + 2 <= group1;
        b.panel = g * 2;
        if (two)
            run_tiles(&b, &r, 2);
        else
            run_tiles(&b, &r, 1);
        g += two ? 2 : 1;
    }
    TILE_RELEASE(&file);
}

/* Groups whose weights stay in the second-level cache while all rows pass. */
static int64_t cached_groups(const lx_matrix *w)
{
    int64_t n = TILE_CACHE_BYTES / (w->group_words * 4);
    return n < 4 ? 4 : n / 4 * 4;
}

static void linear_on_tiles(const lx_cpu_linear *job)
{
    int64_t rows = job->row1 - job->row0, step = cached_groups(job->w);
    int64_t blocks = (rows + TILE_BLOCK_ROWS - 1) / TILE_BLOCK_ROWS;
    for (int64_t g = job->group0; g < job->group1; g += step) {
        int64_t end = job->group1 - g < step ? job->group1 : g + step;
        for (int64_t i = 0; i < blocks; i++) {
            int64_t from = rows * i / blocks, to = rows * (i + 1) / blocks;
            run_rows_on_tiles(job, job->row0 + from, (int)(to - from), g, end);
        }
    }
}
