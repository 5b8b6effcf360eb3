/* lx_head_columns: `at` is the first column that the first head reads of row 0; NULL for none. */
typedef struct lx_cuda_columns {
    const float *at;
    int32_t width; /* 0 where all rows read the same columns */
    int32_t apart, shared;
} lx_cuda_columns;

typedef struct lx_cuda_recurrence {
    float *y;
    uint16_t *twin;
    lx_cuda_columns q, k, v, w, a, b, beta;
    const float *bonus, *skip; /* NULL for none */
    float *states;
    int64_t stride;
    const int32_t *seq_start, *slot;
    lx_cuda_branches branches;
    const int32_t *live;
    int32_t n_seqs, n_heads, d_key, d_value;
    lx_decay decay;
    lx_correction correction;
    lx_read read;
    float scale;
} lx_cuda_recurrence;
