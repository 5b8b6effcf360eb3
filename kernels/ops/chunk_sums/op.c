#include <math.h>

#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "chunk_sums: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_chunk_sums_args *a = args;
    if (a->d_key < 1 || a->d_value < 1 || a->d_key > 65536 || a->d_value > 65536)
        return bad(err, "sizes must be 1 to 65536");
    if (a->chunk < 1)
        return bad(err, "a chunk must have at least 1 token");
    if (!isfinite(a->scale))
        return bad(err, "the scale is not finite");
    if (!lx_columns_inside(&a->q, a->d_key) || !lx_columns_inside(&a->k, a->d_key) ||
        !lx_columns_inside(&a->v, a->d_value))
        return bad(err, "columns lie outside the row");
    if (a->y == a->q.array || a->y == a->k.array || a->y == a->v.array)
        return bad(err, "y is one of the inputs");
    if (a->states == NULL || a->offset < 0 ||
        a->offset > a->states->floats - 2 * (int64_t)a->d_key * a->d_value)
        return bad(err, "the layer's state lies outside the slot");
    return LX_OK;
}

static void use(lx_uses *u, lx_use_role role, const char *name, const lx_columns *c)
{
    u->arrays[u->n++] = (lx_use){role, name, c->array, c->width, LX_ROWS_TOKENS};
}

static void uses(const void *args, lx_uses *u)
{
    const lx_chunk_sums_args *a = args;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, a->d_value, LX_ROWS_TOKENS};
    use(u, LX_USE_IN, "q", &a->q);
    use(u, LX_USE_BESIDE, "k", &a->k);
    use(u, LX_USE_BESIDE, "v", &a->v);
    u->states = a->states;
    u->positions = true;
}

const lx_op lx_op_chunk_sums = {.name = "chunk_sums",
                                .args_size = sizeof(lx_chunk_sums_args),
                                .lasting = true,
                                .check = check,
                                .uses = uses};
