/*
 * Copies rows of activations side by side for `linear`, so that one pointer reaches all of them:
 * chunks of LX_CPU_CHUNK inputs, each [rows][stride]. With V16_PAIRS a word has two bf16, with
 * weights that are whole numbers four bytes.
 */

/* Floats from row to row; words of two inputs; words of four, with the row's scale after its bytes,
   or a scale and a start for each block. All have spare room, so that rows lie in different sets of
   the cache. */
#define BODY_ROW_STRIDE (LX_CPU_CHUNK + LX_CPU_CHUNK_PAD)
#define BODY_PAIR_STRIDE (BODY_ROW_STRIDE / 2)
#ifdef V16_TILES
#define BODY_BYTES_STRIDE LX_CPU_BYTES_ROW /* a tile's row should lie in one line */
#else
#define BODY_BYTES_STRIDE (LX_CPU_CHUNK / 4 + 24)
#endif

/* Inputs of the chunk that begins with input k. */
static inline int64_t chunk_inputs(int64_t cols, int64_t k)
{
    return cols - k < LX_CPU_CHUNK ? cols - k : LX_CPU_CHUNK;
}

static inline void pack_rows(const lx_cpu_linear *job, int64_t row, int rows)
{
    float *to = job->scratch;
    int64_t cols = job->w->shape.cols;
    for (int64_t k = 0; k < cols; k += LX_CPU_CHUNK) {
        int64_t n = chunk_inputs(cols, k);
        for (int r = 0; r < rows; r++, to += BODY_ROW_STRIDE)
            memcpy(to, lx_cpu_linear_row(job, row + r) + k, (size_t)n * sizeof *to);
    }
}

#ifdef V16_PAIRS

/*
 * Words of n inputs of a chunk. Where an instruction takes two words their number is even, for a
 * single row too: to add the zeros of a further word turns -0 into 0.
 */
static inline int64_t chunk_pairs(int64_t n)
{
#ifdef V16_MMLA
    return (n + 3) / 4 * 2;
#else
    return (n + 1) / 2;
#endif
}

/* Like pack_rows, with the inputs rounded to bf16, two per word; the last word ends with zeros. */
static inline void pack_pairs(const lx_cpu_linear *job, int64_t row, int rows)
{
    uint32_t *to = (uint32_t *)job->scratch;
    int64_t cols = job->w->shape.cols;
    for (int64_t k = 0; k < cols; k += LX_CPU_CHUNK) {
        int64_t n = chunk_inputs(cols, k);
        for (int r = 0; r < rows; r++, to += BODY_PAIR_STRIDE) {
            const float *from = lx_cpu_linear_row(job, row + r) + k;
            for (int64_t i = 0; i < n; i += 32)
                v16_store_pairs(to + i / 2, from + i, n - i < 32 ? (int)(n - i) : 32);
        }
    }
}

#endif

/* An input of int8 is stored plus this, by default so that it is unsigned. */
#ifdef V16_SIGNED_BYTES
#define BODY_BYTE_ZERO 0.0f
#else
#define BODY_BYTE_ZERO 128.0f
#endif

/* n inputs of a row as whole numbers plus `plus`, in whole sixteens of bytes. Returns their scale.
   If an input is not finite the scale is NaN, and so is every output. */
static inline float quantise(uint8_t *to, const float *from, int64_t n, float plus)
{
    v16 zero = v16_set1(0.0f), most = zero, nothing = zero;
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v16_load_n(from + i, n - i < 16 ? (int)(n - i) : 16, zero);
        most = v16_max(v16_abs(v), most);
        nothing = v16_fma(v, zero, nothing);
    }
    float largest = v16_most(most);
    bool usable = largest > LX_CPU_LEAST_INT8;
    v16 inverse = v16_set1(usable ? 127.0f / largest : 0.0f);
    float scale = (usable ? largest / 127.0f : 0.0f) + v16_sum(nothing);
    /* the sum's low bits are the nearest whole number plus `plus` */
    v16 shift = v16_set1(BODY_ROUND + plus);
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v16_load_n(from + i, n - i < 16 ? (int)(n - i) : 16, zero);
        v16_store_low_bytes(to + i, v16_fma(v, inverse, shift));
    }
    return scale;
}

/* Like pack_rows, in bytes. */
static inline void pack_bytes(const lx_cpu_linear *job, int64_t row, int rows)
{
    uint32_t *to = (uint32_t *)job->scratch;
    int64_t cols = job->w->shape.cols;
    for (int64_t k = 0; k < cols; k += LX_CPU_CHUNK) {
        int64_t n = chunk_inputs(cols, k);
        for (int r = 0; r < rows; r++, to += BODY_BYTES_STRIDE) {
            float scale =
                quantise((uint8_t *)to, lx_cpu_linear_row(job, row + r) + k, n, BODY_BYTE_ZERO);
            memcpy(to + LX_CPU_CHUNK / 4, &scale, sizeof scale);
        }
    }
}

/* After the bytes of a chunk: the scales of its blocks, then the starts of their sums, or of the
   sums of their first halves, then of their second halves. */
enum {
    BODY_CHUNK_BLOCKS = LX_CPU_CHUNK / LX_BLOCK,
    BODY_SCALES_AT = LX_CPU_CHUNK / 4,
    BODY_STARTS_AT = BODY_SCALES_AT + BODY_CHUNK_BLOCKS
};
_Static_assert(BODY_STARTS_AT + 2 * BODY_CHUNK_BLOCKS <= BODY_BYTES_STRIDE, "a row has room");
_Static_assert(BODY_CHUNK_BLOCKS <= 16, "lanes hold a value of each block");

