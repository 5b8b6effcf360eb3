/* A long short-term memory that goes over whole sequences both ways. */
#ifndef LINNET_KERNELS_OPS_LSTM_BOTH_OP_H
#define LINNET_KERNELS_OPS_LSTM_BOTH_OP_H

#include "kernels/types.h"

/*
 * Of every sequence of the batch, which is whole (Graves and Schmidhuber 2005): way 0 goes from its
 * first token to the last, way 1 back, each with N cells, from h = 0 and c = 0 on. For every token
 * with its x of that way, which bias and product of the input are in:
 *     i, f, g, o = x + U^T h
 *     c = sigmoid(f) c + sigmoid(i) tanh(g)
 *     h = sigmoid(o) tanh(c)
 * and y is h of way 0, then h of way 1. The cuda back end has not got it.
 */
typedef struct lx_lstm_both_args {
    lx_array *y;       /* [T, 2 * N] */
    const lx_array *x; /* [T, 4*N | 4*N]: of a way i, f, g, o */
    const lx_array *u; /* [2 * N, 4 * N]: of way 0, then of way 1 */
    int32_t n;
} lx_lstm_both_args;

#endif
