/*
 * The short convolution before a recurrence: causal and depthwise, over the tokens of a sequence,
 * for each of d channels:
 *     y_t = f(bias + sum of weights[j] x_(t - taps + 1 + j), j = 0 .. taps - 1)
 * so that the newest input meets the last weight. Inputs before the first token are zeros. The
 * state is the last taps - 1 inputs, [taps - 1, d] from `offset` on, the oldest first.
 */
#define LX_CONV_MOST_TAPS 8

typedef struct lx_short_conv_args {
    lx_array *y;             /* [T, d], not the array of x */
    lx_columns x;            /* d columns */
    const lx_array *weights; /* [taps, d] */
    const lx_array *bias;    /* [d], NULL for none */
    lx_states *states;
    int64_t offset;  /* of this layer's part of a slot, in floats */
    int32_t d, taps; /* taps: 2 .. LX_CONV_MOST_TAPS */
    lx_function f;
} lx_short_conv_args;
