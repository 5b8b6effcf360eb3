#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "short_conv: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_short_conv_args *a = args;
    if (a->d < 1 || a->taps < 2 || a->taps > LX_CONV_MOST_TAPS)
        return bad(err, "no channels, or not 2 to 4 taps");
    if ((unsigned)a->f >= LX_FUNCTIONS)
        return bad(err, "unknown function");
    if (!lx_columns_inside(&a->x, a->d))
        return bad(err, "columns lie outside the row");
    if (a->y == a->x.array)
        return bad(err, "x and y are the same array");
    if (a->states == NULL || a->offset < 0 ||
        a->offset > a->states->floats - (int64_t)(a->taps - 1) * a->d)
        return bad(err, "the layer's state lies outside the slot");
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_short_conv_args *a = args;
    int64_t weights = (int64_t)a->taps * a->d;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, a->d, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x.array, a->x.width, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "weights", a->weights, weights, LX_ROWS_TOKENS};
    if (a->bias != NULL)
        u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "bias", a->bias, a->d, LX_ROWS_TOKENS};
    u->states = a->states;
    u->branches = true;
}

const lx_op lx_op_short_conv = {.name = "short_conv",
                                .args_size = sizeof(lx_short_conv_args),
                                .lasting = true,
                                .check = check,
                                .uses = uses};
