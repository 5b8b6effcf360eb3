/* Linear attention to the chunks before a token's own. */
#ifndef LINNET_KERNELS_OPS_CHUNK_SUMS_OP_H
#define LINNET_KERNELS_OPS_CHUNK_SUMS_OP_H

#include "kernels/ops/columns.h"

/*
 * The far part of mixed chunk attention (Hua et al. 2022, "Transformer quality in linear time",
 * section 3.2), for one token after the other. S and P are [K, M]; chunks of `chunk` tokens are
 * counted from the sequence's first one. For every token, at position i of its sequence:
 *     S += P, P = 0   where i is the first of its chunk
 *     y += scale S^T q
 *     P += k v^T
 * so S is the sum over all finished chunks, and P that over the open one. The state is S, then P,
 * row-major, from `offset` on.
 */
typedef struct lx_chunk_sums_args {
    lx_array *y;        /* [T, d_value], read and written */
    lx_columns q, k, v; /* d_key, d_key and d_value columns */
    lx_states *states;
    int64_t offset; /* where this layer's part of a slot begins, in floats */
    int32_t d_key, d_value, chunk;
    float scale;
} lx_chunk_sums_args;

#endif
