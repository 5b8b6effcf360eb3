/* One head of one sequence by buckets; where its rows lie: op.h. */
typedef struct lx_cpu_attend_lsh {
    const float *qk, *v, *hashes;
    float *y, *last;
    float *rows; /* the head's in page 0 of the pool */
    const int32_t *pages;
    int64_t page_stride, row; /* floats from page to page, from token to token */
    int64_t n_tokens, x_stride, y_stride;
    int32_t position; /* of the first token */
    int32_t d_key, d_value, rounds, n_buckets, cap;
    float scale;
    float *scratch; /* lx_cpu_attend_lsh_scratch() floats of this thread */
} lx_cpu_attend_lsh;

/* Logits, and before them hashes, in the same place. */
static inline int64_t lx_cpu_attend_lsh_logits(int64_t rounds, int64_t n_buckets, int64_t cap)
{
    int64_t seen = (rounds * cap + 15) / 16 * 16, hashes = (n_buckets / 2 + 15) / 16 * 16;
    return seen > hashes ? seen : hashes;
}

static inline int64_t lx_cpu_attend_lsh_scratch(int64_t rounds, int64_t n_buckets, int64_t cap,
                                                int64_t d_value)
{
    return lx_cpu_attend_lsh_logits(rounds, n_buckets, cap) + (d_value + 15) / 16 * 16;
}

typedef void lx_cpu_attend_lsh_loop(const lx_cpu_attend_lsh *job);
