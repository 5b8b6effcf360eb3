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
#define BODY_BYTES_STRIDE (LX_CPU_CHUNK / 4 + LX_CPU_CHUNK_PAD)

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
            memcpy(to, job->x + (row + r) * cols + k, (size_t)n * sizeof *to);
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
            const float *from = job->x + (row + r) * cols + k;
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
    float largest = v16_greatest(most);
    bool usable = largest > LX_CPU_LEAST_INT8;
    v16 inverse = v16_set1(usable ? 127.0f / largest : 0.0f);
    float scale = (usable ? largest / 127.0f : 0.0f) + v16_sum(nothing);
    /* 1.5 * 2^23 and more: the sum's low bits are the nearest whole number plus that */
    v16 shift = v16_set1(12582912.0f + plus);
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
            float scale = quantise((uint8_t *)to, job->x + (row + r) * cols + k, n, BODY_BYTE_ZERO);
            memcpy(to + LX_CPU_CHUNK / 4, &scale, sizeof scale);
        }
    }
}

/* After the bytes of a chunk: the scales of its blocks, then the starts of their sums. */
enum {
    BODY_SCALES_AT = LX_CPU_CHUNK / 4,
    BODY_STARTS_AT = BODY_SCALES_AT + LX_CPU_CHUNK / LX_BLOCK
};
_Static_assert(BODY_STARTS_AT + LX_CPU_CHUNK / LX_BLOCK <= BODY_BYTES_STRIDE, "a row has room");

/* One block of n inputs, number j of the chunk at `to`. A code of a weight is its number plus
   `zero`, so sums of products start from -zero times the sum of the inputs. */
static inline void pack_block(uint32_t *to, int64_t j, const float *from, int64_t n, int32_t zero)
{
    uint32_t *bytes = to + j * (LX_BLOCK / 4);
    memset(bytes, 0, LX_BLOCK);
    float scale = quantise((uint8_t *)bytes, from, n, 0.0f);
    int32_t sum = 0;
    for (int i = 0; i < LX_BLOCK; i++)
        sum += (int32_t)((const int8_t *)bytes)[i];
    memcpy(to + BODY_SCALES_AT + j, &scale, sizeof scale);
    to[BODY_STARTS_AT + j] = (uint32_t)(-zero * sum);
}

/* Like pack_rows, in blocks of bytes. */
static inline void pack_blocks(const lx_cpu_linear *job, int64_t row, int rows, int32_t zero)
{
    uint32_t *to = (uint32_t *)job->scratch;
    int64_t cols = job->w->shape.cols;
    for (int64_t k = 0; k < cols; k += LX_CPU_CHUNK) {
        int64_t n = chunk_inputs(cols, k);
        for (int r = 0; r < rows; r++, to += BODY_BYTES_STRIDE) {
            const float *from = job->x + (row + r) * cols + k;
            for (int64_t i = 0; i < n; i += LX_BLOCK)
                pack_block(to, i / LX_BLOCK, from + i, n - i < LX_BLOCK ? n - i : LX_BLOCK, zero);
        }
    }
}
