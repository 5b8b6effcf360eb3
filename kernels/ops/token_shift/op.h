/*
 * Token shift: mixes each token with the token before it. For every token of every sequence in
 * order and every mix c (RWKV has one per projection)
 *     y[c]_t = x_t + mixes[c] (x_(t-1) - x_t)
 * with zeros before the first token. The state is the last x, [d] from `offset` on.
 */
#define LX_SHIFT_MOST_MIXES 6

typedef struct lx_token_shift_args {
    lx_array *y[LX_SHIFT_MOST_MIXES]; /* n_mixes of them, [T, d], none of them x */
    const lx_array *x;                /* [T, d] */
    const lx_array *mixes;            /* [n_mixes, d] */
    lx_states *states;
    int64_t offset; /* of this layer's part of a slot, in floats */
    int32_t n_mixes, d;
} lx_token_shift_args;
