#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_attend_lsh_args *a = args;
    int64_t h = a->n_heads;
    const char *fault = lx_wrong_attention(h, a->d_key, a->d_value, a->scale, a->y, a->qkv);
    if (fault != NULL)
        return fault;
    if (a->rounds < 1 || a->rounds > LX_LSH_MOST_ROUNDS || a->cap < 1 ||
        (int64_t)a->rounds * a->cap > LX_LSH_MOST_SEEN)
        return "there must be 1 to 16 rounds, and a cap from 1, their product at most "
               "4096";
    if (a->n_buckets < 2 || a->n_buckets > LX_LSH_MOST_BUCKETS || a->n_buckets % 2 != 0)
        return "there must be 2 to 4096 buckets, an even number";
    if (a->states == NULL)
        return "states is NULL";
    if (!lx_states_hold(a->states, a->offset, h * a->rounds * a->n_buckets))
        return "the layer's state lies outside the slot";
    if (a->page_offset < 0 ||
        a->page_offset > a->states->page_floats - h * LX_PAGE_TOKENS * lx_lsh_row(a))
        return "the layer's rows lie outside the page";
    if (a->states->slot_pages > LX_LSH_MOST_TOKENS / LX_PAGE_TOKENS)
        return "a slot has pages for more than 16777216 tokens";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_lsh_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, h * m);
    lx_uses_array(u, LX_USE_IN, "qkv", a->qkv, h * (d + m));
    lx_uses_array(u, LX_USE_PARAMETER, "hashes", a->hashes, a->rounds * d * (a->n_buckets / 2));
    u->states = a->states;
    u->positions = true;
    u->pages = true;
}

LX_DEFINE_OP(attend_lsh, .lasting = true, .wrong = wrong, .uses = uses);
