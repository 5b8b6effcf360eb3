#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_short_conv_args *a = args;
    if (a->d < 1 || a->taps < 2 || a->taps > LX_CONV_MOST_TAPS)
        return "no channels, or not 2 to 4 taps";
    if ((unsigned)a->f >= LX_FUNCTIONS)
        return "unknown function";
    if (!lx_columns_inside(&a->x, a->d))
        return "columns lie outside the row";
    if (a->y == a->x.array)
        return "x and y are the same array";
    if (!lx_states_hold(a->states, a->offset, (int64_t)(a->taps - 1) * a->d))
        return "the layer's state lies outside the slot";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_short_conv_args *a = args;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, a->d);
    lx_uses_array(u, LX_USE_IN, "x", a->x.array, a->x.width);
    lx_uses_array(u, LX_USE_PARAMETER, "weights", a->weights, (int64_t)a->taps * a->d);
    lx_uses_optional(u, "bias", a->bias, a->d);
    u->states = a->states;
    u->branches = true;
}

LX_DEFINE_OP(short_conv, .lasting = true, .wrong = wrong, .uses = uses);
