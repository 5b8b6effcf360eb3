/* Attention to compressed rows: of several tokens' keys and values there is one. */
#ifndef LINNET_KERNELS_OPS_ATTEND_COMPRESSED_OP_H
#define LINNET_KERNELS_OPS_ATTEND_COMPRESSED_OP_H

#include "kernels/types.h"

#define LX_COMPRESSED_MOST_FACTOR LX_PAGE_TOKENS

/*
 * Memory-compressed attention (Liu et al. 2018, "Generating Wikipedia by summarizing long
 * sequences"), for one token after the other. Blocks of r = factor tokens are counted from the
 * sequence's first one. For every head, and block c = 0, 1, ..
 *     K_c = bias_k + sum over t < r of k_(c r + t) taps_k[t]    V_c likewise
 *     n   = i / r: blocks that end before i; with inclusive (i + 1) / r: and the one that i ends
 *     y_i = softmax of scale q_i . K over the first row and K_0 .. K_(n - 1), of their values
 * The first row is `first`, learned; NULL: token 0's k and v as they are.
 *
 * A head's part of the slot is the sum of the open block so far, without the bias, [D] and [M];
 * with first NULL behind it token 0's row, [D] and [M]. Its part of a page is a row (K [D], V [M])
 * for every block whose last token lies in the page, in their order, in room for
 * lx_compressed_rows(r). All of a kind lie behind each other, head by head.
 *
 * Errors beside wrong sizes: a batch without positions, a page that is not mapped or too many
 * tokens for the slot's pages. The cuda back end has not got it.
 */
typedef struct lx_attend_compressed_args {
    lx_array *y;                     /* [T, H * M] */
    const lx_array *qkv;             /* [T, H*D | H*D | H*M] */
    const lx_array *taps_k, *bias_k; /* [H, r, D, D], inputs outermost; [H, D] */
    const lx_array *taps_v, *bias_v; /* [H, r, M, M], [H, M] */
    const lx_array *first;           /* [H, D + M] or NULL */
    lx_states *states;
    int64_t offset, page_offset; /* where this layer's parts begin, in floats */
    int32_t n_heads, d_key, d_value, factor;
    bool inclusive;
    float scale;
} lx_attend_compressed_args;

/* How many blocks end in a page, at most. */
static inline int32_t lx_compressed_rows(int32_t factor)
{
    return (LX_PAGE_TOKENS + factor - 1) / factor;
}

/* The page that block c ends in. */
static inline int32_t lx_compressed_page(int32_t factor, int32_t c)
{
    return (int32_t)(((int64_t)c * factor + factor - 1) / LX_PAGE_TOKENS);
}

/* Its row there. */
static inline int32_t lx_compressed_place(int32_t factor, int32_t c)
{
    return c - (int32_t)((int64_t)lx_compressed_page(factor, c) * LX_PAGE_TOKENS / factor);
}

#endif
