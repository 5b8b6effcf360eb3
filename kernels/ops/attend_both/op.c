#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "attend_both: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_attend_both_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    if (h < 1 || d < 1 || m < 1 || h > 65536 || d > 65536 || m > 65536)
        return bad(err, "heads and their sizes must be 1 to 65536");
    if ((unsigned)a->feature_map >= LX_FEATURE_MAPS)
        return bad(err, "unknown feature map");
    if (a->y == a->qkv)
        return bad(err, "qkv and y are the same array");
    if (a->states == NULL || a->offset < 0 || a->offset > a->states->floats - h * (d * m + d))
        return bad(err, "the sums lie outside the slot");
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_both_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, h * m, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "qkv", a->qkv, h * (2 * d + m), LX_ROWS_TOKENS};
    u->states = a->states;
}

const lx_op lx_op_attend_both = {.name = "attend_both",
                                 .args_size = sizeof(lx_attend_both_args),
                                 .lasting = true,
                                 .check = check,
                                 .uses = uses};
