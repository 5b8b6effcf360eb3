#include <math.h>

#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "attend_whole: %s", what);
}

static lx_status check_hashes(const lx_attend_whole_args *a, lx_error *err)
{
    if (a->rounds < 1 || a->rounds > LX_LSH_MOST_ROUNDS || a->chunk < 1 ||
        3 * (int64_t)a->rounds * a->chunk > LX_LSH_MOST_SEEN)
        return bad(err, "there must be 1 to 16 rounds, and a chunk from 1, three times their "
                        "product at most 4096");
    if (a->n_buckets < 2 || a->n_buckets > LX_LSH_MOST_BUCKETS || a->n_buckets % 2 != 0)
        return bad(err, "there must be 2 to 4096 buckets, an even number");
    if (a->sorted == a->y || a->sorted == a->qkv)
        return bad(err, "sorted is the same array as y or qkv");
    return LX_OK;
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_attend_whole_args *a = args;
    if (a->n_heads < 1 || a->d_key < 1 || a->d_value < 1 || a->n_heads > 65536 || a->d_key > 1024 ||
        a->d_value > 1024)
        return bad(err, "there must be 1 to 65536 heads, and their sizes be 1 to 1024");
    if (!isfinite(a->scale))
        return bad(err, "the scale is not finite");
    if (a->y == a->qkv)
        return bad(err, "qkv and y are the same array");
    return a->hashes != NULL ? check_hashes(a, err) : LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_whole_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    bool hashed = a->hashes != NULL;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, h * m, LX_ROWS_TOKENS};
    u->arrays[u->n++] =
        (lx_use){LX_USE_IN, "qkv", a->qkv, h * ((hashed ? 1 : 2) * d + m), LX_ROWS_TOKENS};
    if (!hashed)
        return;
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "hashes", a->hashes,
                                 a->rounds * d * (a->n_buckets / 2), LX_ROWS_TOKENS};
    u->arrays[u->n++] =
        (lx_use){LX_USE_OUT, "sorted", a->sorted, h * lx_whole_sorted(a->rounds), LX_ROWS_TOKENS};
}

static lx_status check_rows(const lx_batch *b, const void *args, lx_error *err)
{
    (void)args;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->seq_start[i + 1] - b->seq_start[i] > LX_WHOLE_MOST_TOKENS)
            return bad(err, "a sequence has more than 65536 tokens");
    }
    return LX_OK;
}

const lx_op lx_op_attend_whole = {.name = "attend_whole",
                                  .args_size = sizeof(lx_attend_whole_args),
                                  .lasting = true,
                                  .check = check,
                                  .uses = uses,
                                  .check_rows = check_rows};
