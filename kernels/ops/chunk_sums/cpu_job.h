/* Columns of one sequence; v, y and s begin at the first one. */
typedef struct lx_cpu_chunk_sums {
    lx_cpu_inputs q, k, v;
    float *y, *s; /* of finished chunks; d_key rows further on, of the open one */
    int64_t n_tokens;
    int32_t position; /* of the first token */
    int32_t d_key, d_value, columns, chunk;
    float scale;
} lx_cpu_chunk_sums;

typedef void lx_cpu_chunk_sums_loop(const lx_cpu_chunk_sums *job);
