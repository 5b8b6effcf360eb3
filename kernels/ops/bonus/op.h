/* What RWKV-7 adds behind the norm of its heads. */
#ifndef LINNET_KERNELS_OPS_BONUS_OP_H
#define LINNET_KERNELS_OPS_BONUS_OP_H

#include "kernels/ops/columns.h"

/*
 * A token's own value, past the state (RWKV-7, Peng et al. 2025): for every head
 *     y = (x + (sum over d of u_d q_d k_d) v) z        z = 1 if NULL
 * q, k are heads of d_key columns, x, v, z and y of d_value, each head behind the one before.
 */
typedef struct lx_bonus_args {
    lx_array *y; /* [T, n_heads * d_value]; may be an input of the same shape */
    lx_columns x, q, k, v;
    lx_columns z;      /* array NULL for none */
    const lx_array *u; /* [n_heads * d_key] */
    int32_t n_heads, d_key, d_value;
} lx_bonus_args;

#endif
