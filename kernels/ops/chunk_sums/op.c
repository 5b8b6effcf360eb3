#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_chunk_sums_args *a = args;
    if (a->d_key < 1 || a->d_value < 1 || a->d_key > 65536 || a->d_value > 65536)
        return "sizes must be 1 to 65536";
    if (a->chunk < 1)
        return "a chunk must have at least 1 token";
    if (!isfinite(a->scale))
        return "the scale is not finite";
    if (!lx_columns_inside(&a->q, a->d_key) || !lx_columns_inside(&a->k, a->d_key) ||
        !lx_columns_inside(&a->v, a->d_value))
        return "columns lie outside the row";
    if (a->y == a->q.array || a->y == a->k.array || a->y == a->v.array)
        return "y is one of the inputs";
    if (!lx_states_hold(a->states, a->offset, 2 * (int64_t)a->d_key * a->d_value))
        return "the layer's state lies outside the slot";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_chunk_sums_args *a = args;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, a->d_value);
    lx_uses_array(u, LX_USE_IN, "q", a->q.array, a->q.width);
    lx_uses_array(u, LX_USE_BESIDE, "k", a->k.array, a->k.width);
    lx_uses_array(u, LX_USE_BESIDE, "v", a->v.array, a->v.width);
    u->states = a->states;
    u->positions = true;
}

LX_DEFINE_OP(chunk_sums, .lasting = true, .wrong = wrong, .uses = uses);
