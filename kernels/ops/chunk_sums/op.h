/*
 * Linear attention to the chunks before a token's own: the far part of mixed chunk attention (Hua
 * et al. 2022, "Transformer quality in linear time", section 3.2), token by token. S and P are
 * [K, M]; chunks of `chunk` tokens are counted from the sequence's first token. For every token, at
 * position i of its sequence:
 *     S += P, P = 0   where i is the first of its chunk
 *     y += scale S^T q
 *     P += k v^T
 * So S is the sum over all finished chunks, and P the sum over the open chunk. The state is S, then
 * P, row-major, from `offset` on.
 */
typedef struct lx_chunk_sums_args {
    lx_array *y;        /* [T, d_value], read and written */
    lx_columns q, k, v; /* d_key, d_key and d_value columns */
    lx_states *states;
    int64_t offset; /* of this layer's part of a slot, in floats */
    int32_t d_key, d_value, chunk;
    float scale;
} lx_chunk_sums_args;
