#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_selective_scan_args *a = args;
    int32_t d = a->d, keys = a->d_key;
    if (d < 1 || keys < 1 || d > LX_SCAN_MOST_CHANNELS || keys > LX_SCAN_MOST_KEYS)
        return "there must be 1 to 16777216 channels with 1 to 65536 numbers of state";
    if (!lx_columns_inside(&a->x, d) || !lx_columns_inside(&a->t, d) ||
        !lx_columns_inside(&a->b, keys) || !lx_columns_inside(&a->c, keys))
        return "columns lie outside the row";
    if (a->y != NULL &&
        (a->y == a->x.array || a->y == a->t.array || a->y == a->b.array || a->y == a->c.array))
        return "y is one of the inputs";
    if (!lx_states_hold(a->states, a->offset, (int64_t)keys * d))
        return "the layer's state lies outside the slot";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_selective_scan_args *a = args;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, a->d);
    lx_uses_array(u, LX_USE_IN, "x", a->x.array, a->x.width);
    lx_uses_array(u, LX_USE_BESIDE, "t", a->t.array, a->t.width);
    lx_uses_array(u, LX_USE_BESIDE, "b", a->b.array, a->b.width);
    lx_uses_array(u, LX_USE_BESIDE, "c", a->c.array, a->c.width);
    lx_uses_array(u, LX_USE_PARAMETER, "a", a->a, (int64_t)a->d_key * a->d);
    lx_uses_array(u, LX_USE_PARAMETER, "skip", a->skip, a->d);
    u->states = a->states;
    u->branches = true;
}

LX_DEFINE_OP(selective_scan, .lasting = true, .wrong = wrong, .uses = uses);
