#include "kernels/op.h"

static lx_status check(const void *args, lx_error *err)
{
    const lx_linear_args *a = args;
    if (a->x == a->y)
        return lx_fail(err, LX_ERR_INVALID, NULL, "linear: x and y are the same array");
    if (a->activation != LX_ACT_NONE && a->activation != LX_ACT_RELU &&
        a->activation != LX_ACT_GELU)
        return lx_fail(err, LX_ERR_INVALID, NULL, "linear: unknown activation");
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_linear_args *a = args;
    const lx_matrix_shape *w = lx_matrix_shape_of(a->w);
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, w->rows, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x, w->cols, a->rows};
    if (a->residual != NULL)
        u->arrays[u->n++] = (lx_use){LX_USE_BESIDE, "residual", a->residual, w->rows, a->rows};
}

const lx_op lx_op_linear = {.name = "linear",
                            .args_size = sizeof(lx_linear_args),
                            .lasting = true,
                            .check = check,
                            .uses = uses};
