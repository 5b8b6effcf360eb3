/*
 * Copies rows of activations side by side for `linear`, so that one pointer reaches all of them:
 * chunks of LX_CPU_CHUNK inputs, each [rows][stride]. With V16_PAIRS a word has two bf16, with
 * precision int8 four bytes.
 */

/* Floats from row to row; words of two inputs; words of four, with the row's scale after its bytes.
   All have spare room, so that rows lie in different sets of the cache. */
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

/* A number of quantise is stored plus this, by default so that it is unsigned. */
#ifdef V16_SIGNED_BYTES
#define BODY_BYTE_ZERO 0.0f
#else
#define BODY_BYTE_ZERO 128.0f
#endif

/* n inputs of a row as whole numbers plus BODY_BYTE_ZERO, and their scale. If an input is not
   finite the scale is NaN, and so is every output. */
static inline void quantise(uint32_t *to, const float *from, int64_t n)
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
    v16 shift = v16_set1(12582912.0f + BODY_BYTE_ZERO);
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v16_load_n(from + i, n - i < 16 ? (int)(n - i) : 16, zero);
        v16_store_low_bytes((uint8_t *)to + i, v16_fma(v, inverse, shift));
    }
    memcpy(to + LX_CPU_CHUNK / 4, &scale, sizeof scale);
}

/* Like pack_rows, in bytes. */
static inline void pack_bytes(const lx_cpu_linear *job, int64_t row, int rows)
{
    uint32_t *to = (uint32_t *)job->scratch;
    int64_t cols = job->w->shape.cols;
    for (int64_t k = 0; k < cols; k += LX_CPU_CHUNK) {
        int64_t n = chunk_inputs(cols, k);
        for (int r = 0; r < rows; r++, to += BODY_BYTES_STRIDE)
            quantise(to, job->x + (row + r) * cols + k, n);
    }
}
