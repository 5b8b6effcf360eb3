#include "kernels/op.h"

static lx_status check(const void *args, lx_error *err)
{
    const lx_lstm_both_args *a = args;
    if (a->n < 1 || a->n > 4096)
        return lx_fail(err, LX_ERR_INVALID, NULL, "lstm_both: there must be 1 to 4096 cells a way");
    if (a->y == a->x)
        return lx_fail(err, LX_ERR_INVALID, NULL, "lstm_both: x and y are the same array");
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_lstm_both_args *a = args;
    int64_t n = a->n;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, 2 * n, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x, 8 * n, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "u", a->u, 8 * n * n, LX_ROWS_TOKENS};
}

const lx_op lx_op_lstm_both = {.name = "lstm_both",
                               .args_size = sizeof(lx_lstm_both_args),
                               .lasting = true,
                               .check = check,
                               .uses = uses};
