/*
 * A long short-term memory that reads whole sequences in both directions (Graves and Schmidhuber
 * 2005). Every sequence of the batch is whole. Way 0 goes from its first token to the last, way 1
 * back. Each way has N cells and begins with h = 0 and c = 0. For every token, where x is its row
 * of that way, with bias and product of the input already in it:
 *     i, f, g, o = x + U^T h
 *     c = sigmoid(f) c + sigmoid(i) tanh(g)
 *     h = sigmoid(o) tanh(c)
 * and y is h of way 0, then h of way 1. The cuda back end lacks this operation.
 */
typedef struct lx_lstm_both_args {
    lx_array *y;       /* [T, 2 * N] */
    const lx_array *x; /* [T, 4*N | 4*N]: i, f, g, o of way 0, then of way 1 */
    const lx_array *u; /* [2 * N, 4 * N]: of way 0, then of way 1 */
    int32_t n;
} lx_lstm_both_args;
