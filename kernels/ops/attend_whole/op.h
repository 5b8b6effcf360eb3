/* Softmax attention within whole sequences, to all tokens or to those of near hashes. */
#ifndef LINNET_KERNELS_OPS_ATTEND_WHOLE_OP_H
#define LINNET_KERNELS_OPS_ATTEND_WHOLE_OP_H

#include "kernels/ops/attend_lsh/op.h"

#define LX_WHOLE_MOST_TOKENS 65536 /* of a sequence */

/*
 * Of every sequence of the batch, which is whole, for every head and every token i, S(i) being the
 * tokens of its sequence that it sees:
 *     x_j = scale q_i . k_j
 *     y_i = sum over j in S(i) of exp(x_j) v_j / sum over j in S(i) of exp(x_j)
 * Without hashes S(i) is all of them (Vaswani et al. 2017).
 *
 * With hashes (Kitaev et al. 2020, "Reformer") q_i = qk_i and k_j = qk_j / sqrt(|qk_j|^2 + 1e-12).
 * Each round r sorts the tokens by bucket_r (attend_lsh), those of a bucket by their place, and
 * cuts that order into chunks of `chunk`, the last of which may be shorter. S(i) has of each round
 * the others in the chunk of i and in both beside it: a token that is there in several rounds
 * counts as often. A token that is alone in its sequence gets y_i = v_i.
 *
 * Errors beside wrong sizes: a sequence of more than LX_WHOLE_MOST_TOKENS. The cuda back end has
 * not got it.
 */
typedef struct lx_attend_whole_args {
    lx_array *y;         /* [T, H * M] */
    const lx_array *qkv; /* [T, H*D | H*D | H*M]; with hashes [T, H*D | H*M] */
    int32_t n_heads, d_key, d_value;
    float scale;
    const lx_array *hashes; /* [rounds, D, n_buckets / 2]; NULL: none, and what follows is unused */
    lx_array *sorted;       /* [T, H * lx_whole_sorted(rounds)]: room, of undefined content */
    int32_t rounds, n_buckets, chunk;
} lx_attend_whole_args;

/* Floats of a head of a token: two a round, for the order and its inverse, and one of its own. */
static inline int32_t lx_whole_sorted(int32_t rounds)
{
    return 2 * rounds + 1;
}

#endif
