#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_attend_compressed_args *a = args;
    int64_t h = a->n_heads, row = (int64_t)a->d_key + a->d_value;
    const char *fault = lx_wrong_attention(h, a->d_key, a->d_value, a->scale, a->y, a->qkv);
    if (fault != NULL)
        return fault;
    if (a->factor < 1 || a->factor > LX_COMPRESSED_MOST_FACTOR)
        return "the factor must be 1 to 64";
    if (a->states == NULL)
        return "states is NULL";
    if (!lx_states_hold(a->states, a->offset, h * row * (a->first == NULL ? 2 : 1)))
        return "the layer's state lies outside the slot";
    if (a->page_offset < 0 ||
        a->page_offset > a->states->page_floats - h * row * lx_compressed_rows(a->factor))
        return "the layer's rows lie outside the page";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_compressed_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, h * m);
    lx_uses_array(u, LX_USE_IN, "qkv", a->qkv, h * (2 * d + m));
    lx_uses_array(u, LX_USE_PARAMETER, "taps of keys", a->taps_k, h * a->factor * d * d);
    lx_uses_array(u, LX_USE_PARAMETER, "bias of keys", a->bias_k, h * d);
    lx_uses_array(u, LX_USE_PARAMETER, "taps of values", a->taps_v, h * a->factor * m * m);
    lx_uses_array(u, LX_USE_PARAMETER, "bias of values", a->bias_v, h * m);
    lx_uses_optional(u, "first row", a->first, h * (d + m));
    u->states = a->states;
    u->positions = true;
    u->pages = true;
}

LX_DEFINE_OP(attend_compressed, .lasting = true, .wrong = wrong, .uses = uses);
