/* One head of one whole sequence; hashes NULL: every token sees all others. */
typedef struct lx_cpu_attend_whole {
    const float *q, *k, *v, *hashes;
    float *y, *sorted;
    int64_t n_tokens, x_stride, y_stride, sorted_stride;
    int32_t d_key, d_value, rounds, n_buckets, chunk;
    float scale;
    float *scratch; /* floats of this thread: lx_cpu_attend_whole_scratch(), or with hashes
                       lx_cpu_attend_lsh_scratch() */
} lx_cpu_attend_whole;

#define LX_WHOLE_BLOCK 256 /* keys of a whole sequence that are turned together */
#define LX_WHOLE_SHARED 16 /* tokens that share that */

/* Keys of a block, its logits and values, and the values of all that share it. */
static inline int64_t lx_cpu_attend_whole_scratch(int64_t d_key, int64_t d_value)
{
    return (d_key + 1) * LX_WHOLE_BLOCK + (LX_WHOLE_SHARED + 1) * ((d_value + 15) / 16 * 16);
}

typedef void lx_cpu_attend_whole_loop(const lx_cpu_attend_whole *job);
