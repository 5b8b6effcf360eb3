#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_bonus_args *a = args;
    int64_t h = a->n_heads, keys = h * a->d_key, values = h * a->d_value;
    if (h < 1 || a->d_key < 1 || a->d_value < 1 || keys > INT32_MAX || values > INT32_MAX)
        return "there are no heads, or too many";
    if (!lx_columns_inside(&a->x, values) || !lx_columns_inside(&a->v, values) ||
        !lx_columns_inside(&a->q, keys) || !lx_columns_inside(&a->k, keys) ||
        (a->z.array != NULL && !lx_columns_inside(&a->z, values)))
        return "columns lie outside the row";
    if (a->y == a->q.array || a->y == a->k.array || !lx_columns_allow(&a->x, a->y, values) ||
        !lx_columns_allow(&a->v, a->y, values) || !lx_columns_allow(&a->z, a->y, values))
        return "y is q, k or an input of another shape";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_bonus_args *a = args;
    int64_t keys = (int64_t)a->n_heads * a->d_key, values = (int64_t)a->n_heads * a->d_value;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, values);
    lx_uses_array(u, LX_USE_IN, "x", a->x.array, a->x.width);
    lx_uses_array(u, LX_USE_BESIDE, "q", a->q.array, a->q.width);
    lx_uses_array(u, LX_USE_BESIDE, "k", a->k.array, a->k.width);
    lx_uses_array(u, LX_USE_BESIDE, "v", a->v.array, a->v.width);
    if (a->z.array != NULL)
        lx_uses_array(u, LX_USE_BESIDE, "z", a->z.array, a->z.width);
    lx_uses_array(u, LX_USE_PARAMETER, "u", a->u, keys);
}

LX_DEFINE_OP(bonus, .lasting = true, .wrong = wrong, .uses = uses);
