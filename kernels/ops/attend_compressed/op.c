#include <math.h>

#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_attend_compressed_args *a = args;
    int64_t h = a->n_heads, row = (int64_t)a->d_key + a->d_value;
    if (h < 1 || a->d_key < 1 || a->d_value < 1 || h > 65536 || a->d_key > 1024 ||
        a->d_value > 1024)
        return "there must be 1 to 65536 heads, and their sizes be 1 to 1024";
    if (a->factor < 1 || a->factor > LX_COMPRESSED_MOST_FACTOR)
        return "the factor must be 1 to 64";
    if (!isfinite(a->scale))
        return "the scale is not finite";
    if (a->y == a->qkv)
        return "qkv and y are the same array";
    if (a->states == NULL)
        return "states is NULL";
    if (a->offset < 0 || a->offset > a->states->floats - h * row * (a->first == NULL ? 2 : 1))
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
    if (a->first != NULL)
        lx_uses_array(u, LX_USE_PARAMETER, "first row", a->first, h * (d + m));
    u->states = a->states;
    u->positions = true;
    u->pages = true;
}

LX_DEFINE_OP(attend_compressed, .lasting = true, .wrong = wrong, .uses = uses);
