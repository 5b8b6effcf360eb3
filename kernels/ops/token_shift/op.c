#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "token_shift: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_token_shift_args *a = args;
    if (a->d < 1 || a->n_mixes < 1 || a->n_mixes > LX_SHIFT_MOST_MIXES)
        return bad(err, "no elements, or not 1 to 6 mixes");
    for (int32_t c = 0; c < a->n_mixes; c++) {
        if (a->y[c] == a->x)
            return bad(err, "x and y are the same array");
    }
    if (a->states == NULL || a->offset < 0 || a->offset > a->states->floats - a->d)
        return bad(err, "the layer's state lies outside the slot");
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_token_shift_args *a = args;
    int64_t mixes = (int64_t)a->n_mixes * a->d;
    for (int32_t c = 0; c < a->n_mixes; c++)
        u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y[c], a->d, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x, a->d, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "mixes", a->mixes, mixes, LX_ROWS_TOKENS};
    u->states = a->states;
    u->branches = true;
}

const lx_op lx_op_token_shift = {.name = "token_shift",
                                 .args_size = sizeof(lx_token_shift_args),
                                 .lasting = true,
                                 .check = check,
                                 .uses = uses};
