#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_token_shift_args *a = args;
    if (a->d < 1 || a->n_mixes < 1 || a->n_mixes > LX_SHIFT_MOST_MIXES)
        return "no elements, or not 1 to 6 mixes";
    for (int32_t c = 0; c < a->n_mixes; c++) {
        if (a->y[c] == a->x)
            return "x and y are the same array";
    }
    if (!lx_states_hold(a->states, a->offset, a->d))
        return "the layer's state lies outside the slot";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_token_shift_args *a = args;
    for (int32_t c = 0; c < a->n_mixes; c++)
        lx_uses_array(u, LX_USE_OUT, "y", a->y[c], a->d);
    lx_uses_array(u, LX_USE_IN, "x", a->x, a->d);
    lx_uses_array(u, LX_USE_PARAMETER, "mixes", a->mixes, (int64_t)a->n_mixes * a->d);
    u->states = a->states;
    u->branches = true;
}

LX_DEFINE_OP(token_shift, .lasting = true, .wrong = wrong, .uses = uses);
