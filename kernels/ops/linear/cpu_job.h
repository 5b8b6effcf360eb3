/*
 * Packed weights: outputs in groups of 32, each contiguous and padded with zeros, with inputs
 * outermost. A matrix has one of these formats:
 *   f32   [groups][cols][32]
 *   bf16  [groups][(cols + 1) / 2][32] words of inputs 2k (low half) and 2k + 1 (high half), so
 *         that a shift and a mask turn one load into the f32 weights of two inputs
 *   int8  [groups][(cols + 3) / 4][32] words of four inputs
 *   q8    [groups][(cols + 31) / 32] blocks: [8][32] words of four inputs, each a byte q + 128,
 *         then [32] f16 scales
 *   q4    [groups][(cols + 31) / 32] blocks: [4][32] words of eight inputs, of which the first four
 *         are the low halves q + 8 of the bytes, then [32] f16 scales
 *   q4_k  [groups][cols / 256] of [32] f16 d, [32] f16 e, and 8 blocks: words as those of q4, but
 *         with halves q, then [32] bytes s, [32] bytes m
 *   q5_k  as q4_k, but a block has [5][32] words. The first has the high bits of 32 inputs. That of
 *         input i is bit 8 (i % 4) + i / 4.
 *   q6_k  [groups][cols / 256] of [32] f16 d, and 8 blocks: [2][32] signed bytes s, then the words
 *         of 16 outputs, then those of the other 16. Of 16 inputs these are [16] of high bits
 *         and [2][16] of low halves of q + 32. The high bits of input i are bits
 *         8 (i % 4) + 2 (i / 4) and the next of its word.
 * A block's words lie in the order in which products of few rows read them, since memory delivers
 * most to a core that reads in order.
 * Words of bf16 and int8 are padded with zeros to a multiple of LX_CPU_TILE inputs, since tiles
 * have sixteen words.
 */
#define LX_CPU_GROUP 32
#define LX_CPU_TILE 16

typedef enum lx_cpu_format {
    LX_CPU_F32,
    LX_CPU_BF16,
    LX_CPU_INT8,
    LX_CPU_Q8,
    LX_CPU_Q4,
    LX_CPU_Q4_K,
    LX_CPU_Q5_K,
    LX_CPU_Q6_K,
    LX_CPU_FORMATS
} lx_cpu_format;

/* Words of codes of a group's block, and with the scales. */
#define LX_CPU_CODE_WORDS(format)                                                                  \
    (((format) == LX_CPU_Q8     ? 8                                                                \
      : (format) == LX_CPU_Q6_K ? 6                                                                \
      : (format) == LX_CPU_Q5_K ? 5                                                                \
                                : 4) *                                                             \
     LX_CPU_GROUP)
#define LX_CPU_BLOCK_WORDS(format) (LX_CPU_CODE_WORDS(format) + LX_CPU_GROUP / 2)
/* Words of the f16 scales before eight blocks of a group, and of all nine parts. */
#define LX_CPU_K_HEAD_WORDS(format) (LX_CPU_GROUP / ((format) == LX_CPU_Q6_K ? 2 : 1))
#define LX_CPU_K_WORDS(format)                                                                     \
    (LX_CPU_K_HEAD_WORDS(format) + LX_K_BLOCK / LX_BLOCK * LX_CPU_BLOCK_WORDS(format))

/* Of a block of 32 inputs in one of 256, words from its start to the bytes of scales. */
static inline int lx_cpu_k_scales(lx_cpu_format format)
{
    return format == LX_CPU_Q6_K ? 0 : LX_CPU_CODE_WORDS(format);
}

/* Words from its start to the codes of outputs 0 .. 15, and from these to those of 16 .. 31. */
static inline int lx_cpu_k_codes(lx_cpu_format format)
{
    return format == LX_CPU_Q6_K ? LX_CPU_GROUP / 2 : 0;
}

static inline int lx_cpu_k_panel(lx_cpu_format format)
{
    return format == LX_CPU_Q6_K ? LX_CPU_CODE_WORDS(LX_CPU_Q6_K) / 2 : 16;
}

