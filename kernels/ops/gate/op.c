#include "kernels/op.h"

/* Whether y may be written while these columns are read. */
static bool allowed(const lx_columns *c, const lx_columns *y)
{
    return c->array != y->array || (c->width == y->width && c->first == y->first);
}

static const char *wrong(const void *args)
{
    const lx_gate_args *a = args;
    const lx_columns y = lx_gate_output(a);
    bool two = a->weighing != LX_WEIGH_NONE, three = lx_gate_has_other(a);
    if (a->d < 1 || (unsigned)a->f >= LX_FUNCTIONS || (unsigned)a->weighing > LX_WEIGH_PLUS)
        return "no elements, or an unknown function";
    if (!lx_columns_inside(&y, a->d) || !lx_columns_inside(&a->x, a->d) ||
        (two && !lx_columns_inside(&a->z, a->d)) || (three && !lx_columns_inside(&a->other, a->d)))
        return "columns lie outside the row";
    if (!allowed(&a->x, &y) || (two && !allowed(&a->z, &y)) || (three && !allowed(&a->other, &y)))
        return "y is an input that lies elsewhere";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_gate_args *a = args;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, lx_gate_output(a).width, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x.array, a->x.width, a->rows};
    if (a->weighing != LX_WEIGH_NONE)
        u->arrays[u->n++] = (lx_use){LX_USE_BESIDE, "z", a->z.array, a->z.width, a->rows};
    if (lx_gate_has_other(a))
        u->arrays[u->n++] =
            (lx_use){LX_USE_BESIDE, "other", a->other.array, a->other.width, a->rows};
    lx_uses_optional(u, "bias", a->bias, a->d);
    lx_uses_optional(u, "factor", a->factor, a->d);
    lx_uses_optional(u, "offset", a->offset, a->d);
}

LX_DEFINE_OP(gate, .lasting = true, .wrong = wrong, .uses = uses);
