#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "bonus: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_bonus_args *a = args;
    int64_t h = a->n_heads, keys = h * a->d_key, values = h * a->d_value;
    if (h < 1 || a->d_key < 1 || a->d_value < 1 || keys > INT32_MAX || values > INT32_MAX)
        return bad(err, "there are no heads, or too many");
    if (!lx_columns_inside(&a->x, values) || !lx_columns_inside(&a->v, values) ||
        !lx_columns_inside(&a->q, keys) || !lx_columns_inside(&a->k, keys) ||
        (a->z.array != NULL && !lx_columns_inside(&a->z, values)))
        return bad(err, "columns lie outside the row");
    if (a->y == a->q.array || a->y == a->k.array || !lx_columns_allow(&a->x, a->y, values) ||
        !lx_columns_allow(&a->v, a->y, values) || !lx_columns_allow(&a->z, a->y, values))
        return bad(err, "y is q, k or an input of another shape");
    return LX_OK;
}

static void use(lx_uses *u, lx_use_role role, const char *name, const lx_columns *c)
{
    u->arrays[u->n++] = (lx_use){role, name, c->array, c->width, LX_ROWS_TOKENS};
}

static void uses(const void *args, lx_uses *u)
{
    const lx_bonus_args *a = args;
    int64_t keys = (int64_t)a->n_heads * a->d_key, values = (int64_t)a->n_heads * a->d_value;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, values, LX_ROWS_TOKENS};
    use(u, LX_USE_IN, "x", &a->x);
    use(u, LX_USE_BESIDE, "q", &a->q);
    use(u, LX_USE_BESIDE, "k", &a->k);
    use(u, LX_USE_BESIDE, "v", &a->v);
    if (a->z.array != NULL)
        use(u, LX_USE_BESIDE, "z", &a->z);
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "u", a->u, keys, LX_ROWS_TOKENS};
}

const lx_op lx_op_bonus = {.name = "bonus",
                           .args_size = sizeof(lx_bonus_args),
                           .lasting = true,
                           .check = check,
                           .uses = uses};
