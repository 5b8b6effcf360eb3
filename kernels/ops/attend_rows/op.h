/*
 * Causal attention over kept rows, weighed by softmax or by the squares of a gated unit. For every
 * token of every sequence in order, at position i of its sequence, and every head:
 *     row i = (k, v), kept; head h uses head h / (H / G) of the G heads of keys and values
 *     y = sum over j in A(i) of weight(scale q . k_j) v_j; 0 where A(i) is empty
 *     with distances  w_j = m_x exp(scale q . (k_j + p_x)) over the sum of all w_j, in place of
 *                     weight(): softmax and WINDOW with a window, a dilation of 1, no sinks only
 *
 * Rows lie in tiles of LX_ROWS_TILE: row j is number j mod 16 of tile j / 16. A tile holds k
 * transposed, [D][16], then v, [16][M]. The tiles of all heads of keys follow each other from
 * `offset` on. With ring 0 these are the four tiles of a page, in every page; else ring / 16 tiles
 * in the slot's fixed part. In a ring, tile t lies in place t while there is such a place. Later
 * tiles replace the oldest, but never the tiles of rows below `sinks` (in whole tiles).
 *
 * Errors other than wrong sizes: a batch without positions, a ring too small for a pattern, a page
 * that is not mapped, too many tokens for the slot's pages, a ring of a sequence that branches.
 */
#define LX_ROWS_TILE 16 /* rows that are kept together */

typedef enum lx_pattern_kind {
    LX_PATTERN_WINDOW,
    LX_PATTERN_PREFIX,
    LX_PATTERN_STRIDED,
    LX_PATTERN_FIXED,
    LX_PATTERN_BLOCK,
    LX_PATTERN_SHIFTED_BLOCK
} lx_pattern_kind;

/*
 * Which rows j <= i a token at position i sees, the set A(i). Positions count from the sequence's
 * first token. A kind ignores the fields that its entry does not name.
 *
 *   WINDOW         i, i - dilation, .., `window` of them (0: all), and the rows below `sinks`
 *                  (Beltagy et al. 2020: sliding, dilated, global by prefix); with not_own the
 *                  window of i - 1, and nothing for i = 0 (Sukhbaatar et al. 2019)
 *   PREFIX         below `sinks` all rows up to i, from there on none (the rows of Longformer's
 *                  global tokens, when they are the first ones)
 *   STRIDED        local: the last `stride` rows; column: i, i - stride, i - 2 stride, ..; at least
 *                  one of both (Child et al. 2019)
 *   FIXED          the block of `stride` rows that i lies in, and of all blocks before it the rows
 *                  stride - summary (cell + 1) .. stride - summary cell - 1 (Child et al. 2019)
 *   BLOCK          the block of `block` rows that i lies in, and `look_back` blocks before it
 *                  (Liu et al. 2018)
 *   SHIFTED_BLOCK  the whole block that lies `shift` before that of i; its own up to i where shift
 *                  is 0. Where there is none: its own with or_own, else nothing
 *                  (Qiu et al. 2020, made causal)
 */
typedef struct lx_rows_pattern {
    lx_pattern_kind kind;
    int32_t window, dilation, sinks;
    int32_t stride, summary, cell;
    bool local, column, not_own;
    int32_t block, look_back, shift;
    bool or_own;
} lx_rows_pattern;

typedef enum lx_rows_weighting {
    LX_WEIGHT_SOFTMAX, /* exp(x) over the sum of exp(x) of all rows that the token sees */
    LX_WEIGHT_RELU2    /* max(x, 0)^2 / divisor (Hua et al. 2022); with by_count also over |A(i)| */
} lx_rows_weighting;

/* How many rows a ring must keep for all these patterns; 0: every row is needed, so no ring keeps
   enough. LX_ERR_INVALID names the wrong parameter of a pattern. */
lx_status lx_rows_ring(const lx_rows_pattern *patterns, int32_t n, int32_t *rows, lx_error *err);

/*
 * The terms that the distance x of a row adds. The nearest row that a token may see has x = 0: so x
 * is i - j, or with not_own i - 1 - j. Column c of both arrays belongs to
 * x = LX_ROWS_TILE + n - 1 - c; the first and the last LX_ROWS_TILE columns are 0.
 * (Sukhbaatar et al. 2019)
 */
typedef struct lx_rows_distances {
    const lx_array *keys;    /* p [D, n + 2 * LX_ROWS_TILE]; NULL: distance adds nothing */
    const lx_array *weights; /* m [n_patterns, n + 2 * LX_ROWS_TILE] */
    int32_t n;               /* no pattern sees more rows */
    bool zeros_before;       /* the token also sees rows of zeros before the first token */
} lx_rows_distances;

typedef struct lx_attend_rows_args {
    lx_array *y;         /* [T, H * M] */
    const lx_array *qkv; /* [T, H*D | G*(D - common_key) | G*M | common_key] */
    lx_states *states;
    int64_t offset; /* of this layer's part of a page, or of a slot, in floats */
    int32_t ring;   /* rows kept, a multiple of LX_ROWS_TILE; 0: all, in pages */
    int32_t n_heads, d_key, d_value;
    int32_t key_heads;  /* G, divides H; 0: H. Where it is less, there is one pattern */
    int32_t common_key; /* the last columns of a key, which all heads of keys have in common */
    float scale;
    const lx_rows_pattern *patterns; /* head h has patterns[h % n_patterns]; borrowed until sync */
    int32_t n_patterns;
    lx_rows_weighting weighting;
    float divisor; /* above 0; divisor and by_count are for RELU2 only */
    bool by_count;
    bool leave_unseeing; /* where A(i) is empty y keeps its value */
    lx_rows_distances distances;
} lx_attend_rows_args;

/* G. */
static inline int32_t lx_attend_rows_key_heads(const lx_attend_rows_args *a)
{
    return a->key_heads > 0 ? a->key_heads : a->n_heads;
}

/* The columns of qkv. */
static inline int64_t lx_attend_rows_width(const lx_attend_rows_args *a)
{
    int64_t keys = (int64_t)lx_attend_rows_key_heads(a);
    return (int64_t)a->n_heads * a->d_key +
           keys * ((int64_t)a->d_key - a->common_key + a->d_value) + a->common_key;
}

/* The columns of qkv where the keys begin, and the values. */
static inline int64_t lx_attend_rows_keys_at(const lx_attend_rows_args *a)
{
    return (int64_t)a->n_heads * a->d_key;
}

static inline int64_t lx_attend_rows_values_at(const lx_attend_rows_args *a)
{
    return lx_attend_rows_keys_at(a) +
           (int64_t)lx_attend_rows_key_heads(a) * (a->d_key - a->common_key);
}
