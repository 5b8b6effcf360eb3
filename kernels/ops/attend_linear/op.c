#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *name, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "%s: %s", name, what);
}

lx_status lx_attend_linear_check(const lx_attend_linear_args *a, const char *name, lx_error *err)
{
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    if (h < 1 || d < 1 || m < 1 || h > 65536 || d > 65536 || m > 65536)
        return bad(err, name, "heads and their sizes must be 1 to 65536");
    if ((unsigned)a->feature_map >= LX_FEATURE_MAPS)
        return bad(err, name, "unknown feature map");
    if (a->y == a->qkv)
        return bad(err, name, "qkv and y are the same array");
    if (a->states == NULL || a->offset < 0 || a->offset > a->states->floats - h * (d * m + d))
        return bad(err, name, "the layer's sums lie outside the slot");
    return LX_OK;
}

static lx_status check(const void *args, lx_error *err)
{
    return lx_attend_linear_check(args, "attend_linear", err);
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_linear_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, h * m, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "qkv", a->qkv, h * (2 * d + m), LX_ROWS_TOKENS};
    u->states = a->states;
    u->branches = true;
}

const lx_op lx_op_attend_linear = {.name = "attend_linear",
                                   .args_size = sizeof(lx_attend_linear_args),
                                   .lasting = true,
                                   .check = check,
                                   .uses = uses};
