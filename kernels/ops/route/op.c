#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_route_args *a = args;
    if (a->n_experts < 1 || a->n_experts > LX_MOST_EXPERTS)
        return "there must be 1 to 4096 experts";
    if (a->n_active < 1 || a->n_active > a->n_experts)
        return "the active experts must be 1 to all experts";
    if (a->n_groups < 0 ||
        (a->n_groups > 0 && (a->n_experts % a->n_groups != 0 || a->n_experts / a->n_groups < 2)))
        return "the groups must have 2 and more experts, and all as many";
    if (a->n_groups > 0 && (a->active_groups < 1 || a->active_groups > a->n_groups ||
                            a->n_active > (int64_t)a->active_groups * (a->n_experts / a->n_groups)))
        return "the active groups must be 1 to all groups, and have the active experts";
    if (!isfinite(a->scale) || !(a->eps >= 0) || !isfinite(a->eps))
        return "the scale or eps is not finite";
    return a->x == a->y ? "x and y are the same array" : NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_route_args *a = args;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, 2 * (int64_t)a->n_active, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x, a->n_experts, a->rows};
    lx_uses_optional(u, "bias", a->bias, a->n_experts);
}

LX_DEFINE_OP(route, .lasting = true, .wrong = wrong, .uses = uses);
