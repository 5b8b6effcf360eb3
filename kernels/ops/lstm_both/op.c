#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_lstm_both_args *a = args;
    if (a->n < 1 || a->n > 4096)
        return "there must be 1 to 4096 cells a way";
    if (a->y == a->x)
        return "x and y are the same array";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_lstm_both_args *a = args;
    int64_t n = a->n;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, 2 * n);
    lx_uses_array(u, LX_USE_IN, "x", a->x, 8 * n);
    lx_uses_array(u, LX_USE_PARAMETER, "u", a->u, 8 * n * n);
}

LX_DEFINE_OP(lstm_both, .lasting = true, .wrong = wrong, .uses = uses);
