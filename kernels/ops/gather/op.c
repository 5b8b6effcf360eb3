#include "kernels/op.h"

static lx_status check(const void *args, lx_error *err)
{
    const lx_gather_args *a = args;
    if (a->x == a->y)
        return lx_fail(err, LX_ERR_INVALID, NULL, "gather: x and y are the same array");
    if (a->column < 0 || a->d < 1 || a->column > a->width - a->d)
        return lx_fail(err, LX_ERR_INVALID, NULL, "gather: columns %d to %d of %d", a->column,
                       a->column + a->d - 1, a->width);
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_gather_args *a = args;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, a->width, LX_ROWS_OUTPUTS};
    lx_uses_array(u, LX_USE_IN, "x", a->x, a->d);
}

LX_DEFINE_OP(gather, .lasting = true, .check = check, .uses = uses);
