/* What makes a head's keys, or values, of blocks. */
typedef struct lx_cpu_taps {
    const float *taps, *bias;
    float *open; /* the sum of the open block */
    int32_t d;
} lx_cpu_taps;

/* One head of one sequence over compressed rows; where they lie: op.h. */
typedef struct lx_cpu_attend_compressed {
    const float *q, *k, *v;
    float *y;
    lx_cpu_taps key, value;
    const float *first; /* the row before all blocks */
    float *kept_first;  /* the first row where it is token 0's, else NULL */
    float *rows;        /* the head's part of page 0 of the pool */
    const int32_t *pages;
    int64_t page_stride;
    int64_t n_tokens, x_stride, y_stride;
    int32_t position; /* of the first token */
    int32_t d_key, d_value, factor;
    bool inclusive;
    float scale;
    float *scratch; /* lx_cpu_attend_compressed_scratch() floats of this thread */
} lx_cpu_attend_compressed;

/* The first row, rows of whole pages, at most LX_ROWS_BLOCK, and a vector for whole stores. */
#define LX_CPU_COMPRESSED_ROWS (LX_ROWS_BLOCK + 32)

static inline int64_t lx_cpu_attend_compressed_scratch(int64_t d_key, int64_t d_value)
{
    return LX_CPU_COMPRESSED_ROWS + 2 * ((d_value + 15) / 16 * 16) + (d_key + 15) / 16 * 16;
}

typedef void lx_cpu_attend_compressed_loop(const lx_cpu_attend_compressed *job);
