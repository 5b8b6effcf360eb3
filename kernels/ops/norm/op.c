#include "kernels/op.h"

static void uses(const void *args, lx_uses *u)
{
    const lx_norm_args *a = args;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, a->d, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x, a->d, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "gamma", a->gamma, a->d, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "beta", a->beta, a->d, a->rows};
}

LX_DEFINE_OP(norm, .lasting = true, .uses = uses);
