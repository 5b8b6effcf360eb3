#include <math.h>

#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "attend_compressed: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_attend_compressed_args *a = args;
    int64_t h = a->n_heads, row = (int64_t)a->d_key + a->d_value;
    if (h < 1 || a->d_key < 1 || a->d_value < 1 || h > 65536 || a->d_key > 1024 ||
        a->d_value > 1024)
        return bad(err, "there must be 1 to 65536 heads, and their sizes be 1 to 1024");
    if (a->factor < 1 || a->factor > LX_COMPRESSED_MOST_FACTOR)
        return bad(err, "the factor must be 1 to 64");
    if (!isfinite(a->scale))
        return bad(err, "the scale is not finite");
    if (a->y == a->qkv)
        return bad(err, "qkv and y are the same array");
    if (a->states == NULL)
        return bad(err, "states is NULL");
    if (a->offset < 0 || a->offset > a->states->floats - h * row * (a->first == NULL ? 2 : 1))
        return bad(err, "the layer's state lies outside the slot");
    if (a->page_offset < 0 ||
        a->page_offset > a->states->page_floats - h * row * lx_compressed_rows(a->factor))
        return bad(err, "the layer's rows lie outside the page");
    return LX_OK;
}

static void parameter(lx_uses *u, const char *name, const lx_array *array, int64_t width)
{
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, name, array, width, LX_ROWS_TOKENS};
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_compressed_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, h * m, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "qkv", a->qkv, h * (2 * d + m), LX_ROWS_TOKENS};
    parameter(u, "taps of keys", a->taps_k, h * a->factor * d * d);
    parameter(u, "bias of keys", a->bias_k, h * d);
    parameter(u, "taps of values", a->taps_v, h * a->factor * m * m);
    parameter(u, "bias of values", a->bias_v, h * m);
    if (a->first != NULL)
        parameter(u, "first row", a->first, h * (d + m));
    u->states = a->states;
    u->positions = true;
    u->pages = true;
}

const lx_op lx_op_attend_compressed = {.name = "attend_compressed",
                                       .args_size = sizeof(lx_attend_compressed_args),
                                       .lasting = true,
                                       .check = check,
                                       .uses = uses};
