#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_linear_args *a = args;
    if (a->x == a->y)
        return "x and y are the same array";
    if (a->activation != LX_ACT_NONE && a->activation != LX_ACT_RELU &&
        a->activation != LX_ACT_GELU)
        return "unknown activation";
    return NULL;
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

LX_DEFINE_OP(linear, .lasting = true, .wrong = wrong, .uses = uses);
