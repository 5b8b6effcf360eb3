/* Token shift: each token beside the one before it. */
#ifndef LINNET_KERNELS_OPS_TOKEN_SHIFT_OP_H
#define LINNET_KERNELS_OPS_TOKEN_SHIFT_OP_H

#include "kernels/types.h"

#define LX_SHIFT_MOST_MIXES 6

/*
 * For every token of every sequence in order and every mix c (RWKV's: one a projection)
 *     y[c]_t = x_t + mixes[c] (x_(t-1) - x_t)
 * with zeros before the first token. The state is the last x, [d] from `offset` on.
 */
typedef struct lx_token_shift_args {
    lx_array *y[LX_SHIFT_MOST_MIXES]; /* n_mixes of them, [T, d], none of them x */
    const lx_array *x;                /* [T, d] */
    const lx_array *mixes;            /* [n_mixes * d], a mix after the other */
    lx_states *states;
    int64_t offset; /* where this layer's part of a slot begins, in floats */
    int32_t n_mixes, d;
} lx_token_shift_args;

#endif
