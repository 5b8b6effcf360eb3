/* Rotary positions: queries and keys that turn with the place of their token. */
#ifndef LINNET_KERNELS_OPS_ROTARY_OP_H
#define LINNET_KERNELS_OPS_ROTARY_OP_H

#include "kernels/types.h"

/* A position is written in so many digits below LX_ROTARY_STEPS, the lowest first. */
#define LX_ROTARY_LEVELS 3
#define LX_ROTARY_STEPS 128
#define LX_ROTARY_POSITIONS (LX_ROTARY_STEPS * LX_ROTARY_STEPS * LX_ROTARY_STEPS)

/*
 * For every token and head (Su et al. 2021, "RoFormer"; pairs are halves, not neighbours), p being
 * the token's position in its sequence:
 *     x_i       = x_i cos a - x_(i + d/2) sin a       a = p f_i, i = 0 .. d/2 - 1
 *     x_(i+d/2) = x_(i + d/2) cos a + x_i sin a
 * in place; a head's columns behind d stay as they are. f is in the table: row l STEPS + s of
 * `turns` holds cos, then sin, of the angles s STEPS^l f_i, [d/2] each. The turn of a position is
 * the product of those of its digits, as complex numbers, so no operation computes an angle, and
 * far positions are as exact as near ones.
 *
 * Errors beside wrong sizes: a batch without positions, or with one from LX_ROTARY_POSITIONS on.
 */
typedef struct lx_rotary_args {
    lx_array *x; /* [T, width], of which head h has columns first + h * apart .. */
    int32_t width, first, apart, n_heads;
    int32_t d;             /* columns of a head that turn, even, at most `apart` */
    const lx_array *turns; /* [LX_ROTARY_LEVELS * LX_ROTARY_STEPS, d] */
} lx_rotary_args;

#endif
