#include "kernels/op.h"

static const char *wrong_hashes(const lx_attend_whole_args *a)
{
    if (a->rounds < 1 || a->rounds > LX_LSH_MOST_ROUNDS || a->chunk < 1 ||
        3 * (int64_t)a->rounds * a->chunk > LX_LSH_MOST_SEEN)
        return "there must be 1 to 16 rounds, and a chunk from 1, three times their "
               "product at most 4096";
    if (a->n_buckets < 2 || a->n_buckets > LX_LSH_MOST_BUCKETS || a->n_buckets % 2 != 0)
        return "there must be 2 to 4096 buckets, an even number";
    if (a->sorted == a->y || a->sorted == a->qkv)
        return "sorted is the same array as y or qkv";
    return NULL;
}

static const char *wrong(const void *args)
{
    const lx_attend_whole_args *a = args;
    const char *fault =
        lx_wrong_attention(a->n_heads, a->d_key, a->d_value, a->scale, a->y, a->qkv);
    return fault != NULL || a->hashes == NULL ? fault : wrong_hashes(a);
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_whole_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    bool hashed = a->hashes != NULL;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, h * m);
    lx_uses_array(u, LX_USE_IN, "qkv", a->qkv, h * ((hashed ? 1 : 2) * d + m));
    if (!hashed)
        return;
    lx_uses_array(u, LX_USE_PARAMETER, "hashes", a->hashes, a->rounds * d * (a->n_buckets / 2));
    lx_uses_array(u, LX_USE_OUT, "sorted", a->sorted, h * lx_whole_sorted(a->rounds));
}

static lx_status check_rows(const lx_batch *b, const void *args, lx_error *err)
{
    (void)args;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->seq_start[i + 1] - b->seq_start[i] > LX_WHOLE_MOST_TOKENS)
            return lx_fail(err, LX_ERR_INVALID, NULL,
                           "attend_whole: a sequence has more than 65536 tokens");
    }
    return LX_OK;
}

LX_DEFINE_OP(attend_whole, .lasting = true, .wrong = wrong, .uses = uses, .check_rows = check_rows);