/* Sixteen of n inputs, from input i on; zeros after the end. */
V16_FN v16 sixteen_inputs(const float *from, const int64_t n, const int64_t i)
{
    if (n - i >= 16)
        return v16_load(from + i);
    return n > i ? v16_load_n(from + i, (int)(n - i), v16_set1(0.0f)) : v16_set1(0.0f);
}

#ifndef V16_MOST_OF_8
/* Lanes i and i + 8: the greatest lane of v[i], of eight vectors without NaN. */
V16_FN v16 v16_most_of_8(const v16 *v)
{
    float most[16];
    for (int i = 0; i < 8; i++)
        most[i] = most[i + 8] = v16_most(v[i]);
    return v16_load(most);
}
#endif

/* The scales of the blocks of a chunk of n inputs, as quantise has them, and 1 / scale or 0. Lanes
   divide for all blocks at once. */
V16_FN void scale_blocks(const float *from, const int64_t n, float *scales, float *inverses)
{
    v16 zero = v16_set1(0.0f), nothing = zero, whole = v16_set1(127.0f);
    v16 largest[BODY_CHUNK_BLOCKS];
    for (int64_t i = 0; i < LX_CPU_CHUNK; i += LX_BLOCK) {
        v16 first = sixteen_inputs(from, n, i), second = sixteen_inputs(from, n, i + 16);
        largest[i / LX_BLOCK] = v16_max(v16_abs(first), v16_max(v16_abs(second), zero));
        nothing = v16_fma(second, zero, v16_fma(first, zero, nothing));
    }
    v16 most = v16_most_of_8(largest), least = v16_set1(LX_CPU_LEAST_INT8),
        usable = v16_max(most, least);
    v16_store(inverses, v16_select_gt(most, least, v16_div(whole, usable), zero));
    v16_store(scales, v16_select_gt(most, least, v16_div(usable, whole), zero));
    if (v16_sum(nothing) == 0.0f)
        return;
    for (int64_t i = 0; i < n; i += LX_BLOCK) { /* some block has an input that is not finite */
        v16 first = sixteen_inputs(from, n, i), second = sixteen_inputs(from, n, i + 16);
        scales[i / LX_BLOCK] += v16_sum(v16_fma(second, zero, v16_mul(first, zero)));
    }
}

/* A code of a weight is its number plus `zero`, so sums of products start from -zero times the sum
   of the inputs. */
enum {
    BODY_START_MIN = -1,   /* zero: a block's start is an f32, -(scale) times the sum of inputs */
    BODY_START_HALVES = 32 /* zero: halves of blocks have starts of their own */
};

/* The starts of all blocks of a chunk, whose whole numbers are at `bytes`. The loop has no branch,
   so that a compiler computes all blocks in lanes. */
static inline void put_starts(uint32_t *to, const uint8_t *bytes, const float *scales, int32_t zero)
{
    int32_t first[2 * BODY_CHUNK_BLOCKS], *second = first + BODY_CHUNK_BLOCKS;
    const int32_t with_second = zero != BODY_START_HALVES;
    float minus[BODY_CHUNK_BLOCKS];
    v16_sum_bytes(first, bytes);
    for (int i = 0; i < BODY_CHUNK_BLOCKS; i++) {
        minus[i] = -scales[i] * (float)(first[i] + second[i]);
        to[i] = (uint32_t)(-zero * (first[i] + with_second * second[i]));
        to[BODY_CHUNK_BLOCKS + i] = (uint32_t)(-zero * second[i]);
    }
    if (zero == BODY_START_MIN)
        memcpy(to, minus, sizeof minus);
}

/* A chunk of n inputs in blocks, zeros after its end, with their starts. */
V16_FN void pack_chunk(uint32_t *to, const float *from, const int64_t n, int32_t zero)
{
    v16 shift = v16_set1(BODY_ROUND); /* see quantise */
    float scales[16], inverses[16];
    uint8_t *bytes = (uint8_t *)to;
    scale_blocks(from, n, scales, inverses);
    memcpy(to + BODY_SCALES_AT, scales, BODY_CHUNK_BLOCKS * sizeof *scales);
    for (int64_t i = 0; i < LX_CPU_CHUNK; i += 16) {
        v16 inverse = v16_set1(inverses[i / LX_BLOCK]), x = sixteen_inputs(from, n, i);
        v16_store_low_bytes(bytes + i, v16_fma(x, inverse, shift));
    }
    if (zero == 0)
        memset(to + BODY_STARTS_AT, 0, BODY_CHUNK_BLOCKS * sizeof *to);
    else
        put_starts(to + BODY_STARTS_AT, bytes, scales, zero);
}

/* Like pack_rows, in blocks of bytes. */
static inline void pack_blocks(const lx_cpu_linear *job, int64_t row, int rows, int32_t zero)
{
    uint32_t *to = (uint32_t *)job->scratch;
    int64_t cols = job->w->shape.cols;
    for (int64_t k = 0; k < cols; k += LX_CPU_CHUNK) {
        int64_t n = chunk_inputs(cols, k);
        for (int r = 0; r < rows; r++, to += BODY_BYTES_STRIDE) {
            const float *from = lx_cpu_linear_row(job, row + r) + k;
            if (n == LX_CPU_CHUNK) /* known while compiling: most chunks */
                pack_chunk(to, from, LX_CPU_CHUNK, zero);
            else
                pack_chunk(to, from, n, zero);
        }
    }
}
