/*
 * The selective scan of Mamba-1 (Gu and Dao 2023): each of d channels has K numbers of state, which
 * decay at rates of their own. For every token of every sequence in order, every channel m and
 * every k = 0 .. K - 1:
 *     S'[k, m] = exp(t[m] a[k, m]) S[k, m] + b[k] (t[m] x[m])
 *     y[m]     = sum over k of c[k] S'[k, m] + skip[m] x[m]
 * t a must be at most 80: t is a softplus and a the negative of an exponential. The state [K, d]
 * begins at offset.
 */
#define LX_SCAN_MOST_KEYS 65536
#define LX_SCAN_MOST_CHANNELS (1 << 24)

typedef struct lx_selective_scan_args {
    lx_array *y;          /* [T, d], none of the arrays of x, t, b and c */
    lx_columns x, t;      /* d columns */
    lx_columns b, c;      /* K columns */
    const lx_array *a;    /* [K, d] */
    const lx_array *skip; /* [d] */
    lx_states *states;
    int64_t offset; /* of this layer's part of a slot, in floats */
    int32_t d, d_key;
} lx_selective_scan_args;
