#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "head_norm: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_head_norm_args *a = args;
    int64_t n = (int64_t)a->n_heads * a->d;
    if (a->n_heads < 1 || a->d < 1 || n > INT32_MAX)
        return bad(err, "there are no heads, or too many");
    if ((unsigned)a->kind > LX_NORM_LENGTH || (unsigned)a->f >= LX_FUNCTIONS)
        return bad(err, "unknown norm or function");
    if (!lx_columns_inside(&a->x, n) || (a->gate.array != NULL && !lx_columns_inside(&a->gate, n)))
        return bad(err, "columns lie outside the row");
    if (a->gate.array != NULL && a->gate.array == a->y)
        return bad(err, "y is the gate");
    return LX_OK;
}

static void use_parameter(lx_uses *u, const char *name, const lx_array *array, int64_t n)
{
    if (array != NULL)
        u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, name, array, n, LX_ROWS_TOKENS};
}

static void uses(const void *args, lx_uses *u)
{
    const lx_head_norm_args *a = args;
    int64_t n = (int64_t)a->n_heads * a->d;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, lx_head_norm_output(a).width, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x.array, a->x.width, a->rows};
    if (a->gate.array != NULL)
        u->arrays[u->n++] = (lx_use){LX_USE_BESIDE, "gate", a->gate.array, a->gate.width, a->rows};
    use_parameter(u, "gamma", a->gamma, n);
    use_parameter(u, "beta", a->beta, n);
}

const lx_op lx_op_head_norm = {.name = "head_norm",
                               .args_size = sizeof(lx_head_norm_args),
                               .lasting = true,
                               .check = check,
                               .uses = uses};
