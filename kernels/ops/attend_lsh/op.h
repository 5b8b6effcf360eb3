/*
 * Attention to the tokens in the same hash buckets (Kitaev et al. 2020, "Reformer"), token by
 * token. For every head, where c = qk_i is both query and key:
 *     bucket_r(i) = argmax([c R_r ; -c R_r])   R_r [D, n_buckets / 2]; the first of the largest
 *     P_r(i) = the last `cap` tokens j < i with bucket_r(j) = bucket_r(i)
 *     x_j    = scale c . qk_j / sqrt(|qk_j|^2 + 1e-12)
 *     y_i    = sum over r, j in P_r(i) of exp(x_j) v_j / sum over r, j of exp(x_j)
 *     y_i    = v_i where every P_r(i) is empty
 * So a token that shares n buckets with i counts n times, and a round with large logits weighs
 * more. Every back end sums hashes in f32, d in order by fmaf, so a token sees the same rows on all
 * of them.
 *
 * A head's part of the slot is last [rounds, n_buckets]: the newest token of each bucket as its
 * position + 1, 0 for none. A head's part of a page has one row per token: qk [D], 1 / sqrt(..),
 * v [M], prev [rounds], the token before it in its bucket as position + 1. The parts of all heads
 * follow each other.
 *
 * Errors other than wrong sizes: a batch without positions, a page that is not mapped, too many
 * tokens for the slot's pages. The cuda back end lacks this operation.
 */
#define LX_LSH_MOST_SEEN 4096 /* rounds * cap */
#define LX_LSH_MOST_ROUNDS 16
#define LX_LSH_MOST_BUCKETS 4096
#define LX_LSH_MOST_TOKENS (1 << 24) /* of a sequence: their numbers are kept as f32 */

typedef struct lx_attend_lsh_args {
    lx_array *y;            /* [T, H * M] */
    const lx_array *qkv;    /* [T, H*D | H*M] */
    const lx_array *hashes; /* [rounds, D, n_buckets / 2] */
    lx_states *states;
    int64_t offset, page_offset; /* of this layer's parts of a slot and of a page, in floats */
    int32_t n_heads, d_key, d_value, rounds, n_buckets, cap;
    float scale;
} lx_attend_lsh_args;

/* Floats in a token's row of a head. */
static inline int64_t lx_lsh_row(const lx_attend_lsh_args *a)
{
    return (int64_t)a->d_key + 1 + a->d_value + a->rounds;
}
