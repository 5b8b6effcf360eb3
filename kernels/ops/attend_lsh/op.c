#include <math.h>

#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "attend_lsh: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_attend_lsh_args *a = args;
    int64_t h = a->n_heads;
    if (h < 1 || a->d_key < 1 || a->d_value < 1 || h > 65536 || a->d_key > 1024 ||
        a->d_value > 1024)
        return bad(err, "there must be 1 to 65536 heads, and their sizes be 1 to 1024");
    if (a->rounds < 1 || a->rounds > LX_LSH_MOST_ROUNDS || a->cap < 1 ||
        (int64_t)a->rounds * a->cap > LX_LSH_MOST_SEEN)
        return bad(err, "there must be 1 to 16 rounds, and a cap from 1, their product at most "
                        "4096");
    if (a->n_buckets < 2 || a->n_buckets > LX_LSH_MOST_BUCKETS || a->n_buckets % 2 != 0)
        return bad(err, "there must be 2 to 4096 buckets, an even number");
    if (!isfinite(a->scale))
        return bad(err, "the scale is not finite");
    if (a->y == a->qkv)
        return bad(err, "qkv and y are the same array");
    if (a->states == NULL)
        return bad(err, "states is NULL");
    if (a->offset < 0 || a->offset > a->states->floats - h * a->rounds * a->n_buckets)
        return bad(err, "the layer's state lies outside the slot");
    if (a->page_offset < 0 ||
        a->page_offset > a->states->page_floats - h * LX_PAGE_TOKENS * lx_lsh_row(a))
        return bad(err, "the layer's rows lie outside the page");
    if (a->states->slot_pages > LX_LSH_MOST_TOKENS / LX_PAGE_TOKENS)
        return bad(err, "a slot has pages for more than 16777216 tokens");
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_lsh_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, h * m, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "qkv", a->qkv, h * (d + m), LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "hashes", a->hashes,
                                 a->rounds * d * (a->n_buckets / 2), LX_ROWS_TOKENS};
    u->states = a->states;
    u->positions = true;
    u->pages = true;
}

const lx_op lx_op_attend_lsh = {.name = "attend_lsh",
                                .args_size = sizeof(lx_attend_lsh_args),
                                .lasting = true,
                                .check = check,
                                .uses = uses};
