/*
 * Softmax attention within whole sequences. Every sequence of the batch is whole. For every head
 * and every token i, which sees the tokens S(i) of its sequence:
 *     x_j = scale q_i . k_j
 *     y_i = sum over j in S(i) of exp(x_j) v_j / sum over j in S(i) of exp(x_j)
 * Without hashes S(i) has all tokens (Vaswani et al. 2017).
 *
 * With hashes (Kitaev et al. 2020, "Reformer") q_i = qk_i and k_j = qk_j / sqrt(|qk_j|^2 + 1e-12).
 * Each round r sorts the tokens by bucket_r (see attend_lsh), then by position, and cuts this order
 * into chunks of `chunk` tokens; the last chunk may be shorter. From each round S(i) has the tokens
 * other than i in the chunk of i and in its two neighbours. A token that several rounds add counts
 * once per round. A token that is alone in its sequence gets y_i = v_i.
 *
 * Errors other than wrong sizes: a sequence of more than LX_WHOLE_MOST_TOKENS. The cuda back end
 * lacks this operation.
 */
#define LX_WHOLE_MOST_TOKENS 65536 /* of a sequence */

typedef struct lx_attend_whole_args {
    lx_array *y;         /* [T, H * M] */
    const lx_array *qkv; /* [T, H*D | H*D | H*M]; with hashes [T, H*D | H*M] */
    int32_t n_heads, d_key, d_value;
    float scale;
    const lx_array *hashes; /* [rounds, D, n_buckets / 2]; NULL: none, the rest is unused */
    lx_array *sorted;       /* [T, H * lx_whole_sorted(rounds)]: scratch, content undefined */
    int32_t rounds, n_buckets, chunk;
} lx_attend_whole_args;

/* Scratch floats per head and token: per round the order and its inverse, and one more. */
static inline int32_t lx_whole_sorted(int32_t rounds)
{
    return 2 * rounds + 1;
}
