#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_attend_linear_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    if (h < 1 || d < 1 || m < 1 || h > 65536 || d > 65536 || m > 65536)
        return "heads and their sizes must be 1 to 65536";
    if ((unsigned)a->feature_map >= LX_FEATURE_MAPS)
        return "unknown feature map";
    if (a->y == a->qkv || a->y == a->decay)
        return "y is one of the inputs";
    if (!lx_states_hold(a->states, a->offset, h * (d * m + d)))
        return "the layer's sums lie outside the slot";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_linear_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, h * m);
    lx_uses_array(u, LX_USE_IN, "qkv", a->qkv, h * (2 * d + m));
    if (a->decay != NULL)
        u->arrays[u->n++] = (lx_use){LX_USE_BESIDE, "decay", a->decay, h, LX_ROWS_TOKENS};
    u->states = a->states;
    u->branches = true;
}

LX_DEFINE_OP(attend_linear, .lasting = true, .wrong = wrong, .uses = uses);
