#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_head_norm_args *a = args;
    int64_t n = (int64_t)a->n_heads * a->d;
    if (a->n_heads < 1 || a->d < 1 || n > INT32_MAX)
        return "there are no heads, or too many";
    if ((unsigned)a->kind > LX_NORM_LENGTH || (unsigned)a->f >= LX_FUNCTIONS)
        return "unknown norm or function";
    if (!lx_columns_inside(&a->x, n) || (a->gate.array != NULL && !lx_columns_inside(&a->gate, n)))
        return "columns lie outside the row";
    if (a->gate.array != NULL && a->gate.array == a->y)
        return "y is the gate";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_head_norm_args *a = args;
    int64_t n = (int64_t)a->n_heads * a->d;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, lx_head_norm_output(a).width, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x.array, a->x.width, a->rows};
    if (a->gate.array != NULL)
        u->arrays[u->n++] = (lx_use){LX_USE_BESIDE, "gate", a->gate.array, a->gate.width, a->rows};
    lx_uses_optional(u, "gamma", a->gamma, n);
    lx_uses_optional(u, "beta", a->beta, n);
}

LX_DEFINE_OP(head_norm, .lasting = true, .wrong = wrong, .uses = uses);
