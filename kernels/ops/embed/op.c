#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_embed_args *a = args;
    if (a->n_tables < 1 || a->n_tables > LX_EMBED_MAX_TABLES)
        return "n_tables must be 1 to 64";
    for (int32_t j = 1; j < a->n_tables; j++) {
        if (a->tables[j]->cols != a->tables[0]->cols)
            return "the tables differ in width";
    }
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_embed_args *a = args;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, a->tables[0]->cols);
    u->states = a->states;
    u->branches = true;
}

static lx_status check_ids(const lx_batch *b, const void *args, lx_error *err)
{
    const lx_embed_args *a = args;
    for (int32_t i = 0; i < b->n_tokens * a->n_tables; i++) {
        if (a->states != NULL && lx_is_drawn_id(a->ids[i]))
            continue;
        if (a->ids[i] < 0 || a->ids[i] >= a->tables[i % a->n_tables]->rows)
            return lx_fail(err, LX_ERR_INVALID, NULL,
                           "embed: ids[%d] is %d, table %d has %lld rows", i, a->ids[i],
                           i % a->n_tables, (long long)a->tables[i % a->n_tables]->rows);
    }
    return LX_OK;
}

LX_DEFINE_OP(embed, .wrong = wrong, .uses = uses, .check_rows = check_ids);