/* Words from either to the low halves of inputs 8 i .. 8 i + 7. */
static inline int lx_cpu_k_halves(lx_cpu_format format, int i)
{
    return format == LX_CPU_Q6_K   ? (i + i / 2 + 1) * 16
           : format == LX_CPU_Q5_K ? (i + 1) * LX_CPU_GROUP
                                   : i * LX_CPU_GROUP;
}

/* Words from either to the high bits of all inputs, or of q6_k's inputs 16 i .. 16 i + 15. */
static inline int lx_cpu_k_high(int i)
{
    return i * 3 * 16;
}

struct lx_matrix {
    lx_matrix_shape shape;
    int64_t groups;
    /* matrix_join: the matrices [n_parts] whose groups lie one after another, or NULL. All below is
       of a matrix that has no parts. */
    lx_matrix **parts;
    int32_t n_parts;
    lx_cpu_format format;
    int64_t group_words; /* 4-byte words of one group */
    void *data;          /* words [groups, group_words] */
    size_t n_bytes;
    float *bias; /* [groups * 32], zeros for padding and when there is none */
    /* int8 only: the scale of an output, and the start of its sum over a chunk. An activation n is
       stored as n + 128, so the start is -128 times the sum of the chunk's weights. */
    float *scales;   /* [groups * 32] */
    int32_t *starts; /* [groups][chunks][32] */
};

/* Rows row0 .. row1 - 1 of `linear`, for the outputs of groups group0 .. group1 - 1. */
typedef struct lx_cpu_linear {
    const lx_matrix *w;
    const float *x;
    const float *const *rows; /* where the inputs of rows 0, 1, ... lie; NULL: side by side at x */
    const float *residual;    /* NULL for none */
    float *y;
    int64_t stride; /* from a row of y, and of the residual, to the next */
    lx_activation activation;
    int64_t row0, row1, group0, group1;
    float *scratch; /* lx_cpu_linear_scratch(w) floats of this thread */
} lx_cpu_linear;

static inline const float *lx_cpu_linear_row(const lx_cpu_linear *job, int64_t row)
{
    return job->rows != NULL ? job->rows[row] : job->x + row * job->w->shape.cols;
}

#define LX_CPU_CHUNK 256    /* inputs of a row that lie together in the packed rows */
#define LX_CPU_CHUNK_PAD 16 /* keeps the rows of a chunk out of one another's cache sets */
/* words of a row in a chunk of bytes: four inputs each, scales, starts, whole lines of the cache */
#define LX_CPU_BYTES_ROW (LX_CPU_CHUNK / 4 + 32)
#define LX_CPU_LEAST_INT8                                                                          \
    1e-30f /* smaller maxima count as 0: 127 / them is near the end of f32                         \
            */

static inline int64_t lx_cpu_chunks(int64_t cols)
{
    return (cols + LX_CPU_CHUNK - 1) / LX_CPU_CHUNK;
}

static inline bool lx_cpu_in_k_blocks(const lx_matrix *w)
{
    return w->format >= LX_CPU_Q4_K && w->format <= LX_CPU_Q6_K;
}

static inline bool lx_cpu_in_blocks(const lx_matrix *w)
{
    return w->format == LX_CPU_Q8 || w->format == LX_CPU_Q4 || lx_cpu_in_k_blocks(w);
}

/* At most so many rows are copied at once. For weights in blocks tiles want at most so many words
   for each block of a group: signed bytes and two rows of f32 (ops/linear/cpu_block_tiles.h). */
#define LX_CPU_BLOCK_ROWS 64
#define LX_CPU_TILE_BLOCK_WORDS (LX_CPU_GROUP * (LX_BLOCK / 4 + 2))

static inline int64_t lx_cpu_linear_scratch(const lx_matrix *w)
{
    int64_t chunk = LX_CPU_BLOCK_ROWS * (LX_CPU_CHUNK + LX_CPU_CHUNK_PAD);
    if (lx_cpu_in_blocks(w))
        chunk = LX_CPU_BLOCK_ROWS * LX_CPU_BYTES_ROW +
                LX_CPU_CHUNK / LX_BLOCK * LX_CPU_TILE_BLOCK_WORDS;
    return lx_cpu_chunks(w->shape.cols) * chunk;
}

typedef void lx_cpu_linear_loop(const lx_cpu_linear *job);
