/*
 * Memory-compressed attention (Liu et al. 2018, "Generating Wikipedia by summarizing long
 * sequences"), token by token: the keys and values of several tokens become one row. Blocks of
 * r = factor tokens are counted from the sequence's first token. For every head and block c:
 *     K_c = bias_k + sum over t < r of k_(c r + t) taps_k[t]    V_c from v, taps_v, bias_v
 *     n   = i / r: blocks that end before i; with inclusive (i + 1) / r: a block may end at i
 *     y_i = softmax of scale q_i . K over the first row and K_0 .. K_(n - 1), times their values
 * The first row is `first`, which is learned; with first NULL it is token 0's k and v.
 *
 * A head's part of the slot is the sum of the open block so far, without the bias, [D] and [M];
 * with first NULL token 0's row follows, [D] and [M]. A head's part of a page has the blocks whose
 * last token lies in the page, in order: R = lx_compressed_rows(r) places for K, transposed,
 * [D][R], then for V, [R][M]. The parts of all heads follow each other.
 *
 * Errors other than wrong sizes: a batch without positions, a page that is not mapped, too many
 * tokens for the slot's pages. The cuda back end lacks this operation.
 */
#define LX_COMPRESSED_MOST_FACTOR LX_PAGE_TOKENS

typedef struct lx_attend_compressed_args {
    lx_array *y;                     /* [T, H * M] */
    const lx_array *qkv;             /* [T, H*D | H*D | H*M] */
    const lx_array *taps_k, *bias_k; /* [H, r, D, D], inputs outermost; [H, D] */
    const lx_array *taps_v, *bias_v; /* [H, r, M, M], [H, M] */
    const lx_array *first;           /* [H, D + M] or NULL */
    lx_states *states;
    int64_t offset, page_offset; /* of this layer's parts of a slot and of a page, in floats */
    int32_t n_heads, d_key, d_value, factor;
    bool inclusive;
    float scale;
} lx_attend_compressed_args;

/* The most blocks that end in one page. */
static inline int32_t lx_compressed_rows(int32_t factor)
{
    return (LX_PAGE_TOKENS + factor - 1) / factor;
}

/* The page that block c ends in. */
static inline int32_t lx_compressed_page(int32_t factor, int32_t c)
{
    return (int32_t)(((int64_t)c * factor + factor - 1) / LX_PAGE_TOKENS);
}

/* The first block that ends in a page. */
static inline int32_t lx_compressed_first(int32_t factor, int32_t page)
{
    return (int32_t)((int64_t)page * LX_PAGE_TOKENS / factor);
}

/* The place of block c in its page. */
static inline int32_t lx_compressed_place(int32_t factor, int32_t c)
{
    return c - lx_compressed_first(factor, lx_compressed_page(factor, c));
}
