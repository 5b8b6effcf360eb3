/*
 * Packed weights: outputs in groups of 32, each group contiguous and padded with zeros to 32,
 * inputs outermost within it. f32: [groups][cols][32]. bf16: [groups][(cols + 1) / 2][32] words
 * that hold inputs 2k (low half) and 2k + 1 (high half), so that a shift and a mask turn one load
 * into the f32 weights of two inputs. int8: [groups][(cols + 3) / 4][32] words of four inputs.
 * Of both the words of inputs are padded with zeros to a multiple of LX_CPU_TILE, so that tiles of
 * sixteen words read zeros behind the last.
 */
#define LX_CPU_GROUP 32
#define LX_CPU_TILE 16

typedef enum lx_cpu_format { LX_CPU_F32, LX_CPU_BF16, LX_CPU_INT8 } lx_cpu_format;

struct lx_matrix {
    lx_matrix_shape shape;
    int64_t groups;
    lx_cpu_format format;
    int64_t group_words; /* 4-byte words of one group */
    void *data;          /* words [groups, group_words] */
    size_t n_bytes;
    float *bias; /* [groups * 32], zeros behind the end and when there is none */
    /* int8 only: the scale of an output; where its sum over a chunk of inputs starts, because an
       activation n is stored as n + 128, that is, -128 times the sum of the chunk's weights */
    float *scales;   /* [groups * 32] */
    int32_t *starts; /* [groups][chunks][32] */
};

/* Rows row0 .. row1 - 1 of `linear`, for the outputs of groups group0 .. group1 - 1. */
typedef struct lx_cpu_linear {
    const lx_matrix *w;
    const float *x;
    const float *residual; /* NULL for none */
    float *y;
    lx_activation activation;
    int64_t row0, row1, group0, group1;
    float *scratch; /* lx_cpu_linear_scratch(cols) floats of this thread */
} lx_cpu_linear;

#define LX_CPU_MAX_ROWS 16  /* rows of f32 that are copied at once, at most; of pairs, 32 */
#define LX_CPU_CHUNK 256    /* inputs of a row that lie together in the packed rows */
#define LX_CPU_CHUNK_PAD 16 /* keeps the rows of a chunk out of one another's cache sets */
#define LX_CPU_LEAST_INT8                                                                          \
    1e-30f /* what is not above has 127 / it near the end of f32: taken as 0 */

static inline int64_t lx_cpu_chunks(int64_t cols)
{
    return (cols + LX_CPU_CHUNK - 1) / LX_CPU_CHUNK;
}

static inline int64_t lx_cpu_linear_scratch(int64_t cols)
{
    return lx_cpu_chunks(cols) * LX_CPU_MAX_ROWS * (LX_CPU_CHUNK + LX_CPU_CHUNK_PAD);
}

typedef void lx_cpu_linear_loop(const lx_cpu_linear *job);
