/*
 * Rotary positions (Su et al. 2021, "RoFormer"; pairs are halves, not neighbours): queries and keys
 * turn with the position p of their token in its sequence. For every token and head, in place:
 *     x_i       = x_i cos a - x_(i + d/2) sin a       a = p f_i, i = 0 .. d/2 - 1
 *     x_(i+d/2) = x_(i + d/2) cos a + x_i sin a
 * A head's columns from d on keep their values. f is in the table: row l STEPS + s of `turns` holds
 * cos, then sin, of the angles s STEPS^l f_i, [d/2] each. The turn of a position is the product of
 * the turns of its digits, as complex numbers. So no operation computes an angle, and far positions
 * are as exact as near ones.
 *
 * Errors other than wrong sizes: a batch without positions, a position of LX_ROTARY_POSITIONS or
 * more.
 */

/* A position has so many digits below LX_ROTARY_STEPS, the lowest first. */
#define LX_ROTARY_LEVELS 3
#define LX_ROTARY_STEPS 128
#define LX_ROTARY_POSITIONS (LX_ROTARY_STEPS * LX_ROTARY_STEPS * LX_ROTARY_STEPS)

typedef struct lx_rotary_args {
    lx_array *x; /* [T, width], of which head h has columns first + h * apart .. */
    int32_t width, first, apart, n_heads;
    int32_t d;             /* columns of a head that turn, even, at most `apart` */
    const lx_array *turns; /* [LX_ROTARY_LEVELS * LX_ROTARY_STEPS, d] */
} lx_rotary_args;
