/* Linear attention in which every token sees all of its sequence. */
#ifndef LINNET_KERNELS_OPS_ATTEND_BOTH_OP_H
#define LINNET_KERNELS_OPS_ATTEND_BOTH_OP_H

#include "kernels/ops/attend_linear/op.h"

/*
 * Linear attention both ways (Katharopoulos et al. 2020, eq. 5 and 6): of every sequence of the
 * batch, which is whole, and every head first
 *     s = sum over all tokens of phi(k) v^T      s: D x M
 *     z = sum over all tokens of phi(k)          z: D
 * and then for every token
 *     y = phi(q)^T s / (phi(q)^T z + eps)
 * The sums of head h are left at offset + h * (D * M + D) floats of the sequence's slot: s
 * row-major, then z. What was there before is not looked at.
 */
typedef lx_attend_linear_args lx_attend_both_args;

#endif
